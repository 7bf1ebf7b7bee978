//! A manager that starts again while a thousand plugin containers run.
//!
//! The agent is another process, and so is each manager that recovers: what it needs in memory is
//! then the difference of two readings of its own size.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use longshore_agent::give_back_memory;
use longshore_agent_client::{AgentClient, Show};
use longshore_bench::{Failure, Node, Report, Row, Samples, Unit, client, proc, socket};
use longshore_checkpoint::{CodecError, Loaded, Record, read};
use longshore_csi_manager::{CsiManager, ManagerOptions, PluginConfig};
use longshore_csi_probe::LivenessPolicy;
use longshore_paths::{InstanceId, RuntimeDir, Service, StateRoot};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::time::timeout;

use crate::endpoint;

const PLUGINS: u32 = 1_000;
const PATIENCE: Duration = Duration::from_secs(120);
const ROUNDS: usize = 5;

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let root = tempfile::Builder::new().prefix("lb-").tempdir_in("/tmp")?;
    let agent = AgentProcess::start(root.path())?;
    report.note("launching 1,000 plugins");
    recovered(root.path(), "launch")?;
    let mut ours = Samples::with_capacity(ROUNDS);
    let mut bare = Samples::with_capacity(ROUNDS);
    let mut each = Vec::new();
    for _ in 0..ROUNDS {
        let figures = recovered(root.path(), "lazy")?;
        ours.push(figures.time);
        bare.push(figures.bare);
        each.push(figures.kibibytes);
    }
    let live = recovered(root.path(), "live")?;
    recovered(root.path(), "end")?;
    agent.stop()?;
    report.add(
        Row::against(
            "recovery of 1,000 plugin containers",
            Unit::Millis,
            &ours,
            "records read and decoded + GET_CONTAINERS",
            &bare,
        )
        .p50_limit(3.0),
    );
    let most = each.iter().copied().fold(0.0, f64::max);
    let row = Row::value(
        "memory of a recovered container",
        Unit::Kibibytes,
        most,
        each.len(),
    );
    report.add(row.p50_limit(12.0));
    let row = Row::value(
        "the same, with a liveness probe",
        Unit::Kibibytes,
        live.kibibytes,
        1,
    );
    report.add(row.p50_limit(64.0));
    Ok(())
}

/// What one recovering process says of itself.
struct Figures {
    time: Duration,
    bare: Duration,
    /// For each plugin.
    kibibytes: f64,
}

fn recovered(root: &Path, mode: &str) -> Result<Figures, Failure> {
    let output = Command::new(env::current_exe()?)
        .arg("recover")
        .arg(root)
        .arg(mode)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("recover {mode} ended with {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let mut numbers = text.split_whitespace();
    let mut next = || {
        numbers
            .next()
            .ok_or_else(|| format!("recover {mode} printed {text:?}"))
    };
    Ok(Figures {
        time: Duration::from_nanos(next()?.parse()?),
        bare: Duration::from_nanos(next()?.parse()?),
        kibibytes: next()?.parse()?,
    })
}

/// The role `recover ROOT launch|lazy|live|end`.
pub(crate) fn recover(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let root = arguments.next().ok_or("no root")?;
    let mode = arguments.next().ok_or("no mode")?;
    many_files()?;
    crate::runtime()?.block_on(recover_in(Path::new(&root), &mode))
}

async fn recover_in(root: &Path, mode: &str) -> Result<(), Failure> {
    let live = mode == "live";
    let plugins = configs(root, live)?;
    let client = client(&socket(root))?;
    // Connections and caches of the client are not what a container costs.
    client.get_version().await?;
    let instance = InstanceId::new("00000000000000aa")?;
    let state = StateRoot::new(root.join("state"));
    let mut options = ManagerOptions::new(
        state,
        RuntimeDir::new(root.join("r")),
        instance,
        client.clone(),
    );
    options.eager = mode != "lazy";
    // As a daemon does when nothing has changed for a while: what counts is what stays.
    give_back_memory();
    let before = proc::resident(std::process::id())?;
    let begin = Instant::now();
    let manager = CsiManager::spawn(options, plugins)?;
    let mut status = manager.status();
    timeout(PATIENCE, status.wait_for(|status| status.recovered)).await??;
    let time = begin.elapsed();
    if mode != "lazy" {
        for plugin in 0..PLUGINS {
            let deadline = tokio::time::Instant::now() + PATIENCE;
            manager
                .wait_endpoint(&name(plugin), Service::Controller, deadline)
                .await?;
        }
    }
    if live {
        // Until each has been probed again.
        tokio::time::sleep(LIVENESS * 2).await;
    }
    give_back_memory();
    let kibibytes = (proc::resident(std::process::id())? - before) / f64::from(PLUGINS);
    if mode == "end" {
        manager.stop_all().await;
    } else {
        manager.shutdown().await;
    }
    let bare = if mode == "lazy" {
        bare(root, &client).await?
    } else {
        Duration::ZERO
    };
    let (time, bare) = (time.as_nanos(), bare.as_nanos());
    writeln!(std::io::stdout(), "{time} {bare} {kibibytes}")?;
    Ok(())
}

const LIVENESS: Duration = Duration::from_secs(2);

fn name(plugin: u32) -> String {
    format!("p{plugin}")
}

fn configs(root: &Path, live: bool) -> Result<Vec<PluginConfig>, Failure> {
    (0..PLUGINS)
        .map(|plugin| {
            let mut config = endpoint::config(&name(plugin), &root.join("stamp"))?;
            if live {
                config.liveness = Some(LivenessPolicy {
                    interval: LIVENESS,
                    ..LivenessPolicy::default()
                });
            }
            Ok(config)
        })
        .collect()
}

/// The peer: the same records, read and decoded one after the other, and one GET_CONTAINERS.
async fn bare(root: &Path, client: &AgentClient) -> Result<Duration, Failure> {
    let mut files = Vec::new();
    walk(&root.join("state/csi"), &mut files)?;
    let begin = Instant::now();
    let mut found = 0;
    for file in &files {
        if matches!(read::<AnyContainer>(file)?, Loaded::Record(_)) {
            found += 1;
        }
    }
    let containers = client.get_containers(Show::ALL).await?;
    let time = begin.elapsed();
    let expected = usize::try_from(PLUGINS)?;
    if found < expected || containers.len() < expected {
        return Err(format!("{found} records, {} containers", containers.len()).into());
    }
    Ok(time)
}

/// A record of the manager's; its body as it is, which is cheaper than ours.
struct AnyContainer;

impl Record for AnyContainer {
    const KIND: &'static str = "csi-container";
    const VERSION: u16 = 1;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(Vec::new())
    }

    fn decode(_version: u16, _body: &[u8]) -> Result<Self, CodecError> {
        Ok(Self)
    }
}

fn walk(directory: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<(), Failure> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else if entry.file_name() == "container.info" {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// The agent, in a process of its own.
struct AgentProcess {
    child: Child,
    stdin: ChildStdin,
}

impl AgentProcess {
    fn start(root: &Path) -> Result<Self, Failure> {
        let mut child = Command::new(env::current_exe()?)
            .arg("agent")
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().ok_or("no pipe")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
        if line.trim() != "ready" {
            return Err("the agent does not start".into());
        }
        Ok(Self { child, stdin })
    }

    fn stop(self) -> Result<(), Failure> {
        let Self { mut child, stdin } = self;
        drop(stdin);
        child.wait()?;
        Ok(())
    }
}

/// The role `agent ROOT`: serves until its standard input is closed.
pub(crate) fn agent(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let root = arguments.next().ok_or("no root")?;
    many_files()?;
    crate::runtime()?.block_on(async {
        let node = Node::start(Path::new(&root)).await?;
        writeln!(std::io::stdout(), "ready")?;
        tokio::task::spawn_blocking(|| std::io::stdin().lock().read_until(b'\n', &mut Vec::new()))
            .await??;
        node.stop().await;
        Ok(())
    })
}

/// A thousand long polls, and as many pidfds.
fn many_files() -> Result<(), Failure> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(())
}
