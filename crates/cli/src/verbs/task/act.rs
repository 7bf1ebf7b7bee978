//! `longshore task start|stop|kill|rm ID ..`.

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1::{
    KillTaskRequest, RemoveTaskRequest, StartTaskRequest, StopTaskRequest,
};
use serde_json::json;

use super::connect;
use super::wait::ended;
use crate::control::{DaemonArgs, call_within};
use crate::fault::{Exit, Fault, report};
use crate::output::{JSON_VERSION, Out};
use crate::verbs::{block_on, millis, seconds};

/// What every one of them takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// The tasks.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// From the stop signal to KILL, in seconds or as a time such as 500ms; otherwise the task's own.
    #[arg(short, long, value_name = "TIME", value_parser = seconds)]
    time: Option<Duration>,
    #[command(flatten)]
    subject: Subject,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Start {
    #[command(flatten)]
    subject: Subject,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Kill {
    /// The signal, by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "KILL")]
    signal: String,
    #[command(flatten)]
    subject: Subject,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rm {
    /// Kill a task that has not ended.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    subject: Subject,
}

/// How long a forced removal may take: an engine that hangs is waited for.
const REMOVAL: Duration = Duration::from_secs(130);

pub(crate) fn stop(args: &Stop, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.subject.daemon).await?;
        let mut failures = Failures::default();
        // All at once, then wait for each.
        let mut asked = Vec::new();
        for id in &args.subject.ids {
            let request = StopTaskRequest {
                id: id.clone(),
                grace_ms: args.time.map(millis),
            };
            match call_within(REMOVAL, tasks.stop_task(request)).await {
                Ok(stopped) if stopped.idle => done(&args.subject, "stop", id, out)?,
                Ok(_) => asked.push(id),
                Err(error) => failures.tell(error),
            }
        }
        for id in asked {
            match ended(&mut tasks, id).await {
                Ok(_) => done(&args.subject, "stop", id, out)?,
                Err(error) => failures.tell(error),
            }
        }
        Ok(failures.exit())
    })
}

pub(crate) fn start(args: &Start, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.subject.daemon).await?;
        let mut failures = Failures::default();
        for id in &args.subject.ids {
            let request = StartTaskRequest { id: id.clone() };
            match call_within(REMOVAL, tasks.start_task(request)).await {
                Ok(_) => done(&args.subject, "start", id, out)?,
                Err(error) => failures.tell(error),
            }
        }
        Ok(failures.exit())
    })
}

pub(crate) fn kill(args: &Kill, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.subject.daemon).await?;
        let mut failures = Failures::default();
        for id in &args.subject.ids {
            let request = KillTaskRequest {
                id: id.clone(),
                signal: args.signal.clone(),
            };
            match call_within(REMOVAL, tasks.kill_task(request)).await {
                Ok(_) => done(&args.subject, "kill", id, out)?,
                Err(error) => failures.tell(error),
            }
        }
        Ok(failures.exit())
    })
}

pub(crate) fn rm(args: &Rm, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.subject.daemon).await?;
        let mut failures = Failures::default();
        for id in &args.subject.ids {
            let request = RemoveTaskRequest {
                id: id.clone(),
                force: args.force,
            };
            match call_within(REMOVAL, tasks.remove_task(request)).await {
                Ok(_) => done(&args.subject, "rm", id, out)?,
                Err(error) => failures.tell(error),
            }
        }
        Ok(failures.exit())
    })
}

/// What failed among several tasks: each is told at once, and the others go on, as with docker.
#[derive(Debug, Default)]
pub(super) struct Failures(Option<Exit>);

impl Failures {
    /// A task that is not as the verb wants it is no matter of readiness, and a bad signal none of the configuration.
    pub(super) fn tell(&mut self, error: anyhow::Error) {
        let exit = match error.downcast::<Fault>() {
            Ok(fault) => report(&fault.ending(as_docker).into()),
            Err(error) => report(&error),
        };
        self.0.get_or_insert(exit);
    }

    /// That of the first failure.
    pub(super) fn exit(&self) -> Exit {
        self.0.unwrap_or(Exit::Success)
    }
}

fn as_docker(exit: Exit) -> Exit {
    match exit {
        Exit::NotReady => Exit::Failure,
        Exit::Config => Exit::Usage,
        other => other,
    }
}

fn done(subject: &Subject, action: &str, id: &str, out: &mut Out) -> Result<()> {
    if subject.json {
        out.json(&json!({ "version": JSON_VERSION, "action": action, "task": id }))?;
    } else {
        out.line(id)?;
    }
    Ok(out.flush()?)
}
