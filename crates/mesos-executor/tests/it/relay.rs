//! A socket that stands before another, and does not pass on what the test holds back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What is held back; everything else is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Nothing,
    /// A request to start a container.
    Start,
    /// Everything in both directions, as of an engine that hangs.
    All,
}

pub(crate) struct Relay {
    socket: PathBuf,
    held: Arc<watch::Sender<Held>>,
    /// How many requests were held back.
    caught: watch::Receiver<u32>,
    _server: JoinSet<()>,
}

impl Relay {
    /// At `socket`, before another socket.
    pub(crate) fn start(socket: PathBuf, behind: &Path) -> Self {
        let behind = behind.to_owned();
        Self::before(socket, move || UnixStream::connect(behind.clone()))
    }

    /// At `socket`, before a port of this host.
    pub(crate) fn before_port(socket: PathBuf, port: u16) -> Self {
        Self::before(socket, move || TcpStream::connect(("127.0.0.1", port)))
    }

    fn before<S, C>(socket: PathBuf, connect: impl Fn() -> C + Send + Sync + 'static) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        C: Future<Output = io::Result<S>> + Send + 'static,
    {
        let listener = UnixListener::bind(&socket).unwrap();
        let held = Arc::new(watch::Sender::new(Held::Nothing));
        let (catch, caught) = watch::channel(0);
        let shared = Arc::clone(&held);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (held, catch) = (shared.subscribe(), catch.clone());
                let behind = connect();
                connections.spawn(async move {
                    // Either end may be gone.
                    let _broken = pass_both_ways(client, behind.await?, held, catch).await;
                    io::Result::Ok(())
                });
            }
        });
        Self {
            socket,
            held,
            caught,
            _server: server,
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn hold(&self, held: Held) {
        self.held.send_replace(held);
    }

    /// Waits until a request is held back.
    pub(crate) async fn caught(&mut self) {
        let caught = self.caught.wait_for(|caught| *caught > 0);
        let caught = tokio::time::timeout(crate::scheduler::SOON, caught).await;
        caught.expect("a request is held back").unwrap();
    }
}

async fn pass_both_ways(
    client: UnixStream,
    behind: impl AsyncRead + AsyncWrite,
    held: watch::Receiver<Held>,
    catch: watch::Sender<u32>,
) -> io::Result<()> {
    let (from_client, to_client) = client.into_split();
    let (from_engine, to_engine) = tokio::io::split(behind);
    let there = pass(from_client, to_engine, held.clone(), Some(catch));
    let back = pass(from_engine, to_client, held, None);
    tokio::try_join!(there, back).map(|_| ())
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut held: watch::Receiver<Held>,
    catch: Option<watch::Sender<u32>>,
) -> io::Result<()> {
    let mut part = vec![0; 1 << 16];
    loop {
        let count = from.read(&mut part).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        // A request without a body is one write of its client.
        let line = part[..count].split(|byte| *byte == b'\r').next();
        let is_start = line.is_some_and(|line| String::from_utf8_lossy(line).contains("/start "));
        let is_held = |held: Held| match held {
            Held::Nothing => false,
            Held::Start => catch.is_some() && is_start,
            Held::All => true,
        };
        if is_held(*held.borrow())
            && let Some(catch) = &catch
        {
            catch.send_modify(|caught| *caught += 1);
        }
        let released = held.wait_for(|held| !is_held(*held)).await;
        released.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        to.write_all(&part[..count]).await?;
    }
}
