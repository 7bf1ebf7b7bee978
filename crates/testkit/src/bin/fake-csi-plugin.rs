//! A scripted fake of a CSI plugin as a program: it listens on `CSI_ENDPOINT` and does what its arguments, followed by
//! those in `FAKE_CSI_ARGS`, say. See `longshore_testkit::csi::Script::parse`.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use longshore_testkit::csi::{Script, Shared, serve};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(code) => code,
        Err(error) => {
            say(&format!("fake-csi-plugin: {error}"));
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Ok(more) = std::env::var("FAKE_CSI_ARGS") {
        args.extend(more.split_whitespace().map(OsString::from));
    }
    let start = match args.iter().position(|arg| arg == "--starts") {
        Some(at) => count(Path::new(
            args.get(at + 1).ok_or("--starts lacks its value")?,
        ))?,
        None => 1,
    };
    let script = Script::parse(args.clone(), start)?;
    for line in &script.stderr {
        say(line);
    }
    if let Some(path) = &script.dump {
        dump(path, &args)?;
    }
    if let Some(code) = script.exit {
        return Ok(ExitCode::from(code));
    }
    let held = script.hold.as_deref().map(File::open).transpose()?;
    let mut term = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let endpoint = std::env::var("CSI_ENDPOINT").map_err(|_| "CSI_ENDPOINT is not set")?;
    let shared = Shared::new(script.behaviour.clone());
    let mut seen = shared.watch();
    let serving = serve(socket(&endpoint), shared);
    tokio::pin!(serving);
    loop {
        tokio::select! {
            served = &mut serving => served?,
            _ = term.recv() => if !script.ignore_term { break },
            _ = interrupt.recv() => break,
            _ = seen.wait_for(|seen| script.exit_after_probes.is_some_and(|n| seen.probes >= n)) => {
                // The answer of the last probe goes out first.
                tokio::select! {
                    served = &mut serving => served?,
                    () = tokio::time::sleep(std::time::Duration::from_millis(50)) => {}
                }
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    drop(held);
    Ok(ExitCode::SUCCESS)
}

fn socket(endpoint: &str) -> PathBuf {
    let path = endpoint
        .strip_prefix("unix://")
        .or_else(|| endpoint.strip_prefix("unix:"));
    PathBuf::from(path.unwrap_or(endpoint))
}

/// One byte a start.
fn count(path: &Path) -> io::Result<usize> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?
        .write_all(b".")?;
    Ok(fs::read(path)?.len())
}

fn dump(path: &Path, args: &[OsString]) -> io::Result<()> {
    let mut text = format!("start pid={}\n", std::process::id());
    for arg in args {
        text.push_str("arg ");
        text.push_str(&arg.to_string_lossy());
        text.push('\n');
    }
    for (key, value) in std::env::vars_os() {
        text.push_str("env ");
        text.push_str(&key.to_string_lossy());
        text.push('=');
        text.push_str(&value.to_string_lossy());
        text.push('\n');
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?
        .write_all(text.as_bytes())
}

#[expect(
    clippy::print_stderr,
    reason = "its stderr is what some tests are about"
)]
fn say(line: &str) {
    eprintln!("{line}");
}
