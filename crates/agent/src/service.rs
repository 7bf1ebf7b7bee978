//! The boundary between the HTTP front and the containers behind it.
//!
//! The front decodes, authorises and validates; it holds an `S: ContainerService` and turns what
//! that answers into status codes (`mesos.md` section 5.2 and the observed table). The front knows
//! nothing of processes; the containers know nothing of HTTP.
//!
//! ```text
//!  http front --LaunchRequest--> ContainerService --> Containers (process containers under a shim)
//!             <--Launched / LaunchError / ExitInfo / ContainerView--
//! ```
//!
//! What the front has checked before it calls: identifiers (they are a [`ContainerId`]), resources,
//! the consistency of environment variables and volumes, the form of the call. What only the
//! containers can tell (an unknown user, a missing parent, what this host cannot do) comes back as
//! a [`LaunchError`].

use std::collections::BTreeMap;
use std::future::Future;
use std::time::SystemTime;

use longshore_mesos_api::v1::{CommandInfo, ContainerInfo, Resource, value};
use longshore_paths::ContainerId;

/// What the container calls do.
///
/// Every method may be cancelled by dropping its future: a launch that has begun goes on (the next
/// LAUNCH of the id then answers [`Launched::AlreadyPresent`]), a kill or removal is either done or
/// not, and a dropped wait leaves the other waiters alone.
pub trait ContainerService: Send + Sync + 'static {
    /// Starts a container.
    ///
    /// Answers once the container's first process exists, with its pid recorded and its sandbox,
    /// limits and mounts in place. A program that cannot be executed is no failure of the launch:
    /// like on a Mesos agent it shows in the exit status.
    fn launch(
        &self,
        request: LaunchRequest,
    ) -> impl Future<Output = Result<Launched, LaunchError>> + Send;

    /// Waits without limit until the container has ended, all of its processes included.
    ///
    /// Also answers for a container that has ended before, within the retention time (top level)
    /// or until REMOVE or the end of its parent (nested).
    fn wait(&self, id: &ContainerId) -> impl Future<Output = Result<ExitInfo, NotFound>> + Send;

    /// Sends a signal: 9 ends the whole tree, any other goes to the first process alone. Does not
    /// wait for the end.
    fn kill(
        &self,
        id: &ContainerId,
        signal: i32,
    ) -> impl Future<Output = Result<(), KillError>> + Send;

    /// Forgets an ended container and deletes its sandbox. An id that is not there is no error
    /// (its leftovers are deleted), as long as its root container exists.
    fn remove(&self, id: &ContainerId) -> impl Future<Output = Result<(), RemoveError>> + Send;

    /// At most `length` bytes, and never more than [`READ_MAX`], of an output file from `offset`
    /// on, and the size of the whole file; nothing from its end on. Ended containers keep their
    /// output as long as their sandbox.
    fn read(
        &self,
        output: &Output,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Slice, ReadError>> + Send;

    /// The containers that have not ended, ordered by id. Answers from memory.
    fn list(&self) -> Vec<ContainerView>;
}

/// A request to start a container.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchRequest {
    /// The id; nested when it has a parent.
    pub id: ContainerId,
    /// What to run; without one the container ends at once with status 256, as on Mesos.
    pub command: Option<CommandInfo>,
    /// Volumes, rlimits and so on. What a process container cannot do is refused, not ignored.
    pub container: Option<ContainerInfo>,
    /// What the container asks for: `cpus` and `mem` (MiB) are enforced where the host allows.
    pub resources: Vec<Resource>,
    /// Upper limits by resource name, `cpus` and `mem` (MiB); infinity lifts the limit.
    pub limits: BTreeMap<String, value::Scalar>,
}

/// The two good ends of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launched {
    /// The container was started (200).
    New,
    /// A container of this id exists, whatever its command, also while it is ending (202).
    AlreadyPresent,
}

/// Why a container was not started; nothing of it is left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LaunchError {
    /// Whose fault it is.
    pub kind: LaunchErrorKind,
    /// The text of the answer, ready to be sent.
    pub message: String,
}

/// Whose fault a failed launch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchErrorKind {
    /// The request asks for something that cannot be (400).
    BadRequest,
    /// This host or its state failed: disk, user database, kernel (500).
    Internal,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExitInfo {
    /// The raw wait(2) status of the first process: exit code << 8, or the signal. `None` when it
    /// cannot be known (the machine was restarted).
    pub status: Option<i32>,
    /// Set when the container did not end by itself or by KILL_CONTAINER. The answer then also
    /// carries the state `TASK_FAILED`.
    pub reason: Option<ExitReason>,
    /// A sentence for people, when there is more to say than the status.
    pub message: Option<String>,
}

/// What ended a container that neither ended by itself nor was killed by a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// The memory limit: `REASON_CONTAINER_LIMITATION_MEMORY`, with the limit in bytes, which the
    /// answer gives as `limitation` `mem` in MiB.
    MemoryLimit {
        /// The limit that was passed.
        limit_bytes: u64,
    },
    /// The shim was killed and its container ended with it: `REASON_EXECUTOR_TERMINATED`.
    ShimLost,
    /// The machine was restarted: `REASON_AGENT_RESTARTED`.
    Rebooted,
}

/// No container of that id exists, nor is the exit status of one still kept (404).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such container")]
pub struct NotFound;

/// Why a signal was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    /// Unknown or already ended (404).
    #[error("no such container")]
    NotFound,
    /// The signal is none, or the system refused it (500); the text of the answer, such as
    /// `Unable to send signal to container: Invalid argument`.
    #[error("{0}")]
    Failed(String),
}

/// Why a container was not removed (500); the text of the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RemoveError {
    /// Such as `Nested container has not terminated yet` or `Unknown root container`.
    pub message: String,
}

/// Most bytes in one answer to READ_FILE: 16 pages of 4 KiB, as a Mesos agent's.
pub const READ_MAX: u64 = 16 * 4096;

/// An output file of a container, as READ_FILE names it:
/// `/containers/<id>[/containers/<child id> ..]/stdout`, or `.../stderr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Whose.
    pub id: ContainerId,
    /// Which.
    pub stream: Stream,
}

impl Output {
    /// The output that a path names; `None` for every other path.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let mut id: Option<ContainerId> = None;
        loop {
            match (parts.next()?, &id) {
                ("containers", parent) => {
                    let value = parts.next()?;
                    id = Some(match parent {
                        None => ContainerId::new(value).ok()?,
                        Some(parent) => ContainerId::nested(parent, value).ok()?,
                    });
                }
                (name, Some(_)) => {
                    let stream = match name {
                        "stdout" => Stream::Stdout,
                        "stderr" => Stream::Stderr,
                        _ => return None,
                    };
                    return parts.next().is_none().then_some(Self { id: id?, stream });
                }
                (_, None) => return None,
            }
        }
    }
}

/// One of the two output files of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The name of its file.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// A piece of an output file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice {
    /// The size of the whole file in bytes when it was opened.
    pub size: u64,
    /// The piece.
    pub data: Vec<u8>,
}

/// Why an output file was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No such sandbox, nothing of that name in it, or something that is no plain file (404).
    #[error("no such file")]
    NotFound,
    /// The disk failed (500); the text of the answer.
    #[error("{0}")]
    Failed(String),
}

/// A container that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerView {
    /// The id, with its parents.
    pub id: ContainerId,
    /// The first process, once there is one and until it has ended.
    pub pid: Option<u32>,
    /// Where it is in its life.
    pub phase: Phase,
    /// When the launch was recorded.
    pub started: SystemTime,
    /// The guaranteed share of processors.
    pub cpus: Option<f64>,
    /// The upper limit on processors.
    pub cpus_limit: Option<f64>,
    /// The memory asked for, in bytes.
    pub mem_bytes: Option<u64>,
    /// The memory limit, in bytes.
    pub mem_limit_bytes: Option<u64>,
    /// What was asked for and is not enforced on this host, each with the reason.
    pub unenforced: Vec<String>,
}

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Recorded; its first process may not exist yet.
    Starting,
    /// Its first process exists.
    Running,
    /// Its first process has ended or is being killed; what is left of its tree is on its way out.
    Ending,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_named_by_the_path_below_its_parents() {
        for (path, id, stream) in [
            ("/containers/c/stdout", "c", Stream::Stdout),
            ("/containers/c/containers/n/stderr", "c.n", Stream::Stderr),
            (
                "/containers/containers/containers/stdout/stdout",
                "containers.stdout",
                Stream::Stdout,
            ),
        ] {
            let id = id.parse().unwrap();
            assert_eq!(Output::parse(path), Some(Output { id, stream }), "{path}");
        }
        for path in [
            "",
            "/",
            "/stdout",
            "/containers",
            "/containers/c",
            "/containers/c/",
            "/containers/c/stdout/",
            "/containers/c/stdout.1",
            "/containers/../stdout",
            "/containers//stdout",
            "/containers/c/../d/stdout",
            "/containers/c/x/stdout",
            "containers/c/stdout",
            "/etc/passwd",
        ] {
            assert_eq!(Output::parse(path), None, "{path:?}");
        }
    }
}
