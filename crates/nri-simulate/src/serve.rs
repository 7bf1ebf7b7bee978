//! A runtime that only pretends, alone on a socket: plugins come and go as they like, and a script says
//! what happens.
//!
//! ```text
//!  start: socket, plugins of a directory ──▶ perform, perform, .. ──▶ close: plugins end, socket gone
//! ```

use std::sync::Arc;
use std::time::Duration;

use longshore_nri_adaptation::launch::Program;
use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_adaptation::{Adaptation, Builder, Metrics, NoMetrics};
use tokio::sync::watch;

use crate::case::Move;
use crate::run::Stage;
use crate::{Action, Case, Outcome, Play, PluginReport, Plugins, SimulateError, Step, StepReport};

/// Where a runtime meets its plugins.
#[derive(Clone)]
#[non_exhaustive]
pub struct Site {
    /// Where external plugins connect.
    pub socket: SocketOptions,
    /// Plugins that it launches, and launches again when they end.
    pub programs: Vec<Program>,
    /// Who is told of every request.
    pub metrics: Arc<dyn Metrics>,
}

impl Site {
    /// A socket, and nothing that is launched.
    #[must_use]
    pub fn new(socket: SocketOptions) -> Self {
        Self {
            socket,
            programs: Vec::new(),
            metrics: Arc::new(NoMetrics),
        }
    }

    pub(crate) fn apply(&self, builder: Builder) -> Builder {
        let builder = self
            .programs
            .iter()
            .cloned()
            .fold(builder, Builder::program);
        builder
            .socket(self.socket.clone())
            .metrics(Arc::clone(&self.metrics))
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("socket", &self.socket)
            .field("programs", &self.programs)
            .finish_non_exhaustive()
    }
}

/// A runtime on a socket. Dropping it closes the socket and kills the plugins that were launched;
/// [`Self::close`] does it gracefully.
pub struct Serving {
    stage: Stage,
    runtime: String,
}

impl Serving {
    /// Starts the runtime of `case`, with its pods and containers; its steps are not performed. Returns
    /// when the socket is there and each launched plugin is active or has failed. A step that waits for
    /// plugins gives up after `wait` unless it says otherwise.
    ///
    /// # Errors
    /// [`SimulateError`]: the case makes no sense, or the runtime does not start.
    pub async fn start(case: Case, site: Site, wait: Duration) -> Result<Self, SimulateError> {
        for (index, step) in case.steps.iter().enumerate() {
            Self::check(step, index + 1)?;
        }
        let mut play = Play::new(case, Plugins::Site(Box::new(site)))?;
        play.wait = wait;
        let runtime = play.profile.to_string();
        let mut stage = Stage::new(play)?;
        stage.open().await?;
        Ok(Self { stage, runtime })
    }

    /// The name and version that plugins are told.
    #[must_use]
    pub fn runtime(&self) -> &str {
        &self.runtime
    }

    /// The adaptation, and the next one after a restart of the runtime; `None` in between.
    #[must_use]
    pub fn adaptation(&self) -> watch::Receiver<Option<Adaptation>> {
        self.stage.watch()
    }

    /// Whether a step can be performed: plugins are not killed or started by a runtime like this.
    ///
    /// # Errors
    /// [`SimulateError::Step`].
    pub fn check(step: &Step, number: usize) -> Result<(), SimulateError> {
        match step.what(number)? {
            Move::Action(Action::KillPlugins | Action::StartPlugins) => Err(SimulateError::Step {
                step: number,
                why: "here plugins come and go by themselves: use wait-for-plugin, wait-until-gone or \
                      remove-plugin"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Performs one step; `time` counts from 1 where it is performed several times. A step that makes no
    /// sense, or names what is not there, is a failure in the report; the runtime goes on.
    pub async fn perform(&mut self, number: usize, step: &Step, time: usize) -> StepReport {
        if let Err(error) = Self::check(step, number) {
            return Self::refused(number, &error);
        }
        match Box::pin(self.stage.step(number, step, time)).await {
            Ok(report) => report,
            Err(error) => Self::refused(number, &error),
        }
    }

    /// The report of a step that cannot be performed, or read.
    #[must_use]
    pub fn refused(number: usize, error: &SimulateError) -> StepReport {
        let error = error.to_string();
        StepReport {
            step: number,
            name: "refused".to_owned(),
            took: Duration::ZERO,
            outcome: Outcome::Failed {
                error: error.clone(),
            },
            problems: vec![error],
            skipped: None,
            losses: Vec::new(),
            notes: Vec::new(),
            unsolicited: Vec::new(),
        }
    }

    /// The plugins that are active now.
    #[must_use]
    pub fn plugins(&self) -> Vec<PluginReport> {
        self.stage.plugins()
    }

    /// Ends it: plugins are told, those that were launched end, the socket and its lock are removed.
    pub async fn close(mut self) {
        self.stage.close().await;
    }
}

impl std::fmt::Debug for Serving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving")
            .field("runtime", &self.runtime)
            .finish_non_exhaustive()
    }
}
