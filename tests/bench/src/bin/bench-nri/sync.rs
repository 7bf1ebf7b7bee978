//! Synchronize of 1,000 containers of 8 KiB.

use std::path::PathBuf;
use std::time::Instant;

use longshore_bench::nri::{plugin_name, runtime, subject};
use longshore_bench::{Failure, Report, Row, Samples, Unit};
use longshore_nri_adaptation::NodeState;
use longshore_nri_api::{Container, SynchronizeRequest};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::host::{self, Node, PATIENCE, Synchronized};
use crate::process::Role;

const CONTAINERS: usize = 1_000;
const EACH: usize = 8 << 10;
/// Containers in one message, which holds 4 MiB.
const PIECE: usize = 500;

/// `sink SOCKET`: decodes what comes behind its length, and answers a byte.
pub(crate) fn sink(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let socket = PathBuf::from(arguments.next().ok_or("no socket")?);
    runtime()?.block_on(async {
        let mut stream = UnixStream::connect(&socket).await?;
        let mut buffer = Vec::new();
        loop {
            // The end of the other side is the end of this one.
            let Ok(length) = stream.read_u32().await else {
                return Ok(());
            };
            let length = usize::try_from(length)?;
            buffer.resize(length, 0);
            stream.read_exact(&mut buffer).await?;
            let decoded = SynchronizeRequest::decode(&*buffer)?;
            stream.write_u8(u8::from(decoded.more)).await?;
        }
    })
}

fn containers() -> Vec<Container> {
    let with = |nth, filler: usize| Container {
        annotations: [("filler".to_owned(), "x".repeat(filler))].into(),
        ..subject::container(nth)
    };
    let bare = with(0, 0).encoded_len();
    let filler = EACH.saturating_sub(bare + 8);
    (0..CONTAINERS).map(|nth| with(nth, filler)).collect()
}

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let rounds = if report.options().long { 60 } else { 20 };
    let dir = tempfile::Builder::new().prefix("ln-").tempdir_in("/tmp")?;
    let listener = UnixListener::bind(dir.path().join("sink.sock"))?;
    let _sink = Role::start("sink", &dir.path().join("sink.sock"), &[])?;
    let (mut stream, _) = timeout(PATIENCE, listener.accept()).await??;
    let containers = containers();
    let pieces: Vec<_> = containers
        .chunks(PIECE)
        .map(|piece| SynchronizeRequest {
            pods: Vec::new(),
            containers: piece.to_vec(),
            more: false,
        })
        .collect();

    let metrics = Synchronized::default();
    let state = NodeState {
        pods: vec![subject::pod(0)],
        containers,
    };
    let socket = dir.path().join("nri.sock");
    let adaptation = host::start(&socket, Node(state), metrics.clone()).await?;
    let _plugin = Role::plugins(&socket, 0, 1)?;
    host::active(&adaptation, 1).await?;
    drop(metrics.take());
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for _ in 0..rounds {
        // It comes back by itself, and is synchronized anew.
        adaptation.remove_plugin(&plugin_name(0));
        host::active(&adaptation, 1).await?;
        metrics.take().into_iter().for_each(|took| ours.push(took));
        let begin = Instant::now();
        for piece in &pieces {
            let bytes = piece.encode_to_vec();
            stream.write_u32(u32::try_from(bytes.len())?).await?;
            stream.write_all(&bytes).await?;
            stream.read_u8().await?;
        }
        bare.push(begin.elapsed());
    }
    report.add(
        Row::against(
            "synchronize 1,000 containers of 8 KiB",
            Unit::Millis,
            &ours,
            "bare encode, transfer, decode",
            &bare,
        )
        .p50_limit(2.0),
    );
    Ok(())
}
