//! A hundred tasks at once in this process.

use std::time::Duration;

use longshore_bench::{Failure, Report, Row, Unit, proc};
use longshore_docker_executor::Kill;
use longshore_mesos_api::v1::TaskState;
use tokio::time::timeout;

use crate::Bench;

const PATIENCE: Duration = Duration::from_secs(600);
const TASKS: usize = 100;
const LIMIT_KIB: f64 = 40.0 * 1024.0;

pub(crate) async fn measure(report: &mut Report, bench: &Bench) -> Result<(), Failure> {
    let own = std::process::id();
    let threads_before = threads()?;
    let mut tasks = Vec::new();
    for nth in 0..TASKS {
        let launch = bench.launch(&format!("many-{nth}"), "sleep 3600")?;
        let task = bench.executor.launch(launch);
        let mut view = task.watch();
        let runs = view.wait_for(|view| view.over || view.state == Some(TaskState::TaskRunning));
        if timeout(PATIENCE, runs).await??.over {
            let message = task.last_status().unwrap_or_default();
            return Err(format!("task {nth} ended: {}", message.message()).into());
        }
        tasks.push(task);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let resident = proc::resident(own)?;
    let grown = threads()?.saturating_sub(threads_before);
    for task in &tasks {
        task.kill(Kill {
            grace: Some(Duration::ZERO),
            signal: Some("SIGKILL".to_owned()),
            ..Kill::asked()
        });
    }
    for task in &tasks {
        timeout(PATIENCE, task.finished()).await?;
        bench.executor.forget(task).await?;
    }
    report.add(
        Row::value(
            "a hundred tasks in one process, resident",
            Unit::Kibibytes,
            resident,
            TASKS,
        )
        .p50_limit(LIMIT_KIB),
    );
    // The pool for blocking work shrinks by itself; a thread for each task would not.
    report.add(
        Row::value(
            "threads for a hundred tasks",
            Unit::Count,
            f64::from(grown),
            TASKS,
        )
        .p50_limit(20.0),
    );
    Ok(())
}

fn threads() -> Result<u32, Failure> {
    let count = std::fs::read_dir("/proc/self/task")?.count();
    Ok(u32::try_from(count)?)
}
