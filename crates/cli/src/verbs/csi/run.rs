//! `longshore csi run -- CMD ARGS`: one driver from a source tree under supervision.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use longshore_csi_manager::{PluginConfig, PluginStatus};
use longshore_mesos_api::v1 as mesos;
use longshore_supervisor::Tail;

use super::ServiceArg;
use crate::fault::{Exit, Fault};
use crate::local::{Local, in_temp_root};
use crate::output::{Out, printable};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plugin's name.
    #[arg(long, default_value = "run")]
    name: String,
    /// The services it offers.
    #[arg(long, value_delimiter = ',', default_value = "controller,node")]
    services: Vec<ServiceArg>,
    /// NAME=VALUE for its environment, or the NAME of a variable to pass on; PATH, HOME and LANG
    /// are passed on, CSI_ENDPOINT is set.
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<String>,
    /// The driver and its arguments; `$(CSI_ENDPOINT)` in an argument is replaced.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// How often its output is looked at.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is passed on without being named.
const PASSED_ON: [&str; 3] = ["PATH", "HOME", "LANG"];

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    crate::logging::start_if_asked()?;
    let config = config(&args)?;
    in_temp_root(async |root, mut interrupts| {
        let local = Local::start(&root, vec![config]).await?;
        let followed = tokio::select! {
            followed = follow(&local, &args.name, out) => followed,
            _ = interrupts.next() => Ok(()),
        };
        let ended = local.end().await.context("cleaning up failed");
        followed?;
        ended?;
        Ok(Exit::Success)
    })
}

fn config(args: &Args) -> Result<PluginConfig> {
    use mesos::csi_plugin_container_info::Service;
    let mut arguments = Vec::with_capacity(args.command.len());
    for argument in &args.command {
        let text = argument
            .to_str()
            .ok_or_else(|| anyhow!("{} is not UTF-8", argument.display()))?;
        arguments.push(text.to_owned());
    }
    let program = find_program(arguments.first().map_or("", String::as_str))?;
    let services = args.services.iter().map(|service| match service {
        ServiceArg::Controller => Service::ControllerService.into(),
        ServiceArg::Node => Service::NodeService.into(),
    });
    let variables = environment(&args.env)?;
    let info = mesos::CsiPluginInfo {
        r#type: "io.longshore.run".to_owned(),
        name: Some(args.name.clone()),
        containers: vec![mesos::CsiPluginContainerInfo {
            services: services.collect(),
            command: Some(mesos::CommandInfo {
                shell: Some(false),
                value: Some(program),
                arguments,
                environment: Some(mesos::Environment { variables }),
                ..Default::default()
            }),
            ..Default::default()
        }],
        ..Default::default()
    };
    Ok(PluginConfig::new(&args.name, info))
}

fn environment(given: &[String]) -> Result<Vec<mesos::environment::Variable>> {
    let mut pairs = std::collections::BTreeMap::new();
    for name in PASSED_ON {
        if let Ok(value) = std::env::var(name) {
            pairs.insert(name.to_owned(), value);
        }
    }
    for text in given {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (
                text.as_str(),
                std::env::var(text).with_context(|| format!("--env {text}"))?,
            ),
        };
        if name.is_empty() {
            bail!("--env {text:?} is not NAME or NAME=VALUE");
        }
        pairs.insert(name.to_owned(), value);
    }
    Ok(pairs
        .into_iter()
        .map(|(name, value)| mesos::environment::Variable {
            name,
            value: Some(value),
            ..Default::default()
        })
        .collect())
}

/// The program as an absolute path: the container starts in its sandbox, not here.
fn find_program(name: &str) -> Result<String> {
    let missing = || {
        Fault::new(Exit::Failure, format!("no program {name:?} can be run"))
            .hint("write it with its path, like ./driver")
    };
    let path = if name.contains('/') {
        std::path::absolute(name).context("cannot tell where that is")?
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|dir| dir.join(name))
            .find(|path| is_executable(path))
            .ok_or_else(missing)?
    };
    if !is_executable(&path) {
        return Err(missing().into());
    }
    path.into_os_string()
        .into_string()
        .map_err(|path| anyhow!("{} is not UTF-8", path.display()))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}

/// Shows what the driver writes and what becomes of it, for as long as it is polled.
async fn follow(local: &Local, name: &str, out: &mut Out) -> Result<()> {
    let mut status = local.manager.status();
    let mut seen = String::new();
    let mut tails: Vec<(bool, Tail)> = Vec::new();
    let mut buffer = vec![0; 32 * 1024];
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        let plugin = status.borrow_and_update().plugins.get(name).cloned();
        if let Some(plugin) = plugin {
            let now = describe(&plugin);
            if now != seen {
                // The plugin's words go where its own messages go, not into its output.
                let _closed = writeln!(std::io::stderr(), "longshore: {}", printable(&now));
                seen = now;
            }
            if tails.is_empty() {
                for container in &plugin.containers {
                    let sandbox: PathBuf = local.state.sandbox(&container.id);
                    tails.push((false, Tail::open(sandbox.join("stdout"), u64::MAX)?));
                    tails.push((true, Tail::open(sandbox.join("stderr"), u64::MAX)?));
                }
            }
        }
        for (is_stderr, tail) in &mut tails {
            loop {
                let read = tail.read(&mut buffer)?;
                if read == 0 {
                    break;
                }
                if *is_stderr {
                    std::io::stderr().write_all(&buffer[..read])?;
                } else {
                    out.bytes(&buffer[..read])?;
                    out.flush()?;
                }
            }
        }
        tokio::select! {
            changed = status.changed() => changed.context("the manager ended")?,
            _ = interval.tick() => {}
        }
    }
}

/// One line: the state, with the endpoints or the reason.
fn describe(plugin: &PluginStatus) -> String {
    let ready = plugin.endpoints.iter().filter_map(|(service, endpoint)| {
        let ready = endpoint.ready.as_ref()?;
        Some(format!(
            "{} {} (CSI {})",
            service.short(),
            ready.uri,
            ready.version
        ))
    });
    let endpoints = ready.collect::<Vec<_>>().join(", ");
    let details = if endpoints.is_empty() {
        &plugin.reason
    } else {
        &endpoints
    };
    let separator = if details.is_empty() { "" } else { ": " };
    format!(
        "{} is {}{separator}{details}",
        plugin.name,
        plugin.state.as_str()
    )
}
