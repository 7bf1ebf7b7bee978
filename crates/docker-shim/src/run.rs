//! `docker run`: pull if missing, create, attach, start; its output is ours, and its exit code too.

use std::path::Path;
use std::time::Duration;

use longshore_engine::{
    ContainerSpec, DockerEngine, Engine as _, EngineError, EnvVar, ExitWait, LogSource, LogStream,
    PullPolicy, PullRequest, RemoveOptions, WaitUntil,
};
use longshore_task_spec::flags::{self, FlagTarget};
use tokio::io::{AsyncWriteExt as _, Stderr, Stdout};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::switch;
use crate::lexer::{Syntax, Words};
use crate::{Failed, chain, complain, say};

const SYNTAX: Syntax = Syntax {
    switches: &[
        "detach",
        "init",
        "interactive",
        "no-healthcheck",
        "oom-kill-disable",
        "privileged",
        "publish-all",
        "quiet",
        "read-only",
        "rm",
        "sig-proxy",
        "tty",
    ],
    short: &[
        ('c', "cpu-shares"),
        ('d', "detach"),
        ('e', "env"),
        ('h', "hostname"),
        ('i', "interactive"),
        ('l', "label"),
        ('m', "memory"),
        ('P', "publish-all"),
        ('p', "publish"),
        ('q', "quiet"),
        ('t', "tty"),
        ('u', "user"),
        ('v', "volume"),
        ('w', "workdir"),
    ],
    first_word_ends: true,
};

/// Longest file of variables.
const ENV_FILE_MAX: u64 = 1 << 20;
/// What is left of the output after the exit comes within this.
const REST: Duration = Duration::from_secs(5);

/// A container to be run.
#[derive(Debug)]
pub(crate) struct Run {
    spec: ContainerSpec,
    detach: bool,
    remove: bool,
    pass_signals: bool,
    pull: PullPolicy,
}

impl Run {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let Words { flags, words } = SYNTAX.split(arguments)?;
        let mut words = words.into_iter();
        let image = words.next();
        let mut run = Self {
            spec: ContainerSpec {
                image: image.clone().unwrap_or_default(),
                ..ContainerSpec::default()
            },
            detach: false,
            remove: false,
            pass_signals: true,
            pull: PullPolicy::Missing,
        };
        for (name, value) in flags {
            run.flag(&name, &value)?;
        }
        // Only now: an unknown flag may have taken it for its value.
        if image.is_none() {
            return Err(Failed::new(125, "run needs an image"));
        }
        if run.detach && run.remove {
            let message = "--rm with --detach is not served: nobody is there to remove it";
            return Err(Failed::new(125, message));
        }
        let command: Vec<_> = words.collect();
        if !command.is_empty() {
            run.spec.cmd = Some(command);
        }
        Ok(run)
    }

    fn flag(&mut self, name: &str, value: &str) -> Result<(), Failed> {
        match name {
            "detach" => self.detach = switch(name, value)?,
            "rm" => self.remove = switch(name, value)?,
            "sig-proxy" => self.pass_signals = switch(name, value)?,
            "quiet" => _ = switch(name, value)?,
            "env-file" => self.env_file(Path::new(value))?,
            // A variable without a value is passed on from ours, if it is set.
            "env" if !value.contains('=') => self.inherit(value),
            "pull" => {
                self.pull = match value {
                    "missing" => PullPolicy::Missing,
                    "always" => PullPolicy::Always,
                    "never" => PullPolicy::Never,
                    _ => {
                        let message =
                            format!("--pull {value}: it is one of missing, always and never");
                        return Err(Failed::new(125, message));
                    }
                }
            }
            _ => flags::apply(&mut self.spec, FlagTarget::CommandLine, name, value)
                .map_err(|problem| Failed::new(125, problem.to_string()))?,
        }
        Ok(())
    }

    fn inherit(&mut self, name: &str) {
        if let Ok(value) = std::env::var(name) {
            self.spec.env.push(EnvVar::new(name, value));
        }
    }

    /// A variable a line; blank lines and those that begin with `#` are none.
    fn env_file(&mut self, path: &Path) -> Result<(), Failed> {
        let failed =
            |problem: String| Failed::new(125, format!("--env-file {}: {problem}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if size.len() > ENV_FILE_MAX {
            return Err(failed(format!("it is larger than {ENV_FILE_MAX} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        for line in text.lines().map(str::trim_start) {
            match line.split_once('=') {
                _ if line.is_empty() || line.starts_with('#') => {}
                Some((name, _)) if name.is_empty() || name.contains(char::is_whitespace) => {
                    return Err(failed("a line has no name of a variable".to_owned()));
                }
                Some((name, value)) => self.spec.env.push(EnvVar::new(name, value)),
                None => self.inherit(line.trim_end()),
            }
        }
        Ok(())
    }
}

/// Runs it. Attached, the exit code is the container's; 125 when its end is not known.
pub(crate) async fn run(engine: &DockerEngine, run: Run) -> Result<u8, Failed> {
    let refused = |error: EngineError| Failed::new(125, chain(&error));
    let mut request = PullRequest::new(&run.spec.image);
    request.policy = run.pull;
    request.platform.clone_from(&run.spec.platform);
    engine.pull(request).done().await.map_err(refused)?;
    let created = engine.create(&run.spec).await.map_err(refused)?;
    for warning in &created.warnings {
        complain(warning);
    }
    let id = &created.id;
    let outcome = begin(engine, &run, id).await;
    if run.remove {
        let options = RemoveOptions {
            force: true,
            volumes: true,
        };
        match engine.remove(id, options).await {
            Ok(()) | Err(EngineError::NotFound { .. }) => {}
            Err(error) => complain(&chain(&error)),
        }
    }
    outcome
}

async fn begin(engine: &DockerEngine, run: &Run, id: &str) -> Result<u8, Failed> {
    let refused = |error: EngineError| Failed::new(125, chain(&error));
    if run.detach {
        engine.start(id).await.map_err(not_started)?;
        say(id);
        return Ok(0);
    }
    let mut signals = Signals::open(run.pass_signals)?;
    let output = engine.attach(id).await.map_err(refused)?;
    let exit = engine
        .wait(id, WaitUntil::NextExit)
        .await
        .map_err(refused)?;
    engine.start(id).await.map_err(not_started)?;
    attached(engine, id, output, exit, &mut signals).await
}

fn not_started(error: EngineError) -> Failed {
    Failed::new(error.start_exit_code(), chain(&error))
}

async fn attached(
    engine: &DockerEngine,
    id: &str,
    mut output: LogStream,
    mut exit: ExitWait,
    signals: &mut Signals,
) -> Result<u8, Failed> {
    let mut ours = Output::default();
    let mut open = true;
    let ended = loop {
        tokio::select! {
            frame = output.next(), if open => open = ours.frame(frame).await,
            ended = &mut exit => break ended,
            name = signals.next() => {
                if let Err(error) = engine.kill(id, name).await {
                    complain(&format!("{name} was not passed on: {}", chain(&error)));
                }
            }
        }
    };
    let rest = async {
        while open {
            open = ours.frame(output.next().await).await;
        }
    };
    if tokio::time::timeout(REST, rest).await.is_err() {
        complain("the engine did not end the container's output");
    }
    let ended = ended.map_err(|error| Failed::new(125, chain(&error)))?;
    if let Some(problem) = ended.error {
        complain(&problem);
    }
    Ok(u8::try_from(ended.code).unwrap_or(125))
}

struct Output {
    stdout: Stdout,
    stderr: Stderr,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
        }
    }
}

impl Output {
    /// Writes a piece on; false at the end. What cannot be written is read on, so that the container is not held up.
    async fn frame(
        &mut self,
        frame: Option<Result<longshore_engine::LogFrame, EngineError>>,
    ) -> bool {
        match frame {
            Some(Ok(frame)) => {
                let _closed = match frame.source {
                    LogSource::Stdout => written(&mut self.stdout, &frame.data).await,
                    LogSource::Stderr => written(&mut self.stderr, &frame.data).await,
                };
                true
            }
            Some(Err(error)) => {
                complain(&format!(
                    "the rest of the output is lost: {}",
                    chain(&error)
                ));
                false
            }
            None => false,
        }
    }
}

async fn written(
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    data: &[u8],
) -> std::io::Result<()> {
    to.write_all(data).await?;
    to.flush().await
}

/// The signals that are passed on.
struct Signals(Vec<(Signal, &'static str)>);

impl Signals {
    fn open(pass_on: bool) -> Result<Self, Failed> {
        let known = [
            (SignalKind::terminate(), "TERM"),
            (SignalKind::interrupt(), "INT"),
            (SignalKind::hangup(), "HUP"),
            (SignalKind::quit(), "QUIT"),
            (SignalKind::user_defined1(), "USR1"),
            (SignalKind::user_defined2(), "USR2"),
        ];
        let known = known.into_iter().filter(|_| pass_on);
        let opened: Result<Vec<_>, _> = known
            .map(|(kind, name)| signal(kind).map(|stream| (stream, name)))
            .collect();
        opened
            .map(Self)
            .map_err(|error| Failed::new(125, format!("signals cannot be taken: {error}")))
    }

    /// The next one; never where none is passed on.
    async fn next(&mut self) -> &'static str {
        std::future::poll_fn(|context| {
            for (stream, name) in &mut self.0 {
                if let std::task::Poll::Ready(Some(())) = stream.poll_recv(context) {
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Run, Failed> {
        Run::parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn what_a_mesos_agent_gives_is_mapped() {
        let run = read(&[
            "--cpu-shares=1024",
            "--memory",
            "134217728",
            "-e",
            "A=b c",
            "-v",
            "/a:/b:rw",
            "--net",
            "host",
            "--entrypoint",
            "/bin/sh",
            "--name",
            "mesos-1",
            "busybox",
            "-c",
            "exit 3",
        ])
        .unwrap();
        assert_eq!(run.spec.image, "busybox");
        assert_eq!(run.spec.cmd.as_deref().unwrap(), ["-c", "exit 3"]);
        assert_eq!(run.spec.name.as_deref(), Some("mesos-1"));
        assert_eq!(run.spec.resources.cpu_shares, Some(1024));
        assert_eq!(run.spec.mounts.len(), 1);
        assert!(!run.detach && !run.remove && run.pass_signals);
    }

    #[test]
    fn bad_flags_are_refused_with_125() {
        for (words, named) in [
            (vec![], "image"),
            (vec!["--nonsense=1", "i"], "nonsense"),
            (vec!["--interactive", "i"], "interactive"),
            (vec!["--pull", "often", "i"], "often"),
            (vec!["--detach=maybe", "i"], "maybe"),
            (vec!["-d", "--rm", "i"], "--rm"),
            (vec!["--env-file", "/nonexistent", "i"], "/nonexistent"),
            (vec!["--memory", "much", "i"], "much"),
        ] {
            let error = read(&words).unwrap_err();
            assert!(error.message.contains(named), "{words:?}: {error}");
            assert_eq!(error.exit, 125, "{words:?}");
        }
    }

    #[test]
    fn a_file_of_variables_is_read_and_no_value_of_it_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("env");
        std::fs::write(&path, "# no\n\n  A=1=2\nEMPTY=\nLONGSHORE_IS_NOT_SET\n").unwrap();
        let run = read(&["--env-file", path.to_str().unwrap(), "i"]).unwrap();
        let expected = [EnvVar::new("A", "1=2"), EnvVar::new("EMPTY", "")];
        assert_eq!(run.spec.env, expected);
        std::fs::write(&path, "A B=hunter2\n").unwrap();
        let error = read(&["--env-file", path.to_str().unwrap(), "i"]).unwrap_err();
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}
