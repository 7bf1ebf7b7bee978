//! Who may use the control socket: root, the daemon's own user, and whoever is in the configured group.
//!
//! The kernel says who connected (`SO_PEERCRED`, `SO_PEERGROUPS`; unix(7), socket(7)): its user and groups at the moment of
//! `connect`. The modes of the directory and the socket are the first lock, this is the second.

#![expect(unsafe_code, reason = "SO_PEERGROUPS has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::path::Path;

use nix::unistd::{Gid, chown};
use tokio::net::UnixStream;

use crate::config::ControlGroup;

/// The most groups that are looked at: more than the kernel lets a process have (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 1 << 16;

/// Who may.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    group: Option<ControlGroup>,
}

/// Who wants to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    uid: u32,
    /// Its effective group, and the supplementary ones.
    groups: Vec<u32>,
}

impl Access {
    pub(crate) fn new(group: Option<ControlGroup>) -> Self {
        Self { group }
    }

    /// The mode of the socket's directory.
    pub(crate) fn directory_mode(&self) -> u32 {
        if self.group.is_some() { 0o750 } else { 0o700 }
    }

    /// The mode of the socket.
    pub(crate) fn socket_mode(&self) -> u32 {
        if self.group.is_some() { 0o660 } else { 0o600 }
    }

    /// Gives a path to the group. Without one nothing is done: the modes let no group in.
    ///
    /// # Errors
    /// As chown(2).
    pub(crate) fn give_to_group(&self, path: &Path) -> io::Result<()> {
        match &self.group {
            Some(group) => Ok(chown(path, None, Some(Gid::from_raw(group.gid)))?),
            None => Ok(()),
        }
    }

    /// Whether this one may, where the daemon runs as `own`.
    pub(crate) fn admits(&self, peer: &Peer, own: u32) -> bool {
        let in_group = |group: &ControlGroup| peer.groups.contains(&group.gid);
        peer.uid == 0 || peer.uid == own || self.group.as_ref().is_some_and(in_group)
    }
}

impl Peer {
    /// Whoever has connected.
    ///
    /// # Errors
    /// As getsockopt(2).
    pub(crate) fn of(stream: &UnixStream) -> io::Result<Self> {
        use std::os::fd::AsFd as _;

        let credentials = stream.peer_cred()?;
        let mut groups = supplementary(stream.as_fd())?;
        groups.push(credentials.gid());
        Ok(Self {
            uid: credentials.uid(),
            groups,
        })
    }
}

/// `SO_PEERGROUPS`; nothing from a kernel that does not know it (before 4.13).
fn supplementary(stream: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut room = 64;
    loop {
        let mut groups: Vec<libc::gid_t> = vec![0; room];
        let mut bytes =
            libc::socklen_t::try_from(size_of_val(groups.as_slice())).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `bytes` bytes to `groups`, which has so many, and their number to `bytes`.
        let done = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        };
        let count = usize::try_from(bytes).map_err(io::Error::other)? / size_of::<libc::gid_t>();
        if done == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // There are more than fit: so many.
            Some(libc::ERANGE) if count > room && count <= GROUPS_MAX => room = count,
            Some(libc::ENOPROTOOPT) => return Ok(Vec::new()),
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group() -> Option<ControlGroup> {
        Some(ControlGroup {
            name: "longshore".to_owned(),
            gid: 7,
        })
    }

    #[test]
    fn root_the_own_user_and_the_group_may() {
        let peer = |uid, groups: &[u32]| Peer {
            uid,
            groups: groups.to_vec(),
        };
        // Who, the daemon's user, without a group, with one.
        let cases = [
            (peer(0, &[0]), 0, true, true),
            (peer(0, &[0]), 1000, true, true),
            (peer(1000, &[1000]), 1000, true, true),
            (peer(1000, &[1000]), 0, false, false),
            (peer(1000, &[7]), 0, false, true),
            (peer(1000, &[3, 7, 1000]), 0, false, true),
            (peer(1000, &[70, 0]), 0, false, false),
            (peer(7, &[]), 0, false, false),
        ];
        for (peer, own, without, with) in cases {
            assert_eq!(Access::default().admits(&peer, own), without, "{peer:?}");
            assert_eq!(Access::new(group()).admits(&peer, own), with, "{peer:?}");
        }
    }

    #[test]
    fn what_is_open_to_the_group_is_open_to_nobody_else() {
        for (access, directory, socket) in [
            (Access::default(), 0o700, 0o600),
            (Access::new(group()), 0o750, 0o660),
        ] {
            assert_eq!(access.directory_mode(), directory);
            assert_eq!(access.socket_mode(), socket);
        }
    }

    #[tokio::test]
    async fn the_kernel_tells_the_groups_of_a_peer() {
        let (near, _far) = UnixStream::pair().unwrap();
        let peer = Peer::of(&near).unwrap();
        let mut expected: Vec<u32> = nix::unistd::getgroups()
            .unwrap()
            .into_iter()
            .map(Gid::as_raw)
            .collect();
        expected.push(nix::unistd::getegid().as_raw());
        assert_eq!(peer.groups, expected);
        assert_eq!(peer.uid, nix::unistd::geteuid().as_raw());
    }
}
