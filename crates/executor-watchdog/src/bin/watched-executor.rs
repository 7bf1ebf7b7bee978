//! An executor for the tests: it has a watchdog, and does what it is told on standard input, a line each. `ok` or `failed` is the answer.

use std::fs::{self, File};
use std::io::{self, BufRead as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use longshore_executor_watchdog::{Init, WATCHDOG, Watchdog, Watched};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(first) = arguments.next() else {
        return ExitCode::from(2);
    };
    if first == WATCHDOG {
        return longshore_executor_watchdog::main(arguments);
    }
    match obey(Path::new(&first)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn obey(engine: &Path) -> io::Result<()> {
    let mut watchdog = Watchdog::start(engine)?;
    let mut out = io::stdout().lock();
    writeln!(out, "ok")?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = match words[..] {
            ["watch", container, grace, pid, start] => watchdog.watch(&Watched {
                container: container.to_owned(),
                grace: Duration::from_millis(grace.parse().map_err(io::Error::other)?),
                init: Some(Init {
                    pid: pid.parse().map_err(io::Error::other)?,
                    start: start.parse().map_err(io::Error::other)?,
                })
                .filter(|init| init.pid != 0),
            }),
            ["forget", container] => watchdog.forget(container),
            ["leak"] => leak(),
            ["done"] => {
                watchdog.done()?;
                writeln!(out, "ok")?;
                return Ok(());
            }
            ["exit"] => return Ok(()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        writeln!(out, "{}", if outcome.is_ok() { "ok" } else { "failed" })?;
    }
    Ok(())
}

/// Gives every pipe of this process beyond the standard ones to a child that lives for a while.
fn leak() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let is_standard = matches!(name, Some("0" | "1" | "2"));
        let target = fs::read_link(&path).unwrap_or_default();
        if is_standard || !target.to_string_lossy().starts_with("pipe:") {
            continue;
        }
        let Ok(pipe) = File::options().write(true).open(&path) else {
            continue;
        };
        Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .stdout(pipe)
            .spawn()?;
    }
    Ok(())
}
