//! Device nodes of this host: an engine takes the path of one, NRI names its numbers.

use std::fmt::Debug;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use nix::sys::stat::{major, minor};

/// What a device node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// `c`, in NRI also `u`.
    Char,
    /// `b`.
    Block,
}

/// A device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Of characters or blocks.
    pub kind: NodeKind,
    /// Its major number.
    pub major: i64,
    /// Its minor number.
    pub minor: i64,
    /// Its permission bits.
    pub mode: u32,
    /// Whose it is.
    pub uid: u32,
    /// Whose group it is.
    pub gid: u32,
}

/// Knows the device nodes of this host.
pub trait HostDevices: Send + Sync + Debug {
    /// The node at a path; none where there is something else, or nothing.
    fn at(&self, path: &str) -> Option<Node>;

    /// Where the node with these numbers is.
    fn find(&self, kind: NodeKind, major: i64, minor: i64) -> Option<String>;
}

/// Those of the running system: `/dev/char` and `/dev/block` tell where a node is.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDevices;

impl HostDevices for SystemDevices {
    fn at(&self, path: &str) -> Option<Node> {
        let found = std::fs::metadata(path).ok()?;
        let kind = if found.file_type().is_char_device() {
            NodeKind::Char
        } else if found.file_type().is_block_device() {
            NodeKind::Block
        } else {
            return None;
        };
        Some(Node {
            kind,
            major: i64::try_from(major(found.rdev())).ok()?,
            minor: i64::try_from(minor(found.rdev())).ok()?,
            mode: found.mode() & 0o7777,
            uid: found.uid(),
            gid: found.gid(),
        })
    }

    fn find(&self, kind: NodeKind, major: i64, minor: i64) -> Option<String> {
        let dir = match kind {
            NodeKind::Char => "/dev/char",
            NodeKind::Block => "/dev/block",
        };
        let link = Path::new(dir).join(format!("{major}:{minor}"));
        let path = std::fs::canonicalize(link).ok()?;
        Some(path.to_str()?.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_the_host_is_seen_with_its_numbers() {
        let null = SystemDevices.at("/dev/null").unwrap();
        assert_eq!((null.kind, null.major, null.minor), (NodeKind::Char, 1, 3));
        assert_eq!(SystemDevices.at("/dev"), None);
        assert_eq!(SystemDevices.at("/nowhere"), None);
        // No device has this number.
        assert_eq!(SystemDevices.find(NodeKind::Block, 4000, 999_999), None);
    }
}
