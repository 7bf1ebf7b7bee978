//! The peer: the same bytes, there and back, with nothing around them.

use std::path::{Path, PathBuf};

use longshore_bench::Failure;
use longshore_bench::nri::{runtime, subject};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::host::PATIENCE;
use crate::process::Role;

/// `bare SOCKET`: answers each request with an answer, both of fixed length.
pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let socket = PathBuf::from(arguments.next().ok_or("no socket")?);
    let (asked, answered) = subject::lengths();
    runtime()?.block_on(async {
        let mut stream = UnixStream::connect(&socket).await?;
        let (mut request, answer) = (vec![0; asked], vec![1; answered]);
        loop {
            stream.read_exact(&mut request).await?;
            stream.write_all(&answer).await?;
        }
    })
}

/// The asking end.
pub(crate) struct Bare {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    pub(crate) role: Role,
}

impl Bare {
    pub(crate) async fn start(dir: &Path) -> Result<Self, Failure> {
        let socket = dir.join("bare.sock");
        let listener = UnixListener::bind(&socket)?;
        let role = Role::start("bare", &socket, &[])?;
        let (stream, _) = timeout(PATIENCE, listener.accept()).await??;
        let (asked, answered) = subject::lengths();
        Ok(Self {
            stream,
            request: vec![0; asked],
            answer: vec![0; answered],
            role,
        })
    }

    pub(crate) async fn hop(&mut self) -> Result<(), Failure> {
        self.stream.write_all(&self.request).await?;
        self.stream.read_exact(&mut self.answer).await?;
        Ok(())
    }
}
