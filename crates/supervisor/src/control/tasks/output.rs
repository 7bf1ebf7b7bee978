//! `task logs`: from the files of a sandbox, or from the engine.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_control_api::{MAX_LOG_CHUNK, v1};
use longshore_engine::{LogSource, LogStream};
use longshore_task_manager::{OutputReader, TaskManager, TaskStatus};
use tokio::sync::{mpsc, watch};
use tonic::Status;

use super::refused;

/// How often followed files are looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// Whose output is sent, and how much of it.
pub(super) struct Output {
    pub(super) manager: TaskManager,
    pub(super) id: String,
    pub(super) status: watch::Receiver<Arc<TaskStatus>>,
    pub(super) follow: bool,
    /// Lines of the end of each stream that come first; `None` for all.
    pub(super) tail: Option<u64>,
}

type Reader = mpsc::Sender<Result<v1::TaskLogsResponse, Status>>;

/// Sends output until there is no more, or until nobody reads.
pub(super) async fn send(output: Output, reader: Reader) {
    let sent = match output.manager.has_engine_logs(&output.id) {
        Ok(true) => tokio::select! {
            sent = engine(output, &reader) => sent,
            () = reader.closed() => return,
        },
        Ok(false) => files(output, &reader).await,
        Err(error) => Err(refused(&error)),
    };
    if let Err(status) = sent {
        // A reader that is gone needs no error.
        let _gone = reader.send(Err(status)).await;
    }
}

/// Docker ends the log of a container that is only being started, so it is asked again until the task has ended.
async fn engine(output: Output, reader: &Reader) -> Result<(), Status> {
    let Output {
        manager,
        id,
        mut status,
        follow,
        tail,
    } = output;
    loop {
        // What the engine has of a task that has ended is all.
        let ended = status.borrow_and_update().has_ended();
        let stream = manager.engine_logs(&id, follow, tail).await;
        let sent = match stream.map_err(|error| refused(&error))? {
            Some(stream) => frames(stream, reader).await?,
            None => 0,
        };
        if sent > 0 || ended || !follow {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            changed = status.changed() => if changed.is_err() { return Ok(()) },
        }
    }
}

/// Sends what the engine says to its end; how many chunks that were.
async fn frames(mut stream: LogStream, reader: &Reader) -> Result<u64, Status> {
    let mut sent = 0;
    while let Some(frame) = stream.next().await {
        let frame = frame.map_err(|error| Status::unavailable(error.to_string()))?;
        let stream = match frame.source {
            LogSource::Stderr => "stderr",
            _ => "stdout",
        };
        for part in frame.data.chunks(MAX_LOG_CHUNK) {
            if !chunk(reader, stream, part).await {
                return Ok(sent);
            }
            sent += 1;
        }
    }
    Ok(sent)
}

/// A task that was launched has a sandbox, unless somebody has removed it.
fn is_kept(sandbox: &Path, ending: &str) -> Result<(), Status> {
    if sandbox.is_dir() || matches!(ending, "invalid" | "not-recorded") {
        return Ok(());
    }
    let at = sandbox.display();
    let text = format!("somebody has removed the sandbox {at}: what the task printed is gone");
    Err(Status::data_loss(text))
}

/// Each read is short and of a local file, so it is done in place.
async fn files(output: Output, reader: &Reader) -> Result<(), Status> {
    let Output {
        mut status,
        follow,
        tail,
        ..
    } = output;
    let Some(sandbox) = status.borrow().sandbox.clone() else {
        return Ok(());
    };
    is_kept(&sandbox, &status.borrow().ending)?;
    let failed =
        |path: &Path, error: io::Error| Status::internal(format!("{}: {error}", path.display()));
    let mut streams = Vec::with_capacity(2);
    for name in ["stdout", "stderr"] {
        let path = sandbox.clone();
        // The last lines may be long.
        let open = tokio::task::spawn_blocking(move || OutputReader::open(&path, name, tail));
        let open = open
            .await
            .map_err(|error| Status::internal(error.to_string()))?;
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
