//! `longshore container launch`.

use std::ffi::OsString;

use anyhow::{Result, anyhow};
use longshore_agent_client::Launched;
use longshore_mesos_api::v1::{self as mesos, agent::call::LaunchContainer};
use serde_json::json;

use super::{done, parse};
use crate::agent::AgentArgs;
use crate::fault::{Exit, Fault};
use crate::output::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The container's id; a nested one as PARENT.CHILD.
    id: String,
    /// The user it runs as.
    #[arg(long)]
    user: Option<String>,
    /// NAME=VALUE for its environment; it gets nothing else.
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// How many CPUs it may use.
    #[arg(long)]
    cpus: Option<f64>,
    /// How much memory it may use, in MiB.
    #[arg(long, value_name = "MIB")]
    mem: Option<f64>,
    /// For programs.
    #[arg(long)]
    json: bool,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    agent: AgentArgs,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let mut arguments = Vec::with_capacity(args.command.len());
    for argument in args.command {
        let text = argument.into_string();
        arguments.push(text.map_err(|bad| anyhow!("the argument {bad:?} is not UTF-8"))?);
    }
    let mut variables = Vec::with_capacity(args.env.len());
    for pair in &args.env {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(
                Fault::new(Exit::Usage, format!("--env {pair:?} is not NAME=VALUE")).into(),
            );
        };
        variables.push(mesos::environment::Variable {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            ..Default::default()
        });
    }
    let scalar = |name: &str, value: f64| mesos::Resource {
        name: name.to_owned(),
        r#type: mesos::value::Type::Scalar.into(),
        scalar: Some(mesos::value::Scalar { value }),
        ..Default::default()
    };
    let resources = args.cpus.map(|cpus| scalar("cpus", cpus));
    let resources = resources
        .into_iter()
        .chain(args.mem.map(|mem| scalar("mem", mem)));
    let launch = LaunchContainer {
        container_id: parse(&args.id)?,
        command: Some(mesos::CommandInfo {
            shell: Some(false),
            value: arguments.first().cloned(),
            arguments,
            user: args.user,
            environment: (!variables.is_empty()).then_some(mesos::Environment { variables }),
            ..Default::default()
        }),
        resources: resources.collect(),
        ..Default::default()
    };
    let client = args.agent.client()?;
    match client
        .launch_container(launch)
        .await
        .map_err(|e| args.agent.failed(e))?
    {
        Launched::New if args.json => done(&args.id, &json!({"action": "launch"}), out),
        Launched::New => {
            out.line(&args.id)?;
            Ok(Exit::Success)
        }
        Launched::AlreadyPresent => Err(Fault::new(
            Exit::Failure,
            format!(
                "a container {} is there already; nothing was started",
                args.id
            ),
        )
        .into()),
    }
}
