//! Staying with a task: its output, the progress of its pull, and interrupts, which are for the task.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::Result;
use longshore_control_api::v1::{
    KillTaskRequest, StopTaskRequest, Task, TaskLogsRequest, TaskLogsResponse, TaskPhase,
    WatchTaskRequest,
};

use super::{Tasks, view};
use crate::control::{call, refused};
use crate::fault::{Exit, Fault, chain};
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
        tail_lines: None,
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
                match chunk {
                    Ok(Some(chunk)) => {
                        progress.clear();
                        printer.print(&chunk, out)?;
                    }
                    Ok(None) => {
                        printer.rest(out)?;
                        all_output = true;
                    }
                    // The task goes on, and is waited for; without a daemon its changes end, too.
                    Err(status) => {
                        progress.clear();
                        printer.rest(out)?;
                        let why = chain(&refused(&status));
                        Progress::note(&format!("the output cannot be read any more: {why}"));
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

/// How soon after another one a line is written that tells what a launch waits for.
const PAUSE: Duration = Duration::from_secs(10);

/// The progress of a launch, on stderr: what it waits for, a line each; of a pull one line that is written again on a
/// terminal, and one line elsewhere.
#[derive(Debug)]
pub(super) struct Progress {
    quiet: bool,
    terminal: bool,
    shown: bool,
    /// Whether the pull was told.
    pulling: bool,
    last: String,
    waiting: Option<(String, Instant)>,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            terminal: std::io::stderr().is_terminal(),
            shown: false,
            pulling: false,
            last: String::new(),
            waiting: None,
        }
    }

    /// A remark beside the output.
    pub(super) fn note(text: &str) {
        // Nobody is left to tell when stderr is closed.
        let _closed = writeln!(std::io::stderr(), "{}", printable(text));
    }

    pub(super) fn show(&mut self, task: &Task) {
        self.tell_waiting(&task.waiting);
        let Some(pull) = &task.pull else {
            self.clear();
            return;
        };
        if self.quiet {
            return;
        }
        if !self.terminal {
            if !std::mem::replace(&mut self.pulling, true) {
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

    /// Some reasons have other numbers in them each time.
    fn tell_waiting(&mut self, reason: &str) {
        let told = |(last, at): &(String, Instant)| last == reason || at.elapsed() < PAUSE;
        if reason.is_empty() || self.waiting.as_ref().is_some_and(told) {
            return;
        }
        self.clear();
        Self::note(&format!("{reason}; waiting"));
        self.waiting = Some((reason.to_owned(), Instant::now()));
    }

    /// Takes the line away, before anything else is written.
    pub(super) fn clear(&mut self) {
        if self.terminal && std::mem::take(&mut self.shown) {
            let _closed = write!(std::io::stderr(), "\r\x1b[K");
            self.last.clear();
        }
    }
}
