use longshore_nri_api::{ConfigureRequest, RegisterPluginRequest, service};
use proptest::prelude::*;

use super::*;

/// A field of an envelope.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    prost::encoding::encode_varint(u64::try_from(bytes.len()).unwrap(), &mut field);
    field.extend(bytes);
    field
}

/// A message of ttrpc in one frame of the multiplexer.
fn wire(connection: u32, stream: u32, kind: u8, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    let mut bytes = connection.to_be_bytes().to_vec();
    bytes.extend((length + 10).to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(stream.to_be_bytes());
    bytes.extend([kind, 0]);
    bytes.extend(data);
    bytes
}

fn request(service: &str, method: &str, message: &impl prost::Message) -> Vec<u8> {
    [
        field(1, service.as_bytes()),
        field(2, method.as_bytes()),
        field(3, &message.encode_to_vec()),
        vec![4 << 3, 0x80, 0x94, 0xeb, 0xdc, 3], // 1 s in nanoseconds
    ]
    .concat()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What a plugin and a runtime say first.
fn conversation() -> Vec<(Side, Vec<u8>)> {
    let register = RegisterPluginRequest {
        plugin_name: "logger".into(),
        plugin_idx: "10".into(),
        ..Default::default()
    };
    let configure = ConfigureRequest {
        config: "a: b".into(),
        ..Default::default()
    };
    let register = request(service::RUNTIME, "RegisterPlugin", &register);
    let configure = request(service::PLUGIN, "Configure", &configure);
    vec![
        (Side::Plugin, wire(2, 1, 1, &register)),
        (Side::Runtime, wire(1, 1, 1, &configure)),
        (Side::Runtime, wire(2, 1, 2, b"")),
        (Side::Plugin, wire(1, 1, 2, &field(1, &[0x08, 0x0c]))),
    ]
}

#[test]
fn requests_and_answers_of_both_sides_are_paired_and_the_plugin_is_named() {
    let mut tracer = Tracer::new(7);
    let mut entries = Vec::new();
    for (number, (side, bytes)) in (0..).zip(conversation()) {
        entries.extend(tracer.feed(side, bytes.into(), millis(10 * number)));
    }
    let json: Vec<Value> = entries
        .iter()
        .map(|entry| serde_json::to_value(entry).unwrap())
        .collect();
    assert_eq!(
        Value::from(json),
        serde_json::json!([
            {
                "at_us": 0, "connection": 7, "plugin": "10-logger", "from": "plugin",
                "event": { "request": {
                    "id": 1, "method": "RegisterPlugin", "timeout_ms": 1000,
                    "message": { "bytes": 12, "json": { "plugin_name": "logger", "plugin_idx": "10" } },
                } },
            },
            {
                "at_us": 10_000, "connection": 7, "plugin": "10-logger", "from": "runtime",
                "event": { "request": {
                    "id": 1, "method": "Configure", "timeout_ms": 1000,
                    "message": { "bytes": 6, "json": { "config": "a: b" } },
                } },
            },
            {
                "at_us": 20_000, "connection": 7, "plugin": "10-logger", "from": "runtime",
                "event": { "response": {
                    "id": 1, "method": "RegisterPlugin", "took_us": 20_000,
                    "message": { "bytes": 0, "json": {} },
                } },
            },
            {
                "at_us": 30_000, "connection": 7, "plugin": "10-logger", "from": "plugin",
                "event": { "failure": {
                    "id": 1, "method": "Configure", "took_us": 20_000, "code": 12, "text": "",
                } },
            },
        ])
    );
    let closed = tracer.closed(Side::Plugin, "it hung up", millis(50));
    assert_eq!(
        closed.event,
        Event::Closed {
            reason: "it hung up".into()
        }
    );
}

#[test]
fn what_nri_does_not_have_is_odd_and_what_cannot_be_read_ends_that_side_alone() {
    let mut tracer = Tracer::new(1);
    let bytes = [
        wire(1, 9, 2, b""),
        wire(7, 1, 1, b"x"),
        wire(1, 1, 3, b"xy"),
        wire(2, 1, 1, b"\xff"),
        vec![0, 0, 0, 1, 0xff, 0, 0, 0],
        wire(1, 9, 2, b""),
    ]
    .concat();
    let texts: Vec<String> = tracer
        .feed(Side::Plugin, bytes.into(), Duration::ZERO)
        .into_iter()
        .map(|entry| match entry.event {
            Event::Odd { text } => text,
            other => serde_json::to_string(&other).unwrap(),
        })
        .collect();
    assert_eq!(texts.len(), 5, "{texts:#?}");
    assert!(
        texts[0].contains("its request is not known"),
        "{}",
        texts[0]
    );
    assert!(texts[1].contains("connection 7"), "{}", texts[1]);
    assert!(texts[2].contains("type 3"), "{}", texts[2]);
    assert!(texts[3].contains("malformed request"), "{}", texts[3]);
    assert!(texts[4].contains("cannot be read"), "{}", texts[4]);
    let more = wire(1, 1, 2, b"");
    assert!(
        tracer
            .feed(Side::Plugin, more.clone().into(), Duration::ZERO)
            .is_empty()
    );
    assert_eq!(
        tracer
            .feed(Side::Runtime, more.into(), Duration::ZERO)
            .len(),
        1
    );
}

#[test]
fn an_end_in_the_middle_of_a_message_says_so() {
    let mut tracer = Tracer::new(1);
    let (side, bytes) = conversation().remove(0);
    tracer.feed(side, Bytes::copy_from_slice(&bytes[..20]), Duration::ZERO);
    let Event::Closed { reason } = tracer.closed(side, "it hung up", Duration::ZERO).event else {
        panic!("not closed");
    };
    assert_eq!(reason, "it hung up, in the middle of a message");
}

proptest! {
    #[test]
    fn no_bytes_of_either_side_make_it_panic_or_grow(
        pieces in proptest::collection::vec(
            (any::<bool>(), prop_oneof![
                (0usize..4, 0usize..80).prop_map(|(at, cut)| {
                    let (_, bytes) = conversation().remove(at);
                    bytes[..cut.min(bytes.len())].to_vec()
                }),
                (0u32..3, 0u32..9, 0u8..4, proptest::collection::vec(any::<u8>(), 0..40))
                    .prop_map(|(connection, stream, kind, data)| wire(connection, stream, kind, &data)),
                proptest::collection::vec(any::<u8>(), 0..30),
            ]),
            0..20,
        ),
    ) {
        let mut tracer = Tracer::new(1);
        for (plugin, bytes) in pieces {
            let side = if plugin { Side::Plugin } else { Side::Runtime };
            for entry in tracer.feed(side, bytes.into(), Duration::ZERO) {
                let text = serde_json::to_string(&entry).unwrap();
                prop_assert!(!text.contains('\n'));
                prop_assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry.clone());
                prop_assert!(!crate::line(&entry, true).chars().any(char::is_control));
            }
        }
        prop_assert!(tracer.pending.len() <= PENDING_MAX);
    }
}
