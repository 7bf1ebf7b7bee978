//! From a listening plugin, and from a killed one, to the endpoint that is handed out.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_backoff::RestartPolicy;
use longshore_bench::{Failure, Node, Report, Row, Samples, Unit, monotonic, shim};
use longshore_csi_manager::{
    CsiManager, EndpointState, ManagerOptions, ManagerStatus, PluginConfig, PluginState,
};
use longshore_mesos_api::v1::csi_plugin_container_info::Service as MesosService;
use longshore_mesos_api::v1::environment::Variable;
use longshore_mesos_api::v1::{CommandInfo, CsiPluginContainerInfo, CsiPluginInfo, Environment};
use longshore_paths::{InstanceId, RuntimeDir, Service, StateRoot};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::timeout;

use crate::{bare, plugin};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let rounds = if report.options().long { 3_000 } else { 1_050 };
    let root = tempfile::Builder::new().prefix("lb-").tempdir_in("/tmp")?;
    let node = Node::start(root.path()).await?;
    let stamp = root.path().join("stamp");
    let manager = CsiManager::spawn(
        ManagerOptions::new(
            StateRoot::new(root.path().join("state")),
            RuntimeDir::new(root.path().join("r")),
            InstanceId::new("00000000000000aa")?,
            node.client()?,
        ),
        vec![config("bench", &stamp)?],
    )?;
    let mut endpoint = manager.endpoint("bench", Service::Controller)?;
    timeout(PATIENCE, endpoint.wait_for(is_ready)).await??;

    let bare_dir = root.path().join("b");
    fs::create_dir(&bare_dir)?;
    let (socket, bare_stamp) = (bare_dir.join("csi.sock"), bare_dir.join("stamp"));
    let binary = shim()?;
    let mut listen = Samples::with_capacity(rounds);
    let mut killed = Samples::with_capacity(rounds);
    let mut bare_listen = Samples::with_capacity(rounds);
    let mut start = Samples::with_capacity(rounds);
    let mut spawn = Samples::with_capacity(rounds);
    let mut probe = Samples::with_capacity(rounds);
    let mut status = manager.status();
    for _ in 0..rounds {
        // Its endpoint is handed out a moment earlier; only what has run can fail for the first time.
        let runs = |status: &Arc<ManagerStatus>| {
            let plugin = status.plugins.get("bench");
            plugin.is_some_and(|plugin| plugin.state == PluginState::Ready)
        };
        timeout(PATIENCE, status.wait_for(runs)).await??;
        let (pid, _) = plugin::stamped(&stamp)?;
        let before = endpoint.borrow_and_update().generation;
        let begin = monotonic()?;
        kill(Pid::from_raw(pid), Signal::SIGKILL)?;
        // The channel keeps the latest state alone: that the endpoint was withdrawn may go by unseen.
        let next = |state: &EndpointState| is_ready(state) && state.generation > before;
        timeout(PATIENCE, endpoint.wait_for(next)).await??;
        let ready = monotonic()?;
        let (_, listening) = plugin::stamped(&stamp)?;
        killed.push(ready.saturating_sub(begin));
        listen.push(ready.saturating_sub(listening));

        let bare = bare::start(&socket, &bare_stamp).await?;
        start.push(bare.start_to_listen);
        bare_listen.push(bare.listen_to_ready);
        spawn.push(bare::shim_spawn(&binary)?);
        let ready = endpoint.borrow().ready.clone().ok_or("no endpoint")?;
        let listening = Path::new(ready.uri.trim_start_matches("unix://")).to_owned();
        let begin = monotonic()?;
        bare::probe(&listening).await?;
        probe.push(monotonic()?.saturating_sub(begin));
    }
    let peer = "bare inotify, connect, Probe";
    let row = |name| Row::against(name, Unit::Millis, &listen, peer, &bare_listen);
    report.add(row("plugin listens to endpoint, p50").p50_limit(2.0));
    report.add(row("plugin listens to endpoint, p99").p99_limit(3.0));
    let sum = Unit::Millis.of(start.p50() + probe.p50() + spawn.p50() * 3);
    report.add(
        Row::samples(
            "plugin killed to endpoint of the next",
            Unit::Millis,
            &killed,
        )
        .peer("start to listen + Probe + 3 shim spawns", sum)
        .p50_limit(1.0),
    );
    manager.stop_all().await;
    node.stop().await;
    Ok(())
}

fn is_ready(state: &EndpointState) -> bool {
    state.ready.is_some()
}

/// A plugin of this program, restarted at once however often it dies.
pub(crate) fn config(name: &str, stamp: &Path) -> Result<PluginConfig, Failure> {
    let program = env::current_exe()?;
    let program = program.to_str().ok_or("a program whose path is no text")?;
    let command = CommandInfo {
        shell: Some(false),
        value: Some(program.to_owned()),
        arguments: vec![program.to_owned(), "plugin".to_owned()],
        environment: Some(Environment {
            variables: vec![Variable {
                name: plugin::STAMP.to_owned(),
                value: Some(stamp.display().to_string()),
                ..Variable::default()
            }],
        }),
        ..CommandInfo::default()
    };
    let info = CsiPluginInfo {
        r#type: "org.example.bench".to_owned(),
        name: Some(name.to_owned()),
        containers: vec![CsiPluginContainerInfo {
            services: vec![MesosService::ControllerService.into()],
            command: Some(command),
            ..CsiPluginContainerInfo::default()
        }],
        ..CsiPluginInfo::default()
    };
    let mut config = PluginConfig::new(name, info);
    // Every run counts as a stable one, so that every kill is a first failure.
    config.restart = RestartPolicy {
        stable_after: Duration::ZERO,
        ..config.restart
    };
    config.liveness = None;
    Ok(config)
}
