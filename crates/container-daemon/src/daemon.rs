//! The handle: commands in, status out.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::core::{Event, Phase};
use crate::driver::Driver;
use crate::failure::Failure;
use crate::hooks::Hooks;
use crate::options::DaemonOptions;
use crate::runtime::ContainerRuntime;
use crate::status::DaemonStatus;

/// Commands that wait for the loop; it takes them at once.
const COMMANDS: usize = 4;

/// A command, and who waits until it has been taken.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) event: Event,
    pub(crate) taken: oneshot::Sender<()>,
}

/// The daemon has ended: its last [`ContainerDaemon`] was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The loop is gone.
    #[error("the container's daemon has ended")]
    Ended,
}

/// Keeps one container running. Clones are handles of the same daemon; when the last one is
/// dropped the loop ends and **the container keeps running**, as under Mesos.
#[derive(Clone, Debug)]
pub struct ContainerDaemon {
    control: DaemonControl,
    _task: Arc<AbortOnDropHandle<()>>,
}

/// Commands and status without keeping the daemon alive: what hooks may hold.
#[derive(Clone, Debug)]
pub struct DaemonControl {
    commands: mpsc::Sender<Box<Command>>,
    status: watch::Receiver<DaemonStatus>,
}

impl ContainerDaemon {
    /// Spawns the loop, which does nothing until [`start`](DaemonControl::start) or
    /// [`attach`](DaemonControl::attach). Needs a tokio runtime with time.
    #[must_use]
    pub fn spawn<R: ContainerRuntime, H: Hooks>(
        options: DaemonOptions,
        runtime: Arc<R>,
        hooks: Arc<H>,
    ) -> Self {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (publish, status) = watch::channel(DaemonStatus {
            generation: 0,
            phase: Phase::Down,
            since: Instant::now(),
            wanted: false,
            failing: false,
            failures: 0,
            reason: String::new(),
            next_retry: None,
            runs: 0,
            last_exit: None,
        });
        let driver = Box::new(Driver::new(options, runtime, hooks, publish));
        let task = tokio::spawn(driver.run(inbox));
        Self {
            control: DaemonControl { commands, status },
            _task: Arc::new(AbortOnDropHandle::new(task)),
        }
    }

    /// Commands and status for those who must not keep the daemon alive.
    #[must_use]
    pub fn control(&self) -> DaemonControl {
        self.control.clone()
    }
}

impl std::ops::Deref for ContainerDaemon {
    type Target = DaemonControl;

    fn deref(&self) -> &DaemonControl {
        &self.control
    }
}

/// Each command returns once the loop has taken it and published what follows at once; dropping
/// the future after the first poll does not take the command back.
impl DaemonControl {
    /// Wants the container to run. Nothing changes when it does already.
    ///
    /// # Errors
    /// [`DaemonError::Ended`], as for all commands.
    pub async fn start(&self) -> Result<(), DaemonError> {
        self.send(Event::Start).await
    }

    /// Like [`start`](Self::start) for a container that is known to run: begins with WAIT and the
    /// post-start hook, without pre-launch and LAUNCH.
    ///
    /// # Errors
    /// [`DaemonError::Ended`].
    pub async fn attach(&self) -> Result<(), DaemonError> {
        self.send(Event::Attach).await
    }

    /// Stops the container: SIGTERM, SIGKILL after `grace` (at once when it is zero), post-stop.
    /// A later stop can only shorten the grace. Wait for [`Phase::Down`] to see it done.
    ///
    /// # Errors
    /// [`DaemonError::Ended`].
    pub async fn stop(&self, grace: Duration) -> Result<(), DaemonError> {
        self.send(Event::Stop { grace }).await
    }

    /// Stops with `grace` and starts again at once; starts when it is down, and ends a backoff.
    /// `reset` forgets all failures.
    ///
    /// # Errors
    /// [`DaemonError::Ended`].
    pub async fn restart(&self, grace: Duration, reset: bool) -> Result<(), DaemonError> {
        self.send(Event::Restart {
            grace,
            reset,
            failure: None,
        })
        .await
    }

    /// Stops with `grace` because of a failure that the owner saw (it does not answer), and starts
    /// again after the backoff. Does nothing unless the container runs.
    ///
    /// # Errors
    /// [`DaemonError::Ended`].
    pub async fn fail(&self, grace: Duration, failure: Failure) -> Result<(), DaemonError> {
        self.send(Event::Restart {
            grace,
            reset: false,
            failure: Some(failure),
        })
        .await
    }

    /// The status, always the latest.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<DaemonStatus> {
        self.status.clone()
    }

    /// Stops and waits until it is down. It goes on when this future is dropped.
    ///
    /// # Errors
    /// [`DaemonError::Ended`].
    pub async fn stopped(&self, grace: Duration) -> Result<(), DaemonError> {
        self.stop(grace).await?;
        let mut status = self.status();
        let down = status.wait_for(|status| status.phase == Phase::Down).await;
        down.map(|_| ()).map_err(|_| DaemonError::Ended)
    }

    async fn send(&self, event: Event) -> Result<(), DaemonError> {
        let (taken, done) = oneshot::channel();
        let command = Box::new(Command { event, taken });
        self.commands
            .send(command)
            .await
            .map_err(|_| DaemonError::Ended)?;
        done.await.map_err(|_| DaemonError::Ended)
    }
}
