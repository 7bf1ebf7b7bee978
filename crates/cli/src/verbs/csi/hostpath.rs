//! `longshore csi hostpath`: the bundled driver.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use longshore_csi_hostpath::{HostPathOptions, Mode, serve};
use longshore_csi_probe::Endpoint;

use crate::fault::{Exit, Fault};
use crate::signals::Interrupts;
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen [default: $CSI_ENDPOINT].
    #[arg(long)]
    endpoint: Option<String>,
    /// Where the volumes are kept [default: /var/lib/longshore-hostpath for root, else
    /// longshore-hostpath in the user's state directory].
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// What the driver calls this node [default: $MESOS_AGENT_ID, else the host's name].
    #[arg(long)]
    node_id: Option<String>,
    /// The CSI version to speak.
    #[arg(long, default_value = "v1")]
    csi: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Version {
    V0,
    V1,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let filter = std::env::var("LONGSHORE_LOG").unwrap_or_else(|_| "info".to_owned());
    crate::logging::start(&filter, longshore_supervisor::LogFormat::Auto)?;
    let from_env = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let Some(endpoint) = args.endpoint.or_else(|| from_env("CSI_ENDPOINT")) else {
        return Err(Fault::new(
            Exit::Usage,
            "no endpoint: give --endpoint or set CSI_ENDPOINT",
        )
        .into());
    };
    let node_id = match args.node_id.or_else(|| from_env("MESOS_AGENT_ID")) {
        Some(id) => id,
        None => nix::unistd::gethostname()
            .context("cannot read the host's name; give --node-id")?
            .to_string_lossy()
            .into_owned(),
    };
    let state_dir = match args.state_dir {
        Some(dir) => std::path::absolute(dir).context("--state-dir")?,
        None => default_state_dir()?,
    };
    let endpoint: Endpoint = endpoint.parse().context("the endpoint")?;
    let mut options = HostPathOptions::new(endpoint, state_dir, node_id);
    options.mode = match args.csi {
        Version::V0 => Mode::V0,
        Version::V1 => Mode::V1,
    };
    block_on(async {
        let mut interrupts = Interrupts::new().context("cannot handle signals")?;
        serve(options, async move {
            interrupts.next().await;
        })
        .await?;
        Ok(Exit::Success)
    })
}

/// Never the current directory: that is a container's sandbox, and goes with it.
fn default_state_dir() -> Result<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/longshore-hostpath"));
    }
    let dir = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    let base = dir("XDG_STATE_HOME").or_else(|| dir("HOME").map(|home| home.join(".local/state")));
    match base {
        Some(base) => Ok(base.join("longshore-hostpath")),
        None => Err(Fault::new(Exit::Usage, "no place for the volumes: give --state-dir").into()),
    }
}
