//! Second half of `cargo xtask bench csi`: the embedded agent against a real Mesos agent, by the
//! same client, pair by pair: `true` as a process container.

use std::process::ExitCode;
use std::time::Duration;

use longshore_agent_client::{AgentClient, AgentClientConfig, Show, Waited};
use longshore_bench::{Failure, Node, Options, Report, Row, Samples, Unit};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::{CommandInfo, ContainerId};
use longshore_testkit::peers::MesosAgent;
use tokio::time::{Instant, sleep, timeout};

const PEER: &str = "Mesos agent";
/// Nothing here takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// Until the other agent has cleaned up after its container.
const SETTLE: Duration = Duration::from_millis(150);

fn main() -> ExitCode {
    let Ok(options) = Options::from_args("bench-agent") else {
        return ExitCode::from(2);
    };
    let mut report = Report::new("csi", options);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(run(&mut report)),
        Err(error) => Err(error.into()),
    };
    match outcome {
        Ok(()) => report.finish(),
        Err(error) => {
            report.note(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(report: &mut Report) -> Result<(), Failure> {
    let rounds = if report.options().long { 300 } else { 60 };
    let root = tempfile::Builder::new().prefix("lb-").tempdir_in("/tmp")?;
    let node = Node::start(root.path()).await?;
    let mesos = MesosAgent::start(root.path()).await;
    let ours = node.client()?;
    let theirs = mesos
        .as_ref()
        .map(|agent| client(&agent.url()))
        .transpose()?;
    if theirs.is_none() {
        report.note("no Mesos agent: its figures are missing, and nothing is judged");
    }
    let mut launches = Pair::default();
    let mut ends = Pair::default();
    let mut kills = Pair::default();
    for round in 0..rounds {
        let id = format!("bench-{round}");
        sleep(SETTLE).await;
        let (launch, end) = launch_true(&ours, &id).await?;
        launches.ours.push(launch);
        ends.ours.push(end);
        kills
            .ours
            .push(kill_sleep(&ours, &format!("{id}-k")).await?);
        for ended in [id.clone(), format!("{id}-k")] {
            ours.remove_container(&container(&ended)).await?;
        }
        let Some(theirs) = &theirs else { continue };
        sleep(SETTLE).await;
        let (launch, end) = launch_true(theirs, &id).await?;
        launches.theirs.push(launch);
        ends.theirs.push(end);
        kills
            .theirs
            .push(kill_sleep(theirs, &format!("{id}-k")).await?);
    }
    report.add(launches.row("agent: launch answered", 0.4));
    report.add(ends.row("agent: launch to WAIT answered", 0.1));
    report.add(kills.row("agent: kill to WAIT answered", 0.15));
    left(&ours).await?;
    node.stop().await;
    Ok(())
}

/// Measurements of ours and of the peer's.
#[derive(Default)]
struct Pair {
    ours: Samples,
    theirs: Samples,
}

impl Pair {
    fn row(&self, name: &str, limit: f64) -> Row {
        if self.theirs.is_empty() {
            return Row::samples(name, Unit::Millis, &self.ours)
                .p50_limit(limit)
                .not_judged();
        }
        Row::against(name, Unit::Millis, &self.ours, PEER, &self.theirs).p50_limit(limit)
    }
}

fn client(url: &str) -> Result<AgentClient, Failure> {
    Ok(AgentClient::new(AgentClientConfig::new(url.parse()?))?)
}

fn container(id: &str) -> ContainerId {
    ContainerId {
        value: id.to_owned(),
        ..ContainerId::default()
    }
}

async fn launch(client: &AgentClient, id: &str, argv: &[&str]) -> Result<(), Failure> {
    client
        .launch_container(LaunchContainer {
            container_id: container(id),
            command: Some(CommandInfo {
                shell: Some(false),
                value: argv.first().map(|program| (*program).to_owned()),
                arguments: argv.iter().map(|word| (*word).to_owned()).collect(),
                ..CommandInfo::default()
            }),
            ..LaunchContainer::default()
        })
        .await?;
    Ok(())
}

/// Launch to its answer, and launch to the answer of WAIT.
async fn launch_true(client: &AgentClient, id: &str) -> Result<(Duration, Duration), Failure> {
    let begin = Instant::now();
    launch(client, id, &["/bin/true"]).await?;
    let launched = begin.elapsed();
    ended(client, id).await?;
    Ok((launched, begin.elapsed()))
}

/// Kill to the answer of a WAIT that was there before.
async fn kill_sleep(client: &AgentClient, id: &str) -> Result<Duration, Failure> {
    launch(client, id, &["/bin/sleep", "600"]).await?;
    let kill = async {
        // Long enough for the WAIT to have arrived; not measured.
        sleep(Duration::from_millis(15)).await;
        let begin = Instant::now();
        client.kill_container(&container(id), Some(9)).await?;
        Ok::<_, Failure>(begin)
    };
    let (waited, begin) = tokio::join!(ended(client, id), kill);
    waited?;
    Ok(begin?.elapsed())
}

/// WAIT's answer; that a Mesos agent has forgotten the container already is one.
async fn ended(client: &AgentClient, id: &str) -> Result<Waited, Failure> {
    Ok(timeout(PATIENCE, client.wait_container(&container(id))).await??)
}

async fn left(client: &AgentClient) -> Result<(), Failure> {
    let containers = client.get_containers(Show::ALL).await?;
    if containers.is_empty() {
        return Ok(());
    }
    Err(format!("{} containers are left", containers.len()).into())
}
