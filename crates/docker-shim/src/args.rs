//! What is asked for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use longshore_engine::{ListFilter, RemoveOptions};

use crate::Failed;
use crate::inspect::{Inspect, Kind};
use crate::lexer::{Syntax, Words};
use crate::list::List;
use crate::run::Run;

/// A whole command line.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// `-H`.
    pub(crate) host: Option<String>,
    /// `--config`.
    pub(crate) config_dir: Option<PathBuf>,
    pub(crate) command: Command,
}

/// One of the forms that are served.
#[derive(Debug)]
pub(crate) enum Command {
    /// `--help`, alone or first behind a form.
    Help,
    Version,
    Pull(String),
    Inspect(Inspect),
    List(List),
    Stop {
        grace: Option<Duration>,
        names: Vec<String>,
    },
    Kill {
        signal: String,
        names: Vec<String>,
    },
    Remove {
        options: RemoveOptions,
        names: Vec<String>,
    },
    Run(Box<Run>),
}

const FORMS: &str = "--version, pull, inspect, ps, stop, kill, rm and run";

const GLOBAL: Syntax = Syntax {
    switches: &["version", "help"],
    short: &[('H', "host"), ('v', "version")],
    first_word_ends: true,
};

/// Reads a command line, without the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Failed> {
    let texts: Result<Vec<_>, _> = arguments.into_iter().map(OsString::into_string).collect();
    let texts = texts.map_err(|bad| {
        Failed::new(
            125,
            format!("an argument is not UTF-8: {}", bad.to_string_lossy()),
        )
    })?;
    let Words { flags, words } = GLOBAL.split(texts)?;
    let (mut host, mut config_dir, mut version, mut help) = (None, None, false, false);
    for (name, value) in flags {
        match &*name {
            "host" => host = Some(value),
            "config" => config_dir = Some(PathBuf::from(value)),
            "version" => version = switch(&name, &value)?,
            "help" => help = switch(&name, &value)?,
            _ => return Err(unserved("docker", &name)),
        }
    }
    let mut words = words.into_iter();
    let command = match (version, words.next()) {
        _ if help => Command::Help,
        (true, _) => Command::Version,
        (false, Some(form)) => command(&form, words)?,
        (false, None) => {
            return Err(Failed::new(1, format!("no command: {FORMS} are served")));
        }
    };
    Ok(Invocation {
        host,
        config_dir,
        command,
    })
}

fn command(form: &str, rest: impl Iterator<Item = String>) -> Result<Command, Failed> {
    let mut rest = rest.peekable();
    if rest.peek().is_some_and(|first| first == "--help") {
        return Ok(Command::Help);
    }
    Ok(match form {
        "pull" => pull(rest)?,
        "inspect" => inspect(rest)?,
        "ps" => list(rest)?,
        "stop" => stop(rest)?,
        "kill" => kill(rest)?,
        "rm" => remove(rest)?,
        "run" => Command::Run(Box::new(Run::parse(rest)?)),
        _ => {
            let message = format!("`{form}` is not served: {FORMS} are");
            return Err(Failed::new(1, message));
        }
    })
}

fn pull(rest: impl Iterator<Item = String>) -> Result<Command, Failed> {
    let Words { flags, words } = plain(&["quiet"], &[('q', "quiet")]).split(rest)?;
    for (name, value) in flags {
        match &*name {
            "quiet" => _ = switch(&name, &value)?,
            _ => return Err(unserved("pull", &name)),
        }
    }
    match <[String; 1]>::try_from(words) {
        Ok([image]) => Ok(Command::Pull(image)),
        Err(_) => Err(Failed::new(1, "pull takes one image")),
    }
}

fn inspect(rest: impl Iterator<Item = String>) -> Result<Command, Failed> {
    let Words { flags, words } = plain(&[], &[]).split(rest)?;
    let mut kind = None;
    for (name, value) in flags {
        match (&*name, &*value) {
            ("type", "container") => kind = Some(Kind::Container),
            ("type", "image") => kind = Some(Kind::Image),
            ("type", "") => kind = None,
            ("type", _) => {
                let message = format!("--type {value} is not served: container and image are");
                return Err(Failed::new(1, message));
            }
            _ => return Err(unserved("inspect", &name)),
        }
    }
    Ok(Command::Inspect(Inspect {
        kind,
        names: some("inspect", words)?,
    }))
}

fn list(rest: impl Iterator<Item = String>) -> Result<Command, Failed> {
    let short = &[('a', "all"), ('q', "quiet"), ('f', "filter")];
    let Words { flags, words } = plain(&["all", "quiet", "no-trunc"], short).split(rest)?;
    if let Some(word) = words.first() {
        return Err(Failed::new(1, format!("ps takes no `{word}`")));
    }
    let mut list = List {
        filter: ListFilter::default(),
        ids_only: false,
        whole_ids: false,
    };
    for (name, value) in flags {
        match (&*name, value.split_once('=')) {
            ("all", _) => list.filter.all = switch(&name, &value)?,
            ("quiet", _) => list.ids_only = switch(&name, &value)?,
            ("no-trunc", _) => list.whole_ids = switch(&name, &value)?,
            ("filter", Some(("name", name))) => list.filter.names.push(name.to_owned()),
            ("filter", Some(("label", label))) => list.filter.labels.push(label.to_owned()),
            ("filter", Some(("id", id))) => list.filter.ids.push(id.to_owned()),
            ("filter", _) => {
                let message = format!("--filter {value} is not served: name=, label= and id= are");
                return Err(Failed::new(1, message));
            }
            _ => return Err(unserved("ps", &name)),
        }
    }
    Ok(Command::List(list))
}

fn stop(rest: impl Iterator<Item = String>) -> Result<Command, Failed> {
    let Words { flags, words } = plain(&[], &[('t', "time")]).split(rest)?;
    let mut grace = None;
    for (name, value) in flags {
        match &*name {
            "time" | "timeout" => grace = Some(seconds(&name, &value)?),
            _ => return Err(unserved("stop", &name)),
        }
    }
    Ok(Command::Stop {
        grace,
        names: some("stop", words)?,
    })
}

fn kill(rest: impl Iterator<Item = String>) -> Result<Command, Failed> {
    let Words { flags, words } = plain(&[], &[('s', "signal")]).split(rest)?;
    let mut signal = "KILL".to_owned();
    for (name, value) in flags {
        match &*name {
            "signal" => signal = value,
            _ => return Err(unserved("kill", &name)),
        }
    }
    Ok(Command::Kill {
        signal,
        names: some("kill", words)?,
    })
}

fn remove(rest: impl Iterator<Item = String>) -> Result<Command, Failed> {
    let short = &[('f', "force"), ('v', "volumes")];
    let Words { flags, words } = plain(&["force", "volumes"], short).split(rest)?;
    let mut options = RemoveOptions::default();
    for (name, value) in flags {
        match &*name {
            "force" => options.force = switch(&name, &value)?,
            "volumes" => options.volumes = switch(&name, &value)?,
            _ => return Err(unserved("rm", &name)),
        }
    }
    Ok(Command::Remove {
        options,
        names: some("rm", words)?,
    })
}

const fn plain(
    switches: &'static [&'static str],
    short: &'static [(char, &'static str)],
) -> Syntax {
    Syntax {
        switches,
        short,
        first_word_ends: false,
    }
}

/// Docker waits for ever for a negative number; so does nobody here.
fn seconds(name: &str, value: &str) -> Result<Duration, Failed> {
    let seconds: u32 = value.parse().map_err(|_| {
        Failed::new(
            1,
            format!("--{name} {value}: it must be a number of seconds"),
        )
    })?;
    Ok(Duration::from_secs(seconds.into()))
}

pub(crate) fn switch(name: &str, value: &str) -> Result<bool, Failed> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(Failed::new(
            125,
            format!("--{name}={value}: it is either true or false"),
        )),
    }
}

fn some(form: &str, names: Vec<String>) -> Result<Vec<String>, Failed> {
    if names.is_empty() {
        return Err(Failed::new(1, format!("{form} needs a name")));
    }
    Ok(names)
}

fn unserved(form: &str, flag: &str) -> Failed {
    Failed::new(1, format!("{form} --{flag} is not served"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Invocation, Failed> {
        parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_forms_of_a_mesos_agent_are_read() {
        let socket = "unix:///var/run/docker.sock";
        for (line, expected) in [
            ("--version", "Version"),
            ("pull busybox:latest", r#"Pull("busybox:latest")"#),
            (
                "inspect --type=container mesos-1",
                r#"Inspect(Inspect { kind: Some(Container), names: ["mesos-1"] })"#,
            ),
            (
                "inspect --type=image busybox",
                r#"Inspect(Inspect { kind: Some(Image), names: ["busybox"] })"#,
            ),
            (
                "inspect a b",
                r#"Inspect(Inspect { kind: None, names: ["a", "b"] })"#,
            ),
            (
                "stop -t 0 mesos-1",
                r#"Stop { grace: Some(0ns), names: ["mesos-1"] }"#,
            ),
            (
                "kill --signal=9 mesos-1",
                r#"Kill { signal: "9", names: ["mesos-1"] }"#,
            ),
            (
                "rm -f -v mesos-1",
                r#"Remove { options: RemoveOptions { force: true, volumes: true }, names: ["mesos-1"] }"#,
            ),
            (
                "rm -v mesos-1",
                r#"Remove { options: RemoveOptions { force: false, volumes: true }, names: ["mesos-1"] }"#,
            ),
        ] {
            let read = read(&format!("-H {socket} {line}")).unwrap();
            assert_eq!(read.host.as_deref(), Some(socket), "{line}");
            assert_eq!(format!("{:?}", read.command), expected, "{line}");
        }
        let Command::List(list) = read("-H x ps -a").unwrap().command else {
            panic!("ps is a list");
        };
        assert!(list.filter.all && !list.ids_only);
    }

    #[test]
    fn help_is_asked_for_alone_or_first_behind_a_form_and_is_not_the_containers() {
        for line in [
            "--help",
            "-H x --help",
            "run --help",
            "ps --help",
            "--help ps",
        ] {
            let command = read(line).unwrap().command;
            assert!(matches!(command, Command::Help), "{line}: {command:?}");
        }
        let command = read("run image --help").unwrap().command;
        assert!(matches!(command, Command::Run(_)), "{command:?}");
    }

    #[test]
    fn what_is_not_served_is_refused_by_its_name() {
        for (line, name) in [
            ("", "no command"),
            ("run --bogus image", "bogus"),
            ("run --bogus image command", "bogus"),
            ("exec x sh", "exec"),
            ("-H s build .", "build"),
            ("--context other ps", "context"),
            ("-D ps", "-D"),
            ("ps --format {{.ID}}", "format"),
            ("ps --filter status=exited", "status=exited"),
            ("ps word", "word"),
            ("inspect --type=volume v", "volume"),
            ("inspect --size c", "size"),
            ("inspect", "needs a name"),
            ("stop", "needs a name"),
            ("stop -t -1 x", "-1"),
            ("stop -t soon x", "soon"),
            ("rm --link x", "link"),
            ("rm --force=perhaps x", "perhaps"),
            ("pull", "one image"),
            ("pull a b", "one image"),
            ("pull --all-tags a", "all-tags"),
            ("kill -s", "-s"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.message.contains(name), "{line}: {error}");
        }
    }

    #[test]
    fn an_argument_that_is_not_utf_8_is_refused() {
        use std::os::unix::ffi::OsStringExt as _;
        let arguments = [OsString::from("inspect"), OsString::from_vec(vec![0xff])];
        assert!(parse(arguments).is_err());
    }
}
