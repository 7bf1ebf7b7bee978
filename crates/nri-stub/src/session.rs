//! One connection to a runtime, from registration to its end.
//!
//! ```text
//!   connected ──RegisterPlugin──▶ registering ──reply, Configure (in any order)──▶ active
//!       │                            │                                           │
//!       │ closed, refused, too late  │                 closed, Shutdown, stopped │
//!       └────────────▶ failed ◀──────┘                        ended ◀────────────┘
//! ```

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use longshore_nri_api::service::{PLUGIN_CONNECTION, RUNTIME, RUNTIME_CONNECTION};
use longshore_nri_api::{NRI_VERSION, RegisterPluginRequest};
use longshore_ttrpc::{CallError, CallOptions, Client, CloseReason, Layout, Options, start};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connect::BoxedStream;
use crate::error::StubError;
use crate::gather::SyncLimits;
use crate::handle::{Handle, Phase, Shared, Started};
use crate::plugin::Plugin;
use crate::service::{PluginService, Progress};

/// How long a runtime that has said goodbye, or been refused, may take to close the connection.
const GRACE: Duration = Duration::from_secs(1);

/// How a connection ended without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// This end stopped it.
    Stopped,
    /// The runtime announced its end with `Shutdown`.
    Shutdown,
}

/// What is called when an established connection has been lost.
pub(crate) type OnClose = Arc<dyn Fn(&CloseReason) + Send + Sync>;

/// A started stub: registered, configured, and being asked.
///
/// Dropping it ends the connection; the stub can be started again.
pub struct Session {
    shared: Arc<Shared>,
    client: Client,
    driver: JoinSet<CloseReason>,
    progress: watch::Receiver<Progress>,
    stops: watch::Receiver<u64>,
    on_close: Option<OnClose>,
    pub(crate) started: Option<Started>,
}

impl Session {
    /// Registers over a connection, and waits until the runtime has configured the plugin.
    pub(crate) async fn establish<P: Plugin>(
        stream: BoxedStream,
        plugin: Arc<P>,
        shared: Arc<Shared>,
        limits: SyncLimits,
        on_close: Option<OnClose>,
    ) -> Result<Self, StubError> {
        let service = PluginService::new(plugin, Arc::clone(&shared), limits);
        let progress = service.progress.subscribe();
        let layout = Layout::Mux {
            client: RUNTIME_CONNECTION,
            server: PLUGIN_CONNECTION,
        };
        let (client, driver) = start(stream, layout, service, Options::default());
        shared.connected(client.clone());
        let mut tasks = JoinSet::new();
        // Serves before anything is sent: Configure may come before the registration's reply.
        tasks.spawn(driver);
        let mut session = Self {
            stops: shared.stops(),
            shared,
            client,
            driver: tasks,
            progress,
            on_close,
            started: None,
        };
        session.register().await?;
        session.configured().await?;
        session.shared.change(|status| {
            status.phase = Phase::Active;
            status.connections += 1;
        });
        Ok(session)
    }

    async fn register(&mut self) -> Result<(), StubError> {
        let id = &self.shared.id;
        let request = RegisterPluginRequest {
            plugin_name: id.base().to_owned(),
            plugin_idx: id.index().to_string(),
            nri_version: NRI_VERSION.to_owned(),
        };
        let options = CallOptions::timeout(self.shared.patience());
        let reply = self
            .client
            .call_raw(RUNTIME, "RegisterPlugin", &request, &options)
            .await;
        match reply {
            Ok(_) => Ok(()),
            // A configuration that was refused is why the runtime closed.
            Err(CallError::Closed(source)) => Err(self.why(StubError::Closed { source })),
            Err(source) => Err(self.why(StubError::Register { source })),
        }
    }

    fn why(&self, otherwise: StubError) -> StubError {
        match self.progress.borrow().configured.clone() {
            Some(Err(reason)) => StubError::Configure { reason },
            Some(Ok(())) | None => otherwise,
        }
    }

    async fn configured(&mut self) -> Result<(), StubError> {
        let within = self.shared.patience();
        let mut progress = self.progress.clone();
        let told = async {
            let outcome = progress
                .wait_for(|progress| progress.configured.is_some())
                .await;
            outcome
                .ok()
                .and_then(|progress| progress.configured.clone())
        };
        let configured = async {
            tokio::select! {
                biased;
                outcome = told => outcome,
                _ = self.client.closed() => None,
            }
        };
        match timeout(within, configured).await {
            Err(_) => Err(StubError::NotConfigured { timeout: within }),
            Ok(Some(Ok(()))) => Ok(()),
            Ok(Some(Err(reason))) => {
                // The runtime is still to be told.
                drop(timeout(GRACE, self.client.closed()).await);
                Err(StubError::Configure { reason })
            }
            Ok(None) => Err(StubError::Closed {
                source: self.client.closed().await,
            }),
        }
    }

    /// Waits until the connection ends.
    ///
    /// # Errors
    /// [`StubError::Closed`] when it is lost.
    pub async fn wait(mut self) -> Result<Ended, StubError> {
        let mut stops = self.stops.clone();
        self.ended(async {
            // The sender lives as long as the stub.
            drop(stops.changed().await);
        })
        .await
    }

    /// As [`Self::wait`], and ends it when `stop` does.
    pub(crate) async fn ended(
        &mut self,
        stop: impl Future<Output = ()>,
    ) -> Result<Ended, StubError> {
        let mut progress = self.progress.clone();
        // What `wait_for` gives holds a lock: it must not live on within the select.
        let shutdown = async { drop(progress.wait_for(|progress| progress.shutdown).await) };
        let lost = tokio::select! {
            biased;
            () = stop => None,
            reason = self.closed() => Some(reason),
            () = shutdown => {
                let left = timeout(GRACE, self.client.closed()).await;
                Some(left.unwrap_or_else(|_| CloseReason::Local("the runtime shuts down".into())))
            }
        };
        self.client.close("the plugin stops");
        self.shared.disconnected();
        let Some(source) = lost else {
            return Ok(Ended::Stopped);
        };
        if let Some(on_close) = &self.on_close {
            on_close(&source);
        }
        if self.progress.borrow().shutdown {
            Ok(Ended::Shutdown)
        } else {
            Err(StubError::Closed { source })
        }
    }

    async fn closed(&mut self) -> CloseReason {
        match self.driver.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(_)) | None => self.client.closed().await,
        }
    }

    /// To ask the runtime, and to stop.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.shared.handle()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.client.close("the plugin stops");
        self.shared.disconnected();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.shared.id)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}
