//! The NRI verbs: what plugins a runtime has, from memory, and an end for one of them.

mod ledger;

pub use ledger::NriLedger;

use std::time::SystemTime;

use longshore_control_api::{MAX_MESSAGE, v1, v1::nri_server};
use longshore_nri_adaptation::socket::Listener;
use longshore_nri_adaptation::{Adaptation, PluginKind, PluginState, PluginStatus};
use longshore_nri_api::event_name;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::convert::millis;

/// The longest reason for a removal, in bytes.
const REASON_MAX: usize = 1024;

/// The longest `last_error` that is sent, in characters: plugins write it, and there may be hundreds.
const ERROR_MAX: usize = 4096;

/// Answers the NRI verbs of the control service for one runtime, or says why there is none.
#[derive(Debug, Clone)]
pub struct NriControl {
    subject: Subject,
}

#[derive(Debug, Clone)]
enum Subject {
    Runtime {
        name: String,
        adaptation: watch::Receiver<Option<Adaptation>>,
        ledger: NriLedger,
    },
    Absent(&'static str),
}

impl NriControl {
    /// For the runtime of this name (with its version), whose adaptation is that of the channel; `None`
    /// while it is being restarted. The ledger has to be the adaptation's metrics.
    #[must_use]
    pub fn new(
        name: impl Into<String>,
        adaptation: watch::Receiver<Option<Adaptation>>,
        ledger: NriLedger,
    ) -> Self {
        let name = name.into();
        let subject = Subject::Runtime {
            name,
            adaptation,
            ledger,
        };
        Self { subject }
    }

    /// For a process without an adaptation, for this reason.
    pub(crate) fn absent(reason: &'static str) -> Self {
        let subject = Subject::Absent(reason);
        Self { subject }
    }

    /// Serves on a socket of its own until `stop`, under the limits of a daemon's control socket. Who may
    /// connect is up to the listener.
    pub async fn serve(self, listener: Listener, stop: CancellationToken) {
        super::serve_routes(listener, Routes::new(self.server()), stop).await;
    }

    pub(crate) fn server(self) -> nri_server::NriServer<Self> {
        nri_server::NriServer::new(self)
            // Requests are names and reasons.
            .max_decoding_message_size(64 * 1024)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    /// The plugins as they are, for who only looks; `None` where there is no adaptation.
    pub(crate) fn look(&self) -> Option<Vec<v1::NriPlugin>> {
        let (_, adaptation, ledger) = self.runtime().ok()?;
        let plugins = adaptation.plugins();
        Some(plugins.iter().map(|one| plugin(one, ledger)).collect())
    }

    /// Grows with each change of the plugins; `None` where there is no adaptation.
    pub(crate) fn changes(&self) -> Option<watch::Receiver<u64>> {
        let (_, adaptation, _) = self.runtime().ok()?;
        Some(adaptation.changes())
    }

    fn runtime(&self) -> Result<(&str, Adaptation, &NriLedger), Status> {
        match &self.subject {
            Subject::Absent(reason) => Err(Status::unimplemented(*reason)),
            Subject::Runtime {
                name,
                adaptation,
                ledger,
            } => {
                let now = adaptation.borrow().clone();
                let now = now.ok_or_else(|| Status::unavailable("the runtime is restarting"))?;
                Ok((name, now, ledger))
            }
        }
    }
}

#[tonic::async_trait]
impl nri_server::Nri for NriControl {
    async fn list_nri_plugins(
        &self,
        _: Request<v1::ListNriPluginsRequest>,
    ) -> Result<Response<v1::ListNriPluginsResponse>, Status> {
        let (runtime, adaptation, ledger) = self.runtime()?;
        let plugins = adaptation.plugins();
        Ok(Response::new(v1::ListNriPluginsResponse {
            runtime: runtime.to_owned(),
            plugins: plugins.iter().map(|one| plugin(one, ledger)).collect(),
        }))
    }

    async fn remove_nri_plugin(
        &self,
        request: Request<v1::RemoveNriPluginRequest>,
    ) -> Result<Response<v1::RemoveNriPluginResponse>, Status> {
        let v1::RemoveNriPluginRequest { name, reason } = request.into_inner();
        let (_, adaptation, _) = self.runtime()?;
        if name.is_empty() {
            return Err(Status::invalid_argument("no plugin is named"));
        }
        if reason.len() > REASON_MAX {
            return Err(Status::invalid_argument(format!(
                "the reason has {} bytes, at most {REASON_MAX} are kept",
                reason.len()
            )));
        }
        let known = adaptation.plugins();
        let named = |status: &PluginStatus| {
            status.name == name || status.id.as_ref().is_some_and(|id| id.base() == name)
        };
        let builtin =
            |status: &&PluginStatus| named(status) && status.kind == Some(PluginKind::Builtin);
        if let Some(builtin) = known.iter().find(builtin) {
            return Err(Status::failed_precondition(format!(
                "plugin {} is a part of the runtime and stays",
                builtin.name
            )));
        }
        let removed = adaptation.remove_plugin_because(&name, &reason);
        if removed == 0 {
            return Err(Status::not_found(unknown(&name, &known)));
        }
        tracing::info!(
            plugin = name,
            reason,
            removed,
            "an operator removed a plugin"
        );
        Ok(Response::new(v1::RemoveNriPluginResponse {
            removed: u32::try_from(removed).unwrap_or(u32::MAX),
        }))
    }
}

fn unknown(name: &str, known: &[PluginStatus]) -> String {
    let names: Vec<_> = known.iter().map(|status| status.name.as_str()).collect();
    if names.is_empty() {
        format!("no NRI plugin is named {name:?}; none is there")
    } else {
        let names = names.join(", ");
        format!("no NRI plugin is named {name:?}; there are: {names}")
    }
}

fn plugin(status: &PluginStatus, ledger: &NriLedger) -> v1::NriPlugin {
    let account = ledger.account(&status.name);
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let id = status.id.as_ref();
    v1::NriPlugin {
        name: status.name.clone(),
        index: id.map_or_else(String::new, |id| id.index().to_string()),
        kind: status
            .kind
            .map_or(v1::NriPluginKind::Unspecified, kind)
            .into(),
        state: state(status.state).to_owned(),
        events: status
            .events
            .iter()
            .map(|it| event_name(it).to_owned())
            .collect(),
        pid: status.pid.unwrap_or(0),
        nri_version: status.nri_version.clone(),
        state_change_only: status.state_change_only,
        requests: status.requests,
        failures: account.failures,
        strikes: status.strikes,
        queued: u64::try_from(status.queued).unwrap_or(u64::MAX),
        latency: account.latency().map(|[last, median, max]| v1::NriLatency {
            last_us: micros(last),
            p50_us: micros(median),
            max_us: micros(max),
        }),
        last_error: status
            .last_error
            .as_deref()
            .map_or_else(String::new, |error| error.chars().take(ERROR_MAX).collect()),
        since_ms: status.since.map_or(0, wall_clock),
    }
}

/// A moment of the past as clocks on the wall show it.
fn wall_clock(moment: Instant) -> u64 {
    let now = SystemTime::now();
    millis(now.checked_sub(moment.elapsed()).unwrap_or(now))
}

fn kind(kind: PluginKind) -> v1::NriPluginKind {
    match kind {
        PluginKind::Builtin => v1::NriPluginKind::Builtin,
        PluginKind::Launched => v1::NriPluginKind::Launched,
        PluginKind::External => v1::NriPluginKind::External,
        PluginKind::Attached => v1::NriPluginKind::Attached,
        _ => v1::NriPluginKind::Unspecified,
    }
}

fn state(state: PluginState) -> &'static str {
    match state {
        PluginState::Registered => "registered",
        PluginState::Configured => "configured",
        PluginState::Synchronizing => "synchronizing",
        PluginState::Active => "active",
        PluginState::Restarting => "restarting",
        PluginState::Missing => "missing",
        PluginState::Closed => "closed",
        _ => "unknown",
    }
}
