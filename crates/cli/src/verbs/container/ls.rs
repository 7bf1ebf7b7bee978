//! `longshore container ls`.

use anyhow::Result;
use longshore_agent_client::Show;
use serde_json::json;

use super::shown;
use crate::agent::AgentArgs;
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out, Table, Tone};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    agent: AgentArgs,
}

pub(crate) async fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let client = args.agent.client()?;
    let containers = client
        .get_containers(Show::ALL)
        .await
        .map_err(|e| args.agent.failed(e))?;
    let mut rows: Vec<_> = containers
        .iter()
        .map(|container| {
            let status = container.container_status.as_ref();
            (
                shown(&container.container_id),
                status.and_then(|status| status.executor_pid),
            )
        })
        .collect();
    rows.sort();
    if args.json {
        let containers: Vec<_> = rows
            .iter()
            .map(|(id, pid)| json!({"id": id, "pid": pid}))
            .collect();
        out.json(&json!({"version": JSON_VERSION, "containers": containers}))?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["CONTAINER", "PID"]);
    for (id, pid) in rows {
        let pid = pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        table.row([(Tone::Plain, id), (Tone::Plain, pid)]);
    }
    if table.is_empty() {
        out.line("no containers")?;
    } else {
        out.table(&table)?;
    }
    Ok(Exit::Success)
}
