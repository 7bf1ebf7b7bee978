//! Between plugins and a runtime: passes on what both say, and tells what it was.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use longshore_nri_adaptation::socket::{Listener, Peer, SocketError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::record::{Caller, Entry, Side};
use crate::tracer::Tracer;

/// The most plugins at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How much is read at once, in bytes.
const READ: usize = 64 << 10;
/// How many pieces may wait to be decoded, for each connection.
const PIECES: usize = 16;
/// How long connecting to the runtime may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one side may stay once the other has gone.
const LINGER: Duration = Duration::from_secs(10);

/// A proxy before the socket of a runtime.
///
/// To the runtime every plugin is a process of the proxy's user; the record names the real one.
#[derive(Debug)]
pub struct Proxy {
    listener: Listener,
    runtime: PathBuf,
    entries: mpsc::Sender<Entry>,
    began: Instant,
}

/// What a pump passed on.
enum Piece {
    Bytes(Side, Bytes, Duration),
    Closed(Side, String, Duration),
}

impl Proxy {
    /// Between the plugins that connect to `listener` and the runtime at `runtime`. What happens goes to
    /// `entries`; when nobody takes them, the plugins wait.
    #[must_use]
    pub fn new(listener: Listener, runtime: PathBuf, entries: mpsc::Sender<Entry>) -> Self {
        Self {
            listener,
            runtime,
            entries,
            began: Instant::now(),
        }
    }

    /// Serves until accepting fails. Dropping the future closes every connection.
    ///
    /// # Errors
    /// [`SocketError::Accept`].
    pub async fn run(mut self) -> Result<(), SocketError> {
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let mut number = 0;
        loop {
            // Never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return Ok(());
            };
            while connections.try_join_next().is_some() {}
            let (plugin, peer) = self.listener.accept().await?;
            number += 1;
            let connection = Connection {
                tracer: Tracer::new(number),
                entries: self.entries.clone(),
                began: self.began,
            };
            let runtime = self.runtime.clone();
            connections.spawn(async move {
                // Nobody takes the entries any more: the proxy ends.
                let _ended = connection.run(plugin, peer, &runtime).await;
                drop(slot);
            });
        }
    }
}

/// Nobody takes the entries any more.
struct Ended;

struct Connection {
    tracer: Tracer,
    entries: mpsc::Sender<Entry>,
    began: Instant,
}

impl Connection {
    async fn run(mut self, plugin: UnixStream, peer: Peer, runtime: &Path) -> Result<(), Ended> {
        let caller = Caller {
            pid: peer.pid,
            uid: peer.uid,
            gid: peer.gid,
            executable: peer.executable,
        };
        self.tell(self.tracer.opened(caller, self.began.elapsed()))
            .await?;
        let runtime = match timeout(CONNECT, UnixStream::connect(runtime)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return self.unreachable(&error).await,
            Err(_) => return self.unreachable(&io::ErrorKind::TimedOut.into()).await,
        };
        let (pieces, seen) = mpsc::channel(PIECES);
        let (from_plugin, to_plugin) = plugin.into_split();
        let (from_runtime, to_runtime) = runtime.into_split();
        let began = self.began;
        let out = pump(from_plugin, to_runtime, Side::Plugin, pieces.clone(), began);
        let back = pump(from_runtime, to_plugin, Side::Runtime, pieces, began);
        let pumps = async {
            tokio::pin!(out, back);
            tokio::select! {
                () = &mut out => { let _gone = timeout(LINGER, &mut back).await; }
                () = &mut back => { let _gone = timeout(LINGER, &mut out).await; }
            }
        };
        let ((), told) = tokio::join!(pumps, self.tell_all(seen));
        told
    }

    async fn unreachable(&self, error: &io::Error) -> Result<(), Ended> {
        let reason = format!("it cannot be reached: {error}");
        self.tell(
            self.tracer
                .closed(Side::Runtime, &reason, self.began.elapsed()),
        )
        .await
    }

    async fn tell_all(&mut self, mut seen: mpsc::Receiver<Piece>) -> Result<(), Ended> {
        while let Some(piece) = seen.recv().await {
            match piece {
                Piece::Bytes(side, bytes, at) => {
                    for entry in self.tracer.feed(side, bytes, at) {
                        self.tell(entry).await?;
                    }
                }
                Piece::Closed(side, reason, at) => {
                    self.tell(self.tracer.closed(side, &reason, at)).await?;
                }
            }
        }
        Ok(())
    }

    async fn tell(&self, entry: Entry) -> Result<(), Ended> {
        self.entries.send(entry).await.map_err(|_| Ended)
    }
}

/// Passes on what one side says, each piece told of before the other side can answer it.
async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    side: Side,
    pieces: mpsc::Sender<Piece>,
    began: Instant,
) {
    let other = match side {
        Side::Plugin => Side::Runtime,
        Side::Runtime => Side::Plugin,
    };
    let mut buffer = BytesMut::new();
    let (ended, reason) = loop {
        buffer.reserve(READ);
        match from.read_buf(&mut buffer).await {
            Ok(0) => break (side, "it hung up".to_owned()),
            Ok(_) => {}
            Err(error) => break (side, format!("reading failed: {error}")),
        }
        let bytes = buffer.split().freeze();
        let piece = Piece::Bytes(side, bytes.clone(), began.elapsed());
        if pieces.send(piece).await.is_err() {
            return;
        }
        if let Err(error) = to.write_all(&bytes).await {
            break (other, format!("writing failed: {error}"));
        }
    };
    // Best effort: nobody may be left to tell, or to hang up on.
    let _nobody_listens = pieces
        .send(Piece::Closed(ended, reason, began.elapsed()))
        .await;
    let _gone = to.shutdown().await;
}
