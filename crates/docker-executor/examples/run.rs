//! Runs the task of a file (a `TaskInfo` in Mesos' JSON) in the foreground, or goes on with what is on record:
//! `run STATE_DIR [TASK.json]`. The engine is that of `DOCKER_HOST`; a second Ctrl-C kills at once.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_docker_executor::{Executor, ExecutorOptions, Kill, Launch, Task};
use longshore_engine::{DockerConfig, DockerEngine, EngineEndpoint};
use longshore_mesos_api::{DecodeLimits, json};
use longshore_task_spec::Sandbox;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let state_dir = arguments.next().ok_or("run STATE_DIR [TASK.json]")?;
    let engine = DockerEngine::new(DockerConfig::new(EngineEndpoint::from_environment()?));
    let executor = Executor::new(
        Arc::new(engine),
        ExecutorOptions::new(&state_dir, "example"),
    )?;
    let mut tasks = executor.recover()?.tasks;
    if let Some(file) = arguments.next() {
        let text = std::fs::read(file)?;
        let sandbox = Path::new(&state_dir).join("sandbox");
        std::fs::create_dir_all(&sandbox)?;
        tasks.push(executor.launch(Launch {
            sandbox: Some(Sandbox {
                host: sandbox.display().to_string(),
                mapped: "/mnt/mesos/sandbox".to_owned(),
            }),
            ..Launch::new(json::from_slice(&text, &DecodeLimits::default())?)
        }));
    }
    for task in tasks {
        follow(&task).await?;
        task.finished().await;
        executor.forget(&task).await?;
    }
    Ok(())
}

async fn follow(task: &Task) -> std::io::Result<()> {
    let mut updates = task.updates();
    let mut grace = None;
    loop {
        tokio::select! {
            status = updates.next() => {
                println!("{} {} {}", task.id(), status.state().as_str_name(), status.message());
                if Some(status) == task.last_status() && task.watch().borrow().over {
                    return Ok(());
                }
            }
            pressed = tokio::signal::ctrl_c() => {
                pressed?;
                task.kill(Kill { grace, ..Kill::asked() });
                grace = Some(Duration::ZERO);
            }
        }
    }
}
