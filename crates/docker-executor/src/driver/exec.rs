//! Commands of checks: inside the container, in exec form, and killed in there when their time is over.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use longshore_engine::{Engine, EngineError, EnvVar, ExecSpec};
use longshore_health::{CommandExit, CommandFailure, CommandProbe, CommandRunner, Running};
use tokio::time::Instant;

use crate::Processes;

/// How often it is looked whether a command has ended whose output has.
const LOOK: Duration = Duration::from_millis(50);
/// How long a command is waited for that was killed.
const KILLED: Duration = Duration::from_secs(5);
/// How often, and how many times, it is looked whether one was started late.
const LATE: Duration = Duration::from_secs(5);
const LATE_LOOKS: u32 = 12;

/// Runs commands in one container, through its engine.
#[derive(Debug)]
pub(crate) struct EngineRunner {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) container: String,
}

impl CommandRunner for EngineRunner {
    fn run(&self, command: &CommandProbe, limit: Option<Duration>) -> Running {
        let spec = ExecSpec {
            cmd: command.argv().to_vec(),
            env: command
                .environment
                .iter()
                .map(|(name, value)| EnvVar::new(name, value))
                .collect(),
            user: command.user.clone(),
            ..ExecSpec::default()
        };
        let command = Command {
            engine: Arc::clone(&self.engine),
            processes: Arc::clone(&self.processes),
            container: self.container.clone(),
            exec: None,
        };
        Box::pin(command.run(spec, limit))
    }
}

/// One command. When it is dropped while it runs, it is killed.
struct Command {
    engine: Arc<dyn Engine>,
    processes: Arc<dyn Processes>,
    container: String,
    /// The exec instance, while its command may run.
    exec: Option<String>,
}

impl Command {
    async fn run(
        mut self,
        spec: ExecSpec,
        limit: Option<Duration>,
    ) -> Result<CommandExit, CommandFailure> {
        let engine = Arc::clone(&self.engine);
        let begun = Instant::now();
        let left = || limit.map(|limit| limit.saturating_sub(begun.elapsed()));
        let Some(exec) = within(left(), engine.exec_create(&self.container, &spec)).await else {
            return Err(silent());
        };
        let exec = exec.map_err(|error| failure(&error))?;
        self.exec = Some(exec.clone());
        let ended = within(left(), until_ended(engine.as_ref(), &exec)).await;
        self.exec = None;
        let Some(result) = ended else {
            return match kill(&self.engine, &self.processes, &self.container, &exec).await {
                Seen::Killed => Ok(CommandExit::TimedOut),
                Seen::Ended(code) => Ok(exited(code)),
                // The engine was slow or silent, not the command.
                Seen::NotStarted | Seen::Nothing => {
                    self.kill_late(exec);
                    Err(silent())
                }
            };
        };
        result.map_err(|error| failure(&error))
    }

    /// A start that was not answered may take place still: what runs then is killed.
    fn kill_late(&self, exec: String) {
        let (engine, processes) = (Arc::clone(&self.engine), Arc::clone(&self.processes));
        let container = self.container.clone();
        drop(tokio::spawn(async move {
            for _ in 0..LATE_LOOKS {
                tokio::time::sleep(LATE).await;
                match kill(&engine, &processes, &container, &exec).await {
                    Seen::Killed | Seen::Ended(_) => return,
                    Seen::NotStarted | Seen::Nothing => {}
                }
            }
        }));
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let Some(exec) = self.exec.take() else {
            return;
        };
        let (engine, processes) = (Arc::clone(&self.engine), Arc::clone(&self.processes));
        let container = std::mem::take(&mut self.container);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(async move {
                kill(&engine, &processes, &container, &exec).await;
            }));
        }
    }
}

/// Its end is that of the command, whoever holds its output still.
async fn until_ended(engine: &dyn Engine, exec: &str) -> Result<CommandExit, EngineError> {
    let mut output = engine.exec_start(exec).await?;
    let mut open = true;
    loop {
        if open {
            // Nobody reads it; it must not stand in the command's way.
            match tokio::time::timeout(LOOK, output.next()).await {
                Ok(Some(Ok(_))) => continue,
                Ok(Some(Err(_)) | None) => open = false,
                Err(_) => {}
            }
        } else {
            tokio::time::sleep(LOOK).await;
        }
        let info = engine.exec_inspect(exec).await?;
        if !info.running
            && let Some(code) = info.exit_code
        {
            return Ok(exited(code));
        }
    }
}

fn exited(code: i64) -> CommandExit {
    CommandExit::Exited(i32::try_from(code).unwrap_or(i32::MAX))
}

async fn within<T>(limit: Option<Duration>, what: impl Future<Output = T>) -> Option<T> {
    match limit {
        None => Some(what.await),
        Some(limit) => tokio::time::timeout(limit, what).await.ok(),
    }
}

/// What was found of a command whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// It ran, and was killed.
    Killed,
    /// It had ended by itself, with this code.
    Ended(i64),
    /// The engine has not started it.
    NotStarted,
    /// The engine did not say.
    Nothing,
}

/// Kills a command inside its container, if it runs, and waits until it is gone.
async fn kill(
    engine: &Arc<dyn Engine>,
    processes: &Arc<dyn Processes>,
    container: &str,
    exec: &str,
) -> Seen {
    let mut seen = Seen::Nothing;
    let killing = async {
        loop {
            let Ok(info) = engine.exec_inspect(exec).await else {
                return;
            };
            if !info.running {
                if seen == Seen::Nothing {
                    seen = info.exit_code.map_or(Seen::NotStarted, Seen::Ended);
                }
                return;
            }
            seen = Seen::Killed;
            if let Some(pid) = info.pid.filter(|pid| *pid > 1) {
                let (processes, container) = (Arc::clone(processes), container.to_owned());
                let kill = move || processes.kill_tree(pid, &container);
                let _panicked = tokio::task::spawn_blocking(kill).await.is_err();
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    let in_time = tokio::time::timeout(KILLED, killing).await.is_ok();
    if !in_time {
        tracing::warn!(container, "the command of a check was not killed");
    }
    seen
}

/// The engine has not said in time what became of a command.
fn silent() -> CommandFailure {
    CommandFailure::Unavailable("the engine did not answer in time".to_owned())
}

/// What an engine that does not run it says about the container: nothing, unless it refuses the command itself.
fn failure(error: &EngineError) -> CommandFailure {
    let refused = error
        .status()
        .is_some_and(|status| (400..500).contains(&status) && status != 404 && status != 409);
    if refused {
        CommandFailure::Refused(error.to_string())
    } else {
        CommandFailure::Unavailable(error.to_string())
    }
}
