//! The blocking steps of a launch, in an order in which a crash leaves nothing that lives unseen:
//!
//! ```text
//!  sandbox, volumes -> cgroups with limits -> intent on record -> run/ locked -> shim spawned, or the spare ordered
//! ```
//!
//! The lock on `run/` is taken here and handed to the shim as its standard input, so that there is
//! no moment in which a shim of this container exists and the lock is free.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_checkpoint::{Durability, Writer};
use longshore_paths::ContainerId;
use nix::sys::resource::Resource;

use super::Host;
use super::plan::{self, Rights};
use super::remake;
use super::sandbox::Sandboxes;
use super::spares;
use crate::cgroup;
use crate::record::{self, Cgroups, ContainerRecord, Facts, Logs, Rlimit, Spec};
use crate::service::{LaunchError, LaunchErrorKind, LaunchRequest};
use crate::shim::mounts;

/// A shim that was spawned and has not reported yet.
#[derive(Debug)]
pub(super) struct Spawned {
    pub shim: OwnedFd,
    pub report: OwnedFd,
    pub made: Made,
    pub facts: Facts,
}

/// What a launch has made, to be undone when it fails.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub sandbox: bool,
    pub directories: Vec<PathBuf>,
    pub cgroups: Cgroups,
    pub run: Option<PathBuf>,
}

/// Takes all the steps; `dir` is the launch's own directory, not there yet.
///
/// # Errors
/// With the text of the answer; nothing is left.
pub(super) fn spawn(
    host: &Host,
    request: &LaunchRequest,
    dir: &Path,
    parent: Option<&Cgroups>,
    launched: SystemTime,
) -> Result<Spawned, LaunchError> {
    let mut made = Made::default();
    match steps(host, request, dir, parent, launched, &mut made) {
        Ok((shim, report, facts)) => Ok(Spawned {
            shim,
            report,
            made,
            facts,
        }),
        Err(error) => {
            undo(host, &request.id, &made);
            Err(error)
        }
    }
}

/// Deletes what a launch has made.
pub(super) fn undo(host: &Host, id: &ContainerId, made: &Made) {
    if let Some(run) = &made.run {
        host.forget_dir(run);
    }
    cgroup::remove(&made.cgroups);
    if made.sandbox {
        host.sandboxes.unmake(id);
    }
    for directory in made.directories.iter().rev() {
        let _used_by_others = std::fs::remove_dir(directory);
    }
}

fn steps(
    host: &Host,
    request: &LaunchRequest,
    dir: &Path,
    parent: Option<&Cgroups>,
    launched: SystemTime,
    made: &mut Made,
) -> Result<(OwnedFd, OwnedFd, Facts), LaunchError> {
    let id = &request.id;
    let rights = Rights {
        uid: nix::unistd::geteuid().as_raw(),
    };
    let plan = plan::plan(request, &host.sandboxes.path(id), rights)?;
    made.sandbox = host
        .sandboxes
        .make(id, plan.user.as_ref())
        .map_err(|error| {
            let path = host.sandboxes.path(id);
            internal(
                &format!("Failed to create sandbox {}", path.display()),
                &error,
            )
        })?;
    for directory in &plan.directories {
        make_volume(directory, &mut made.directories)?;
    }
    for volume in plan.mounts.list.iter().filter(|volume| volume.shared) {
        share_volume(&volume.source)?;
    }
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let given = host
        .layout
        .create(&name, parent, plan.wanted)
        .map_err(|error| internal("Failed to create the cgroups of the container", &error))?;
    made.cgroups = given.cgroups.clone();
    let mut unenforced = plan.unenforced;
    unenforced.extend(given.unenforced);
    let record = ContainerRecord {
        id: id.values().into_iter().map(str::to_owned).collect(),
        boot_id: host.boot_id.clone(),
        launched_ms: millis(launched),
        spec: Spec {
            sandbox_base: host.sandboxes.base(),
            sandbox: Sandboxes::below(id),
            program: plan.program,
            environment: plan.environment,
            user: plan.user,
            rlimits: with_open_files(plan.rlimits, host.open_files),
            oom_score_adj: 0,
            mounts: plan.mounts,
            cgroups: given.cgroups,
            logs: Logs {
                max_bytes: host.logs.max_bytes,
                keep: host.logs.keep,
            },
        },
        facts: Facts {
            cpus: plan.wanted.cpus,
            cpus_limit: plan.wanted.cpus_limit,
            mem_bytes: plan.wanted.mem,
            mem_limit_bytes: plan.wanted.mem_limit,
            unenforced,
        },
    };
    made.run = Some(dir.to_owned());
    let run = remake::make_run(dir)
        .map_err(|error| internal("Failed to record the container", &error))?;
    Writer::new()
        .write(dir.join(record::CONTAINER), &record, Durability::Process)
        .map_err(|error| internal("Failed to record the container", &error))?;
    let lock =
        File::open(&run).map_err(|error| internal("Failed to lock the container", &error))?;
    lock.try_lock()
        .map_err(|error| internal("Failed to lock the container", &error))?;
    let (shim, report) = start_shim(host, dir, lock).map_err(|error| {
        internal(
            &format!("Failed to start the shim {}", host.shim.program.display()),
            &error,
        )
    })?;
    Ok((shim, report, record.facts))
}

/// The limits of a container: what its request says, and for open files else what `default` says.
fn with_open_files(mut limits: Vec<Rlimit>, default: Option<(u64, u64)>) -> Vec<Rlimit> {
    let resource = Resource::RLIMIT_NOFILE as u32;
    let asked_for = limits.iter().any(|limit| limit.resource == resource);
    if let (false, Some((soft, hard))) = (asked_for, default) {
        limits.push(Rlimit {
            resource,
            soft,
            hard,
        });
    }
    limits
}

fn start_shim(host: &Host, dir: &Path, lock: File) -> io::Result<(OwnedFd, OwnedFd)> {
    let (report, its_end) = io::pipe()?;
    if let Some(shim) = host.spares.use_up(dir, &lock, &its_end) {
        return Ok((shim, report.into()));
    }
    let mut command = Command::new(&host.shim.program);
    command
        .args(&host.shim.args)
        .arg(dir)
        .stdin(Stdio::from(lock))
        .stdout(Stdio::from(its_end))
        .stderr(match &host.leash {
            Some(leash) => Stdio::from(leash.end.try_clone()?),
            None => Stdio::null(),
        });
    Ok((spares::spawn(command)?, report.into()))
}

/// Makes the directory of a volume where there is none, and notes what it made.
pub(super) fn make_volume(path: &Path, made: &mut Vec<PathBuf>) -> Result<(), LaunchError> {
    make_directory(path, made).map_err(|error| {
        let what = format!("Failed to create the volume {}", path.display());
        internal(&what, &error)
    })
}

/// Sees to it that what is mounted below the volume shows on both sides.
pub(super) fn share_volume(path: &Path) -> Result<(), LaunchError> {
    mounts::ensure_shared(path).map_err(|error| LaunchError {
        kind: LaunchErrorKind::BadRequest,
        message: format!(
            "The volume {} cannot be mounted with propagation both ways: {error}",
            path.display()
        ),
    })
}

/// Makes a directory and those above it, and notes which ones it made.
fn make_directory(path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directory(parent, made)?;
    }
    match std::fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => made.push(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// An error of this host, with all that led to it.
pub(super) fn internal(what: &str, error: &dyn std::error::Error) -> LaunchError {
    let mut message = format!("{what}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    LaunchError {
        kind: LaunchErrorKind::Internal,
        message,
    }
}

/// Milliseconds since the epoch.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The other way round.
pub(super) fn from_millis(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}
