//! `longshore task run`: launches a task and stays with it, or not.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use longshore_control_api::MAX_TASK_INFO;
use longshore_control_api::v1::{
    RemoveTaskRequest, RunTaskRequest, TaskLogMode, TaskPhase, WatchTaskRequest,
};
use longshore_task_spec::run::{self as spec, Built};
use longshore_task_spec::schedule;
use prost::Message as _;
use serde_json::json;

use super::flags::DockerFlags;
use super::follow::{self, Progress};
use super::{Tasks, client, view};
use crate::control::{DaemonArgs, call, is_ended, is_no_daemon, refused};
use crate::fault::{Exit, Fault, report};
use crate::local_tasks::LocalTasks;
use crate::output::{JSON_VERSION, Out};
use crate::signals::Interrupts;
use crate::verbs::block_on;

// `-h` is docker's for the host name.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    override_usage = "longshore task run [FLAGS] IMAGE [COMMAND ..]\n       longshore task run [FLAGS] --file TASK.json"
)]
pub(crate) struct Args {
    /// Print help.
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Do not stay with the task: print its id once it runs. Needs a daemon.
    #[arg(short, long)]
    detach: bool,
    /// Start it again when it has ended: no, on-failure or always; also after a restart of the machine, until it is stopped or
    /// removed by its name. Needs a daemon, and --detach.
    #[arg(long, value_name = "RULE")]
    restart: Option<String>,
    /// Forget the task and its output once it has ended; without a daemon it always is.
    #[arg(long, conflicts_with = "detach")]
    rm: bool,
    /// A task in a file, a `TaskInfo` in Mesos' JSON form; `-` for standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "words")]
    file: Option<PathBuf>,
    /// Say nothing of a pull.
    #[arg(short, long)]
    quiet: bool,
    /// Where output goes; by default as the configuration says.
    #[arg(long, value_enum, value_name = "WHERE")]
    logs: Option<Logs>,
    /// For programs: a document for each line of output, then one for the task.
    #[arg(long)]
    json: bool,
    /// The daemon's configuration file, for its `runtime_dir`.
    #[arg(long, value_name = "FILE", help_heading = "Which daemon")]
    config: Option<PathBuf>,
    /// The daemon's runtime directory.
    #[arg(long, value_name = "DIR", help_heading = "Which daemon")]
    runtime_dir: Option<PathBuf>,
    #[command(flatten)]
    flags: DockerFlags,
    /// The image, and what to run in it in place of its own command.
    #[arg(value_name = "IMAGE [COMMAND]", trailing_var_arg = true)]
    words: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Logs {
    /// Into files of the task's sandbox.
    Files,
    /// It stays with the engine, and with it the ended container until the task is removed.
    Engine,
    /// Nowhere.
    None,
}

/// How it ended, with docker's exit codes: a failure of our own is 125.
pub(crate) fn run(args: Args, out: &mut Out) -> Exit {
    let done = crate::logging::start_if_asked().and_then(|()| {
        let done = block_on(Box::pin(launch(args, out)))?;
        out.flush()?;
        Ok(done)
    });
    done.unwrap_or_else(|error| match report(&error) {
        // Whoever read the output has seen enough.
        Exit::Success => Exit::Success,
        _ => Exit::OF_DOCKER,
    })
}

async fn launch(args: Args, out: &mut Out) -> Result<Exit> {
    let daemon = DaemonArgs {
        config: args.config.clone(),
        runtime_dir: args.runtime_dir.clone(),
    };
    let mut built = built(&args)?;
    // Known before it is asked for: also should the daemon end before it answers.
    if built.task.task_id.value.is_empty() {
        built.task.task_id.value = random("")?;
    }
    let mut request = request(&built, args.logs)?;
    if let Some(restart) = &args.restart {
        if !args.detach {
            bail!(
                "--restart {restart}: nothing stays with a task that is started again: add --detach (-d), beside a daemon (`longshore daemon`)"
            );
        }
        restarted(&mut request, restart)?;
    }
    // From here on an interrupt is for the task.
    let mut interrupts = Interrupts::new().context("cannot handle signals")?;
    match daemon.channel().await {
        Ok(channel) => stay(&args, client(channel), request, &mut interrupts, out)
            .await
            .map_err(|error| match is_ended(&error) {
                true => error.context(format!("task {}", built.task.task_id.value)),
                false => error,
            }),
        Err(error) if is_no_daemon(&error) && !args.detach => {
            let mut local = LocalTasks::start(args.config.clone()).await?;
            let request = named(request)?;
            // What is no time is refused with the task.
            let grace = schedule(&built.task).ok().and_then(|times| times.grace);
            local.watch(&request.container_name, grace);
            let done = stay(
                &args,
                client(local.channel().await?),
                request,
                &mut interrupts,
                out,
            )
            .await;
            let ended = local.end().await;
            let done = done?;
            ended?;
            Ok(done)
        }
        Err(error) => Err(error),
    }
}

/// A container of ours stands for each attempt: several may be on record, so none has the task's name.
fn restarted(request: &mut RunTaskRequest, rule: &str) -> Result<()> {
    if rule.is_empty() {
        bail!("--restart needs a value: no, on-failure or always");
    }
    rule.clone_into(&mut request.restart);
    request.container_name.clear();
    Ok(())
}

/// The container's name is known before it is made, for whoever stops it should this process be killed.
fn named(mut request: RunTaskRequest) -> Result<RunTaskRequest> {
    if request.container_name.is_empty() {
        request.container_name = random("longshore-run-")?;
    }
    Ok(request)
}

/// A name that nobody has.
fn random(prefix: &str) -> Result<String> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).context("cannot draw random bytes")?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{prefix}{digits}"))
}

fn built(args: &Args) -> Result<Built> {
    if let Some(why) = args.flags.refused() {
        bail!("{why}");
    }
    let here = std::env::current_dir().context("cannot tell the working directory")?;
    let Some(path) = &args.file else {
        let ours = |name: &str| std::env::var(name).ok();
        return Ok(spec::from_flags(
            args.flags.clone().into_rest().into(),
            &args.words,
            &here,
            &ours,
        )?);
    };
    if let Some((name, _)) = args.flags.clone().into_rest().first() {
        bail!(
            "--{name} and --file: a task from a file is taken as it is; write it into {}",
            path.display()
        );
    }
    let (built, unknown) = spec::from_file(&read(path)?, path)?;
    for member in unknown {
        Progress::note(&format!(
            "{}: {member} is no member of a task and is ignored",
            path.display()
        ));
    }
    Ok(built)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = 2 * MAX_TASK_INFO as u64 + 1;
    if path == Path::new("-") {
        std::io::stdin()
            .take(limit)
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?;
    } else {
        let file =
            std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        file.take(limit)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {}", path.display()))?;
    }
    Ok(bytes)
}

fn request(built: &Built, logs: Option<Logs>) -> Result<RunTaskRequest> {
    let task_info = built.task.encode_to_vec();
    if task_info.len() > MAX_TASK_INFO {
        bail!(
            "the task has {} bytes, and at most {MAX_TASK_INFO} are taken",
            task_info.len()
        );
    }
    let logs = match logs {
        None => TaskLogMode::Unspecified,
        Some(Logs::Files) => TaskLogMode::Files,
        Some(Logs::Engine) => TaskLogMode::Engine,
        Some(Logs::None) => TaskLogMode::None,
    };
    Ok(RunTaskRequest {
        task_info,
        container_name: built.container_name.clone().unwrap_or_default(),
        logs: logs.into(),
        restart: String::new(),
    })
}

async fn stay(
    args: &Args,
    mut tasks: Tasks,
    request: RunTaskRequest,
    interrupts: &mut Interrupts,
    out: &mut Out,
) -> Result<Exit> {
    let declared = !request.restart.is_empty();
    let id = call(tasks.run_task(request)).await?.id;
    if declared {
        // It is wanted for good; what becomes of it is told by `task ls`.
        if args.json {
            out.json(&json!({ "version": JSON_VERSION, "declared": id }))?;
        } else {
            out.line(&id)?;
        }
        return Ok(Exit::Success);
    }
    if !args.detach {
        let output = if args.json {
            follow::Output::Documents
        } else {
            follow::Output::Raw
        };
        let task = follow::attached(&mut tasks, &id, output, args.quiet, interrupts, out).await?;
        if args.json {
            out.json(&json!({ "version": JSON_VERSION, "task": view::task(&task) }))?;
        }
        if args.rm {
            call(tasks.remove_task(RemoveTaskRequest { id, force: false })).await?;
        }
        return Ok(view::exit(&task));
    }
    let mut changes = call(tasks.watch_task(WatchTaskRequest { id: id.clone() })).await?;
    let mut progress = Progress::new(args.quiet);
    loop {
        let task = tokio::select! {
            change = changes.message() => change.map_err(|status| refused(&status))?,
            // The task goes on without us.
            signal = interrupts.next() => bail!("interrupted by {signal}; task {id} goes on"),
        };
        let Some(task) = task else {
            return Err(Fault::new(
                Exit::Failure,
                format!("the daemon ended while task {id} was starting"),
            )
            .hint("the task goes on; see `longshore task ls -a`")
            .into());
        };
        progress.show(&task);
        match task.phase() {
            TaskPhase::Ended if view::never_ran(&task) => {
                progress.clear();
                view::tell_end(&task);
                return Ok(view::exit(&task));
            }
            TaskPhase::Running | TaskPhase::Killing | TaskPhase::Ended => {
                progress.clear();
                if args.json {
                    out.json(&json!({ "version": JSON_VERSION, "task": view::task(&task) }))?;
                } else {
                    out.line(&id)?;
                }
                return Ok(Exit::Success);
            }
            TaskPhase::Unspecified | TaskPhase::Starting => {}
        }
    }
}
