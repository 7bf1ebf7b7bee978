//! What an engine leaves when it ends, also when it was killed: shims, containers, mounts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::tick;

/// Ends every process of the engine in `dir`: TERM for dockerd, which stops its containers, then KILL
/// for what is left.
pub(super) fn stop(dir: &Path, cgroup: &str, patience: Duration) -> Result<()> {
    let deadline = Instant::now() + patience;
    let named = |name: &str| -> Result<Vec<u32>> {
        Ok(processes(dir)?
            .into_iter()
            .filter(|(_, program)| program == name)
            .map(|(pid, _)| pid)
            .collect())
    };
    for name in ["dockerd", "containerd"] {
        signal("-TERM", &named(name)?);
        while !named(name)?.is_empty() && Instant::now() < deadline {
            tick();
        }
    }
    let groups = cgroups(cgroup);
    loop {
        let mut left: Vec<u32> = processes(dir)?.into_iter().map(|(pid, _)| pid).collect();
        left.extend(groups.iter().flat_map(|group| members(group)));
        if left.is_empty() {
            break;
        }
        if Instant::now() > deadline + patience {
            bail!("processes {left:?} of the engine do not end");
        }
        signal("-KILL", &left);
        tick();
    }
    // Deepest first; one that is in use by then is nothing of ours.
    for group in groups.iter().rev() {
        drop(fs::remove_dir(group));
    }
    Ok(())
}

/// Processes that were started with a path below `dir` among their words, and their programs.
fn processes(dir: &Path) -> Result<Vec<(u32, String)>> {
    let below = format!("{}/", dir.display());
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("reading /proc")? {
        let entry = entry.context("reading /proc")?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // One that has ended meanwhile has no words.
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        let mut words = words.split('\0');
        let program = words.next().unwrap_or_default().rsplit('/').next();
        let program = program.unwrap_or_default().to_owned();
        let ours = [
            "dockerd",
            "containerd",
            "containerd-shim",
            "runc",
            "docker-proxy",
        ];
        if ours.iter().any(|name| program.starts_with(name))
            && words.any(|word| word.contains(&below))
        {
            found.push((pid, program));
        }
    }
    Ok(found)
}

/// The cgroup `name` and those below it, in each hierarchy; parents first.
fn cgroups(name: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let mut roots = vec![root.to_path_buf()];
    roots.extend(folders(root));
    let mut found: Vec<PathBuf> = roots
        .iter()
        .map(|root| root.join(name))
        .filter(|it| it.is_dir())
        .collect();
    let mut next = 0;
    while next < found.len() {
        found.extend(folders(&found[next]));
        next += 1;
    }
    found
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect()
}

fn members(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn signal(name: &str, pids: &[u32]) {
    if pids.is_empty() {
        return;
    }
    // One that has ended meanwhile is what is wanted.
    let words = pids.iter().map(ToString::to_string);
    let mut command = Command::new("kill");
    command
        .arg(name)
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    drop(command.status());
}

/// Unmounts all that is mounted below `dir`, the latest first.
pub(super) fn unmount(dir: &Path) -> Result<()> {
    let below = format!("{}/", dir.display());
    let mounts = fs::read_to_string("/proc/self/mountinfo").context("reading the mounts")?;
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    for point in points
        .filter(|point| point.starts_with(&below))
        .collect::<Vec<_>>()
        .iter()
        .rev()
    {
        let status = Command::new("umount")
            .arg(point)
            .stdin(Stdio::null())
            .status()
            .context("starting umount")?;
        if !status.success() {
            bail!("{point} cannot be unmounted");
        }
    }
    Ok(())
}
