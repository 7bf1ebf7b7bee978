//! The task of one container: launch, watch, end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longshore_checkpoint::{Durability, Loaded, Writer};
use longshore_paths::ContainerId;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::launch::{self, Made, Spawned, from_millis, internal, millis};
use super::registry::{Answer, Event};
use super::{Handle, Shared, blocking, lost};
use crate::cgroup;
use crate::process::ProcessId;
use crate::record::{self, Cgroups, ExitRecord, Reason};
use crate::service::{ExitInfo, LaunchError, LaunchErrorKind, LaunchRequest, Launched};
use crate::shim::{MAX_REPORT, sys};

/// Where the caller of a launch waits.
pub(super) type Tell = oneshot::Sender<Result<Launched, LaunchError>>;

/// The first and the longest pause between looks at something that has no event.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often a shim is looked at whose container's first process has ended, and how often it is told to go on
/// before it is killed.
const SHIM_LOOK: Duration = Duration::from_millis(500);
const SHIM_LOOKS: u32 = 10;

/// How long what was launched has the processors for itself: a plugin is about to listen then.
const REFILL_AFTER: Duration = Duration::from_millis(40);

impl Shared {
    /// Begins a launch, whose end is told; false when the id is taken.
    pub(super) fn begin(
        self: &Arc<Self>,
        request: LaunchRequest,
        tell: Tell,
    ) -> Result<bool, LaunchError> {
        let id = request.id.clone();
        let dir = self
            .host
            .new_dir(&id)
            .map_err(|error| internal("Failed to name the container's directory", &error))?;
        let now = SystemTime::now();
        // As it will be read back.
        let launched = from_millis(millis(now));
        let (parent, deferred) = {
            let mut inner = self.lock();
            inner.no_image_above(&id)?;
            let (answer, actions) = inner.registry.step(&id, Event::Launch, now);
            match answer {
                Answer::Ok => {}
                Answer::AlreadyPresent | Answer::NotFound => return Ok(false),
                Answer::Refused(kind, message) => return Err(LaunchError { kind, message }),
            }
            let deferred = inner.apply(&self.host, actions);
            inner
                .handles
                .insert(id.clone(), Handle::new(dir.clone(), launched));
            let parent = id.parent().and_then(|parent| inner.handles.get(parent));
            (parent.map(|parent| parent.cgroups.clone()), deferred)
        };
        self.finish(deferred);
        self.spawn(|shared| shared.launch(request, dir, parent, launched, tell));
        Ok(true)
    }

    async fn launch(
        self: Arc<Self>,
        request: LaunchRequest,
        dir: PathBuf,
        parent: Option<Cgroups>,
        launched: SystemTime,
        tell: Tell,
    ) {
        let id = request.id.clone();
        let shared = Arc::clone(&self);
        let steps = {
            let dir = dir.clone();
            move || launch::spawn(&shared.host, &request, &dir, parent.as_ref(), launched)
        };
        let spawned = match blocking(steps).await {
            Ok(spawned) => spawned,
            Err(error) => Err(internal("Failed to launch the container", &error)),
        };
        match spawned {
            Ok(spawned) => self.await_report(id, dir, spawned, tell).await,
            Err(error) => self.launch_failed(&id, error, tell),
        }
    }

    async fn await_report(
        self: Arc<Self>,
        id: ContainerId,
        dir: PathBuf,
        spawned: Spawned,
        tell: Tell,
    ) {
        let Spawned {
            shim,
            report,
            made,
            facts,
        } = spawned;
        if let Some(handle) = self.lock().handles.get_mut(&id) {
            handle.facts = facts;
            handle.cgroups = made.cgroups.clone();
        }
        let report = tokio::time::timeout(self.host.start_timeout, read_report(report)).await;
        let outcome = match report {
            Ok(Ok(text)) => parse_report(&text),
            Ok(Err(error)) => Err(internal("Failed to read the shim's report", &error)),
            Err(_) => Err(LaunchError {
                kind: LaunchErrorKind::Internal,
                message: format!(
                    "The shim did not start within {:?}",
                    self.host.start_timeout
                ),
            }),
        };
        match outcome {
            Ok(init) => {
                self.started(&id, init);
                // Whoever asked may be gone; the container stays.
                let _nobody_waits = tell.send(Ok(Launched::New));
                self.spawn(Self::refill_spares);
                self.watch(id, dir, shim, Some(init)).await;
            }
            Err(error) => {
                self.abandon(&id, shim, &made).await;
                self.launch_failed(&id, error, tell);
            }
        }
    }

    /// Starts the next spare shim, out of the way of what was just launched.
    async fn refill_spares(self: Arc<Self>) {
        tokio::time::sleep(REFILL_AFTER).await;
        let _only_logged = blocking(move || self.host.spares.refill()).await;
    }

    /// Makes sure that nothing of a failed launch lives or is left.
    async fn abandon(self: &Arc<Self>, id: &ContainerId, shim: OwnedFd, made: &Made) {
        let _already_gone = sys::pidfd_send_signal(shim.as_fd(), libc::SIGKILL);
        wait_for_end(shim).await;
        let sandbox = self.host.sandboxes.path(id);
        lost::end_tree(&made.cgroups, None, &sandbox).await;
        let shared = Arc::clone(self);
        let (id, made) = (
            id.clone(),
            Made {
                sandbox: made.sandbox,
                directories: made.directories.clone(),
                cgroups: made.cgroups.clone(),
                run: made.run.clone(),
            },
        );
        let _only_logged = blocking(move || launch::undo(&shared.host, &id, &made)).await;
    }

    pub(super) fn launch_failed(
        self: &Arc<Self>,
        id: &ContainerId,
        error: LaunchError,
        tell: Tell,
    ) {
        tracing::debug!(container = %id, error = %error, "launch failed");
        let deferred = {
            let mut inner = self.lock();
            let (_, actions) = inner.registry.step(id, Event::Failed, SystemTime::now());
            // Whoever waits for it is told that there is none.
            inner.handles.remove(id);
            inner.apply(&self.host, actions)
        };
        self.finish(deferred);
        let _nobody_waits = tell.send(Err(error));
    }

    pub(super) fn started(self: &Arc<Self>, id: &ContainerId, init: ProcessId) {
        let deferred = {
            let mut inner = self.lock();
            if let (Some(handle), Some(pidfd)) = (inner.handles.get_mut(id), init.open()) {
                handle.init = Some((init, Arc::new(pidfd)));
            }
            let (_, actions) = inner.registry.step(id, Event::Started, SystemTime::now());
            inner.apply(&self.host, actions)
        };
        self.finish(deferred);
    }

    /// Waits for the shim to end and settles how its container ended.
    pub(super) async fn watch(
        self: Arc<Self>,
        id: ContainerId,
        dir: PathBuf,
        shim: OwnedFd,
        init: Option<ProcessId>,
    ) {
        let exited = self.wait_for_shim(&id, shim, init).await;
        self.settle(id, dir, init, exited).await;
    }

    /// Waits for the end of a shim. Once the first process has ended, the shim has only to write that down: one
    /// that somebody has stopped goes on, and where it cannot it is killed.
    async fn wait_for_shim(
        &self,
        id: &ContainerId,
        shim: OwnedFd,
        init: Option<ProcessId>,
    ) -> Option<i32> {
        let pidfd = self
            .lock()
            .handles
            .get(id)
            .and_then(|handle| Some(Arc::clone(&handle.init.as_ref()?.1)));
        let (Some(pidfd), Some(init)) = (pidfd, init) else {
            return wait_for_end(shim).await;
        };
        // Held for itself: its descriptor may be out of use before anything has happened.
        let held = shim.try_clone();
        let ended = wait_for_end(shim);
        tokio::pin!(ended);
        let Ok(shim) = held else { return ended.await };
        tokio::select! {
            exited = &mut ended => return exited,
            () = wait_for(pidfd) => {}
        }
        let mut looks = 0;
        loop {
            if let Ok(exited) = tokio::time::timeout(SHIM_LOOK, &mut ended).await {
                return exited;
            }
            if !init.shim_is_stopped() {
                continue;
            }
            looks += 1;
            let signal = if looks > SHIM_LOOKS {
                tracing::warn!(container = %id, "the shim of an ended container does not go on; it is killed");
                libc::SIGKILL
            } else {
                tracing::warn!(container = %id, "the shim of an ended container is stopped; it goes on");
                libc::SIGCONT
            };
            let _gone = sys::pidfd_send_signal(shim.as_fd(), signal);
        }
    }

    /// The shim is gone: finds out how its container ended, or ends it.
    pub(super) async fn settle(
        self: Arc<Self>,
        id: ContainerId,
        dir: PathBuf,
        init: Option<ProcessId>,
        exited: Option<i32>,
    ) {
        let path = dir.join(record::RUN).join(record::EXIT);
        let read = {
            let path = path.clone();
            blocking(move || longshore_checkpoint::read::<ExitRecord>(path)).await
        };
        let exit = match read {
            Ok(Ok(Loaded::Record(exit))) => exit,
            other => {
                if !matches!(other, Ok(Ok(Loaded::Missing | Loaded::Empty))) {
                    tracing::warn!(container = %id, path = %path.display(), "the exit record cannot be used: {other:?}");
                }
                self.end_lost(&id, &path, init, exited).await
            }
        };
        self.ended(&id, exit.into());
    }

    /// Ends what a shim has left that was killed, or that could not write its record, and writes that for it.
    async fn end_lost(
        &self,
        id: &ContainerId,
        path: &Path,
        init: Option<ProcessId>,
        exited: Option<i32>,
    ) -> ExitRecord {
        let (status, message) = match exited {
            // By itself, when all was over.
            Some(0) => {
                let text = format!(
                    "The exit status of the container is lost: {} was removed or damaged before it was read",
                    path.display()
                );
                (None, text)
            }
            Some(_) => {
                let text = format!(
                    "The exit status of the container is lost: its shim could not write {} (is the file system full?)",
                    path.display()
                );
                (None, text)
            }
            None => {
                let text = "The shim of the container was killed; the container was ended with it";
                (Some(libc::SIGKILL), text.to_owned())
            }
        };
        tracing::warn!(container = %id, "{message}");
        let cgroups = self
            .lock()
            .handles
            .get(id)
            .map(|handle| handle.cgroups.clone());
        let sandbox = self.host.sandboxes.path(id);
        lost::end_tree(&cgroups.unwrap_or_default(), init, &sandbox).await;
        let exit = ExitRecord {
            status,
            reason: Some(Reason::ShimLost),
            message: Some(message),
            ended_ms: millis(SystemTime::now()),
        };
        let (path, record) = (path.to_owned(), exit.clone());
        let written =
            blocking(move || Writer::new().write(path, &record, Durability::Process)).await;
        if !matches!(written, Ok(Ok(()))) {
            tracing::warn!(container = %id, "the end of a container could not be recorded: {written:?}");
        }
        exit
    }

    pub(super) fn ended(self: &Arc<Self>, id: &ContainerId, exit: ExitInfo) {
        tracing::debug!(container = %id, ?exit, "container ended");
        let (cgroups, deferred) = {
            let mut inner = self.lock();
            let cgroups = inner.handles.get_mut(id).map(|handle| {
                handle.init = None;
                std::mem::take(&mut handle.cgroups)
            });
            let (_, actions) = inner
                .registry
                .step(id, Event::Ended(exit), SystemTime::now());
            (cgroups, inner.apply(&self.host, actions))
        };
        self.finish(deferred);
        if let Some(cgroups) = cgroups {
            let shared = Arc::clone(self);
            // At once, since the agent may end next, and not on this thread: it can take milliseconds, and
            // somebody waits for the end. Most often that is all.
            self.tasks.spawn_blocking(move || {
                cgroup::remove(&cgroups);
                if cgroups.container.iter().any(|dir| dir.exists()) {
                    shared.spawn(|_| remove_cgroups(cgroups));
                }
            });
        }
    }
}

/// Removes the cgroups of an ended container; the kernel may need a moment to let go of them.
async fn remove_cgroups(cgroups: Cgroups) {
    let mut pause = FIRST_PAUSE;
    loop {
        cgroup::remove(&cgroups);
        if pause > LONGEST_PAUSE || !cgroups.container.iter().any(|dir| dir.exists()) {
            return;
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// Waits for the end of a shim; its exit code when it was a child of ours and has ended by itself.
async fn wait_for_end(shim: OwnedFd) -> Option<i32> {
    match sys::watch_end(shim) {
        Ok(shim) => {
            // A pidfd is readable from the end of its process on.
            let _ended = shim.readable().await;
            sys::reap_pidfd(shim.get_ref().as_fd())
        }
        Err((shim, error)) => {
            // The reactor is out of resources: look now and then instead.
            tracing::warn!(%error, "a shim cannot be watched");
            while sys::pidfd_send_signal(shim.as_fd(), 0).is_ok() {
                if let Some(code) = sys::reap_pidfd(shim.as_fd()) {
                    return Some(code);
                }
                tokio::time::sleep(LONGEST_PAUSE).await;
            }
            None
        }
    }
}

/// Waits for the end of a process; without end where it cannot be watched, which its shim's end makes up for.
async fn wait_for(process: Arc<OwnedFd>) {
    match sys::watch_end(process) {
        Ok(process) => {
            let _ended = process.readable().await;
        }
        Err(_) => std::future::pending().await,
    }
}

async fn read_report(report: OwnedFd) -> io::Result<String> {
    let limit = u64::try_from(MAX_REPORT).unwrap_or(u64::MAX);
    let mut text = Vec::new();
    pipe::Receiver::from_owned_fd(report)?
        .take(limit)
        .read_to_end(&mut text)
        .await?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// What the shim says of its start: `ok <pid> <start>`, `bad <text>`, `failed <text>`, or nothing
/// when it was killed.
fn parse_report(text: &str) -> Result<ProcessId, LaunchError> {
    let failure = |kind, message: &str| {
        Err(LaunchError {
            kind,
            message: message.to_owned(),
        })
    };
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    match word {
        "ok" => {
            let mut numbers = rest.split(' ');
            let mut next = || numbers.next().unwrap_or_default();
            match (next().parse(), next().parse()) {
                (Ok(pid), Ok(start)) => Ok(ProcessId { pid, start }),
                _ => failure(
                    LaunchErrorKind::Internal,
                    "The shim's report cannot be read",
                ),
            }
        }
        "bad" => failure(LaunchErrorKind::BadRequest, rest),
        "failed" => failure(LaunchErrorKind::Internal, rest),
        _ => failure(
            LaunchErrorKind::Internal,
            "The shim ended without starting the container",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_a_pid_or_a_reason() {
        assert_eq!(
            parse_report("ok 42 99"),
            Ok(ProcessId { pid: 42, start: 99 })
        );
        for (text, kind, message) in [
            (
                "bad the volume /x",
                LaunchErrorKind::BadRequest,
                "the volume /x",
            ),
            (
                "failed cannot fork",
                LaunchErrorKind::Internal,
                "cannot fork",
            ),
            (
                "ok 42",
                LaunchErrorKind::Internal,
                "The shim's report cannot be read",
            ),
            (
                "",
                LaunchErrorKind::Internal,
                "The shim ended without starting the container",
            ),
        ] {
            let error = parse_report(text).unwrap_err();
            assert_eq!(
                (error.kind, error.message.as_str()),
                (kind, message),
                "{text:?}"
            );
        }
    }
}
