//! `longshore nri serve`: a runtime that only pretends, alone on a socket, driven by a script.

use std::io::{BufRead as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use longshore_nri_adaptation::launch::{LaunchOptions, Program, discover};
use longshore_nri_adaptation::socket::{Listener, SocketOptions};
use longshore_nri_simulate::{Case, Profile, Serving, Site, Step, StepReport, step_text};
use longshore_supervisor::{NriControl, NriLedger};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fault::{Exit, Fault, chain};
use crate::output::{JSON_VERSION, Out, printable};
use crate::signals::Interrupts;
use crate::verbs::{block_on, duration, millis};

/// The longest line of a script on standard input, in bytes.
const LINE_MAX: u64 = 4 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A script is a case as `nri simulate -f` reads it (`nri simulate --print-example` prints one): its pods and containers \
are there when plugins come, its steps are performed one after another. With - each line of standard input is a \
step, performed as it comes: {event: RunPodSandbox, pod: {id: p0}}. Also {action: wait-for-plugin, plugin: logger, \
ms: 5000}, wait-until-gone, {action: sleep, ms: 100}, {action: remove-plugin, plugin: logger}, restart-runtime.

Ends with the script, else by SIGINT or SIGTERM; exit 1 when a step is not as expected.")]
pub(crate) struct Args {
    /// Where plugins connect: a socket that is made, for root and the own user.
    socket: PathBuf,
    /// Launch the plugins of this directory, NN-name.
    #[arg(long, value_name = "DIR", requires = "config")]
    plugins: Option<PathBuf>,
    /// Their configuration: NN-name.conf or name.conf.
    #[arg(long, value_name = "DIR", requires = "plugins")]
    config: Option<PathBuf>,
    /// Also launch plugins that others than root and the own user could have changed.
    #[arg(long, requires = "plugins")]
    trust_any_owner: bool,
    /// Answer `nri ls` and `nri remove` on this socket, for root and the own user.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// What happens: a case, or - for a step on each line of standard input.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Go on when the script has ended.
    #[arg(long, requires = "script")]
    stay: bool,
    /// Behave like this runtime.
    #[arg(long, value_name = "NAME@VERSION")]
    runtime: Option<String>,
    /// How long a step waits for plugins unless it says otherwise.
    #[arg(long, value_name = "D", default_value = "10s", value_parser = duration)]
    wait: Duration,
    /// How long a plugin may take to answer, in place of what the script's policy says, or 2s.
    #[arg(long, value_name = "D", value_parser = duration)]
    request_timeout: Option<Duration>,
    /// Print a JSON document on each line: the start, each step, the end.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let from_stdin = args.script.as_deref() == Some(Path::new("-"));
    let mut case = match &args.script {
        Some(file) if !from_stdin => Case::load(file)?,
        _ => Case::default(),
    };
    if let Some(runtime) = &args.runtime {
        // Before anything is made.
        Profile::parse(runtime).map_err(|error| Fault::new(Exit::Usage, error.to_string()))?;
        case.runtime.clone_from(runtime);
    }
    if let Some(timeout) = args.request_timeout {
        case.policy.request_timeout_ms = Some(millis(timeout).max(1));
    }
    let ledger = NriLedger::default();
    let mut site = Site::new(SocketOptions::new(absolute(&args.socket)?));
    site.programs = programs(&args)?;
    site.metrics = Arc::new(ledger.clone());
    block_on(Box::pin(async {
        let mut interrupts = Interrupts::new().context("cannot handle signals")?;
        let control = control(&args)?;
        let steps = std::mem::take(&mut case.steps);
        for (index, step) in steps.iter().enumerate() {
            Serving::check(step, index + 1)?;
        }
        let serving = tokio::select! {
            serving = Serving::start(case, site, args.wait) => serving?,
            signal = interrupts.next() => anyhow::bail!("interrupted by {signal}"),
        };
        let stop = CancellationToken::new();
        let controlled = control.map(|listener| {
            let service = NriControl::new(serving.runtime(), serving.adaptation(), ledger);
            tokio::spawn(service.serve(listener, stop.clone()))
        });
        let source = match from_stdin {
            true => Source::Lines(script_lines()),
            false => Source::Steps(steps.into_iter()),
        };
        let mut show = Show::new(&args, out);
        let mut script = Script {
            source,
            stays: args.stay || args.script.is_none(),
        };
        let ended = async {
            show.began(&serving)?;
            script.play(serving, &mut interrupts, &mut show).await
        };
        let ended = ended.await;
        stop.cancel();
        if let Some(controlled) = controlled {
            // It ends with its last call, each of which is short; the socket goes with it.
            let _ended = tokio::time::timeout(CONTROL_GRACE, controlled).await;
        }
        ended
    }))
}

/// How long calls of the control service that are under way may take in the end.
const CONTROL_GRACE: Duration = Duration::from_secs(2);

/// Sockets are made by absolute paths.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot use {}", path.display()))
}

fn control(args: &Args) -> Result<Option<Listener>> {
    let Some(path) = &args.control else {
        return Ok(None);
    };
    let path = absolute(path)?;
    if path == absolute(&args.socket)? {
        let text = "--control needs a socket of its own: plugins connect to this one";
        return Err(Fault::new(Exit::Usage, text).into());
    }
    Ok(Some(Listener::bind(&SocketOptions::new(path))?))
}

fn programs(args: &Args) -> Result<Vec<Program>> {
    let (Some(plugins), Some(config)) = (&args.plugins, &args.config) else {
        return Ok(Vec::new());
    };
    let mut options = LaunchOptions::new(absolute(plugins)?, absolute(config)?);
    options.trust_any_owner = args.trust_any_owner;
    std::fs::read_dir(plugins).with_context(|| format!("cannot read {}", plugins.display()))?;
    let found = discover(&options)?;
    for skipped in found.skipped {
        // The reason names the file.
        super::note(format_args!(
            "skips a plugin: {}",
            chain(&skipped.reason.into())
        ));
    }
    Ok(found.programs)
}

/// What happens, one step after another.
struct Script {
    source: Source,
    stays: bool,
}

enum Source {
    Steps(std::vec::IntoIter<Step>),
    Lines(mpsc::Receiver<std::io::Result<String>>),
}

impl Script {
    /// Performs all of it, waits for a signal where it stays, and ends the runtime gracefully.
    async fn play(
        &mut self,
        mut serving: Serving,
        interrupts: &mut Interrupts,
        show: &mut Show<'_>,
    ) -> Result<Exit> {
        let outcome = tokio::select! {
            biased;
            played = self.perform(&mut serving, show) => match played {
                Ok(()) if self.stays => {
                    interrupts.next().await;
                    Ok(())
                }
                played => played,
            },
            _ = interrupts.next() => Ok(()),
        };
        let plugins = serving.plugins();
        let runtime = serving.runtime().to_owned();
        serving.close().await;
        outcome?;
        show.ended(&runtime, &plugins)
    }

    async fn perform(&mut self, serving: &mut Serving, show: &mut Show<'_>) -> Result<()> {
        let mut number = 0;
        loop {
            number += 1;
            show.under_way = false;
            let step = match &mut self.source {
                Source::Steps(steps) => match steps.next() {
                    Some(step) => Ok(step),
                    None => return Ok(()),
                },
                Source::Lines(lines) => match lines.recv().await {
                    Some(line) => {
                        let line = line.context("cannot read the script from standard input")?;
                        Step::parse(&line, &format!("line {number} of the script"), number)
                    }
                    None => return Ok(()),
                },
            };
            show.under_way = true;
            let step = match step {
                Ok(step) => step,
                Err(error) => {
                    show.step(&Serving::refused(number, &error))?;
                    continue;
                }
            };
            for time in 1..=step.times.unwrap_or(1) {
                show.step(&serving.perform(number, &step, time).await)?;
            }
        }
    }
}

/// Lines of standard input that say something, read by a thread of their own: a read cannot be given up.
fn script_lines() -> mpsc::Receiver<std::io::Result<String>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            let next = match (&mut input).take(LINE_MAX).read_line(&mut line) {
                Ok(0) => return,
                Ok(_) if line.trim().is_empty() || line.trim_start().starts_with('#') => continue,
                Ok(_) if line.len() as u64 == LINE_MAX && !line.ends_with('\n') => {
                    let text = format!("a line is longer than {LINE_MAX} bytes");
                    Err(std::io::Error::other(text))
                }
                Ok(_) => Ok(line),
                Err(error) => Err(error),
            };
            let ends = next.is_err();
            if sender.blocking_send(next).is_err() || ends {
                return;
            }
        }
    });
    receiver
}

/// What is printed, and what it means for the exit code.
struct Show<'a> {
    args: &'a Args,
    out: &'a mut Out,
    failed: Vec<usize>,
    /// A step has begun and has not ended.
    under_way: bool,
}

impl<'a> Show<'a> {
    fn new(args: &'a Args, out: &'a mut Out) -> Self {
        Self {
            args,
            out,
            failed: Vec::new(),
            under_way: false,
        }
    }

    fn began(&mut self, serving: &Serving) -> Result<()> {
        let (socket, runtime) = (self.args.socket.display(), serving.runtime());
        if self.args.json {
            self.out.json(&json!({
                "version": JSON_VERSION,
                "socket": self.args.socket,
                "control": self.args.control,
                "runtime": runtime,
            }))?;
        } else {
            self.out
                .line(format_args!("runtime {runtime} serves plugins at {socket}"))?;
        }
        Ok(self.out.flush()?)
    }

    fn step(&mut self, report: &StepReport) -> Result<()> {
        if !report.ok() && !self.failed.contains(&report.step) {
            self.failed.push(report.step);
        }
        if self.args.json {
            let mut value = report.to_json();
            value["version"] = JSON_VERSION.into();
            self.out.json(&value)?;
        } else {
            for line in step_text(report).lines() {
                self.out.line(printable(line))?;
            }
        }
        Ok(self.out.flush()?)
    }

    fn ended(
        &mut self,
        runtime: &str,
        plugins: &[longshore_nri_simulate::PluginReport],
    ) -> Result<Exit> {
        let ok = self.failed.is_empty() && !self.under_way;
        if self.args.json {
            let plugins: Vec<_> = plugins.iter().map(|plugin| plugin.to_json()).collect();
            self.out.json(&json!({
                "version": JSON_VERSION,
                "ok": ok,
                "interrupted": self.under_way,
                "failed": self.failed,
                "runtime": runtime,
                "plugins": plugins,
            }))?;
        } else if self.args.script.is_some() {
            let text = match self.failed.len() {
                _ if self.under_way => "interrupted during a step".to_owned(),
                0 => "all as expected".to_owned(),
                1 => "1 step is not as expected".to_owned(),
                several => format!("{several} steps are not as expected"),
            };
            self.out.line(text)?;
        }
        Ok(if ok { Exit::Success } else { Exit::Failure })
    }
}
