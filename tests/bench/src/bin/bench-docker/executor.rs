//! The size of one executor of a Mesos agent, and of its watchdog, while its task runs.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use longshore_agent_client::fake::FakeExecutorApi;
use longshore_bench::{Failure, Report, Row, Unit, longshore, proc};
use longshore_mesos_api::v1::executor::{Event, event};
use longshore_mesos_api::v1::{FrameworkInfo, TaskId, TaskState, TaskStatus};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep, timeout};

use crate::Bench;

const PATIENCE: Duration = Duration::from_secs(60);
const LIMIT_KIB: f64 = 10.0 * 1024.0;
const TASK: &str = "executor-size";

pub(crate) async fn measure(report: &mut Report, bench: &Bench) -> Result<(), Failure> {
    let mut agent = FakeExecutorApi::start().await?;
    agent.subscribed_is(event::Subscribed {
        framework_info: FrameworkInfo {
            user: "root".to_owned(),
            name: "bench".to_owned(),
            ..FrameworkInfo::default()
        },
        ..event::Subscribed::default()
    });
    let task = bench.launch(TASK, "sleep 3600")?.task;
    let sandbox = bench.sandbox(TASK);
    let executor = Command::new(longshore()?)
        .arg0("mesos-docker-executor")
        .arg(format!("--docker_socket={}", bench.socket.display()))
        .env_clear()
        .envs(agent.environment(true))
        .env("MESOS_DIRECTORY", &sandbox)
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(sandbox.join("executor.out"))?)
        .stderr(std::fs::File::create(sandbox.join("executor.err"))?)
        .spawn()?;
    let mut executor = Running(executor);
    let pid = executor.0.id();
    let launch = Event {
        r#type: Some(event::Type::Launch.into()),
        launch: Some(event::Launch { task }),
        ..Event::default()
    };
    let launched = async {
        // It subscribes first.
        while !agent.send(&launch) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, launched).await?;
    let runs = told(&mut agent, TaskState::TaskRunning);
    timeout(PATIENCE, runs).await??;
    let resident = settled(pid).await?;
    let row = Row::value(
        "one Mesos executor with a running task, resident",
        Unit::Kibibytes,
        resident,
        1,
    );
    report.add(row.p50_limit(LIMIT_KIB));
    for watchdog in proc::called("watchdog", &pid.to_string())? {
        let row = Row::value(
            "its watchdog, private",
            Unit::Kibibytes,
            proc::private(watchdog)?,
            1,
        );
        report.add(row);
    }
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGTERM)?;
    timeout(PATIENCE, told(&mut agent, TaskState::TaskKilled)).await??;
    let deadline = Instant::now() + PATIENCE;
    while executor.0.try_wait()?.is_none() {
        if Instant::now() > deadline {
            return Err("the executor does not end".into());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// The executor; its watchdog sees to the container of one that is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

/// Acknowledges what is told, up to `state`.
async fn told(agent: &mut FakeExecutorApi, state: TaskState) -> Result<(), Failure> {
    while let Some(received) = agent.next_call().await {
        let Some(update) = received.call.update else {
            continue;
        };
        let status: TaskStatus = update.status;
        let found = status.state();
        agent.send(&Event {
            r#type: Some(event::Type::Acknowledged.into()),
            acknowledged: Some(event::Acknowledged {
                task_id: TaskId {
                    value: TASK.to_owned(),
                },
                uuid: status.uuid().to_vec(),
            }),
            ..Event::default()
        });
        if found == state {
            return Ok(());
        }
        if !matches!(
            found,
            TaskState::TaskStarting | TaskState::TaskRunning | TaskState::TaskKilling
        ) {
            return Err(format!("the task ended: {}", status.message()).into());
        }
    }
    Err("the agent is gone".into())
}

/// What is resident once it has not changed for ten seconds: it has given memory back by then.
async fn settled(pid: u32) -> Result<f64, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = proc::resident(pid)?;
    let mut same = 0;
    while same < 50 && Instant::now() < deadline {
        sleep(Duration::from_millis(200)).await;
        let now = proc::resident(pid)?;
        let changed = (now - last).abs() >= 1.0;
        same = if changed { 0 } else { same + 1 };
        last = now;
    }
    Ok(last)
}
