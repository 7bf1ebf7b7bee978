//! Where the socket is, and who may use it.

use std::path::PathBuf;

use nix::unistd::geteuid;

/// The socket of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SocketOptions {
    /// Its path, absolute, at most 107 bytes long; by default [`SocketOptions::DEFAULT_PATH`].
    ///
    /// Directories that are missing are made with mode 0700. The last one must belong to root or to
    /// the runtime's user, and nobody else may be able to write to it. Beside the socket lies its lock,
    /// `<path>.lock`, which goes with it.
    pub path: PathBuf,
    /// Its permissions, by default 0600: whoever can write to the socket can connect. At most 0777.
    pub mode: u32,
    /// Whom it belongs to; by default the runtime's own user and group.
    pub owner: Option<Owner>,
    /// Which peers are served, beyond what mode and owner say.
    pub allow: PeerAllow,
}

/// User and group of a socket; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owner {
    /// The numeric user id.
    pub uid: Option<u32>,
    /// The numeric group id.
    pub gid: Option<u32>,
}

/// Which peers may register: one of the users or one of the groups, and, where executables are
/// listed, one of these too.
///
/// What counts is what the kernel says about the process that connected (`SO_PEERCRED`): its
/// effective user and group at that moment, not its supplementary groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerAllow {
    /// Users; by default root and the runtime's own.
    pub uids: Vec<u32>,
    /// Groups; by default none.
    pub gids: Vec<u32>,
    /// Executables, by default any. Compared by device and inode, so that a process in a container
    /// cannot show a file of the same name; a plugin that is a script counts as its interpreter, and
    /// one whose file was replaced since it started is refused.
    ///
    /// Before Linux 6.5 the kernel cannot say for sure that the process which connected is still the
    /// one with its pid: the list is then a guard against mistakes, not against an allowed user's malice.
    pub executables: Vec<PathBuf>,
}

impl SocketOptions {
    /// Where the socket is by default; never the place of another runtime on the node.
    pub const DEFAULT_PATH: &'static str = "/run/longshore/nri.sock";

    /// The longest path that fits a socket address, in bytes.
    pub const PATH_MAX: usize = 107;

    /// A socket at `path`, with mode 0600, for root and the runtime's own user.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            mode: 0o600,
            owner: None,
            allow: PeerAllow::default(),
        }
    }
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self::new(Self::DEFAULT_PATH)
    }
}

impl Default for PeerAllow {
    fn default() -> Self {
        let mut uids = vec![0, geteuid().as_raw()];
        uids.dedup();
        Self {
            uids,
            gids: Vec::new(),
            executables: Vec::new(),
        }
    }
}
