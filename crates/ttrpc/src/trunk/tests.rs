//! A whole trunk under hostile bytes: the body of the fuzz target `ttrpc-trunk`.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, DuplexStream};

use super::*;
use crate::client::CallOptions;
use crate::frame::Header;
use crate::server::Request;
use crate::status::Status;

/// The connection on which the trunk asks.
const ASKS: u32 = 1;
/// The connection on which it answers.
const ANSWERS: u32 = 2;

struct Echo;

impl Service for Echo {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        match request.method.as_str() {
            "fail" => Err(Status::unimplemented(&request.service, &request.method)),
            _ => Ok(request.payload),
        }
    }
}

/// What a peer may send: well-formed in part, so that it gets past the first check.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let envelope = prop_oneof![
        // service, method, payload
        ("[a-c]{0,3}", "fail|echo|", vec(any::<u8>(), 0..80)).prop_map(
            |(service, method, payload)| {
                let mut bytes = Vec::new();
                for (tag, field) in [
                    (0x0a, service.as_bytes()),
                    (0x12, method.as_bytes()),
                    (0x1a, &payload),
                ] {
                    bytes.extend([tag, u8::try_from(field.len()).unwrap_or(0)]);
                    bytes.extend(field);
                }
                bytes
            }
        ),
        // A status, or what looks like one.
        Just(vec![0x0a, 0x02, 0x08, 0x0c]),
        vec(any::<u8>(), 0..60),
    ];
    let stream = prop_oneof![1u32..8, any::<u32>()];
    (envelope, stream, 0u8..5, any::<u8>(), -2i64..3).prop_map(
        |(data, stream, kind, flags, lie)| {
            let length = i64::try_from(data.len()).unwrap_or(0).saturating_add(lie);
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            let header = Header {
                length,
                stream,
                kind,
                flags,
            };
            [&header.to_bytes()[..], &data].concat()
        },
    )
}

fn wire() -> impl Strategy<Value = Vec<u8>> {
    let framed = (
        prop_oneof![Just(ASKS), Just(ANSWERS), any::<u32>()],
        messages(),
        0usize..3,
    )
        .prop_map(|(connection, message, cut)| {
            // One message in one frame, or cut over two.
            let at = message.len() * cut / 3;
            let mut bytes = Vec::new();
            for piece in [&message[..at], &message[at..]] {
                bytes.extend(connection.to_be_bytes());
                bytes.extend(u32::try_from(piece.len()).unwrap_or(0).to_be_bytes());
                bytes.extend(piece);
            }
            bytes
        });
    prop_oneof![
        9 => vec(framed, 0..20).prop_map(|frames| frames.concat()),
        1 => vec(any::<u8>(), 0..300),
    ]
}

/// Sends all of it, hangs up, and returns what came back.
async fn peer(mut stream: DuplexStream, chunks: Vec<Vec<u8>>) -> Vec<u8> {
    let mut seen = Vec::new();
    for chunk in chunks {
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let _closed_already = stream.shutdown().await;
    let _closed_already = stream.read_to_end(&mut seen).await;
    seen
}

/// The messages in what a trunk wrote, by connection; everything has to be whole.
fn written(bytes: &[u8]) -> (Vec<Inbound>, Vec<Inbound>) {
    let mut buffer = BytesMut::from(bytes);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    let (mut asking, mut answering) = (FrameDecoder::default(), FrameDecoder::default());
    while let Some((connection, payload)) = mux::next_frame(&mut buffer, mux::MAX_PAYLOAD).unwrap()
    {
        let limit = |_| frame::MAX_DATA;
        match connection {
            ASKS => asking.push(payload, limit, |it| asked.push(it)),
            ANSWERS => answering.push(payload, limit, |it| answered.push(it)),
            other => panic!("wrote to connection {other}"),
        }
    }
    (asked, answered)
}

proptest! {
    #[test]
    fn no_bytes_of_a_peer_harm_a_trunk(
        bytes in wire(),
        cuts in vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut points: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        points.push(bytes.len());
        points.sort_unstable();
        let mut from = 0;
        let chunks = points.into_iter().map(|to| bytes[std::mem::replace(&mut from, to)..to].to_vec());
        let chunks: Vec<Vec<u8>> = chunks.collect();

        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (call, back) = runtime.block_on(async {
            let (ours, theirs) = tokio::io::duplex(1 << 14);
            let layout = Layout::Mux { client: ASKS, server: ANSWERS };
            let (client, driver) = start(ours, layout, Echo, Options::default());
            let call = async {
                let options = CallOptions::timeout(Duration::from_secs(3));
                client.call_raw("s", "m", &(), &options).await
            };
            let all = async { tokio::join!(driver, call, peer(theirs, chunks)) };
            let (_reason, call, back) = tokio::time::timeout(Duration::from_secs(60), all)
                .await
                .expect("ends when its peer has hung up");
            (call, back)
        });
        drop(call);
        let (asked, answered) = written(&back);
        prop_assert!(asked.len() <= 1);
        for answer in &answered {
            let answer = matches!(answer, Inbound::Frame { kind: frame::RESPONSE, .. });
            prop_assert!(answer);
        }
        // A message takes at least its header: the answers are no more than what was asked.
        prop_assert!(answered.len() * frame::HEADER <= bytes.len());
    }
}
