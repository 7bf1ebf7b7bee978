//! The whole daemon with ten plugins: how large it is, and what it costs when nothing happens.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use longshore_bench::{Failure, Report, Row, Unit, longshore};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep};

use longshore_bench::proc;

const PLUGINS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(60);

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let root = tempfile::Builder::new().prefix("lb-").tempdir_in("/tmp")?;
    let binary = longshore()?;
    let config = root.path().join("longshore.toml");
    fs::write(&config, text(root.path(), PLUGINS, &binary)?)?;
    let log = fs::File::create(root.path().join("log"))?;
    let child = Command::new(&binary)
        .args(["daemon", "-c"])
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    let mut running = Running(child);
    let outcome = figures(report, &running, &binary, &config, root.path()).await;
    // Plugins leave with the configuration.
    fs::write(&config, text(root.path(), 0, &binary)?)?;
    kill(
        Pid::from_raw(i32::try_from(running.0.id())?),
        Signal::SIGHUP,
    )?;
    let deadline = Instant::now() + PATIENCE;
    while !proc::called("shim", &root.path().display().to_string())?.is_empty() {
        if Instant::now() > deadline {
            return Err("plugins are left".into());
        }
        sleep(Duration::from_millis(50)).await;
    }
    running.0.kill()?;
    running.0.wait()?;
    outcome
}

async fn figures(
    report: &mut Report,
    running: &Running,
    binary: &Path,
    config: &Path,
    root: &Path,
) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while !ready(binary, config)? {
        if Instant::now() > deadline {
            return Err(fs::read_to_string(root.join("log"))?.into());
        }
        sleep(Duration::from_millis(100)).await;
    }
    let pid = running.0.id();
    let before = proc::on_cpu(pid)?;
    report.note("the daemon idles for a minute");
    let mut resident = Vec::new();
    for _ in 0..IDLE.as_secs() {
        sleep(Duration::from_secs(1)).await;
        resident.push(proc::resident(pid)?);
    }
    resident.sort_by(f64::total_cmp);
    let percent =
        proc::on_cpu(pid)?.saturating_sub(before).as_secs_f64() / IDLE.as_secs_f64() * 100.0;
    let mut shims = Vec::new();
    for shim in proc::called("shim", &root.display().to_string())? {
        shims.push(proc::private(shim)?);
    }
    if shims.len() < PLUGINS {
        return Err(format!("{} shims for {PLUGINS} plugins", shims.len()).into());
    }
    let largest = shims.iter().copied().fold(0.0, f64::max);
    let row = Row::value(
        "daemon with 10 plugins, resident",
        Unit::Kibibytes,
        resident[resident.len() / 2],
        resident.len(),
    );
    report.add(row.p50_limit(12.0 * 1024.0));
    // Right after its start, and while it probes.
    let most = resident.last().copied().unwrap_or_default();
    report.add(Row::value(
        "the same, the most of a minute",
        Unit::Kibibytes,
        most,
        resident.len(),
    ));
    let row = Row::value(
        "largest shim, private",
        Unit::Kibibytes,
        largest,
        shims.len(),
    );
    report.add(row.p50_limit(2.0 * 1024.0));
    report.add(Row::value("daemon idle for a minute", Unit::Percent, percent, 1).p50_limit(0.1));
    Ok(())
}

fn text(root: &Path, plugins: usize, binary: &Path) -> Result<String, Failure> {
    let shown = root.display();
    let mut text = format!("state_dir = \"{shown}/state\"\nruntime_dir = \"{shown}/run\"\n");
    for plugin in 0..plugins {
        write!(
            text,
            "[plugins.p{plugin}]\ntype = \"org.example.p{plugin}\"\n\
             [[plugins.p{plugin}.containers]]\nservices = [\"controller\", \"node\"]\n\
             command = [\"{}\", \"csi\", \"hostpath\", \"--state-dir\", \"{shown}/data-{plugin}\"]\n",
            binary.display()
        )?;
    }
    Ok(text)
}

fn ready(binary: &Path, config: &Path) -> Result<bool, Failure> {
    let status = Command::new(binary)
        .args(["status", "--json"])
        .env("LONGSHORE_CONFIG", config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(status.success())
}

/// Ends the daemon when a measurement fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already is as good.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
