//! Who is at the other end of a connection, and whether he is welcome.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};

use super::PeerAllow;
use crate::launch::sys;

/// The process that connected, as it was at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peer {
    /// Its pid; `None` where it has none here (a process of another pid namespace).
    pub pid: Option<i32>,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
    /// The path of its executable as the process sees it; `None` where it could not be read.
    pub executable: Option<PathBuf>,
}

/// Why a peer is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Neither its user nor its group is allowed.
    Owner,
    /// Its executable is not one of those that are allowed, or could not be looked at.
    Executable,
    /// The kernel did not say who it is.
    Unknown,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owner => "neither its user nor its group is allowed",
            Self::Executable => "its executable is not allowed",
            Self::Unknown => "it is not known who it is",
        })
    }
}

/// The file that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        })
    }
}

/// Looks at the peer of a connection.
pub(super) fn judge(stream: &impl AsFd, allow: &PeerAllow) -> (Peer, Result<(), Refusal>) {
    let mut peer = Peer {
        pid: None,
        uid: u32::MAX,
        gid: u32::MAX,
        executable: None,
    };
    let Ok(credentials) = getsockopt(stream, sockopt::PeerCredentials) else {
        return (peer, Err(Refusal::Unknown));
    };
    peer.pid = Some(credentials.pid()).filter(|pid| *pid > 0);
    peer.uid = credentials.uid();
    peer.gid = credentials.gid();
    let running = peer.pid.and_then(|pid| Running::look(stream, pid));
    peer.executable = running.as_ref().and_then(|it| it.path.clone());
    let verdict = decide(allow, &peer, running.and_then(|it| it.file), |path| {
        FileId::of(path).ok()
    });
    (peer, verdict)
}

/// The rules of [`PeerAllow`].
fn decide(
    allow: &PeerAllow,
    peer: &Peer,
    running: Option<FileId>,
    id_of: impl Fn(&Path) -> Option<FileId>,
) -> Result<(), Refusal> {
    if !allow.uids.contains(&peer.uid) && !allow.gids.contains(&peer.gid) {
        return Err(Refusal::Owner);
    }
    let runs = |path: &PathBuf| running.is_some() && id_of(path) == running;
    if !allow.executables.is_empty() && !allow.executables.iter().any(runs) {
        return Err(Refusal::Executable);
    }
    Ok(())
}

/// What a process runs, read while it was certainly alive.
struct Running {
    path: Option<PathBuf>,
    file: Option<FileId>,
}

impl Running {
    fn look(stream: &impl AsFd, pid: i32) -> Option<Self> {
        // A pid may be given to another process once its own is gone. The kernel hands out the very
        // process that connected (Linux 6.5); before that the process that has its pid by now.
        let handle = getsockopt(stream, sockopt::PeerPidfd)
            .or_else(|_| sys::pidfd_open(pid))
            .ok()?;
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let running = Self {
            path: fs::read_link(&link).ok(),
            file: FileId::of(&link).ok(),
        };
        is_alive(&handle).then_some(running)
    }
}

/// Whether the process behind a pidfd has not ended: then its pid was its own until now.
fn is_alive(handle: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::ZERO), Ok(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: FileId = FileId {
        device: 1,
        inode: 10,
    };
    const OTHER: FileId = FileId {
        device: 1,
        inode: 11,
    };

    fn files(path: &Path) -> Option<FileId> {
        match path.to_str()? {
            "/usr/bin/plugin" => Some(PLUGIN),
            "/usr/bin/other" => Some(OTHER),
            _ => None,
        }
    }

    #[test]
    fn users_or_groups_and_then_executables() {
        let any: &[&str] = &[];
        let plugin: &[&str] = &["/usr/bin/missing", "/usr/bin/plugin"];
        let missing: &[&str] = &["/usr/bin/missing"];
        let (owner, executable) = (Err(Refusal::Owner), Err(Refusal::Executable));
        for (uids, gids, executables, uid, gid, running, expected) in [
            (&[0][..], &[][..], any, 0, 0, None, Ok(())),
            (&[0], &[], any, 7, 0, None, owner.clone()),
            (&[0], &[5], any, 7, 5, None, Ok(())),
            (&[], &[], any, 0, 0, Some(PLUGIN), owner.clone()),
            (&[0], &[], plugin, 0, 0, Some(PLUGIN), Ok(())),
            (&[0], &[], plugin, 0, 0, Some(OTHER), executable.clone()),
            (&[0], &[], plugin, 0, 0, None, executable.clone()),
            (&[0], &[], missing, 0, 0, None, executable),
            (&[0], &[], plugin, 7, 7, Some(PLUGIN), owner),
        ] {
            let allow = PeerAllow {
                uids: uids.to_vec(),
                gids: gids.to_vec(),
                executables: executables.iter().map(PathBuf::from).collect(),
            };
            let peer = Peer {
                pid: Some(1),
                uid,
                gid,
                executable: None,
            };
            assert_eq!(
                decide(&allow, &peer, running, files),
                expected,
                "{allow:?} {peer:?} {running:?}"
            );
        }
    }
}
