//! Processes and mounts of this machine: raw facts through a trait, decisions on top of them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// The most bytes read of any file below `/proc`.
const READ_MAX: u64 = 8 * 1024 * 1024;

/// The most processes of one tree that are looked at.
const TREE_MAX: usize = 4_096;

/// Raw facts about this machine. Called on blocking threads.
pub trait HostView: Send + Sync + 'static {
    /// A descriptor that poll(2) marks with `POLLPRI` whenever mount points have changed. By default nobody tells, so
    /// they are read again and again.
    fn mount_marks(&self) -> Option<OwnedFd> {
        None
    }

    /// All mount points of our mount namespace.
    ///
    /// # Errors
    /// When the kernel's list cannot be read: then nothing may be taken for unmounted.
    fn mount_points(&self) -> io::Result<Vec<PathBuf>>;

    /// `root` and its descendants, as far as they can be seen.
    fn tree(&self, root: u32) -> Vec<u32>;

    /// Where the open files of a process lead (`/dev/fuse`, `socket:[123]`).
    fn open_files(&self, pid: u32) -> Vec<PathBuf>;

    /// The environment that a process was started with, `NAME=value` each.
    fn environment(&self, pid: u32) -> Vec<Vec<u8>>;

    /// The listening sockets of the network namespace of a process: inode and address.
    fn listeners(&self, pid: u32) -> Vec<(u64, String)>;
}

/// The mount points of one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mounts {
    /// In the order of their components, in which those below a directory follow it.
    sorted: Vec<PathBuf>,
}

impl Mounts {
    pub(crate) fn new(mut points: Vec<PathBuf>) -> Self {
        points.sort_unstable();
        points.dedup();
        Self { sorted: points }
    }

    /// Those below any of `roots`, but not the roots themselves. (A mount root that was made a shared
    /// mount of itself is no volume.)
    pub(crate) fn below(&self, roots: &[PathBuf]) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = roots
            .iter()
            .flat_map(|root| {
                let after = self.sorted.partition_point(|mount| mount <= root);
                self.sorted[after..]
                    .iter()
                    .take_while(move |mount| mount.starts_with(root))
            })
            .cloned()
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// A process of the tree of `root` that holds `/dev/fuse`.
pub(crate) fn fuse_holder(host: &dyn HostView, root: u32) -> Option<u32> {
    let holds = |pid: &u32| {
        host.open_files(*pid)
            .iter()
            .any(|file| file == Path::new("/dev/fuse"))
    };
    host.tree(root).into_iter().find(holds)
}

/// What the processes of the tree of `root` listen on.
pub(crate) fn listens_on(host: &dyn HostView, root: u32) -> Vec<String> {
    let tree = host.tree(root);
    let mut sockets = BTreeSet::new();
    for pid in &tree {
        for file in host.open_files(*pid) {
            let text = file.to_string_lossy();
            let inode = text
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']'));
            sockets.extend(inode.and_then(|inode| inode.parse::<u64>().ok()));
        }
    }
    let mut found = BTreeSet::new();
    if let Some(pid) = tree.first() {
        let ours = host
            .listeners(*pid)
            .into_iter()
            .filter(|(inode, _)| sockets.contains(inode));
        found.extend(ours.map(|(_, address)| address));
    }
    found.into_iter().collect()
}

/// The launch hash that a container was started with, from the environment of its processes.
pub(crate) fn launch_hash(host: &dyn HostView, root: u32) -> Option<String> {
    let prefix = format!("{}=", crate::launch::LAUNCH_HASH);
    host.tree(root).into_iter().find_map(|pid| {
        host.environment(pid).into_iter().find_map(|variable| {
            let value = variable.strip_prefix(prefix.as_bytes())?;
            String::from_utf8(value.to_vec()).ok()
        })
    })
}

/// This machine, through `/proc`.
#[derive(Clone, Debug)]
pub struct ProcHost {
    proc: PathBuf,
}

impl ProcHost {
    /// `proc` is `/proc`, or a directory that looks like it.
    #[must_use]
    pub fn new(proc: PathBuf) -> Self {
        Self { proc }
    }

    fn read(&self, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        fs::File::open(self.proc.join(name))?
            .take(READ_MAX)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn children(&self, pid: u32) -> Vec<u32> {
        let Ok(tasks) = fs::read_dir(self.proc.join(format!("{pid}/task"))) else {
            return Vec::new();
        };
        let mut children = Vec::new();
        for task in tasks.flatten() {
            let list = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            children.extend(
                list.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        children
    }
}

impl HostView for ProcHost {
    fn mount_marks(&self) -> Option<OwnedFd> {
        let file = fs::File::open(self.proc.join("self/mountinfo")).ok()?;
        // The kernel's own has no length, and any other is never marked (proc(5)).
        let kernels = file.metadata().is_ok_and(|meta| meta.len() == 0);
        kernels.then(|| file.into())
    }

    fn mount_points(&self) -> io::Result<Vec<PathBuf>> {
        let bytes = self.read("self/mountinfo")?;
        Ok(parse_mountinfo(&bytes))
    }

    fn tree(&self, root: u32) -> Vec<u32> {
        let mut tree = vec![root];
        let mut at = 0;
        while at < tree.len() && tree.len() < TREE_MAX {
            let children = self.children(tree[at]);
            tree.extend(children);
            at += 1;
        }
        tree
    }

    fn open_files(&self, pid: u32) -> Vec<PathBuf> {
        let Ok(files) = fs::read_dir(self.proc.join(format!("{pid}/fd"))) else {
            return Vec::new();
        };
        files
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok())
            .collect()
    }

    fn environment(&self, pid: u32) -> Vec<Vec<u8>> {
        let bytes = self.read(format!("{pid}/environ")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }

    fn listeners(&self, pid: u32) -> Vec<(u64, String)> {
        let read = |name: &str| self.read(format!("{pid}/net/{name}")).unwrap_or_default();
        let mut found = parse_unix(&read("unix"));
        for name in ["tcp", "tcp6"] {
            found.extend(parse_tcp(&read(name)));
        }
        found
    }
}

/// The fifth field of each line, with its octal escapes undone (proc(5)).
fn parse_mountinfo(bytes: &[u8]) -> Vec<PathBuf> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(OsString::from_vec(unescape(field))))
        .collect()
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let octal = field
            .get(at + 1..at + 4)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) if field[at] == b'\\' => {
                out.push(code);
                at += 4;
            }
            _ => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    out
}

/// `Num RefCount Protocol Flags Type St Inode Path`; listening sockets have the flag 0x10000.
fn parse_unix(bytes: &[u8]) -> Vec<(u64, String)> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
            let inode = fields.nth(2)?.parse().ok()?;
            let path = fields.next().unwrap_or("(unnamed)");
            (flags & 0x1_0000 != 0).then(|| (inode, format!("unix://{path}")))
        })
        .collect()
}

/// `sl local_address rem_address st .. inode`; state 0A is LISTEN.
fn parse_tcp(bytes: &[u8]) -> Vec<(u64, String)> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .skip(1)
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (address, port) = fields.get(1)?.split_once(':')?;
            let port = u16::from_str_radix(port, 16).ok()?;
            let inode = fields.get(9)?.parse().ok()?;
            let listening = *fields.get(3)? == "0A";
            listening.then(|| (inode, format!("tcp://{}:{port}", show_address(address))))
        })
        .collect()
}

/// The kernel prints addresses as 32-bit words in host order.
fn show_address(hex: &str) -> String {
    let words: Option<Vec<u32>> = (0..hex.len() / 8)
        .map(|at| {
            hex.get(at * 8..at * 8 + 8)
                .and_then(|w| u32::from_str_radix(w, 16).ok())
        })
        .collect();
    let Some(words) = words else {
        return hex.to_owned();
    };
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    if let Ok(v4) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return std::net::Ipv4Addr::from(v4).to_string();
    }
    match <[u8; 16]>::try_from(bytes.as_slice()) {
        Ok(v6) => format!("[{}]", std::net::Ipv6Addr::from(v6)),
        Err(_) => hex.to_owned(),
    }
}

/// For tests and messages: a path as lossy text.
pub(crate) fn shown(path: &Path) -> String {
    String::from_utf8_lossy(path.as_os_str().as_bytes()).into_owned()
}
