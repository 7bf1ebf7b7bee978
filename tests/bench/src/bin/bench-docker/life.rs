//! How long a task takes from its launch to its end, and what of that is ours.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use longshore_bench::{Failure, Report, Row, Samples, Unit};
use longshore_docker_executor::{Kill, Task};
use longshore_engine::{Engine as _, RemoveOptions, WaitUntil};
use longshore_mesos_api::v1::TaskState;
use longshore_testkit::peers::TEST_IMAGE;
use tokio::time::timeout;

use crate::Bench;

const PATIENCE: Duration = Duration::from_secs(60);
/// What a task may cost beyond the bare calls, whichever is more.
const MARGIN: f64 = 0.05;
const SLACK: Duration = Duration::from_millis(20);
const GRACE: Duration = Duration::from_millis(500);

const REMOVE: RemoveOptions = RemoveOptions {
    force: true,
    volumes: true,
};

/// `true`, from its launch until it is told that it ended and its container is gone.
pub(crate) async fn measure(report: &mut Report, bench: &Bench) -> Result<(), Failure> {
    let pairs = if report.options().long { 200 } else { 60 };
    let [mut ours, mut bare, mut docker] = [(); 3].map(|()| Samples::default());
    let mut terminal = Samples::default();
    for nth in 0..=pairs {
        // The first one is not counted.
        let mut spare = [(); 4].map(|()| Samples::default());
        let [ours, bare, docker, terminal] = if nth == 0 {
            spare.each_mut()
        } else {
            [&mut ours, &mut bare, &mut docker, &mut terminal]
        };
        let launch = bench.launch(&format!("true-{nth}"), "true")?;
        let begin = Instant::now();
        let task = bench.executor.launch(launch);
        let told = told_after_exit(bench, &task).await?;
        timeout(PATIENCE, task.finished()).await?;
        ours.push(begin.elapsed());
        terminal.push(told);
        bench.executor.forget(&task).await?;

        let begin = Instant::now();
        let id = bench.engine.create(&bench.spec("true")).await?.id;
        let wait = bench.engine.wait(&id, WaitUntil::NextExit).await?;
        bench.engine.start(&id).await?;
        timeout(PATIENCE, wait).await??;
        bench.engine.remove(&id, REMOVE).await?;
        bare.push(begin.elapsed());

        if let Some(took) = docker_run(bench).await? {
            docker.push(took);
        }
    }
    let bare_p50 = Unit::Millis.of(bare.p50());
    let limit = (1.0 + MARGIN).max(1.0 + Unit::Millis.of(SLACK) / bare_p50);
    report.add(
        Row::against(
            "launch of `true` to its end",
            Unit::Millis,
            &ours,
            "the bare calls",
            &bare,
        )
        .p50_limit(limit),
    );
    if !docker.is_empty() {
        report.add(Row::against(
            "the same beside docker run",
            Unit::Millis,
            &ours,
            "docker run --rm",
            &docker,
        ));
    }
    report.add(
        Row::samples("exit known to last status told", Unit::Millis, &terminal)
            .p50_limit(Unit::Millis.of(SLACK)),
    );
    Ok(())
}

/// How long after the engine had said so the end of a task was told.
async fn told_after_exit(bench: &Bench, task: &Task) -> Result<Duration, Failure> {
    let status = timeout(PATIENCE, task.ended()).await?;
    let told = Instant::now();
    if status.state() != TaskState::TaskFinished {
        return Err(format!("the task did not finish: {}", status.message()).into());
    }
    let id = task.watch().borrow().container.clone();
    let noted = bench.watch.of(&id.ok_or("no container")?);
    Ok(told.saturating_duration_since(noted.exited.ok_or("no exit was seen")?))
}

/// A task that goes on: how long after the engine has started it RUNNING is told.
pub(crate) async fn running(report: &mut Report, bench: &Bench) -> Result<(), Failure> {
    let rounds = if report.options().long { 60 } else { 20 };
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
    for nth in 0..rounds {
        let id = format!("runs-{nth}");
        let task = bench.executor.launch(bench.launch(&id, "sleep 600")?);
        let mut updates = task.updates();
        let told = loop {
            let status = timeout(PATIENCE, updates.next()).await?;
            match status.state() {
                TaskState::TaskRunning => break Instant::now(),
                TaskState::TaskStarting => {}
                other => return Err(format!("{other:?}: {}", status.message()).into()),
            }
        };
        let container = task
            .watch()
            .borrow()
            .container
            .clone()
            .ok_or("no container")?;
        let noted = bench.watch.of(&container);
        ours.push(told.saturating_duration_since(noted.started.ok_or("no start was seen")?));
        task.kill(Kill {
            grace: Some(Duration::ZERO),
            signal: Some("SIGKILL".to_owned()),
            ..Kill::asked()
        });
        timeout(PATIENCE, task.finished()).await?;
        bench.executor.forget(&task).await?;

        let id = bench.engine.create(&bench.spec("sleep 600")).await?.id;
        bench.engine.start(&id).await?;
        let begin = Instant::now();
        bench.engine.inspect(&id).await?;
        bare.push(begin.elapsed());
        bench.engine.remove(&id, REMOVE).await?;
    }
    report.add(
        Row::against(
            "started to RUNNING told",
            Unit::Micros,
            &ours,
            "a bare inspect",
            &bare,
        )
        .p50_limit(3.0),
    );
    Ok(())
}

async fn docker_run(bench: &Bench) -> Result<Option<Duration>, Failure> {
    let host = format!("unix://{}", bench.socket.display());
    tokio::task::spawn_blocking(move || {
        let mut command = Command::new("docker");
        command
            .args([
                "-H",
                &host,
                "run",
                "--rm",
                "--network",
                "host",
                TEST_IMAGE,
                "true",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let begin = Instant::now();
        match command.status() {
            Ok(status) if status.success() => Ok(Some(begin.elapsed())),
            Ok(status) => Err(format!("docker run ended with {status}").into()),
            // Only its daemon is installed.
            Err(_) => Ok(None),
        }
    })
    .await?
    .map_err(|error: Box<dyn std::error::Error + Send + Sync>| error as Failure)
}

/// A task that ignores TERM: when KILL is sent, and when its end is told.
pub(crate) async fn kills(report: &mut Report, bench: &Bench) -> Result<(), Failure> {
    let rounds = if report.options().long { 60 } else { 20 };
    let (mut late, mut terminal) = (Samples::default(), Samples::default());
    for nth in 0..rounds {
        let command = "trap '' TERM; echo up; while :; do sleep 0.1; done";
        let id = format!("deaf-{nth}");
        let task = bench.executor.launch(bench.launch(&id, command)?);
        let output = bench.sandbox(&id).join("stdout");
        let up = async {
            while std::fs::read(&output).map_or(0, |read| read.len()) == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, up).await?;
        task.kill(Kill {
            grace: Some(GRACE),
            signal: None,
            ..Kill::asked()
        });
        let container = task
            .watch()
            .borrow()
            .container
            .clone()
            .ok_or("no container")?;
        timeout(PATIENCE, task.ended()).await?;
        let ended = Instant::now();
        let noted = bench.watch.of(&container);
        let at = |name: &str| {
            let found = noted
                .signals
                .iter()
                .find(|(signal, _)| signal.ends_with(name));
            found.map(|(_, at)| *at)
        };
        let (Some(term), Some(kill)) = (at("TERM").or(at("15")), at("KILL").or(at("9"))) else {
            return Err(format!("signals were {:?}", noted.signals).into());
        };
        late.push(kill.saturating_duration_since(term).saturating_sub(GRACE));
        terminal.push(ended.saturating_duration_since(noted.exited.ok_or("no exit was seen")?));
        timeout(PATIENCE, task.finished()).await?;
        bench.executor.forget(&task).await?;
    }
    report.add(Row::samples("KILL sent after the grace", Unit::Millis, &late).p50_limit(5.0));
    report.add(
        Row::samples("the end of a killed task told", Unit::Millis, &terminal)
            .p50_limit(Unit::Millis.of(SLACK)),
    );
    Ok(())
}
