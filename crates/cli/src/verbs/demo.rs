//! `longshore demo`: the main job, on the embedded agent, in a temporary root.
//!
//! ```text
//!   launch -> endpoints -> create, stage, publish -> write -> SIGKILL -> back -> read -> adjust -> task -> clean up
//! ```

mod nri;
mod task;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use longshore_csi_manager::{CsiManager, ManagerStatus, PluginConfig};
use longshore_csi_probe::{ApiVersion, Endpoint, ProbeOptions, probe};
use longshore_mesos_api::v1 as mesos;
use longshore_paths::{PluginName, PluginType, Service, VolumeId};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::Instant;

use crate::fault::Exit;
use crate::local::{Local, in_temp_root};
use crate::output::{Out, Tone};
use crate::volume::{Create, Use, VolumeClient};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// For the whole of it, cleaning up aside.
const DEADLINE: Duration = Duration::from_secs(15);

const PLUGIN_TYPE: &str = "io.longshore.hostpath";

/// One plugin of the demo.
struct Plugin {
    name: &'static str,
    version: ApiVersion,
}

const PLUGINS: [Plugin; 2] = [
    Plugin {
        name: "modern",
        version: ApiVersion::V1,
    },
    Plugin {
        name: "legacy",
        version: ApiVersion::V0,
    },
];

pub(crate) fn run(_args: Args, out: &mut Out) -> Result<Exit> {
    crate::logging::start_if_asked()?;
    let started = Instant::now();
    in_temp_root(async |root, mut interrupts| {
        out.line(format_args!(
            "Two storage plugins under supervision, in {}\n",
            root.display()
        ))?;
        out.flush()?;
        let plugins = PLUGINS
            .iter()
            .map(|p| config(p, &root))
            .collect::<Result<Vec<_>>>()?;
        let local = Local::start(&root, plugins).await?;
        let mut task = task::DemoTask::default();
        let shown = tokio::select! {
            shown = tokio::time::timeout(DEADLINE, show(&local, &mut task, out)) => match shown {
                Ok(shown) => shown,
                Err(_) => Err(overdue(&local.manager)),
            },
            signal = interrupts.next() => Err(anyhow::anyhow!("interrupted by {signal}")),
        };
        // Whatever happened, nothing is left behind.
        let (ended, task) = tokio::join!(local.end(), task.end());
        shown?;
        ended.and(task).context("cleaning up failed")
    })?;
    let seconds = started.elapsed().as_secs_f64();
    out.line(format_args!(
        "\nDone in {seconds:.1} s. Everything is stopped and removed."
    ))?;
    Ok(Exit::Success)
}

/// This binary as a driver, in one of its versions.
fn config(plugin: &Plugin, root: &Path) -> Result<PluginConfig> {
    let itself = std::env::current_exe().context("cannot find this program's own file")?;
    let itself = itself.into_os_string().into_string();
    let itself = itself.map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))?;
    let state = root.join(plugin.name).to_string_lossy().into_owned();
    let version = plugin.version.as_str();
    let arguments = [
        &itself,
        "csi",
        "hostpath",
        "--endpoint",
        "$(CSI_ENDPOINT)",
        "--state-dir",
        &state,
        "--csi",
        version,
    ];
    let info = mesos::CsiPluginInfo {
        r#type: PLUGIN_TYPE.to_owned(),
        name: Some(plugin.name.to_owned()),
        containers: vec![mesos::CsiPluginContainerInfo {
            services: vec![
                mesos::csi_plugin_container_info::Service::ControllerService.into(),
                mesos::csi_plugin_container_info::Service::NodeService.into(),
            ],
            command: Some(mesos::CommandInfo {
                shell: Some(false),
                value: Some(itself.clone()),
                arguments: arguments.map(ToOwned::to_owned).into(),
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut config = PluginConfig::new(plugin.name, info);
    config.startup_timeout = Duration::from_secs(10);
    config.kill_grace = Duration::from_secs(2);
    Ok(config)
}

/// Why it took too long: what the plugins say.
fn overdue(manager: &CsiManager) -> anyhow::Error {
    let status = manager.status().borrow().clone();
    let plugins: Vec<_> = status
        .plugins
        .values()
        .map(|plugin| {
            format!(
                "{} is {}: {}",
                plugin.name,
                plugin.state.as_str(),
                plugin.reason
            )
        })
        .collect();
    anyhow::anyhow!(
        "not done within {} s ({})",
        DEADLINE.as_secs(),
        plugins.join("; ")
    )
}

/// A step's line: what was done, and to what.
fn step(out: &mut Out, what: &str, details: &str) -> Result<()> {
    let what = out.paint(Tone::Bold, &format!("{what:<11}"));
    out.line(format_args!("  {what}{details}"))?;
    Ok(out.flush()?)
}

async fn show(local: &Local, task: &mut task::DemoTask, out: &mut Out) -> Result<()> {
    for plugin in &PLUGINS {
        let name = plugin.name;
        let begun = Instant::now();
        let ready = local
            .manager
            .wait_endpoint(name, Service::Node, begun + DEADLINE)
            .await?;
        let version = ready.version;
        step(
            out,
            "launched",
            &format!("{name}: CSI {version} answers at {}", ready.uri),
        )?;
    }
    for plugin in &PLUGINS {
        out.line("")?;
        Box::pin(show_one(local, plugin, out))
            .await
            .with_context(|| format!("plugin {}", plugin.name))?;
    }
    out.line("")?;
    Box::pin(nri::show(out)).await.context("the NRI plugin")?;
    out.line("")?;
    Box::pin(task.show(out)).await
}

async fn show_one(local: &Local, plugin: &Plugin, out: &mut Out) -> Result<()> {
    let name = plugin.name;
    let volume = client(local, name).await?;
    let created = volume
        .create(Create {
            name: format!("{name}-demo"),
            ..Create::default()
        })
        .await?;
    let usage = paths(local, name, &created.id)?;
    let mut publish = Use {
        volume_id: created.id.clone(),
        context: created.context.clone(),
        staging_path: text(&usage.staging),
        ..Use::default()
    };
    volume.stage(publish.clone()).await?;
    publish.target_path = text(&usage.target);
    volume.publish(publish).await?;
    let how = if usage.target.is_symlink() {
        "by a symbolic link"
    } else {
        "by a bind mount"
    };
    step(
        out,
        "published",
        &format!("{name}: a volume, {how}, at {}", usage.target.display()),
    )?;

    let file = usage.target.join("hello.txt");
    let words = format!("written while {name} ran the first time\n");
    std::fs::write(&file, &words).with_context(|| format!("cannot write {}", file.display()))?;
    step(out, "wrote", &format!("{name}: hello.txt"))?;

    let (pid, took, uri) = kill_and_wait(&local.manager, name).await?;
    step(out, "killed", &format!("{name}: pid {pid}, with SIGKILL"))?;
    step(
        out,
        "back",
        &format!("{name}: after {} ms, at {uri}", took.as_millis()),
    )?;

    let found = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    if found != words {
        bail!("{} holds {found:?} now", file.display());
    }
    step(out, "read back", &format!("{name}: {:?}", found.trim_end()))?;

    let volume = client(local, name).await?;
    volume
        .unpublish(created.id.clone(), text(&usage.target))
        .await?;
    volume
        .unstage(created.id.clone(), text(&usage.staging))
        .await?;
    volume
        .delete(created.id, std::collections::BTreeMap::new())
        .await?;
    step(out, "deleted", &format!("{name}: unpublished and deleted"))
}

/// A client at the plugin's endpoint of now.
async fn client(local: &Local, name: &str) -> Result<VolumeClient> {
    let deadline = Instant::now() + DEADLINE;
    let ready = local
        .manager
        .wait_endpoint(name, Service::Node, deadline)
        .await?;
    let endpoint: Endpoint = ready.uri.parse()?;
    let probed = probe(&endpoint, &ProbeOptions::until(deadline)).await?;
    Ok(VolumeClient::new(
        probed.channel,
        probed.version,
        Instant::now() + DEADLINE,
    ))
}

/// Where a volume is staged and published.
struct Paths {
    staging: PathBuf,
    target: PathBuf,
}

/// The places of Mesos' layout: CSI wants the staging directory made, and the target's parent.
fn paths(local: &Local, name: &str, volume_id: &str) -> Result<Paths> {
    let (plugin_type, name) = (PluginType::new(PLUGIN_TYPE)?, PluginName::new(name)?);
    let id = VolumeId::new(volume_id)?;
    let root = local.state.csi();
    let staging = root.staging(&plugin_type, &name, &id);
    let target = root.target(&plugin_type, &name, &id);
    std::fs::create_dir_all(&staging)
        .with_context(|| format!("cannot create {}", staging.display()))?;
    Ok(Paths { staging, target })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// Kills a plugin's process and waits for its next endpoint.
async fn kill_and_wait(manager: &CsiManager, name: &str) -> Result<(u32, Duration, String)> {
    let mut endpoint = manager.endpoint(name, Service::Node)?;
    let before = endpoint.borrow_and_update().generation;
    let pid = pid_of(manager, name).await?;
    kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL).context("cannot kill it")?;
    let killed = Instant::now();
    loop {
        endpoint.changed().await.context("the plugin is gone")?;
        let state = endpoint.borrow_and_update().clone();
        if let Some(ready) = state.ready.filter(|_| state.generation > before) {
            return Ok((pid, killed.elapsed(), ready.uri));
        }
    }
}

/// The pid of a plugin's container. The agent tells it a moment after the endpoint is handed out.
async fn pid_of(manager: &CsiManager, name: &str) -> Result<u32> {
    let mut status = manager.status();
    let known = |status: &ManagerStatus| {
        let containers = status
            .plugins
            .get(name)
            .map(|plugin| plugin.containers.as_slice());
        containers
            .unwrap_or_default()
            .iter()
            .find_map(|container| container.pid)
    };
    // Bounded by the deadline of the whole demo.
    let status = status.wait_for(|status| known(status).is_some()).await;
    let status = status.context("the manager is gone")?;
    known(&status).context("the agent has not told its pid")
}
