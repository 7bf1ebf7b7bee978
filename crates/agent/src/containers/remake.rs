//! Directories of living containers that somebody has removed, made again.
//!
//! A shim needs its directory in the end alone, to write down how its container ended; what is in it until then
//! is for the agent. The new `run/` is not the directory that the shim has locked: while the shim lives, its pid
//! record speaks for it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longshore_checkpoint::{CheckpointError, Durability, Writer};
use longshore_paths::ContainerId;

use super::host::{Host, only_ours};
use super::launch::millis;
use super::sandbox::Sandboxes;
use super::{Shared, holder};
use crate::dir_lock::{DirLock, create_private};
use crate::error::AgentError;
use crate::process::{self, ProcessId, SHIM_NAME};
use crate::record::{
    self, Cgroups, ContainerRecord, Facts, Logs, Mounts, PidRecord, Program, Spec,
};

/// What is known of a container whose directory is gone.
#[derive(Debug)]
struct Known {
    id: ContainerId,
    dir: PathBuf,
    launched: SystemTime,
    facts: Facts,
    cgroups: Cgroups,
    init: ProcessId,
}

impl Shared {
    /// Makes again what is gone of the run directory, and takes its lock again. Blocks.
    ///
    /// # Errors
    /// The directory cannot be made, is not ours, or another agent has it by now.
    pub(super) fn restore(&self) -> Result<(), AgentError> {
        let host = &self.host;
        if !host.lock().in_place() {
            let lock = DirLock::take(&host.run_dir)?;
            only_ours("run_dir", &host.run_dir)?;
            tracing::warn!(dir = %host.run_dir.display(), "the run directory was gone; it is made again");
            host.hold(lock);
        }
        create_private(&host.containers).map_err(|source| AgentError::Io {
            action: "create",
            path: host.containers.clone(),
            source,
        })?;
        let now = state(&host.containers);
        if now.is_some() && now == host.seen() {
            return Ok(());
        }
        let mut whole = true;
        for known in self.living() {
            if run_pid(&known.dir).exists() {
                continue;
            }
            if let Err(error) = host.remake(&known) {
                whole = false;
                tracing::warn!(container = %known.id, %error, "the directory of a container is gone and cannot be made again");
            }
        }
        host.see(now.filter(|_| whole));
        Ok(())
    }

    fn living(&self) -> Vec<Known> {
        let inner = self.lock();
        let living = inner.registry.living();
        let handles = living.filter_map(|(id, _)| Some((id, inner.handles.get(id)?)));
        handles
            .filter_map(|(id, handle)| {
                let (init, _) = handle.init.as_ref()?;
                Some(Known {
                    id: id.clone(),
                    dir: handle.dir.clone(),
                    launched: handle.launched,
                    facts: handle.facts.clone(),
                    cgroups: handle.cgroups.clone(),
                    init: *init,
                })
            })
            .collect()
    }
}

/// What a directory is and when a name in it came or went last. While it stays so, nothing is gone.
pub(super) type Seen = (u64, i64, i64);

fn state(dir: &Path) -> Option<Seen> {
    let found = fs::metadata(dir).ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec()))
}

impl Host {
    fn remake(&self, known: &Known) -> Result<(), CheckpointError> {
        // Without a shim it has ended, and is about to be forgotten.
        let Some(shim) = known.init.shim() else {
            return Ok(());
        };
        let writer = Writer::new();
        let record = ContainerRecord {
            id: known.id.values().into_iter().map(str::to_owned).collect(),
            boot_id: self.boot_id.clone(),
            launched_ms: millis(known.launched),
            // Its shim has done all this long since; nobody reads it again but for the cgroups.
            spec: Spec {
                sandbox_base: self.sandboxes.base(),
                sandbox: Sandboxes::below(&known.id),
                program: Program::Missing("its record was lost while it ran".to_owned()),
                environment: Vec::new(),
                user: None,
                rlimits: Vec::new(),
                oom_score_adj: 0,
                mounts: Mounts::default(),
                cgroups: known.cgroups.clone(),
                logs: Logs {
                    max_bytes: self.logs.max_bytes,
                    keep: self.logs.keep,
                },
            },
            facts: known.facts.clone(),
        };
        writer.write(
            known.dir.join(record::CONTAINER),
            &record,
            Durability::Process,
        )?;
        let pid = PidRecord {
            shim,
            init: known.init,
        };
        writer.write(run_pid(&known.dir), &pid, Durability::Process)?;
        tracing::warn!(container = %known.id, "the directory of a living container was gone; it is made again");
        Ok(())
    }

    /// Finds the shims at work whose directories are gone, by what they were started with, and makes these
    /// again. Blocks.
    pub(super) fn find_adrift(&self) {
        let uid = nix::unistd::geteuid().as_raw();
        let shims = process::pids()
            .into_iter()
            .filter_map(|pid| Some((pid, adrift(pid, uid, &self.containers)?)));
        let shims: Vec<_> = shims.collect();
        if shims.is_empty() {
            return;
        }
        let table = holder::table();
        for (shim, dir) in shims {
            // One that has not got to its container's first process does not get there without its record.
            let Some(pid) = holder::with_init(&table, shim) else {
                continue;
            };
            tracing::warn!(dir = %dir.display(), shim, "a container lives whose directory is gone; it is taken over");
            if let Err(error) = Writer::new().write(run_pid(&dir), &pid, Durability::Process) {
                tracing::error!(dir = %dir.display(), %error, "the directory of a living container cannot be made again");
            }
        }
    }
}

fn run_pid(dir: &Path) -> PathBuf {
    dir.join(record::RUN).join(record::PID)
}

/// The directory below `containers` that `pid` works for as a shim of `uid`, where that is gone.
fn adrift(pid: i32, uid: u32, containers: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;

    let proc = PathBuf::from(format!("/proc/{pid}"));
    let name = fs::read(proc.join("comm")).ok()?;
    if name.trim_ascii_end() != SHIM_NAME.to_bytes() || fs::metadata(&proc).ok()?.uid() != uid {
        return None;
    }
    let line = fs::read(proc.join("cmdline")).ok()?;
    let last = line.strip_suffix(b"\0")?.rsplit(|byte| *byte == 0).next()?;
    let dir = PathBuf::from(std::ffi::OsStr::from_bytes(last));
    // What it holds is said by the kernel, what it was started with by itself: both must agree.
    let mut held = dir.join(record::RUN).into_os_string();
    held.push(" (deleted)");
    let ours = dir.parent() == Some(containers) && fs::read_link(proc.join("fd/0")).ok()? == held;
    (ours && !run_pid(&dir).exists()).then_some(dir)
}

/// Whether the shim of a record is at work, whoever holds the lock of its directory: of a directory that was made
/// again nobody does.
pub(super) fn shim_lives(pid: &PidRecord) -> bool {
    let shim = pid.shim;
    let name = fs::read(format!("/proc/{}/comm", shim.pid)).unwrap_or_default();
    name.trim_ascii_end() == SHIM_NAME.to_bytes()
        && process::stat(shim.pid).is_ok_and(|stat| stat.start == shim.start && !stat.zombie)
}

/// The directories of containers, for whoever launches: made new below one that is there, never with it.
pub(super) fn make_run(dir: &Path) -> std::io::Result<PathBuf> {
    let run = dir.join(record::RUN);
    for made in [dir, &run] {
        fs::DirBuilder::new().mode(0o700).create(made)?;
    }
    Ok(run)
}
