//! The stub: makes a program an NRI plugin.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use longshore_backoff::Backoff;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::builder::StubBuilder;
use crate::connect::Source;
use crate::error::StubError;
use crate::gather::SyncLimits;
use crate::handle::{Handle, Phase, Shared};
use crate::plugin::Plugin;
use crate::reconnect::Attempts;
use crate::session::{Ended, OnClose, Session};

/// A plugin with a name and a way to its runtime.
pub struct Stub<P> {
    pub(crate) plugin: Arc<P>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) source: Source,
    pub(crate) reconnect: Option<Backoff>,
    pub(crate) limits: SyncLimits,
    pub(crate) on_close: Option<OnClose>,
}

impl Stub<()> {
    /// Everything from the environment, until it is set.
    #[must_use]
    pub fn builder() -> StubBuilder {
        StubBuilder::default()
    }
}

impl<P: Plugin> Stub<P> {
    /// Connects, registers, waits to be configured. One attempt; it can be repeated, also after a
    /// failure, except with a connection that cannot be made again.
    ///
    /// Takes at most three times the registration timeout: to connect, to register, to be
    /// configured. Dropping the future takes all of it back.
    ///
    /// # Errors
    /// Every [`StubError`] about connections.
    pub async fn start(&self) -> Result<Session, StubError> {
        let started = self.shared.start()?;
        let mut session = self
            .connect()
            .await
            .inspect_err(|error| self.failed(error))?;
        session.started = Some(started);
        Ok(session)
    }

    /// Serves the runtime until it ends the plugin, the connection is lost or [`Handle::stop`].
    ///
    /// When the runtime is not there, or goes away, a plugin that connects to a socket tries again
    /// with growing, jittered delays, registers anew and is synchronized in full again, unless
    /// [`StubBuilder::no_reconnect`] was called. Dropping the future ends the connection.
    ///
    /// # Errors
    /// Why there is no connection, when no other can be made.
    pub async fn run(&self) -> Result<Ended, StubError> {
        self.run_until(std::future::pending()).await
    }

    /// As [`Self::run`], and stops when `stop` ends: on a signal, for example.
    ///
    /// # Errors
    /// As there.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) -> Result<Ended, StubError> {
        let _started = self.shared.start()?;
        let mut stops = self.shared.stops();
        let mut stop = pin!(async {
            tokio::select! {
                () = stop => {}
                // The sender lives as long as the stub.
                _ = stops.changed() => {}
            }
        });
        let mut attempts = Attempts::default();
        loop {
            let (served, outcome) = self.serve(stop.as_mut()).await;
            let error = match (outcome, &self.reconnect) {
                (Ok(Ended::Stopped), _) => return Ok(Ended::Stopped),
                (outcome, None) => return outcome,
                (outcome, Some(_)) if !self.source.is_repeatable() => return outcome,
                (outcome, Some(_)) => outcome.err(),
            };
            let backoff = self.reconnect.unwrap_or_default();
            let delay = attempts.ended(served, &backoff, random());
            self.shared.phase(Phase::Waiting(delay));
            match error {
                Some(error) => tracing::warn!(%error, ?delay, "connects again"),
                None => tracing::info!(?delay, "the runtime shut down; connects again"),
            }
            tokio::select! {
                () = stop.as_mut() => return Ok(Ended::Stopped),
                () = sleep(delay) => {}
            }
        }
    }

    /// One connection: how long it was in use, and how it ended.
    async fn serve(
        &self,
        mut stop: impl Future<Output = ()> + Unpin,
    ) -> (Option<Duration>, Result<Ended, StubError>) {
        let connected = tokio::select! {
            biased;
            () = &mut stop => return (None, Ok(Ended::Stopped)),
            connected = self.connect() => connected,
        };
        let (since, ended) = match connected {
            Ok(mut session) => (Some(Instant::now()), session.ended(stop).await),
            Err(error) => (None, Err(error)),
        };
        if let Err(error) = &ended {
            self.failed(error);
        }
        (since.map(|since| since.elapsed()), ended)
    }

    async fn connect(&self) -> Result<Session, StubError> {
        self.shared.phase(Phase::Connecting);
        let stream = self.source.connect(self.shared.patience()).await?;
        let (plugin, shared) = (Arc::clone(&self.plugin), Arc::clone(&self.shared));
        let on_close = self.on_close.clone();
        let session = Session::establish(stream, plugin, shared, self.limits, on_close).await?;
        let status = self.shared.status();
        tracing::info!(
            plugin = %self.shared.id,
            runtime = status.runtime_name,
            version = status.runtime_version,
            nri = status.runtime_nri_version,
            "registered"
        );
        Ok(session)
    }

    fn failed(&self, error: &StubError) {
        self.shared
            .change(|status| status.last_error = Some(error.to_string()));
    }

    /// To ask the runtime, to see how the stub does, and to stop it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.shared.handle()
    }

    /// The plugin itself.
    #[must_use]
    pub fn plugin(&self) -> &P {
        &self.plugin
    }

    /// Tells every change of the status.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<crate::StubStatus> {
        self.handle().watch()
    }
}

impl<P> fmt::Debug for Stub<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stub")
            .field("id", &self.shared.id)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// For jitter alone: from 0 to 1.
fn random() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0_u8) >> 32).unwrap_or(0);
    f64::from(bits) / f64::from(u32::MAX)
}
