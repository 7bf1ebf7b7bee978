//! Control groups of containers, v2 or v1, where this host lets us make them.
//!
//! ```text
//!  v2   <root>/longshore/shims            all shims: outside the daemon's cgroup, without limits
//!       <root>/longshore/<hash>-<id>      one container: its limits, cgroup.kill for its tree
//!       <root>/longshore/<hash>-<id>/<..> its nested ones: below its limits
//!  v1   the same below <root>/{cpu,memory,systemd} and one of {unified,pids,freezer}, as far as mounted
//! ```
//!
//! The daemon's cgroup is never used, so that stopping its unit leaves the containers alone. What
//! cannot be enforced is reported, with the reason, and does not stop a launch.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::record::{Cgroups, MemoryWatch};

#[cfg(test)]
mod tests;

const PARENT: &str = "longshore";
const SHIMS: &str = "shims";
/// Microseconds: the period that CPU quotas are relative to (Mesos' own).
const CPU_PERIOD: f64 = 100_000.0;

/// What the host offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    None {
        reason: String,
    },
    V2 {
        root: PathBuf,
    },
    V1 {
        cpu: Option<PathBuf>,
        memory: Option<PathBuf>,
        trackers: Vec<PathBuf>,
    },
}

/// What a container is to be given.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Wanted {
    /// Processors guaranteed: a weight.
    pub cpus: Option<f64>,
    /// Processors at most: a quota.
    pub cpus_limit: Option<f64>,
    /// Bytes asked for: a soft limit where there is one.
    pub mem: Option<u64>,
    /// Bytes at most.
    pub mem_limit: Option<u64>,
}

/// What a container was given.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Given {
    pub cgroups: Cgroups,
    /// What is not enforced, each with its reason.
    pub unenforced: Vec<String>,
}

impl Layout {
    /// Looks at `root`, normally `/sys/fs/cgroup`, and tries whether we may make cgroups there.
    pub(crate) fn detect(root: &Path) -> Self {
        if root.join("cgroup.controllers").exists() {
            return Self {
                kind: Self::try_v2(root),
            };
        }
        let hierarchy = |name: &str| {
            let dir = root.join(name);
            (dir.join("cgroup.procs").exists() && make(&dir).is_ok()).then_some(dir)
        };
        let cpu = hierarchy("cpu").or_else(|| hierarchy("cpu,cpuacct"));
        let memory = hierarchy("memory");
        // One to find the tree by, best the one that can kill it, and systemd's own.
        let tracker = ["unified", "pids", "freezer"]
            .into_iter()
            .find_map(hierarchy);
        let trackers: Vec<_> = tracker.into_iter().chain(hierarchy("systemd")).collect();
        if cpu.is_none() && memory.is_none() && trackers.is_empty() {
            let reason = format!("no cgroup can be made below {}", root.display());
            return Self::none(reason);
        }
        Self {
            kind: Kind::V1 {
                cpu,
                memory,
                trackers,
            },
        }
    }

    /// A host without cgroups, and why.
    pub(crate) fn none(reason: impl Into<String>) -> Self {
        Self {
            kind: Kind::None {
                reason: reason.into(),
            },
        }
    }

    fn try_v2(root: &Path) -> Kind {
        if let Err(error) = make(root) {
            let reason = format!("no cgroup can be made below {}: {error}", root.display());
            return Kind::None { reason };
        }
        for controller in ["+cpu", "+memory", "+pids"] {
            // One at a time: a controller that is not there must not keep the others off.
            for dir in [root.to_owned(), root.join(PARENT)] {
                let _reported_when_used = append(&dir.join("cgroup.subtree_control"), controller);
            }
        }
        Kind::V2 {
            root: root.to_owned(),
        }
    }

    /// Makes the cgroups of a container called `name` and sets its limits. A nested one, whose
    /// parent's cgroups are given, lives below its parent's limits.
    ///
    /// # Errors
    /// When a cgroup cannot be made although the host offers them; nothing is left behind.
    pub(crate) fn create(
        &self,
        name: &str,
        parent: Option<&Cgroups>,
        wanted: Wanted,
    ) -> io::Result<Given> {
        let mut given = Given::default();
        let result = match &self.kind {
            Kind::None { reason } => {
                report(&mut given, wanted, reason);
                Ok(())
            }
            Kind::V2 { root } => v2(root, name, parent, wanted, &mut given),
            Kind::V1 {
                cpu,
                memory,
                trackers,
            } => {
                let own = |dir: &PathBuf| parent_in(parent, dir).join(name);
                v1(
                    cpu.as_ref().map(own),
                    memory.as_ref().map(own),
                    trackers.iter().map(own).collect(),
                    wanted,
                    &mut given,
                )
            }
        };
        match result {
            Ok(()) => {
                given.cgroups.shims = self.shims();
                Ok(given)
            }
            Err(error) => {
                remove(&given.cgroups);
                Err(error)
            }
        }
    }

    fn shims(&self) -> Vec<PathBuf> {
        let shims = |dir: &PathBuf| dir.join(PARENT).join(SHIMS);
        match &self.kind {
            Kind::None { .. } => Vec::new(),
            Kind::V2 { root } => vec![shims(root)],
            Kind::V1 {
                cpu,
                memory,
                trackers,
            } => cpu
                .iter()
                .chain(memory)
                .chain(trackers)
                .map(shims)
                .collect(),
        }
    }

    /// Removes the directories that all containers share, if nothing is left in them.
    pub(crate) fn tidy(&self) {
        for shims in self.shims() {
            let _still_used = fs::remove_dir(&shims);
            if let Some(parent) = shims.parent() {
                let _still_used = fs::remove_dir(parent);
            }
        }
    }
}

fn parent_in(parent: Option<&Cgroups>, hierarchy: &Path) -> PathBuf {
    parent
        .and_then(|parent| {
            parent
                .container
                .iter()
                .find(|dir| dir.starts_with(hierarchy))
        })
        .cloned()
        .unwrap_or_else(|| hierarchy.join(PARENT))
}

fn v2(
    root: &Path,
    name: &str,
    parent: Option<&Cgroups>,
    wanted: Wanted,
    given: &mut Given,
) -> io::Result<()> {
    let dir = parent_in(parent, root).join(name);
    fs::create_dir_all(&dir)?;
    given.cgroups.container.push(dir.clone());
    if parent.is_some() {
        // A cgroup with processes in it, as the parent's is, can give no controllers to those
        // below it: nested containers share the parent's limits (Mesos' share_cgroups).
        report(
            given,
            wanted,
            "a nested container shares the limits of its parent",
        );
        return Ok(());
    }
    let cpu = v2_cpu(&dir, wanted);
    note(
        given,
        &cpu,
        "cpus",
        wanted.cpus.is_some() || wanted.cpus_limit.is_some(),
    );
    let memory = v2_memory(&dir, wanted);
    note(given, &memory, "mem", wanted.mem_limit.is_some());
    if let (Ok(()), Some(limit_bytes)) = (memory, wanted.mem_limit) {
        given.cgroups.memory = Some(MemoryWatch {
            dir,
            v2: true,
            limit_bytes,
        });
    }
    Ok(())
}

fn v2_cpu(dir: &Path, wanted: Wanted) -> io::Result<()> {
    if let Some(cpus) = wanted.cpus {
        // The kernel's own mapping of shares (2 to 262144) to weights (1 to 10000).
        let shares = shares(cpus);
        let weight = 1 + (shares - 2) * 9999 / 262_142;
        write(&dir.join("cpu.weight"), &weight.to_string())?;
    }
    if let Some(limit) = wanted.cpus_limit {
        write(
            &dir.join("cpu.max"),
            &format!("{} {CPU_PERIOD}", quota(limit)),
        )?;
    }
    Ok(())
}

fn v2_memory(dir: &Path, wanted: Wanted) -> io::Result<()> {
    if let Some(limit) = wanted.mem_limit {
        write(&dir.join("memory.max"), &limit.to_string())?;
        // A container is one thing: when one of its processes is killed for memory, all are.
        let _older_kernel = write(&dir.join("memory.oom.group"), "1");
        let _without_swap = write(&dir.join("memory.swap.max"), "0");
    }
    Ok(())
}

fn v1(
    cpu: Option<PathBuf>,
    memory: Option<PathBuf>,
    trackers: Vec<PathBuf>,
    wanted: Wanted,
    given: &mut Given,
) -> io::Result<()> {
    for dir in cpu.iter().chain(&memory).chain(&trackers) {
        fs::create_dir_all(dir)?;
        given.cgroups.container.push(dir.clone());
    }
    let missing = |name| io::Error::other(format!("the {name} controller is not there"));
    let cpu = cpu
        .ok_or_else(|| missing("cpu"))
        .and_then(|dir| v1_cpu(&dir, wanted));
    note(
        given,
        &cpu,
        "cpus",
        wanted.cpus.is_some() || wanted.cpus_limit.is_some(),
    );
    let memory = memory.ok_or_else(|| missing("memory")).and_then(|dir| {
        v1_memory(&dir, wanted)?;
        Ok(dir)
    });
    note(given, &memory, "mem", wanted.mem_limit.is_some());
    if let (Ok(dir), Some(limit_bytes)) = (memory, wanted.mem_limit) {
        given.cgroups.memory = Some(MemoryWatch {
            dir,
            v2: false,
            limit_bytes,
        });
    }
    Ok(())
}

fn v1_cpu(dir: &Path, wanted: Wanted) -> io::Result<()> {
    if let Some(cpus) = wanted.cpus {
        write(&dir.join("cpu.shares"), &shares(cpus).to_string())?;
    }
    if let Some(limit) = wanted.cpus_limit {
        write(&dir.join("cpu.cfs_period_us"), &CPU_PERIOD.to_string())?;
        write(&dir.join("cpu.cfs_quota_us"), &quota(limit))?;
    }
    Ok(())
}

fn v1_memory(dir: &Path, wanted: Wanted) -> io::Result<()> {
    if let Some(soft) = wanted.mem {
        write(&dir.join("memory.soft_limit_in_bytes"), &soft.to_string())?;
    }
    if let Some(limit) = wanted.mem_limit {
        write(&dir.join("memory.limit_in_bytes"), &limit.to_string())?;
        let _without_swap = write(&dir.join("memory.memsw.limit_in_bytes"), &limit.to_string());
    }
    Ok(())
}

/// `cpu.shares` of a number of processors, as Mesos sets it: 1024 each, at least 2.
fn shares(cpus: f64) -> u64 {
    whole(cpus * 1024.0).clamp(2, 262_144)
}

/// A quota for each period, at least the kernel's minimum of 1 ms; a limit beyond any machine is
/// none.
fn quota(cpus: f64) -> String {
    whole(cpus * CPU_PERIOD)
        .clamp(1000, 1_000_000_000_000)
        .to_string()
}

/// The integer part of a number that is neither negative nor too large, else the nearest bound.
pub(crate) fn whole(value: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast from float saturates, which is what is wanted"
    )]
    let whole = value as u64;
    whole
}

fn report(given: &mut Given, wanted: Wanted, reason: &str) {
    if wanted.cpus.is_some() || wanted.cpus_limit.is_some() {
        given.unenforced.push(format!("cpus: {reason}"));
    }
    if wanted.mem_limit.is_some() {
        given.unenforced.push(format!("mem: {reason}"));
    }
}

fn note<T>(given: &mut Given, result: &io::Result<T>, what: &str, wanted: bool) {
    if let (Err(error), true) = (result, wanted) {
        given.unenforced.push(format!("{what}: {error}"));
    }
}

/// Makes the directories that all containers share, and tries whether we may make more.
fn make(hierarchy: &Path) -> io::Result<()> {
    fs::create_dir_all(hierarchy.join(PARENT).join(SHIMS))?;
    let probe = hierarchy
        .join(PARENT)
        .join(format!("probe-{}", std::process::id()));
    match fs::create_dir(&probe) {
        Ok(()) => fs::remove_dir(probe),
        // Another agent of this process is trying at the same time.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves the calling process, which has one thread, into each of the cgroups.
///
/// # Errors
/// The first that fails, with its path.
pub(crate) fn join<'a>(dirs: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<()> {
    for dir in dirs {
        // A thread that moves itself alone is not held up by the kernel's lock on all forks of the
        // machine (which takes a grace period, 8 ms and more); v1 has a file for that.
        let file = if is_v2(dir) { "cgroup.procs" } else { "tasks" };
        write(&dir.join(file), "0").map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot join the cgroup {}: {error}", dir.display()),
            )
        })?;
    }
    Ok(())
}

/// Whether a cgroup is one of v2, where moving is slow.
pub(crate) fn is_v2(dir: &Path) -> bool {
    !dir.join("tasks").exists()
}

/// Sends SIGKILL to everything in the container's cgroups, those below included, where the kernel
/// can (v2, Linux 5.14).
pub(crate) fn kill(cgroups: &Cgroups) {
    for dir in &cgroups.container {
        let file = dir.join("cgroup.kill");
        if file.exists() {
            let _gone = write(&file, "1");
        }
    }
}

/// The pids in a container's cgroups, those of its nested ones not included.
pub(crate) fn pids(cgroups: &Cgroups) -> Vec<i32> {
    let mut pids: Vec<i32> = cgroups
        .container
        .iter()
        .filter_map(|dir| fs::read_to_string(dir.join("cgroup.procs")).ok())
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.trim().parse().ok())
                .collect::<Vec<i32>>()
        })
        .filter(|pid| *pid > 1)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Removes a container's cgroups, which must be empty of processes. A directory that is busy is
/// left to the next sweep.
pub(crate) fn remove(cgroups: &Cgroups) {
    for dir in &cgroups.container {
        let _busy_or_gone = fs::remove_dir(dir);
    }
}

/// Whether the kernel has killed a process of the container for its memory limit, and the most
/// memory that was used, in bytes.
pub(crate) fn memory_exceeded(watch: &MemoryWatch) -> Option<u64> {
    let (events, peak) = if watch.v2 {
        ("memory.events", "memory.peak")
    } else {
        ("memory.oom_control", "memory.max_usage_in_bytes")
    };
    let text = fs::read_to_string(watch.dir.join(events)).ok()?;
    let killed = text.lines().any(|line| {
        line.strip_prefix("oom_kill ")
            .and_then(|count| count.trim().parse::<u64>().ok())
            > Some(0)
    });
    let peak = fs::read_to_string(watch.dir.join(peak))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(watch.limit_bytes);
    killed.then_some(peak)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    open(path, false)?
        .write_all(text.as_bytes())
        .map_err(|error| named(path, &error))
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    open(path, true)?
        .write_all(text.as_bytes())
        .map_err(|error| named(path, &error))
}

fn open(path: &Path, append: bool) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .write(!append)
        .append(append)
        .truncate(!append)
        .create(true)
        .mode(0o644)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
