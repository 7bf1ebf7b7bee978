//! `longshore csi ..`.

mod endpoint;
mod hostpath;
mod import_mesos;
mod inspect;
mod logs;
mod ls;
mod probe;
mod run;
mod volume;

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1;
use serde_json::json;

use crate::control::{DaemonArgs, call_within};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out};
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the daemon's plugins.
    Ls(ls::Args),
    /// Show everything about one plugin.
    Inspect(inspect::Args),
    /// Print the output of a plugin's containers.
    Logs(logs::Args),
    /// Print the endpoint of a plugin; exit 3 when it has none.
    Endpoint(endpoint::Args),
    /// Ask a plugin or the driver at any endpoint whether it is ready, and what it can do.
    Probe(probe::Args),
    /// Stop a plugin and start it again.
    Restart {
        /// The plugin.
        name: String,
        /// Also forget its start limit and the CSI version it spoke.
        #[arg(long)]
        reset: bool,
        /// Also while one of its processes holds /dev/fuse, and put a change that waits for a mount in force.
        #[arg(long)]
        force: bool,
        /// For programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: DaemonArgs,
    },
    /// Stop a plugin until it is started again.
    Stop {
        /// The plugin.
        name: String,
        /// Also while one of its processes holds /dev/fuse, and put a change that waits for a mount in force.
        #[arg(long)]
        force: bool,
        /// For programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: DaemonArgs,
    },
    /// Start a stopped plugin, or a failing one at once.
    Start {
        /// The plugin.
        name: String,
        /// For programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        daemon: DaemonArgs,
    },
    /// Run one driver under the same supervision, without a daemon; Ctrl-C ends it.
    Run(run::Args),
    /// Call one volume RPC of a plugin or of the driver at any endpoint.
    Volume(Box<volume::Args>),
    /// The bundled driver: volumes are directories of this machine.
    Hostpath(hostpath::Args),
    /// Print the configuration for the plugins in a Mesos agent's work directory.
    ImportMesos(import_mesos::Args),
}

/// For stopping and starting, grace included.
const DEADLINE: Duration = Duration::from_secs(150);

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    match args.verb {
        Verb::Ls(args) => ls::run(&args, out),
        Verb::Inspect(args) => inspect::run(&args, out),
        Verb::Logs(args) => logs::run(&args, out),
        Verb::Endpoint(args) => endpoint::run(&args, out),
        Verb::Probe(args) => probe::run(&args, out),
        Verb::Restart {
            name,
            reset,
            force,
            json,
            daemon,
        } => block_on(async {
            let mut control = daemon.connect().await?;
            let request = v1::CsiRestartRequest {
                name: name.clone(),
                reset,
                force,
            };
            call_within(DEADLINE, control.csi_restart(request)).await?;
            done("restart", &name, json, out)
        }),
        Verb::Stop {
            name,
            force,
            json,
            daemon,
        } => block_on(async {
            let mut control = daemon.connect().await?;
            let request = v1::CsiStopRequest {
                name: name.clone(),
                force,
            };
            call_within(DEADLINE, control.csi_stop(request)).await?;
            done("stop", &name, json, out)
        }),
        Verb::Start { name, json, daemon } => block_on(async {
            let mut control = daemon.connect().await?;
            let request = v1::CsiStartRequest { name: name.clone() };
            call_within(DEADLINE, control.csi_start(request)).await?;
            done("start", &name, json, out)
        }),
        Verb::Run(args) => run::run(args, out),
        Verb::Volume(args) => volume::run(*args, out),
        Verb::Hostpath(args) => hostpath::run(args),
        Verb::ImportMesos(args) => import_mesos::run(&args, out),
    }
}

/// An action that was carried out says nothing but in JSON.
fn done(action: &str, plugin: &str, json: bool, out: &mut Out) -> Result<Exit> {
    if json {
        out.json(&json!({"version": JSON_VERSION, "action": action, "plugin": plugin}))?;
    }
    Ok(Exit::Success)
}

/// A CSI service as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ServiceArg {
    Controller,
    Node,
}

impl std::fmt::Display for ServiceArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Controller => "controller",
            Self::Node => "node",
        })
    }
}
