//! `longshore container ls|launch|wait|kill|rm|logs`: an agent's API, one call a verb.

mod launch;
mod logs;
mod ls;

use std::str::FromStr as _;

use anyhow::{Context as _, Result};
use longshore_agent_client::{Killed, Waited};
use longshore_mesos_api::v1 as mesos;
use longshore_paths::ContainerId;
use serde_json::json;

use crate::agent::AgentArgs;
use crate::fault::{Exit, Fault};
use crate::output::{JSON_VERSION, Out};
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List the containers.
    Ls(ls::Args),
    /// Start a program as a container, and print its id.
    Launch(launch::Args),
    /// Wait for the end of a container; exits 0 when it ended well, else 1.
    Wait {
        /// The container; a nested one as PARENT.CHILD.
        id: String,
        /// Print how it ended as JSON, and exit 0.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        agent: AgentArgs,
    },
    /// Send a signal to a container; does not wait for its end.
    Kill {
        /// The container; a nested one as PARENT.CHILD.
        id: String,
        /// The signal, by name or number.
        #[arg(short, long, default_value = "SIGKILL", value_parser = signal)]
        signal: i32,
        /// For programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        agent: AgentArgs,
    },
    /// Forget a container that has ended, with its output.
    Rm {
        /// The container; a nested one as PARENT.CHILD.
        id: String,
        /// For programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        agent: AgentArgs,
    },
    /// Print the output of a container.
    Logs(logs::Args),
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    crate::logging::start_if_asked()?;
    block_on(async {
        match args.verb {
            Verb::Ls(args) => ls::run(args, out).await,
            Verb::Launch(args) => launch::run(args, out).await,
            Verb::Wait { id, json, agent } => wait(&id, json, &agent, out).await,
            Verb::Kill {
                id,
                signal,
                json,
                agent,
            } => {
                kill(&id, signal, &agent).await?;
                let told = json!({"action": "kill", "signal": signal});
                if json {
                    return done(&id, &told, out);
                }
                Ok(Exit::Success)
            }
            Verb::Rm { id, json, agent } => {
                let client = agent.client()?;
                client
                    .remove_container(&parse(&id)?)
                    .await
                    .map_err(|e| agent.failed(e))?;
                if json {
                    return done(&id, &json!({"action": "rm"}), out);
                }
                Ok(Exit::Success)
            }
            Verb::Logs(args) => logs::run(args, out).await,
        }
    })
}

/// A container id as the API has it.
fn parse(id: &str) -> Result<mesos::ContainerId> {
    Ok(message(
        &ContainerId::from_str(id).with_context(|| format!("container id {id:?}"))?,
    ))
}

fn message(id: &ContainerId) -> mesos::ContainerId {
    mesos::ContainerId {
        value: id.value().to_owned(),
        parent: id.parent().map(|parent| Box::new(message(parent))),
    }
}

/// `PARENT.CHILD`, as it is given on the command line.
fn shown(id: &mesos::ContainerId) -> String {
    match &id.parent {
        Some(parent) => format!("{}.{}", shown(parent), id.value),
        None => id.value.clone(),
    }
}

fn signal(text: &str) -> Result<i32, String> {
    use nix::sys::signal::Signal;
    if let Ok(number) = text.parse::<i32>() {
        return (1..=64)
            .contains(&number)
            .then_some(number)
            .ok_or_else(|| "not a signal".to_owned());
    }
    let upper = text.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") {
        upper
    } else {
        format!("SIG{upper}")
    };
    Signal::from_str(&name)
        .map(|s| s as i32)
        .map_err(|_| format!("{text:?} is no signal"))
}

async fn wait(id: &str, json: bool, agent: &AgentArgs, out: &mut Out) -> Result<Exit> {
    let client = agent.client()?;
    let waited = client
        .wait_container(&parse(id)?)
        .await
        .map_err(|e| agent.failed(e))?;
    let Waited::Exited(exited) = waited else {
        return Err(Fault::new(Exit::Failure, format!("no container {id} is known")).into());
    };
    let status = exited.exit_status;
    if json {
        out.json(&json!({
            "version": JSON_VERSION,
            "id": id,
            "exit_status": status,
            "exit": status.map(exit_text),
            "reason": exited.reason.map(|_| exited.reason().as_str_name()),
            "message": exited.message,
        }))?;
        return Ok(Exit::Success);
    }
    let text = status.map_or_else(|| "ended, nobody knows how".to_owned(), exit_text);
    let message = exited.message.as_deref().unwrap_or_default();
    let separator = if message.is_empty() { "" } else { ": " };
    out.line(crate::output::printable(&format!(
        "{id}: {text}{separator}{message}"
    )))?;
    Ok(if status == Some(0) {
        Exit::Success
    } else {
        Exit::Failure
    })
}

/// A raw wait(2) status in words.
fn exit_text(status: i32) -> String {
    match status & 0x7f {
        0 => format!("exit {}", (status >> 8) & 0xff),
        number => nix::sys::signal::Signal::try_from(number).map_or_else(
            |_| format!("signal {number}"),
            |signal| signal.as_str().to_owned(),
        ),
    }
}

/// What was done, as a document; without `--json` it is done without a word.
fn done(id: &str, told: &serde_json::Value, out: &mut Out) -> Result<Exit> {
    let mut document = told.clone();
    document["version"] = json!(JSON_VERSION);
    document["id"] = json!(id);
    out.json(&document)?;
    Ok(Exit::Success)
}

async fn kill(id: &str, signal: i32, agent: &AgentArgs) -> Result<()> {
    let client = agent.client()?;
    match client
        .kill_container(&parse(id)?, Some(signal))
        .await
        .map_err(|e| agent.failed(e))?
    {
        Killed::Signalled => Ok(()),
        Killed::Unknown => {
            Err(Fault::new(Exit::Failure, format!("no container {id} is running")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_read_by_name_and_number() {
        for (text, number) in [("TERM", 15), ("sigkill", 9), ("SIGHUP", 1), ("10", 10)] {
            assert_eq!(signal(text), Ok(number), "{text}");
        }
        for text in ["", "0", "65", "SIGNOTHING", "-9"] {
            signal(text).unwrap_err();
        }
    }

    #[test]
    fn an_id_comes_back_as_it_was_given() {
        for id in ["a", "a.b", "a.b.c"] {
            assert_eq!(shown(&parse(id).unwrap()), id);
        }
        for id in ["", "a..b", "a/b", ".."] {
            parse(id).unwrap_err();
        }
    }
}
