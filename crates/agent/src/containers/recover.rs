//! Taking over the containers of an earlier agent: what the records and the locks say, row by row.
//!
//! | boot | lock | `pid` | `exit` | then |
//! |---|---|---|---|---|
//! | any | any | any | yes | exited; kept for its retention |
//! | other | - | - | no | exited with the reboot |
//! | this | held | yes | no | runs: its shim is watched |
//! | this | held | no | no | starting: looked at until it runs or is gone; a shim that is found by its lock directory and has a child runs |
//! | this | free | yes | no | runs, where the shim lives: its directory was made again; else the shim was killed: the tree is ended |
//! | this | free | no | no | never started: deleted (its launch was not answered) |
//!
//! A record that cannot be read is set aside and its container, when it lives, adopted under the id
//! that its directory's name gives.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use longshore_checkpoint::{Durability, Recovered, Writer};
use longshore_paths::ContainerId;

use super::drive::{FIRST_PAUSE, LONGEST_PAUSE};
use super::launch::{from_millis, millis};
use super::registry::{Event, Life};
use super::{Handle, Host, Shared, blocking, holder, remake};
use crate::cgroup;
use crate::record::{self, Cgroups, ContainerRecord, ExitRecord, Facts, PidRecord, Reason};
use crate::shim::sys;

/// A container that an earlier agent has left.
#[derive(Debug)]
pub(super) struct Found {
    id: ContainerId,
    dir: PathBuf,
    launched: SystemTime,
    facts: Facts,
    cgroups: Cgroups,
    state: State,
}

#[derive(Debug)]
enum State {
    Exited(ExitRecord),
    Running(PidRecord),
    Starting,
    Lost(PidRecord),
}

impl State {
    fn lives(&self) -> bool {
        !matches!(self, Self::Exited(_))
    }
}

/// Reads all records. Blocks.
pub(super) fn read(host: &Host) -> Vec<Found> {
    for gone in host.sandboxes.left_over() {
        if let Err(error) = host.sandboxes.delete(&gone) {
            tracing::warn!(%error, "a sandbox that was being deleted is still there");
        }
    }
    host.find_adrift();
    let mut all: Vec<Found> = Vec::new();
    for entry in std::fs::read_dir(&host.containers)
        .into_iter()
        .flatten()
        .flatten()
    {
        let dir = entry.path();
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let Some(found) = look(host, &dir) else {
            continue;
        };
        match all.iter_mut().find(|other| other.id == found.id) {
            None => all.push(found),
            // The exit of an earlier launch of the same id, not deleted yet.
            Some(other) => {
                let newer =
                    (found.state.lives(), found.launched) > (other.state.lives(), other.launched);
                let old = if newer {
                    std::mem::replace(other, found)
                } else {
                    found
                };
                if old.state.lives() {
                    tracing::error!(container = %old.id, dir = %old.dir.display(), "a second container of one id lives; it is left alone");
                } else {
                    host.forget_dir(&old.dir);
                }
            }
        }
    }
    all
}

fn look(host: &Host, dir: &Path) -> Option<Found> {
    let run = dir.join(record::RUN);
    for swept in [dir, &run] {
        if let Err(error) = longshore_checkpoint::sweep_temps(swept) {
            tracing::debug!(dir = %swept.display(), %error, "not swept");
        }
    }
    let record = recover::<ContainerRecord>(&dir.join(record::CONTAINER));
    let held = File::open(&run)
        .is_ok_and(|lock| matches!(lock.try_lock(), Err(std::fs::TryLockError::WouldBlock)));
    // After the lock: a shim that ends now has written its exit before it let go.
    let exit = recover::<ExitRecord>(&run.join(record::EXIT));
    let pid = recover::<PidRecord>(&run.join(record::PID));
    if let (false, Some(shim)) = (held, pid.and_then(|pid: PidRecord| pid.shim.open())) {
        // Its parent is another agent of this very process, which did not get to it.
        sys::reap_pidfd(shim.as_fd());
    }
    let id = match &record {
        Some(record) => id_of(&record.id),
        None => dir
            .file_name()
            .and_then(|name| name.to_str()?.rsplit_once('@')?.0.parse().ok()),
    };
    let this_boot = record
        .as_ref()
        .is_none_or(|record| record.boot_id == host.boot_id);
    let state = match (exit, this_boot, held, pid) {
        (Some(exit), ..) => State::Exited(exit),
        (None, false, ..) => State::Exited(rebooted(&run)),
        (None, true, true, Some(pid)) => State::Running(pid),
        (None, true, true, None) => State::Starting,
        (None, true, false, Some(pid)) if remake::shim_lives(&pid) => State::Running(pid),
        (None, true, false, Some(pid)) => State::Lost(pid),
        (None, true, false, None) => {
            tracing::debug!(dir = %dir.display(), "a launch that did not get to its shim is deleted");
            if let Some(record) = &record {
                cgroup::remove(&record.spec.cgroups);
            }
            host.forget_dir(dir);
            return None;
        }
    };
    let Some(id) = id else {
        tracing::error!(dir = %dir.display(), "a container without a readable record or name is left alone");
        return None;
    };
    let (launched_ms, facts, cgroups) = record.map_or_else(
        || (0, Facts::default(), Cgroups::default()),
        |record| (record.launched_ms, record.facts, record.spec.cgroups),
    );
    Some(Found {
        id,
        dir: dir.to_owned(),
        launched: from_millis(launched_ms),
        facts,
        cgroups,
        state,
    })
}

fn id_of(values: &[String]) -> Option<ContainerId> {
    let (first, rest) = values.split_first()?;
    rest.iter()
        .try_fold(ContainerId::new(first).ok()?, |parent, value| {
            ContainerId::nested(&parent, value).ok()
        })
}

fn recover<R: longshore_checkpoint::Record>(path: &Path) -> Option<R> {
    match longshore_checkpoint::recover::<R>(path) {
        Ok(Recovered::Record(record)) => Some(record),
        Ok(Recovered::Nothing) => None,
        Ok(_damaged) => {
            tracing::warn!(path = %path.display(), "a damaged record was set aside");
            None
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a record cannot be read");
            None
        }
    }
}

fn rebooted(run: &Path) -> ExitRecord {
    let exit = ExitRecord {
        status: None,
        reason: Some(Reason::Rebooted),
        message: Some("The machine was restarted while the container ran".to_owned()),
        ended_ms: millis(SystemTime::now()),
    };
    let written = Writer::new().write(run.join(record::EXIT), &exit, Durability::Process);
    if let Err(error) = written {
        tracing::warn!(%error, "the end of a container could not be recorded");
    }
    exit
}

impl Shared {
    /// Puts what was found into the registry and watches what lives.
    pub(super) fn adopt(self: &Arc<Self>, found: Vec<Found>) {
        let mut watched = Vec::new();
        let deferred = {
            let mut inner = self.lock();
            for found in found {
                let mut handle = Handle::new(found.dir.clone(), found.launched);
                handle.facts = found.facts;
                handle.cgroups = found.cgroups;
                let life = match &found.state {
                    State::Exited(exit) => {
                        let at = from_millis(exit.ended_ms);
                        handle.exit.send_replace(Some(exit.clone().into()));
                        cgroup::remove(&std::mem::take(&mut handle.cgroups));
                        Life::Exited {
                            exit: exit.clone().into(),
                            at,
                        }
                    }
                    State::Running(pid) | State::Lost(pid) => {
                        if let Some(init) = pid.init.open() {
                            handle.init = Some((pid.init, Arc::new(init)));
                        }
                        Life::Running { killed: false }
                    }
                    State::Starting => Life::Starting { kill: false },
                };
                inner.registry.restore(found.id.clone(), life);
                inner.handles.insert(found.id.clone(), handle);
                if found.state.lives() {
                    watched.push((found.id, found.dir, found.state));
                }
            }
            let actions = inner.registry.settle();
            inner.apply(&self.host, actions)
        };
        self.finish(deferred);
        for (id, dir, state) in watched {
            self.spawn(|shared| async move {
                match state {
                    State::Running(pid) => shared.watch_found(id, dir, pid).await,
                    State::Lost(pid) => shared.settle(id, dir, Some(pid.init), None).await,
                    State::Starting | State::Exited(_) => shared.await_start(id, dir).await,
                }
            });
        }
    }

    async fn watch_found(self: Arc<Self>, id: ContainerId, dir: PathBuf, pid: PidRecord) {
        match pid.shim.open() {
            Some(shim) => self.watch(id, dir, shim, Some(pid.init)).await,
            // It has ended since its lock was seen.
            None => self.settle(id, dir, Some(pid.init), None).await,
        }
    }

    /// A shim is at work that has not got to its container's first process, nor told anybody its
    /// own pid: its record and its lock are looked at, and later who holds the lock.
    async fn await_start(self: Arc<Self>, id: ContainerId, dir: PathBuf) {
        let mut pause = FIRST_PAUSE;
        loop {
            let path = dir.clone();
            let seen = blocking(move || {
                let run = path.join(record::RUN);
                let held = File::open(&run).is_ok_and(|lock| lock.try_lock().is_err());
                (held, recover::<PidRecord>(&run.join(record::PID)))
            })
            .await;
            match seen {
                Ok((_, Some(pid))) => {
                    self.started(&id, pid.init);
                    return self.watch_found(id, dir, pid).await;
                }
                // Long enough for any start: its record is lost, the container is not.
                Ok((true, None)) if pause >= LONGEST_PAUSE => {
                    let run = dir.join(record::RUN);
                    if let Ok(Some(pid)) = blocking(move || holder::find(&run)).await {
                        tracing::warn!(container = %id, shim = pid.shim.pid, "the record of a container's pid is missing; its shim was found by its directory");
                        self.started(&id, pid.init);
                        return self.watch_found(id, dir, pid).await;
                    }
                }
                Ok((true, None)) => {}
                Ok((false, None)) => return self.never_started(&id, &dir),
                Err(_) => return,
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn never_started(self: &Arc<Self>, id: &ContainerId, dir: &Path) {
        let deferred = {
            let mut inner = self.lock();
            if let Some(handle) = inner.handles.remove(id) {
                cgroup::remove(&handle.cgroups);
            }
            let (_, actions) = inner.registry.step(id, Event::Failed, SystemTime::now());
            let mut deferred = inner.apply(&self.host, actions);
            deferred.dirs.push(dir.to_owned());
            deferred
        };
        self.finish(deferred);
    }
}
