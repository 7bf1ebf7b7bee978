//! How a stub comes to its connection.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::error::StubError;
use crate::inherited;

/// A stream of any kind.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) type BoxedStream = Box<dyn Stream>;

/// Where connections come from, in the order in which they are preferred.
pub(crate) enum Source {
    /// The program made it; there is one.
    Given(Mutex<Option<BoxedStream>>),
    /// The number of a descriptor that the runtime left to the plugin it launched; there is one.
    Inherited(String),
    /// A socket to connect to, as often as needed.
    Socket(PathBuf),
}

impl Source {
    pub(crate) fn given(stream: impl Stream + 'static) -> Self {
        Self::Given(Mutex::new(Some(Box::new(stream))))
    }

    /// Whether another connection can be made when this one is lost.
    pub(crate) fn is_repeatable(&self) -> bool {
        matches!(self, Self::Socket(_))
    }

    pub(crate) async fn connect(&self, within: Duration) -> Result<BoxedStream, StubError> {
        match self {
            Self::Given(stream) => stream
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .ok_or(StubError::ConnectionUsed),
            Self::Inherited(value) => {
                let refused = |source| StubError::InheritedSocket {
                    value: value.clone(),
                    source,
                };
                let stream = UnixStream::from_std(inherited::take(value)?);
                Ok(Box::new(stream.map_err(refused)?))
            }
            Self::Socket(path) => Ok(Box::new(dial(path, within).await?)),
        }
    }
}

async fn dial(path: &Path, within: Duration) -> Result<UnixStream, StubError> {
    let late = || io::Error::new(ErrorKind::TimedOut, format!("no answer within {within:?}"));
    timeout(within, UnixStream::connect(path))
        .await
        .unwrap_or_else(|_| Err(late()))
        .map_err(|source| StubError::Connect {
            path: path.to_owned(),
            source,
        })
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("a connection of the program's own"),
            Self::Inherited(value) => write!(f, "the inherited descriptor {value}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}
