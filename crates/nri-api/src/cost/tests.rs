use std::collections::BTreeMap;

use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::{
    Container, ContainerUpdate, CreateContainerResponse, Mount, SynchronizeRequest,
    UpdateContainersResponse, User,
};

/// What a decoded value holds outside itself, by its capacities.
pub(crate) trait Heap {
    fn heap(&self) -> usize;
}

macro_rules! no_heap {
    ($($number:ty),*) => {$(
        impl Heap for $number {
            fn heap(&self) -> usize {
                0
            }
        }
    )*};
}
no_heap!(bool, i32, i64, u32, u64);

impl Heap for String {
    fn heap(&self) -> usize {
        self.capacity()
    }
}

impl<T: Heap> Heap for Option<T> {
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, Heap::heap)
    }
}

impl<T: Heap> Heap for Vec<T> {
    fn heap(&self) -> usize {
        self.capacity() * size_of::<T>() + self.iter().map(Heap::heap).sum::<usize>()
    }
}

impl<K: Heap, V: Heap> Heap for BTreeMap<K, V> {
    /// The nodes of the thinnest tree that inserting can make.
    fn heap(&self) -> usize {
        let leaf = NODE * (size_of::<K>() + size_of::<V>()) + 16;
        let mut level = match self.len() {
            0 => 0,
            n @ ..=11 => n.div_ceil(11),
            n => (n + 1) / 6,
        };
        let mut nodes = level * leaf;
        while level > 1 {
            level = level.div_ceil(6);
            nodes += level * (leaf + EDGES);
        }
        let content = self.iter().map(|(key, value)| key.heap() + value.heap());
        nodes + content.sum::<usize>()
    }
}

/// What one message costs by the table, and what it does cost when it decodes.
pub(crate) type Probe = fn(&[u8]) -> (Result<usize, CostError>, Option<usize>);

pub(crate) fn probe<M: Message + Heap>(bytes: &[u8]) -> (Result<usize, CostError>, Option<usize>) {
    let limits = Limits {
        max_cost: usize::MAX,
        ..Limits::default()
    };
    let real = M::decode(bytes).map(|message| size_of::<M>() + message.heap());
    (measure::<M>(bytes, &limits), real.ok())
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value > 0x7f {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

/// Wire bytes that follow the table along the `choices`: fields in any order and number, lists
/// packed and not, messages twice, unknown fields.
fn wire(row: usize, choices: &mut impl Iterator<Item = u8>, depth: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let fields = choices.next().unwrap_or(0) % 24;
    for _ in 0..fields {
        let Some(choice) = choices.next() else { break };
        let number = usize::from(choice) % (ROWS[row].0.len() + 1);
        let times = match choices.next() {
            Some(times @ 0..200) => usize::from(times % 4),
            Some(times) => usize::from(times) / 4,
            None => 0,
        };
        let cell = ROWS[row].0.get(number).copied().unwrap_or(Cell::Free);
        for _ in 0..times {
            let value = match cell {
                _ if number == 0 => break,
                Cell::Free => {
                    put_varint(&mut out, number << 3);
                    put_varint(&mut out, usize::from(choices.next().unwrap_or(1)));
                    continue;
                }
                Cell::Numbers(_) => vec![1; usize::from(choices.next().unwrap_or(0))],
                Cell::Text | Cell::Texts(_) => {
                    vec![b'x'; usize::from(choices.next().unwrap_or(0))]
                }
                Cell::Message(row) | Cell::Messages(row, _) | Cell::Map(row, _) => {
                    if depth == 0 {
                        Vec::new()
                    } else {
                        wire(row, choices, depth - 1)
                    }
                }
            };
            put_varint(&mut out, number << 3 | 2);
            put_varint(&mut out, value.len());
            out.extend(value);
        }
    }
    out
}

proptest! {
    #[test]
    fn the_cost_is_an_upper_bound_for_every_message(
        choices in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        for (row, probe) in crate::r#gen::cost::PROBES {
            let bytes = wire(*row, &mut choices.iter().copied(), 6);
            let (measured, real) = probe(&bytes);
            // A number where the schema has a string is in no message.
            if let Some(real) = real {
                let measured = measured.unwrap();
                prop_assert!(measured >= real, "row {row}: {measured} < {real}");
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_what_decodes_was_bounded(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        for (_, probe) in crate::r#gen::cost::PROBES {
            if let (Ok(measured), Some(real)) = probe(&bytes) {
                prop_assert!(measured >= real);
            }
        }
    }

    #[test]
    fn ordinary_messages_cost_at_most_twice_what_they_take(
        containers in prop::collection::vec(container(), 1..9),
    ) {
        let message = SynchronizeRequest { containers, ..SynchronizeRequest::default() };
        let (measured, real) = probe::<SynchronizeRequest>(&message.encode_to_vec());
        let (measured, real) = (measured.unwrap(), real.unwrap());
        prop_assert!(measured >= real && measured <= 2 * real, "{measured} for {real}");
    }
}

fn container() -> impl Strategy<Value = Container> {
    let sizes = prop::array::uniform5(0_usize..40);
    (sizes, 5_usize..30).prop_map(|([labels, annotations, args, env, mounts], length)| {
        let text = |n: usize| format!("{n:02}{}", "x".repeat(length));
        let map = |n| (0..n).map(|n| (text(n), text(n))).collect();
        let list = |n| (0..n).map(text).collect();
        Container {
            id: "0123456789abcdef".repeat(4),
            labels: map(labels),
            annotations: map(annotations),
            args: list(args),
            env: list(env),
            mounts: (0..mounts)
                .map(|n| Mount {
                    destination: text(n),
                    source: text(n),
                    r#type: "bind".into(),
                    options: vec!["rbind".into(), "ro".into()],
                })
                .collect(),
            user: Some(User {
                additional_gids: vec![1, 2, 300, 70_000],
                ..User::default()
            }),
            ..Container::default()
        }
    })
}

#[test]
fn four_mebibytes_of_empty_messages_are_refused() {
    // Field 1 and field 2 are lists of updates.
    for (tag, refused) in [
        (
            0x0a,
            measure::<UpdateContainersResponse> as fn(&[u8], &Limits) -> _,
        ),
        (0x12, measure::<CreateContainerResponse>),
    ] {
        let bytes = [tag, 0].repeat(2 << 20);
        assert!(matches!(
            refused(&bytes, &Limits::default()),
            Err(CostError::TooCostly {
                bytes: 0x40_0000,
                limit: 0x400_0000,
                ..
            })
        ));
    }
}

#[test]
fn the_limit_is_exact_and_stops_the_pass() {
    let message = UpdateContainersResponse {
        failed: vec![ContainerUpdate::default(); 9],
    };
    let bytes = message.encode_to_vec();
    let cost = measure::<UpdateContainersResponse>(&bytes, &Limits::default()).unwrap();
    let limits = |max_cost| Limits {
        max_cost,
        ..Limits::default()
    };
    assert_eq!(decode(&bytes, &limits(cost)), Ok(message));
    // What follows the list is garbage that the pass does not get to.
    let bytes = [bytes, vec![0xff; 20]].concat();
    let error = measure::<UpdateContainersResponse>(&bytes, &limits(cost - 1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "nri.pkg.api.v1alpha1.UpdateContainersResponse of {} bytes would take more than {} \
             bytes decoded",
            bytes.len(),
            cost - 1
        )
    );
}

#[test]
fn nesting_is_counted_and_groups_are_refused() {
    let message = SynchronizeRequest {
        containers: vec![Container {
            mounts: vec![Mount::default()],
            ..Container::default()
        }],
        ..SynchronizeRequest::default()
    };
    let bytes = message.encode_to_vec();
    let depth = |max_depth| Limits {
        max_depth,
        ..Limits::default()
    };
    assert!(decode::<SynchronizeRequest>(&bytes, &depth(3)).is_ok());
    let refused = decode::<SynchronizeRequest>(&bytes, &depth(2));
    assert!(matches!(refused, Err(CostError::TooDeep { limit: 2, .. })));
    // Unknown groups in each other, which prost itself would follow.
    let refused = decode::<SynchronizeRequest>(&[0x7b; 90], &depth(32));
    assert!(matches!(refused, Err(CostError::Malformed { .. })));
    let refused = decode::<SynchronizeRequest>(&[0x0a, 0x02, 0x0a, 0x7f], &depth(32));
    assert!(matches!(refused, Err(CostError::Malformed { .. })));
    let refused = decode::<SynchronizeRequest>(&[0x08, 0x01], &depth(32));
    assert!(matches!(refused, Err(CostError::Decode { .. })));
}
