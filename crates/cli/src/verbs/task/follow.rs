//! Staying with a task: its output, the progress of its pull, and interrupts, which are for the task.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Result;
use longshore_control_api::v1::{
    KillTaskRequest, StopTaskRequest, Task, TaskLogsRequest, TaskLogsResponse, TaskPhase,
    WatchTaskRequest,
};

use super::{Tasks, view};
use crate::control::{call, refused};
use crate::fault::{Exit, Fault};
use crate::lines::Lines;
use crate::output::{Out, printable};
use crate::signals::Interrupts;

/// How output is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// As it is, each stream to its own.
    Raw,
    /// A document for each line.
    Documents,
}

/// Shows all of a task's output until it has ended. An interrupt stops the task, a second one kills it.
///
/// # Errors
/// The daemon is gone; the task goes on then.
pub(super) async fn attached(
    tasks: &mut Tasks,
    id: &str,
    output: Output,
    quiet: bool,
    interrupts: &mut Interrupts,
    out: &mut Out,
) -> Result<Task> {
    let mut changes = call(tasks.watch_task(WatchTaskRequest { id: id.to_owned() })).await?;
    let request = TaskLogsRequest {
        id: id.to_owned(),
        follow: true,
        tail_bytes: 0,
    };
    let mut chunks = call(tasks.task_logs(request)).await?;
    let mut printer = Printer::new(output);
    let mut progress = Progress::new(quiet);
    let mut all_output = false;
    let mut ended = None;
    let mut asked = 0_u32;
    loop {
        if all_output && let Some(task) = ended.take() {
            progress.clear();
            view::tell_end(&task);
            return Ok(task);
        }
        tokio::select! {
            change = changes.message(), if ended.is_none() => {
                match change.map_err(|status| refused(&status))? {
                    Some(task) => {
                        progress.show(&task);
                        if task.phase() == TaskPhase::Ended {
                            ended = Some(task);
                        }
                    }
                    None => return Err(goes_on(id)),
                }
            }
            chunk = chunks.message(), if !all_output => {
                match chunk.map_err(|status| refused(&status))? {
                    Some(chunk) => {
                        progress.clear();
                        printer.print(&chunk, out)?;
                    }
                    None => {
                        printer.rest(out)?;
                        all_output = true;
                    }
                }
            }
            _ = interrupts.next() => {
                asked += 1;
                progress.clear();
                let id = id.to_owned();
                if asked == 1 {
                    Progress::note("stopping the task; interrupt again to kill it");
                    call(tasks.stop_task(StopTaskRequest { id, grace_ms: None })).await?;
                } else {
                    call(tasks.kill_task(KillTaskRequest { id, signal: String::new() })).await?;
                }
            }
        }
    }
}

fn goes_on(id: &str) -> anyhow::Error {
    Fault::new(Exit::Failure, "the daemon has ended")
        .hint(format!(
            "task {id} goes on; once a daemon runs again, `longshore task logs -f {id}` shows it"
        ))
        .into()
}

/// Puts out chunks of output.
#[derive(Debug)]
pub(super) struct Printer {
    output: Output,
    lines: Lines<String>,
}

impl Printer {
    pub(super) fn new(output: Output) -> Self {
        Self {
            output,
            lines: Lines::default(),
        }
    }

    pub(super) fn print(&mut self, chunk: &TaskLogsResponse, out: &mut Out) -> Result<()> {
        match self.output {
            Output::Raw if chunk.stream == "stderr" => {
                std::io::stderr().write_all(&chunk.data)?;
            }
            Output::Raw => {
                out.bytes(&chunk.data)?;
                out.flush()?;
            }
            Output::Documents => {
                for (stream, line) in self.lines.take(chunk.stream.clone(), &chunk.data) {
                    out.json(&view::line(&stream, &line))?;
                }
                out.flush()?;
            }
        }
        Ok(())
    }

    /// What has no end of a line.
    pub(super) fn rest(&mut self, out: &mut Out) -> Result<()> {
        for (stream, line) in self.lines.rest() {
            out.json(&view::line(&stream, &line))?;
        }
        Ok(out.flush()?)
    }
}

/// The progress of a pull, on stderr: one line that is written again on a terminal, one line for the pull
/// elsewhere.
#[derive(Debug)]
pub(super) struct Progress {
    quiet: bool,
    terminal: bool,
    shown: bool,
    last: String,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            shown: false,
            last: String::new(),
        }
    }

    /// A remark beside the output.
    pub(super) fn note(text: &str) {
        // Nobody is left to tell when stderr is closed.
        let _closed = writeln!(std::io::stderr(), "{}", printable(text));
    }

    pub(super) fn show(&mut self, task: &Task) {
        let Some(pull) = &task.pull else {
            self.clear();
            return;
        };
        if self.quiet {
            return;
        }
        if !self.terminal {
            if !std::mem::replace(&mut self.shown, true) {
                Self::note(&format!("pulling {}", task.image));
            }
            return;
        }
        let hundredfold = pull.current_bytes.saturating_mul(100);
        let progress = match hundredfold.checked_div(pull.total_bytes) {
            Some(percent) => format!(" {percent}% of {} MiB", pull.total_bytes >> 20),
            None => String::new(),
        };
        let line = format!("pulling {}: {}{progress}", task.image, pull.status);
        if line != self.last {
            let _closed = write!(std::io::stderr(), "\r\x1b[K{}", printable(&line));
            self.last = line;
            self.shown = true;
        }
    }

    /// Takes the line away, before anything else is written.
    pub(super) fn clear(&mut self) {
        if self.terminal && std::mem::take(&mut self.shown) {
            let _closed = write!(std::io::stderr(), "\r\x1b[K");
            self.last.clear();
        }
    }
}
