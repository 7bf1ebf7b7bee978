//! The health check and the check of a task, for as long as it runs.

use std::sync::Arc;
use std::time::Duration;

use longshore_health::{
    CheckWatch, HealthError, HealthPolicy, HealthWatch, NetNamespace, Probe, Prober, Timing,
};
use tokio::sync::{mpsc, watch};

use super::Driver;
use super::exec::EngineRunner;
use crate::Event;

/// How soon it is tried again to get into the container's network.
const AGAIN: Duration = Duration::from_secs(10);

/// What the checks are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Run,
    Pause,
}

impl Driver {
    pub(super) fn start_checks(&mut self) {
        let (sender, commands) = watch::channel(Command::Run);
        self.checks = Some(sender);
        let container = self
            .state
            .container()
            .unwrap_or(&self.record.name)
            .to_owned();
        let runner = EngineRunner {
            engine: Arc::clone(&self.core.engine),
            processes: Arc::clone(&self.core.processes),
            container,
        };
        let checks = Checks {
            health: self.prepared.health.clone(),
            check: self.prepared.check.clone(),
            namespace: self.state.network(),
            runner: Arc::new(runner),
            commands,
        };
        let answers = self.answers();
        self.calls.spawn(checks.run(answers));
    }

    pub(super) fn command_checks(&self, command: Command) {
        if let Some(checks) = &self.checks {
            checks.send_replace(command);
        }
    }
}

struct Checks {
    health: Option<(Probe, HealthPolicy)>,
    check: Option<(Probe, Timing)>,
    /// Paths that name the container's network namespace, the best first.
    namespace: Vec<String>,
    runner: Arc<EngineRunner>,
    commands: watch::Receiver<Command>,
}

impl Checks {
    async fn run(mut self, answers: mpsc::Sender<Event>) {
        let Some(prober) = self.prober().await else {
            return;
        };
        let watches = self.watches(&prober);
        let (mut health, mut check) = match watches {
            Ok(watches) => watches,
            Err(error) => {
                tracing::warn!(%error, "the checks of a task cannot be made");
                return;
            }
        };
        loop {
            tokio::select! {
                changed = self.commands.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let command = *self.commands.borrow_and_update();
                    each(health.as_mut(), check.as_mut(), command);
                }
                report = next(health.as_mut()) => {
                    if answers.send(Event::Health(report)).await.is_err() {
                        return;
                    }
                }
                status = next(check.as_mut()) => {
                    if answers.send(Event::Check(status)).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn watches(
        &self,
        prober: &Prober,
    ) -> Result<(Option<HealthWatch>, Option<CheckWatch>), HealthError> {
        let health = self
            .health
            .clone()
            .map(|(probe, policy)| HealthWatch::health(probe, &policy, prober.clone()));
        let check = self
            .check
            .clone()
            .map(|(probe, timing)| CheckWatch::check(probe, &timing, prober.clone()));
        Ok((health.transpose()?, check.transpose()?))
    }

    /// HTTP and TCP need the container's network. Without a way in nothing is said of its health: that is our lack.
    async fn prober(&mut self) -> Option<Prober> {
        let probes = [
            self.health.as_ref().map(|(probe, _)| probe),
            self.check.as_ref().map(|(probe, _)| probe),
        ];
        let commands_alone = probes
            .into_iter()
            .flatten()
            .all(|probe| matches!(probe, Probe::Command(_)));
        if commands_alone {
            let own = Prober::new(NetNamespace::own());
            return Some(own.with_runner(Arc::clone(&self.runner) as _));
        }
        loop {
            let mut last = None;
            for path in &self.namespace {
                match NetNamespace::at(path.as_ref()).await {
                    Ok(namespace) => {
                        let prober = Prober::new(namespace);
                        return Some(prober.with_runner(Arc::clone(&self.runner) as _));
                    }
                    Err(error) => last = Some(error),
                }
            }
            let problem = last.map_or_else(
                || "the engine names none".to_owned(),
                |error| crate::publisher::chain(&error),
            );
            let container = &self.runner.container;
            tracing::warn!(
                container,
                problem,
                "the network of a task that is to be checked"
            );
            tokio::select! {
                () = tokio::time::sleep(AGAIN) => {}
                // The sender is gone with the end of the task.
                () = closed(&mut self.commands) => return None,
            }
        }
    }
}

async fn closed(commands: &mut watch::Receiver<Command>) {
    while commands.changed().await.is_ok() {}
}

async fn next<M: longshore_health::Machine>(
    watch: Option<&mut longshore_health::Watch<M>>,
) -> M::Report {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

fn each(health: Option<&mut HealthWatch>, check: Option<&mut CheckWatch>, command: Command) {
    if let Some(health) = health {
        match command {
            Command::Run => health.resume(),
            Command::Pause => health.pause(),
        }
    }
    if let Some(check) = check {
        match command {
            Command::Run => check.resume(),
            Command::Pause => check.pause(),
        }
    }
}
