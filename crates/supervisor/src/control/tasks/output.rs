//! `task logs`: from the files of a sandbox, or from the engine.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_control_api::{MAX_LOG_CHUNK, v1};
use longshore_engine::{LogSource, LogStream};
use longshore_task_manager::{OutputReader, TaskStatus};
use tokio::sync::{mpsc, watch};
use tonic::Status;

/// How often followed files are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Where output comes from.
pub(super) enum Source {
    /// It is with the engine.
    Engine(LogStream),
    /// It is in files.
    Files {
        status: watch::Receiver<Arc<TaskStatus>>,
        tail_bytes: u64,
        follow: bool,
    },
}

type Reader = mpsc::Sender<Result<v1::TaskLogsResponse, Status>>;

/// Sends output until there is no more, or until nobody reads.
pub(super) async fn send(source: Source, reader: Reader) {
    let sent = match source {
        Source::Engine(stream) => engine(stream, &reader).await,
        Source::Files {
            status,
            tail_bytes,
            follow,
        } => files(status, tail_bytes, follow, &reader).await,
    };
    if let Err(status) = sent {
        // A reader that is gone needs no error.
        let _gone = reader.send(Err(status)).await;
    }
}

async fn engine(mut stream: LogStream, reader: &Reader) -> Result<(), Status> {
    loop {
        let frame = tokio::select! {
            frame = stream.next() => frame,
            () = reader.closed() => return Ok(()),
        };
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| Status::unavailable(error.to_string()))?;
        let stream = match frame.source {
            LogSource::Stderr => "stderr",
            _ => "stdout",
        };
        for part in frame.data.chunks(MAX_LOG_CHUNK) {
            if !chunk(reader, stream, part).await {
                return Ok(());
            }
        }
    }
}

/// Each read is short and of a local file, so it is done in place.
async fn files(
    mut status: watch::Receiver<Arc<TaskStatus>>,
    tail_bytes: u64,
    follow: bool,
    reader: &Reader,
) -> Result<(), Status> {
    let Some(sandbox) = status.borrow().sandbox.clone() else {
        return Ok(());
    };
    let failed =
        |path: &Path, error: io::Error| Status::internal(format!("{}: {error}", path.display()));
    let mut streams = Vec::with_capacity(2);
    for name in ["stdout", "stderr"] {
        let open = OutputReader::open(&sandbox, name, tail_bytes);
        streams.push((name, open.map_err(|error| failed(&sandbox, error))?));
    }
    let mut buffer = vec![0; MAX_LOG_CHUNK];
    loop {
        // All output is in the files before the end is told.
        let ended = status.borrow_and_update().has_ended();
        let mut quiet = true;
        for (name, stream) in &mut streams {
            let read = stream
                .read(&mut buffer)
                .map_err(|error| failed(&sandbox.join(*name), error))?;
            if read > 0 {
                quiet = false;
                if !chunk(reader, name, &buffer[..read]).await {
                    return Ok(());
                }
            }
        }
        if !quiet {
            continue;
        }
        if ended || !follow {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            // A task that is forgotten has no output any more.
            changed = status.changed() => if changed.is_err() { return Ok(()) },
            () = reader.closed() => return Ok(()),
        }
    }
}

async fn chunk(reader: &Reader, stream: &str, data: &[u8]) -> bool {
    let response = v1::TaskLogsResponse {
        stream: stream.to_owned(),
        data: data.to_vec(),
    };
    reader.send(Ok(response)).await.is_ok()
}
