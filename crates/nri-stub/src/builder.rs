//! What a stub is made of.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_backoff::Backoff;
use longshore_nri_api::service::DEFAULT_SOCKET;
use longshore_ttrpc::CloseReason;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connect::Source;
use crate::error::StubError;
use crate::gather::SyncLimits;
use crate::handle::{DEFAULT_REGISTRATION_TIMEOUT, Shared};
use crate::identity::{Environment, resolve};
use crate::negotiate;
use crate::plugin::Plugin;
use crate::session::{Ended, OnClose};
use crate::stub::Stub;

/// Makes a [`Stub`].
///
/// Identity: the environment first (`NRI_PLUGIN_NAME`, `NRI_PLUGIN_IDX`); [`Self::name`] replaces
/// its name, [`Self::index`] is refused when it has one; what is missing is taken from
/// [`Self::unless_launched`], else from the name of the program, `<two digits>-<name>`.
///
/// Connection: [`Self::connection`], else the descriptor in `NRI_PLUGIN_SOCKET`, else
/// [`Self::socket`], else the path in `NRI_SOCKET`, else [`DEFAULT_SOCKET`](crate::DEFAULT_SOCKET).
pub struct StubBuilder {
    name: Option<String>,
    index: Option<String>,
    by_hand: Option<(String, String)>,
    socket: Option<PathBuf>,
    connection: Option<Source>,
    environment: Option<Environment>,
    patience: Duration,
    reconnect: Option<Backoff>,
    limits: SyncLimits,
    on_close: Option<OnClose>,
}

impl Default for StubBuilder {
    fn default() -> Self {
        Self {
            name: None,
            index: None,
            by_hand: None,
            socket: None,
            connection: None,
            environment: None,
            patience: DEFAULT_REGISTRATION_TIMEOUT,
            reconnect: Some(default_reconnect()),
            limits: SyncLimits::default(),
            on_close: None,
        }
    }
}

/// From half a second up to half a minute, each delay shortened by up to a half: the plugins of a
/// node do not all come back at the same moment.
fn default_reconnect() -> Backoff {
    Backoff::new(Duration::from_millis(500), Duration::from_secs(30), 0.5).unwrap_or_default()
}

impl StubBuilder {
    /// The plugin's name: letters, digits, `_`, `.`, `+` and `-`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The plugin's place in the chain: two digits.
    #[must_use]
    pub fn index(mut self, index: impl Into<String>) -> Self {
        self.index = Some(index.into());
        self
    }

    /// Index and name of a plugin that is started by hand: a runtime that launches it gives it others. Unlike
    /// [`Self::index`] it may be given always, and is never refused.
    #[must_use]
    pub fn unless_launched(mut self, index: impl Into<String>, name: impl Into<String>) -> Self {
        self.by_hand = Some((index.into(), name.into()));
        self
    }

    /// The runtime's socket.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// A connection that the program has made itself. It is used for one start.
    #[must_use]
    pub fn connection<T>(mut self, stream: T) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.connection = Some(Source::given(stream));
        self
    }

    /// What to take for the environment, instead of that of the process.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// How long to wait, at least, for a connection, for the registration, and for the
    /// configuration: each 5 s, or what the runtime said in the last configuration if that is
    /// longer. Runtimes that are busy may need longer.
    #[must_use]
    pub fn registration_timeout(mut self, timeout: Duration) -> Self {
        self.patience = timeout;
        self
    }

    /// The delays of [`Stub::run`] between two connections, instead of half a second to half a
    /// minute. A connection that lasted 10 s begins anew.
    #[must_use]
    pub fn reconnect(mut self, backoff: Backoff) -> Self {
        self.reconnect = Some(backoff);
        self
    }

    /// Let [`Stub::run`] end with the first connection, or with the first failure to connect.
    #[must_use]
    pub fn no_reconnect(mut self) -> Self {
        self.reconnect = None;
        self
    }

    /// The most that a synchronization may be made of.
    #[must_use]
    pub fn sync_limits(mut self, memory: usize, objects: usize) -> Self {
        self.limits = SyncLimits { memory, objects };
        self
    }

    /// Called when a connection on which the plugin was active has been lost: not when it is
    /// stopped from this end. Must not block.
    #[must_use]
    pub fn on_close(mut self, callback: impl Fn(&CloseReason) + Send + Sync + 'static) -> Self {
        self.on_close = Some(Arc::new(callback));
        self
    }

    /// Checks everything that can be checked without a runtime.
    ///
    /// # Errors
    /// [`StubError::Identity`], [`StubError::IndexAlreadySet`], [`StubError::NoHandlers`] and
    /// [`StubError::MissingHandlers`].
    pub fn build<P: Plugin>(self, plugin: P) -> Result<Stub<P>, StubError> {
        let environment = self.environment.unwrap_or_else(Environment::of_process);
        let launched = environment.index.is_some() || environment.inherited_socket.is_some();
        let (index, name) = match self.by_hand.as_ref().filter(|_| !launched) {
            Some((index, name)) => (Some(index), Some(name)),
            None => (None, None),
        };
        let name = self.name.as_ref().or(name).map(String::as_str);
        let index = self.index.as_ref().or(index).map(String::as_str);
        let id = resolve(&environment, name, index)?;
        negotiate::check(plugin.events(), plugin.handlers())?;
        let source = match (self.connection, environment.inherited_socket) {
            (Some(connection), _) => connection,
            (None, Some(number)) => Source::Inherited(number),
            (None, None) => Source::Socket(
                self.socket
                    .or_else(|| environment.socket.map(PathBuf::from))
                    .unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET)),
            ),
        };
        Ok(Stub {
            plugin: Arc::new(plugin),
            shared: Shared::new(id, self.patience),
            source,
            reconnect: self.reconnect,
            limits: self.limits,
            on_close: self.on_close,
        })
    }

    /// [`Self::build`] and [`Stub::run`].
    ///
    /// # Errors
    /// Of both.
    pub async fn run<P: Plugin>(self, plugin: P) -> Result<Ended, StubError> {
        self.build(plugin)?.run().await
    }
}

impl fmt::Debug for StubBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StubBuilder")
            .field("name", &self.name)
            .field("index", &self.index)
            .field("socket", &self.socket)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}
