//! `longshore task logs ID`.

use anyhow::Result;
use longshore_control_api::v1::TaskLogsRequest;

use super::connect;
use super::follow::{Output, Printer};
use crate::control::{DaemonArgs, call, refused};
use crate::fault::Exit;
use crate::output::Out;
use crate::signals::Interrupts;
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    id: String,
    /// Go on until the task has ended, or until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Only so many lines of the end of each stream; or `all`.
    #[arg(short = 'n', long, value_name = "LINES", default_value = "all", value_parser = tail)]
    tail: Tail,
    /// For programs: a document a line of output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// As docker's.
#[derive(Debug, Clone, Copy)]
struct Tail(Option<u64>);

fn tail(text: &str) -> Result<Tail, String> {
    if text == "all" {
        return Ok(Tail(None));
    }
    let lines = text.parse();
    lines
        .map(|lines| Tail(Some(lines)))
        .map_err(|_| "write a number of lines, or `all`".to_owned())
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.daemon).await?;
        let mut interrupts = Interrupts::new()?;
        let request = TaskLogsRequest {
            id: args.id.clone(),
            follow: args.follow,
            tail_lines: args.tail.0,
        };
        let mut chunks = call(tasks.task_logs(request)).await?;
        let mut printer = Printer::new(if args.json {
            Output::Documents
        } else {
            Output::Raw
        });
        loop {
            tokio::select! {
                _ = interrupts.next() => return Ok(Exit::Success),
                chunk = chunks.message() => match chunk.map_err(|status| refused(&status))? {
                    Some(chunk) => printer.print(&chunk, out)?,
                    None => {
                        printer.rest(out)?;
                        return Ok(Exit::Success);
                    }
                },
            }
        }
    })
}
