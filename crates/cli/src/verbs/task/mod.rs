//! `longshore task ..`: Docker tasks, with docker's names and syntax.

mod act;
mod flags;
mod follow;
mod inspect;
mod logs;
mod ls;
mod run;
mod view;
mod wait;

use crate::control::Named;
use anyhow::Result;
use clap::Subcommand;
use longshore_control_api::MAX_MESSAGE;
use longshore_control_api::v1::tasks_client::TasksClient;

use crate::control::DaemonArgs;
use crate::fault::Exit;
use crate::output::Out;

/// The task verbs of a daemon.
pub(crate) type Tasks = TasksClient<Named>;

pub(crate) fn client(channel: Named) -> Tasks {
    TasksClient::new(channel).max_decoding_message_size(MAX_MESSAGE)
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: TaskVerb,
}

#[derive(Debug, Subcommand)]
enum TaskVerb {
    /// Run a container as a task, with docker's flags, or from a task in a file. Without a daemon it runs in the
    /// foreground, under the same rules.
    Run(Box<run::Args>),
    /// List the tasks that have not ended.
    Ls(ls::Args),
    /// Show how one task is; with --json also what it asks for, and what the engine says of its container.
    Inspect(inspect::Args),
    /// Print the output of a task.
    Logs(logs::Args),
    /// Wait until a task has ended; prints its exit code.
    Wait(wait::Args),
    /// Ask tasks to end: the stop signal, then KILL after the grace. Waits for their ends.
    Stop(act::Stop),
    /// Kill tasks, or send them another signal.
    Kill(act::Kill),
    /// Start declared tasks that were stopped, are done, or wait for their next try.
    Start(act::Start),
    /// Forget tasks that have ended, with their sandboxes and output.
    Rm(act::Rm),
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    match args.verb {
        TaskVerb::Run(args) => Ok(run::run(*args, out)),
        TaskVerb::Ls(args) => ls::run(&args, out),
        TaskVerb::Inspect(args) => inspect::run(&args, out),
        TaskVerb::Logs(args) => logs::run(&args, out),
        TaskVerb::Wait(args) => wait::run(&args, out),
        TaskVerb::Stop(args) => act::stop(&args, out),
        TaskVerb::Kill(args) => act::kill(&args, out),
        TaskVerb::Start(args) => act::start(&args, out),
        TaskVerb::Rm(args) => act::rm(&args, out),
    }
}

async fn connect(daemon: &DaemonArgs) -> Result<Tasks> {
    Ok(client(daemon.channel().await?))
}
