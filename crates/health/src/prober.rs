//! One run of a probe, performed.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use tokio::time::timeout;

use crate::http::Client;
use crate::result::clip;
use crate::{
    CommandExit, CommandFailure, CommandProbe, CommandRunner, HealthError, HttpProbe, KILL_MARGIN,
    NetNamespace, Probe, ProbeResult, TcpProbe,
};

/// Where probes are made: the namespace for HTTP and TCP, the runner for commands.
#[derive(Clone, Debug, Default)]
pub struct Prober {
    namespace: NetNamespace,
    runner: Option<Arc<dyn CommandRunner>>,
}

impl Prober {
    /// HTTP and TCP probes are made in `namespace`; commands cannot be run yet.
    #[must_use]
    pub fn new(namespace: NetNamespace) -> Self {
        Self {
            namespace,
            runner: None,
        }
    }

    /// Runs commands through `runner`.
    #[must_use]
    pub fn with_runner(mut self, runner: Arc<dyn CommandRunner>) -> Self {
        self.runner = Some(runner);
        self
    }

    /// One run, outside of any checker. Dropping the future drops the run, and kills its command.
    ///
    /// # Errors
    /// [`HealthError::NoRunner`], [`HealthError::NoTls`]; that a probe does not pass is no error.
    pub async fn once(
        &self,
        probe: Probe,
        limit: Option<Duration>,
    ) -> Result<ProbeResult, HealthError> {
        Ok(Arc::new(Aimed::new(self.clone(), probe, limit)?)
            .run()
            .await)
    }
}

/// A prober and what it asks, known to be possible.
#[derive(Debug)]
pub(crate) struct Aimed {
    namespace: NetNamespace,
    limit: Option<Duration>,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Command(CommandProbe, Arc<dyn CommandRunner>),
    Http(HttpProbe, Client),
    Tcp(TcpProbe),
}

impl Aimed {
    pub(crate) fn new(
        prober: Prober,
        probe: Probe,
        limit: Option<Duration>,
    ) -> Result<Self, HealthError> {
        let target = match probe {
            Probe::Command(command) => {
                Target::Command(command, prober.runner.ok_or(HealthError::NoRunner)?)
            }
            Probe::Http(http) => {
                let client = Client::new(http.scheme)?;
                Target::Http(http, client)
            }
            Probe::Tcp(tcp) => Target::Tcp(tcp),
        };
        Ok(Self {
            namespace: prober.namespace,
            limit,
            target,
        })
    }

    /// One run, whose future owns all that it needs.
    pub(crate) async fn run(self: Arc<Self>) -> ProbeResult {
        let limit = self.limit;
        match &self.target {
            Target::Command(command, runner) => run(command, runner.as_ref(), limit).await,
            Target::Http(http, client) => within(limit, client.get(&self.namespace, http)).await,
            Target::Tcp(tcp) => within(limit, connect(&self.namespace, *tcp)).await,
        }
    }
}

/// The runner kills at the limit; it is not waited for longer than the margin.
async fn run(
    command: &CommandProbe,
    runner: &dyn CommandRunner,
    limit: Option<Duration>,
) -> ProbeResult {
    let running = runner.run(command, limit);
    let answer = match limit {
        None => running.await,
        Some(limit) => timeout(limit.saturating_add(KILL_MARGIN), running)
            .await
            .unwrap_or(Ok(CommandExit::TimedOut)),
    };
    match answer {
        Ok(CommandExit::Exited(status)) => ProbeResult::Exited(status),
        Ok(CommandExit::Signaled(signal)) => ProbeResult::Signaled(signal),
        Ok(CommandExit::TimedOut) => ProbeResult::TimedOut(limit.unwrap_or_default()),
        Err(CommandFailure::Refused(reason)) => ProbeResult::Failed(clip(&reason)),
        Err(CommandFailure::Unavailable(reason)) => ProbeResult::Transient(clip(&reason)),
    }
}

async fn within(
    limit: Option<Duration>,
    run: impl Future<Output = ProbeResult> + Send,
) -> ProbeResult {
    match limit {
        None => run.await,
        Some(limit) => timeout(limit, run)
            .await
            .unwrap_or(ProbeResult::TimedOut(limit)),
    }
}

async fn connect(namespace: &NetNamespace, probe: TcpProbe) -> ProbeResult {
    let to = SocketAddr::new(probe.family.loopback(), probe.port());
    match namespace.connect(to).await {
        Ok(_connection) => ProbeResult::Connected,
        Err(error) if is_ours(&error) => {
            ProbeResult::Transient(format!("connecting to {to}: {error}"))
        }
        Err(error) => ProbeResult::Refused(format!("connecting to {to}: {error}")),
    }
}

/// Whether an error says that *we* ran out of something.
pub(crate) fn is_ours(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .map(Errno::from_raw)
        .is_some_and(|errno| {
            matches!(
                errno,
                Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS | Errno::EAGAIN
            )
        })
}
