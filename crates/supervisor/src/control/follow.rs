//! `csi logs`: the ends of some files, and with `follow` what comes after.

use std::path::PathBuf;
use std::time::Duration;

use longshore_control_api::{MAX_LOG_CHUNK, v1};
use tokio::sync::mpsc;
use tonic::Status;

use crate::logs::Tail;

/// How often followed files are looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// A file to send.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) container: String,
    pub(crate) stream: &'static str,
    pub(crate) path: PathBuf,
}

/// Sends the last `tail` bytes of each file, and with `follow` goes on until the reader is gone.
/// Each read is short and of a local file, so it is done in place.
pub(crate) async fn send(
    sources: Vec<Source>,
    tail: u64,
    follow: bool,
    reader: mpsc::Sender<Result<v1::CsiLogsResponse, Status>>,
) {
    let mut tails = Vec::with_capacity(sources.len());
    for source in sources {
        match Tail::open(source.path.clone(), tail) {
            Ok(tail) => tails.push((source, tail)),
            Err(error) => {
                let status = Status::internal(format!("{}: {error}", source.path.display()));
                // A reader that is gone needs no error.
                let _gone = reader.send(Err(status)).await;
                return;
            }
        }
    }
    let mut buffer = vec![0; MAX_LOG_CHUNK];
    loop {
        let mut quiet = true;
        for (source, tail) in &mut tails {
            let read = match tail.read(&mut buffer) {
                Ok(read) => read,
                Err(error) => {
                    let status = Status::internal(format!("{}: {error}", source.path.display()));
                    let _gone = reader.send(Err(status)).await;
                    return;
                }
            };
            if read == 0 {
                continue;
            }
            quiet = false;
            let chunk = v1::CsiLogsResponse {
                container: source.container.clone(),
                stream: source.stream.to_owned(),
                data: buffer[..read].to_vec(),
            };
            if reader.send(Ok(chunk)).await.is_err() {
                return;
            }
        }
        if !quiet {
            continue;
        }
        if !follow {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = reader.closed() => return,
        }
    }
}
