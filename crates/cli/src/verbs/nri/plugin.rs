//! `longshore nri plugin`: the bundled plugin, which does what annotations of a pod say.

use anyhow::Result;
use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox, annotation};
use longshore_nri_stub::{HandlerError, Stub, plugin};

use crate::fault::Exit;
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
    socket: Option<std::path::PathBuf>,
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
    if let Some(socket) = args.socket {
        stub = stub.socket(socket);
    }
    if std::env::var_os(longshore_nri_api::service::ENV_PLUGIN_SOCKET).is_some() {
        // Whoever started it starts it again.
        stub = stub.no_reconnect();
    }
    block_on(Box::pin(async {
        let mut interrupts = Interrupts::new()?;
        tokio::select! {
            ended = stub.run(Annotated) => Ok(ended.map(drop)?),
            _ = interrupts.next() => Ok(()),
        }
    }))?;
    Ok(Exit::Success)
}
