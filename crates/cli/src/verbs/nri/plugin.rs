//! `longshore nri plugin`: the bundled plugin, which does what annotations of a pod say.

use std::path::{Path, PathBuf};

use anyhow::Result;
use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox, annotation};
use longshore_nri_stub::{
    DEFAULT_SOCKET, ENV_SOCKET, HandlerError, Phase, Stub, StubError, StubStatus, plugin,
};
use tokio::sync::watch;

use super::note;
use crate::fault::{Exit, Fault};
use crate::signals::Interrupts;
use crate::verbs::block_on;

/// Annotations of a pod that set something of its containers.
const ENV: &str = "env.longshore.dev";
const CPU_SHARES: &str = "cpu-shares.longshore.dev";
const OOM_SCORE: &str = "oom-score-adj.longshore.dev";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Annotations of a pod, for all its containers, or with `/container.NAME` behind the key for one:
  env.longshore.dev            variables, NAME=VALUE, separated by spaces
  cpu-shares.longshore.dev     a number of CPU shares
  oom-score-adj.longshore.dev  -1000 to 1000")]
pub(crate) struct Args {
    /// The index: two digits. A runtime that starts the plugin gives it one.
    #[arg(long, value_name = "NN")]
    index: Option<String>,
    /// The name. A runtime that starts the plugin gives it one.
    #[arg(long)]
    name: Option<String>,
    /// The runtime's socket, where the plugin is not started by a runtime.
    #[arg(long, value_name = "SOCKET")]
    socket: Option<PathBuf>,
}

struct Annotated;

#[plugin]
impl Annotated {
    async fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<ContainerAdjustment, HandlerError> {
        let said = |key| annotation::effective(&pod, key, &container.name);
        let mut adjustment = ContainerAdjustment::default();
        for variable in said(ENV).unwrap_or_default().split_whitespace() {
            let (name, value) = variable
                .split_once('=')
                .ok_or_else(|| format!("annotation {ENV}: {variable:?} is not NAME=VALUE"))?;
            adjustment.add_env(name, value);
        }
        if let Some(shares) = said(CPU_SHARES) {
            let shares: u64 = number(CPU_SHARES, shares)?;
            adjustment.resources_mut().set_cpu_shares(shares);
        }
        if let Some(score) = said(OOM_SCORE) {
            adjustment.set_oom_score_adj(number(OOM_SCORE, score)?);
        }
        Ok(adjustment)
    }
}

fn number<T: std::str::FromStr>(key: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("annotation {key}: {text:?} is not a number"))
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let mut stub = Stub::builder();
    if let Some(index) = args.index {
        stub = stub.index(index);
    }
    if let Some(name) = args.name {
        stub = stub.name(name);
    }
    let socket = socket(args.socket);
    match &socket {
        Some(socket) => stub = stub.socket(socket),
        // Whoever started it starts it again.
        None => stub = stub.no_reconnect(),
    }
    let stub = stub.build(Annotated).map_err(|error| match &error {
        StubError::Identity { source } => {
            let message = format!("{source}: set --index NN and --name NAME");
            Fault::new(Exit::Usage, message).into()
        }
        _ => anyhow::Error::from(error),
    })?;
    block_on(Box::pin(async {
        let mut interrupts = Interrupts::new()?;
        tokio::select! {
            ended = stub.run() => Ok(ended.map(drop)?),
            _ = interrupts.next() => Ok(()),
            () = tell(stub.watch(), socket.as_deref()) => Ok(()),
        }
    }))?;
    Ok(Exit::Success)
}

/// Where it connects: the option, `NRI_SOCKET`, or the default; `None` when a runtime started it, and left
/// it a connection.
fn socket(option: Option<PathBuf>) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if variable(longshore_nri_api::service::ENV_PLUGIN_SOCKET).is_some() {
        return None;
    }
    let socket = option.or_else(|| variable(ENV_SOCKET).map(PathBuf::from));
    Some(socket.unwrap_or_else(|| DEFAULT_SOCKET.into()))
}

/// Says what it waits for, and whom it serves. Does not end.
async fn tell(mut changes: watch::Receiver<StubStatus>, socket: Option<&Path>) {
    let Some(socket) = socket else {
        return std::future::pending().await;
    };
    note(format_args!("connects to {}", socket.display()));
    let mut said = String::new();
    loop {
        let now = describe(&changes.borrow_and_update(), socket);
        if let Some(now) = now.filter(|now| *now != said) {
            note(&now);
            said = now;
        }
        if changes.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

fn describe(status: &StubStatus, socket: &Path) -> Option<String> {
    let socket = socket.display();
    match status.phase {
        Phase::Active => Some(format!(
            "serves {} {} at {socket}",
            match status.runtime_name.as_deref() {
                None | Some("") => "a runtime without a name",
                Some(name) => name,
            },
            status.runtime_version.as_deref().unwrap_or_default(),
        )),
        Phase::Waiting(_) => Some(match &status.last_error {
            Some(error) => format!("waits for a runtime at {socket}: {error}"),
            None => format!("waits for a runtime at {socket}"),
        }),
        _ => None,
    }
}
