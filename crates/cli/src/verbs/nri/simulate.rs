//! `longshore nri simulate`: plugins tried out without a cluster.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use longshore_nri_api::PluginId;
use longshore_nri_simulate::{
    BUILT_IN, Case, Command, EXAMPLE, Play, Plugins, Profile, Report, SimulateError, junit,
    run as play, text, updated,
};

use super::{absolute, note};
use crate::fault::{Exit, Fault};
use crate::output::Out;
use crate::signals::Interrupts;
use crate::verbs::{block_on, duration};

/// The index of the first plugin that has none of its own.
const FIRST_INDEX: u8 = 10;

#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Args {
    /// The plugin: a program and its arguments, started as a runtime starts plugins.
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
    /// Another plugin, 'CMD ARGS'; may be repeated. Asked in the order of their indices.
    #[arg(long, value_name = "CMD")]
    plugin: Vec<String>,
    /// Make this socket, and wait for plugins that connect to it, instead.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["command", "plugin"])]
    listen: Option<PathBuf>,
    /// The index of the plugin: two digits. Otherwise that of its file name, or 10, 11 ..
    #[arg(long, value_name = "NN")]
    index: Option<String>,
    /// The name of the plugin. Otherwise its file name.
    #[arg(long)]
    name: Option<String>,
    /// A case, YAML or JSON, or the name of a built-in one.
    #[arg(short = 'f', long = "file", value_name = "CASE", conflicts_with_all = ["pod", "container", "spec"])]
    file: Option<PathBuf>,
    /// Repeat a record of `nri trace -o` instead: plugins are asked what a runtime once asked, and answers that
    /// differ are shown.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "pod", "container", "spec", "runtime", "update"])]
    replay: Option<PathBuf>,
    /// The pod, as `crictl runp` reads it.
    #[arg(long, value_name = "FILE")]
    pod: Option<PathBuf>,
    /// The container, as `crictl create` reads it.
    #[arg(long, value_name = "FILE")]
    container: Option<PathBuf>,
    /// The OCI spec of the container, a config.json.
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Behave like this runtime, which is Longshore when not given.
    #[arg(long, value_name = "NAME@VERSION")]
    runtime: Option<String>,
    /// How long plugins may take to come.
    #[arg(long, value_name = "D", default_value = "10s", value_parser = duration)]
    wait: Duration,
    /// Print a case to begin with, and end.
    #[arg(long, exclusive = true)]
    print_example: bool,
    /// Print the report as JSON: adjustments, owners, specs.
    #[arg(long)]
    json: bool,
    /// Also write the report for JUnit to this file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what came into the case file, as what is expected. Comments of the file are lost.
    #[arg(long, requires = "file")]
    update: bool,
}

fn help() -> String {
    let mut help = String::from(
        "Plays a case to plugins and shows what becomes of the container: exit 1 when something is rejected or \
         not as expected.\n\nBuilt-in cases for -f:\n",
    );
    for (name, what, _) in BUILT_IN {
        help = format!("{help}  {name:<11} {what}\n");
    }
    help + &format!("\nRuntimes for --runtime: {}.", Profile::KNOWN)
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    if args.print_example {
        out.line(EXAMPLE.trim_end())?;
        return Ok(Exit::Success);
    }
    if let Some(record) = &args.replay {
        let report = super::replay::run(record, &plugins(&args)?, args.wait)?;
        return tell(&report, &record.display().to_string(), &args, out);
    }
    let (case, file) = case(&args)?;
    if args.update && file.is_none() {
        return Err(usage(
            "--update needs a file: a built-in case has no expectations to write",
        ));
    }
    let mut play_of = Play::new(case, plugins(&args)?)?;
    if let Some(runtime) = &args.runtime {
        play_of.profile = Profile::parse(runtime).map_err(|error| usage(error.to_string()))?;
    }
    play_of.wait = args.wait;
    play_of.waiting = |socket, wait| {
        note(format_args!(
            "waits {wait:?} for a plugin at {}",
            socket.display()
        ));
    };
    let mut report = block_on(Box::pin(async {
        let mut interrupts = Interrupts::new().context("cannot handle signals")?;
        // What was started is killed with the future.
        tokio::select! {
            report = play(&play_of) => Ok(report?),
            signal = interrupts.next() => Err(anyhow::anyhow!("interrupted by {signal}")),
        }
    }))?;
    if let (true, Some(path)) = (args.update, &file) {
        report = update(&play_of.case, report, path)?;
    }
    let suite = file
        .as_deref()
        .unwrap_or_else(|| Path::new("longshore nri simulate"));
    tell(&report, &suite.display().to_string(), &args, out)
}

/// What was found out is shown also where it cannot be written.
fn tell(report: &Report, suite: &str, args: &Args, out: &mut Out) -> Result<Exit> {
    let shown = show(report, args.json, out)?;
    if let Some(path) = &args.junit {
        out.flush()?;
        write(path, &junit(report, suite))?;
    }
    Ok(shown)
}

/// Writes down what came as what is expected, which it is from then on.
fn update(case: &Case, report: Report, path: &Path) -> Result<Report> {
    let place = path.display();
    let Some(case) = updated(case, &report) else {
        note(format_args!(
            "{place} stays as it is: what comes without a plugin that was lost is not what is expected"
        ));
        return Ok(report);
    };
    replace(path, &case.to_text(path)?)?;
    let expected = case.steps.iter().filter(|step| step.expect.is_some());
    let changed = report.steps.iter().filter(|step| !step.ok());
    note(format_args!(
        "wrote what is expected of {} of {} steps to {place}; {} came otherwise than expected before",
        expected.count(),
        case.steps.len(),
        changed.count(),
    ));
    Ok(report.accepted())
}

fn show(report: &Report, json: bool, out: &mut Out) -> Result<Exit> {
    if json {
        out.json(&report.to_json())?;
    } else {
        out.line(text(report).trim_end())?;
    }
    match report.ok() {
        true => Ok(Exit::Success),
        false => Ok(Exit::Failure),
    }
}

/// The case, and its file where it has one.
fn case(args: &Args) -> Result<(Case, Option<PathBuf>)> {
    let Some(file) = &args.file else {
        let files = [&args.pod, &args.container, &args.spec].map(Option::as_deref);
        return Ok((Case::from_files(files[0], files[1], files[2])?, None));
    };
    let built_in = BUILT_IN.iter().find(|(name, ..)| Path::new(name) == file);
    match built_in {
        Some((name, _, text)) => Ok((Case::parse(text, name)?, None)),
        None => match Case::load(file) {
            Ok(case) => {
                let case = case.with_steps(&file.display().to_string())?;
                Ok((case, Some(file.clone())))
            }
            Err(SimulateError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let names: Vec<_> = BUILT_IN.iter().map(|(name, ..)| *name).collect();
                let hint = format!("the built-in cases are {}", names.join(", "));
                let message = format!("there is no case {}: {source}", file.display());
                Err(Fault::new(Exit::Failure, message).hint(hint).into())
            }
            Err(error) => Err(error.into()),
        },
    }
}

fn plugins(args: &Args) -> Result<Plugins> {
    if let Some(socket) = &args.listen {
        return Ok(Plugins::Listen(absolute(socket)?));
    }
    let mut commands = Vec::new();
    if !args.command.is_empty() {
        commands.push(args.command.clone());
    }
    for line in &args.plugin {
        let words = shell_words::split(line)
            .map_err(|error| usage(format!("--plugin {line:?}: {error}")))?;
        commands.push(words.into_iter().map(OsString::from).collect());
    }
    if commands.is_empty() {
        return Err(usage(
            "name a plugin: longshore nri simulate -- CMD, --plugin 'CMD ARGS', or --listen SOCKET",
        ));
    }
    if commands.len() > 1 && (args.index.is_some() || args.name.is_some()) {
        return Err(usage(
            "--index and --name are for one plugin: name the files of several NN-name",
        ));
    }
    let here = std::env::current_dir().context("cannot find the current directory")?;
    let mut next = FIRST_INDEX;
    let mut made = Vec::new();
    for mut words in commands {
        let program = if words.is_empty() {
            OsString::new()
        } else {
            words.remove(0)
        };
        let id = identity(Path::new(&program), args, &mut next)?;
        made.push(Command::new(id, Path::new(&program), words, &here)?);
    }
    Ok(Plugins::Commands(made))
}

/// Index and name: the options', else those of the file name, else 10, 11 .. and the file name.
fn identity(program: &Path, args: &Args, next: &mut u8) -> Result<PluginId> {
    let file = program.file_name().unwrap_or_default().to_string_lossy();
    let own = PluginId::from_file_name(&file).ok();
    let index = match (&args.index, &own) {
        (Some(index), _) => index.clone(),
        (None, Some(own)) => own.index().to_string(),
        (None, None) => {
            *next = next.saturating_add(1);
            format!("{:02}", *next - 1)
        }
    };
    let name = match (&args.name, &own) {
        (Some(name), _) => name.clone(),
        (None, Some(own)) => own.base().to_owned(),
        (None, None) => file.into_owned(),
    };
    PluginId::new(&index, &name)
        .map_err(|error| usage(format!("{error}: set --index NN and --name NAME")))
}

fn usage(message: impl Into<String>) -> anyhow::Error {
    Fault::new(Exit::Usage, message).into()
}

/// Puts `text` in the place of a file, all of it or nothing. A link stays one, and the mode what it was.
#[expect(
    clippy::disallowed_methods,
    reason = "a case is a file of its author, not state"
)]
fn replace(path: &Path, text: &str) -> Result<()> {
    let context = || format!("cannot write {}, which stays as it was", path.display());
    let path = std::fs::canonicalize(path).with_context(context)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let new = path.with_file_name(name);
    let done = fill(&new, &path, text).and_then(|()| std::fs::rename(&new, &path));
    if done.is_err() {
        // It may not even have been made.
        let _gone = std::fs::remove_file(&new);
    }
    done.with_context(context)
}

/// Makes the file that takes the place of `old`.
fn fill(new: &Path, old: &Path, text: &str) -> std::io::Result<()> {
    let mode = std::fs::metadata(old)?.permissions();
    let mut file = File::options().write(true).create_new(true).open(new)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(mode)?;
    file.sync_all()
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_file_is_replaced_behind_its_link_and_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("case.yaml"), dir.path().join("link.yaml"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        symlink("case.yaml", &link).unwrap();
        replace(&link, "new").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing is left"
        );
        // What cannot be replaced stays, and nothing lies beside it.
        replace(&dir.path().join("missing"), "new").unwrap_err();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
