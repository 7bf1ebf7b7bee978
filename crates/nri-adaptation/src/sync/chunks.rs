//! How a Synchronize is cut into messages, before the first one is sent.
//!
//! Sizes are those of the encoded objects. A part takes as much as fits, pods before containers;
//! every part but the last says that there is more.

use std::ops::Range;

use longshore_nri_api::{Container, PodSandbox, service};
use longshore_ttrpc::{KeyValue, MAX_DATA};
use prost::Message;
use prost::encoding::message;

use crate::status::CloseCause;

/// What the envelope of a request takes besides the payload: keys and lengths, the names of the
/// service and the method, a deadline, and `more`.
const ENVELOPE: usize = service::PLUGIN.len() + "Synchronize".len() + 48;

/// One part: which pods and containers go with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) pods: Range<usize>,
    pub(crate) containers: Range<usize>,
}

/// The most bytes of payload of one part.
pub(crate) fn room(metadata: &[KeyValue]) -> usize {
    let metadata: usize = metadata.iter().map(|entry| entry.encoded_len() + 8).sum();
    MAX_DATA.saturating_sub(ENVELOPE + metadata)
}

/// Cuts the lists into parts of at most `max` bytes; at least one, however empty.
///
/// # Errors
/// [`CloseCause::Oversized`] names an object that fits in no part.
pub(crate) fn plan(
    pods: &[PodSandbox],
    containers: &[Container],
    max: usize,
) -> Result<Vec<Chunk>, CloseCause> {
    let pod_sizes = pods
        .iter()
        .map(|pod| ("pod", &pod.id, message::encoded_len(1, pod)));
    let container_sizes = containers
        .iter()
        .map(|it| ("container", &it.id, message::encoded_len(2, it)));
    let mut chunks = Vec::new();
    let mut chunk = Chunk {
        pods: 0..0,
        containers: 0..0,
    };
    let mut taken = 0;
    for (what, id, length) in pod_sizes.chain(container_sizes) {
        if length > max {
            let id = id.chars().take(64).collect();
            return Err(CloseCause::Oversized {
                what,
                id,
                length,
                max,
            });
        }
        if taken + length > max {
            let next = Chunk {
                pods: chunk.pods.end..chunk.pods.end,
                containers: chunk.containers.end..chunk.containers.end,
            };
            chunks.push(std::mem::replace(&mut chunk, next));
            taken = 0;
        }
        taken += length;
        match what {
            "pod" => chunk.pods.end += 1,
            _ => chunk.containers.end += 1,
        }
    }
    chunks.push(chunk);
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::Part;
    use proptest::prelude::*;

    fn pod(length: usize) -> PodSandbox {
        PodSandbox {
            id: "p".repeat(length),
            ..Default::default()
        }
    }

    fn container(length: usize) -> Container {
        Container {
            id: "c".repeat(length),
            ..Default::default()
        }
    }

    #[test]
    fn nothing_is_one_empty_part() {
        let chunks = plan(&[], &[], 10).unwrap();
        assert_eq!(
            chunks,
            [Chunk {
                pods: 0..0,
                containers: 0..0
            }]
        );
    }

    #[test]
    fn row_272_two_pods_and_twenty_large_containers_make_several_parts() {
        let pods = vec![pod(10); 2];
        let containers = vec![container(600 << 10); 20];
        let chunks = plan(&pods, &containers, room(&[])).unwrap();
        let sizes: Vec<usize> = chunks.iter().map(|chunk| chunk.containers.len()).collect();
        assert_eq!(sizes, [6, 6, 6, 2]);
        assert_eq!(chunks[0].pods, 0..2);
    }

    #[test]
    fn an_object_that_fits_in_no_part_is_named() {
        let refused = plan(&[pod(3)], &[container(3), container(5 << 20)], room(&[]));
        let Err(CloseCause::Oversized {
            what, id, length, ..
        }) = refused
        else {
            panic!("it cannot be sent")
        };
        assert_eq!((what, id.len()), ("container", 64));
        assert!(length > 5 << 20);
    }

    proptest! {
        #[test]
        fn parts_hold_everything_once_in_order_and_none_is_too_large(
            pods in proptest::collection::vec(0..90_usize, 0..20),
            containers in proptest::collection::vec(0..90_usize, 0..20),
            max in 100..300_usize,
        ) {
            let pods: Vec<_> = pods.into_iter().map(pod).collect();
            let containers: Vec<_> = containers.into_iter().map(container).collect();
            let chunks = plan(&pods, &containers, max).unwrap();
            let (mut pod, mut container) = (0, 0);
            for chunk in &chunks {
                prop_assert_eq!((chunk.pods.start, chunk.containers.start), (pod, container));
                (pod, container) = (chunk.pods.end, chunk.containers.end);
                let part = Part {
                    pods: &pods[chunk.pods.clone()],
                    containers: &containers[chunk.containers.clone()],
                    more: false,
                };
                prop_assert!(part.encoded_len() <= max);
            }
            prop_assert_eq!((pod, container), (pods.len(), containers.len()));
            prop_assert!(chunks.len() <= 1 + pods.len() + containers.len());
        }
    }
}
