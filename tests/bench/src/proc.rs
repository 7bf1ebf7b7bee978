//! Sizes and times of processes, from `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;

/// `VmRSS`, in KiB.
///
/// # Errors
/// When the process is not there.
pub fn resident(pid: u32) -> Result<f64, Failure> {
    field(
        &fs::read_to_string(format!("/proc/{pid}/status"))?,
        &["VmRSS:"],
    )
}

/// What is the process's own, in KiB: clean and dirty private pages.
///
/// # Errors
/// When the process is not there.
pub fn private(pid: u32) -> Result<f64, Failure> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    field(&text, &["Private_Clean:", "Private_Dirty:"])
}

/// Processor time of the process so far, threads that have ended included.
///
/// # Errors
/// When the process is not there.
pub fn on_cpu(pid: u32) -> Result<Duration, Failure> {
    let clock = nix::time::clock_getcpuclockid(nix::unistd::Pid::from_raw(i32::try_from(pid)?))?;
    Ok(nix::time::clock_gettime(clock)?.into())
}

/// Pids of the processes whose arguments begin with any program and `first`, and that have
/// `text` in their arguments or environment.
///
/// # Errors
/// When the process is not there.
pub fn called(first: &str, text: &str) -> Result<Vec<u32>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let read = |file: PathBuf| {
            String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
        };
        let arguments = read(entry.path().join("cmdline"));
        if arguments.split('\0').nth(1) != Some(first) {
            continue;
        }
        if arguments.contains(text) || read(entry.path().join("environ")).contains(text) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// The sum of some lines `Name:   123 kB`.
fn field(text: &str, names: &[&str]) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for name in names {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|rest| rest.split_whitespace().next());
        sum += number.ok_or_else(|| format!("no {name}"))?.parse::<f64>()?;
    }
    Ok(sum)
}
