//! Commands of checks: inside the container, in exec form, and killed in there when their time is over.

use std::sync::Arc;
use std::time::Duration;

use longshore_engine::{Engine, EngineError, EnvVar, ExecSpec};
use longshore_health::{CommandExit, CommandFailure, CommandProbe, CommandRunner, Running};

use crate::Processes;

/// How often it is looked whether a command has ended whose output has.
const LOOK: Duration = Duration::from_millis(50);
/// How long a command is waited for that was killed.
const KILLED: Duration = Duration::from_secs(5);

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
        let exec = engine
            .exec_create(&self.container, &spec)
            .await
            .map_err(|error| failure(&error))?;
        self.exec = Some(exec.clone());
        let ended = match limit {
            None => Some(until_ended(engine.as_ref(), &exec).await),
            Some(limit) => tokio::time::timeout(limit, until_ended(engine.as_ref(), &exec))
                .await
                .ok(),
        };
        match ended {
            Some(result) => {
                self.exec = None;
                result.map_err(|error| failure(&error))
            }
            None => {
                self.exec = None;
                kill(&self.engine, &self.processes, &self.container, &exec).await;
                Ok(CommandExit::TimedOut)
            }
        }
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
            return Ok(CommandExit::Exited(i32::try_from(code).unwrap_or(i32::MAX)));
        }
    }
}

/// Kills a command inside its container, and waits until it is gone.
async fn kill(
    engine: &Arc<dyn Engine>,
    processes: &Arc<dyn Processes>,
    container: &str,
    exec: &str,
) {
    let killing = async {
        loop {
            let Ok(info) = engine.exec_inspect(exec).await else {
                return;
            };
            if !info.running {
                return;
            }
            if let Some(pid) = info.pid.filter(|pid| *pid > 1) {
                let (processes, container) = (Arc::clone(processes), container.to_owned());
                let kill = move || processes.kill_tree(pid, &container);
                let _panicked = tokio::task::spawn_blocking(kill).await.is_err();
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(KILLED, killing).await.is_err() {
        tracing::warn!(container, "the command of a check was not killed");
    }
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
