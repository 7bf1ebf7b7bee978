//! The arguments of `fake-csi-plugin`.

use std::{collections::VecDeque, ffi::OsString, path::PathBuf, time::Duration};

use super::{Behaviour, Listen, Speak};

/// What the program does besides serving.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it serves.
    pub behaviour: Behaviour,
    /// Ends at once with this exit status.
    pub exit: Option<u8>,
    /// Ends with status 1 after so many probes.
    pub exit_after_probes: Option<u32>,
    /// Written to stderr first, a line each.
    pub stderr: Vec<String>,
    /// Stays alive on SIGTERM.
    pub ignore_term: bool,
    /// A file that is opened and held open.
    pub hold: Option<PathBuf>,
    /// A file to which the arguments and the environment of this start are appended.
    pub dump: Option<PathBuf>,
}

/// An argument that the program does not know.
#[derive(Debug)]
pub struct ScriptError(pub String);

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Reads arguments. `start` counts the program's starts from 1.
    ///
    /// | argument | |
    /// |---|---|
    /// | `--v1` `--v0` `--v0.2` `--both` `--none` | the version(s); `--v1` if none is given; comes first |
    /// | `--name N` `--node-id N` | what it calls itself and this node |
    /// | `--no-controller` `--no-node` | a service less |
    /// | `--unavailable N` `--not-ready N` | so many probes first |
    /// | `--status CODE` | every probe is answered with this gRPC code (a number) |
    /// | `--hang` `--hang-after N` | probes are not answered (any more) |
    /// | `--huge BYTES` | a manifest of that size |
    /// | `--garbage` `--http1` `--close` `--mute` | what a connection meets instead of gRPC |
    /// | `--never-listen` `--bind-only` `--listen-at PATH` | where it listens |
    /// | `--bind-delay MS` `--listen-delay MS` | before `bind`, before `listen` |
    /// | `--exit STATUS` `--exit-after N` | ends at once, or after so many probes |
    /// | `--stderr LINE` | repeatable |
    /// | `--ignore-term` | SIGTERM does nothing |
    /// | `--hold PATH` | holds that file open |
    /// | `--dump PATH` | appends arguments and environment of this start |
    /// | `--starts PATH` | counts the starts in that file; ignored here, see the program |
    /// | `--then ARGS...` | for the second start on, ARGS instead of what came before; again for the third |
    ///
    /// # Errors
    /// Names the argument that it does not know or that lacks its value.
    pub fn parse(
        args: impl IntoIterator<Item = OsString>,
        start: usize,
    ) -> Result<Self, ScriptError> {
        let args: Vec<String> = args
            .into_iter()
            .map(|a| {
                a.into_string()
                    .map_err(|a| ScriptError(format!("{a:?} is not UTF-8")))
            })
            .collect::<Result<_, _>>()?;
        let phases: Vec<&[String]> = args.split(|arg| arg == "--then").collect();
        let phase = phases[start.saturating_sub(1).min(phases.len() - 1)];
        Self::phase(phase.iter().cloned().collect())
    }

    fn phase(mut args: VecDeque<String>) -> Result<Self, ScriptError> {
        let mut script = Self {
            behaviour: Behaviour::v1(),
            exit: None,
            exit_after_probes: None,
            stderr: Vec::new(),
            ignore_term: false,
            hold: None,
            dump: None,
        };
        while let Some(arg) = args.pop_front() {
            let behaviour = &mut script.behaviour;
            match arg.as_str() {
                "--v1" => *behaviour = Behaviour::v1(),
                "--v0" => *behaviour = Behaviour::v0(),
                "--v0.2" => *behaviour = Behaviour::v0_2(),
                "--both" => *behaviour = Behaviour::both(),
                "--none" => *behaviour = Behaviour::none(),
                "--name" => behaviour.name = value(&arg, &mut args)?,
                "--node-id" => behaviour.node_id = value(&arg, &mut args)?,
                "--no-controller" => behaviour.controller = false,
                "--no-node" => behaviour.node = false,
                "--unavailable" => behaviour.unavailable = number(&arg, &mut args)?,
                "--not-ready" => behaviour.not_ready = number(&arg, &mut args)?,
                "--status" => behaviour.status = Some(number(&arg, &mut args)?),
                "--hang" => behaviour.hang_after = Some(0),
                "--hang-after" => behaviour.hang_after = Some(number(&arg, &mut args)?),
                "--huge" => behaviour.manifest_bytes = number(&arg, &mut args)?,
                "--garbage" => behaviour.speak = Speak::Garbage,
                "--http1" => behaviour.speak = Speak::Http1,
                "--close" => behaviour.speak = Speak::Close,
                "--mute" => behaviour.speak = Speak::Nothing,
                "--never-listen" => behaviour.listen = Listen::Never,
                "--bind-only" => behaviour.listen = Listen::BindOnly,
                "--listen-at" => {
                    behaviour.listen = Listen::Elsewhere(value(&arg, &mut args)?.into());
                }
                "--bind-delay" => {
                    behaviour.bind_delay = Duration::from_millis(number(&arg, &mut args)?);
                }
                "--listen-delay" => {
                    behaviour.listen_delay = Duration::from_millis(number(&arg, &mut args)?);
                }
                "--exit" => script.exit = Some(number(&arg, &mut args)?),
                "--exit-after" => script.exit_after_probes = Some(number(&arg, &mut args)?),
                "--stderr" => script.stderr.push(value(&arg, &mut args)?),
                "--ignore-term" => script.ignore_term = true,
                "--hold" => script.hold = Some(value(&arg, &mut args)?.into()),
                "--dump" => script.dump = Some(value(&arg, &mut args)?.into()),
                "--starts" => {
                    value(&arg, &mut args)?;
                }
                _ => return Err(ScriptError(format!("unknown argument {arg}"))),
            }
        }
        Ok(script)
    }
}

fn value(arg: &str, args: &mut VecDeque<String>) -> Result<String, ScriptError> {
    args.pop_front()
        .ok_or_else(|| ScriptError(format!("{arg} lacks its value")))
}

fn number<N: std::str::FromStr>(arg: &str, args: &mut VecDeque<String>) -> Result<N, ScriptError> {
    let text = value(arg, args)?;
    text.parse()
        .map_err(|_| ScriptError(format!("{arg} {text}: not a number that fits")))
}
