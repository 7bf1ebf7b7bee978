//! A file system in memory with two images: the live one, which a process sees, and the durable one,
//! which a power failure leaves.
//!
//! What is promised is only what POSIX lets one rely on: the content of a file is durable after its
//! fsync, the entries of a directory after its own. Before that, a power failure may have kept any
//! subset of the changes to a directory, and of an unsynchronised file nothing, a part, zeros or all.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;

use crate::fs::{Contents, FileSystem};

/// The file system; a clone is the same one.
#[derive(Debug, Clone)]
pub struct MemoryFs(Arc<Mutex<Vec<Node>>>);

/// An inode; its number is its place in the list, 0 the root directory.
#[derive(Debug, Clone)]
enum Node {
    File {
        live: Vec<u8>,
        durable: Vec<u8>,
    },
    Dir {
        live: Entries,
        durable: Entries,
        pending: Vec<Change>,
    },
    Link,
}

type Entries = BTreeMap<OsString, usize>;

/// A change to a directory that has not been synchronised.
#[derive(Debug, Clone)]
enum Change {
    Set(OsString, usize),
    Remove(OsString),
    Rename {
        from: OsString,
        to: OsString,
        inode: usize,
    },
}

/// What a power failure leaves of the content of unsynchronised files.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Durable,
    Half,
    Zeros,
    All,
}

/// More pending changes than this and [`MemoryFs::after_power_failure`] would be too many images.
const PENDING_MAX: usize = 12;

impl Default for MemoryFs {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryFs {
    /// An empty file system.
    #[must_use]
    pub fn new() -> Self {
        let root = Node::Dir {
            live: Entries::new(),
            durable: Entries::new(),
            pending: Vec::new(),
        };
        Self(Arc::new(Mutex::new(vec![root])))
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same files in a file system of their own, everything synchronised.
    #[must_use]
    pub fn synced(&self) -> Self {
        let mut nodes = self.nodes().clone();
        nodes.iter_mut().for_each(Node::sync);
        Self(Arc::new(Mutex::new(nodes)))
    }

    /// A copy with the same live and durable images: what the next process sees after a crash of this
    /// one.
    #[must_use]
    pub fn after_process_crash(&self) -> Self {
        Self(Arc::new(Mutex::new(self.nodes().clone())))
    }

    /// Every image that a power failure may leave.
    ///
    /// # Panics
    /// When more than a dozen changes are unsynchronised: the test is too large.
    #[must_use]
    pub fn after_power_failure(&self) -> Vec<Self> {
        let nodes = self.nodes();
        let pending: usize = nodes.iter().map(Node::pending).sum();
        assert!(
            pending <= PENDING_MAX,
            "{pending} unsynchronised changes are too many"
        );
        let mut images = Vec::new();
        for subset in 0..1usize << pending {
            for kept in [Kept::Durable, Kept::Half, Kept::Zeros, Kept::All] {
                let mut nth = 0;
                let image = nodes
                    .iter()
                    .map(|node| node.after_power_failure(kept, subset, &mut nth));
                images.push(Self(Arc::new(Mutex::new(image.collect()))));
            }
        }
        images
    }

    /// Puts a symbolic link, dangling or not, at `path`.
    ///
    /// # Errors
    /// When the directory is missing.
    pub fn plant_link(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        self.add(dir, &name, Node::Link)
    }

    /// The names in the directory at `path`.
    ///
    /// # Errors
    /// When it is missing.
    pub fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.list(&self.open_dir(path)?)
    }

    fn parent(&self, path: &Path) -> io::Result<(usize, OsString)> {
        let name = path.file_name().ok_or(Errno::EEXIST)?;
        let dir = self.open_dir(path.parent().unwrap_or(Path::new("/")))?;
        Ok((dir, name.to_owned()))
    }

    fn add(&self, dir: usize, name: &OsStr, node: Node) -> io::Result<()> {
        let mut nodes = self.nodes();
        let inode = nodes.len();
        let (live, pending) = entries(&mut nodes, dir)?;
        if live.contains_key(name) {
            return Err(Errno::EEXIST.into());
        }
        live.insert(name.to_owned(), inode);
        pending.push(Change::Set(name.to_owned(), inode));
        nodes.push(node);
        Ok(())
    }
}

impl Node {
    fn pending(&self) -> usize {
        match self {
            Self::Dir { pending, .. } => pending.len(),
            Self::File { .. } | Self::Link => 0,
        }
    }

    fn sync(&mut self) {
        match self {
            Self::File { live, durable } => durable.clone_from(live),
            Self::Dir {
                live,
                durable,
                pending,
            } => {
                durable.clone_from(live);
                pending.clear();
            }
            Self::Link => {}
        }
    }

    /// The node after a power failure that kept the changes of `subset`, a bit for each; `nth` counts
    /// them over all directories.
    fn after_power_failure(&self, kept: Kept, subset: usize, nth: &mut usize) -> Self {
        match self {
            Self::Link => Self::Link,
            Self::File { live, durable } => {
                let left = match kept {
                    _ if live == durable => live.clone(),
                    Kept::Durable => durable.clone(),
                    Kept::Half => live[..live.len() / 2].to_vec(),
                    Kept::Zeros => vec![0; live.len()],
                    Kept::All => live.clone(),
                };
                Self::File {
                    live: left.clone(),
                    durable: left,
                }
            }
            Self::Dir {
                durable, pending, ..
            } => {
                let mut entries = durable.clone();
                for change in pending {
                    if subset >> *nth & 1 == 1 {
                        change.apply(&mut entries);
                    }
                    *nth += 1;
                }
                Self::Dir {
                    live: entries.clone(),
                    durable: entries,
                    pending: Vec::new(),
                }
            }
        }
    }
}

impl Change {
    fn apply(&self, entries: &mut Entries) {
        match self {
            Self::Set(name, inode) => {
                entries.insert(name.clone(), *inode);
            }
            Self::Remove(name) => {
                entries.remove(name);
            }
            Self::Rename { from, to, inode } => {
                entries.remove(from);
                entries.insert(to.clone(), *inode);
            }
        }
    }
}

fn entries(nodes: &mut [Node], dir: usize) -> io::Result<(&mut Entries, &mut Vec<Change>)> {
    match nodes.get_mut(dir) {
        Some(Node::Dir { live, pending, .. }) => Ok((live, pending)),
        _ => Err(Errno::ENOTDIR.into()),
    }
}

impl FileSystem for MemoryFs {
    type Dir = usize;
    type File = usize;

    fn open_dir(&self, path: &Path) -> io::Result<usize> {
        let mut nodes = self.nodes();
        let mut dir = 0;
        for component in path.components() {
            let Component::Normal(name) = component else {
                continue;
            };
            dir = *entries(&mut nodes, dir)?.0.get(name).ok_or(Errno::ENOENT)?;
        }
        entries(&mut nodes, dir)?;
        Ok(dir)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        let empty = Node::Dir {
            live: Entries::new(),
            durable: Entries::new(),
            pending: Vec::new(),
        };
        self.add(dir, &name, empty)
    }

    fn create_file(&self, dir: &usize, name: &OsStr) -> io::Result<usize> {
        self.add(
            *dir,
            name,
            Node::File {
                live: Vec::new(),
                durable: Vec::new(),
            },
        )?;
        Ok(self.nodes().len() - 1)
    }

    fn write_all(&self, file: &mut usize, bytes: &[u8]) -> io::Result<()> {
        match self.nodes().get_mut(*file) {
            Some(Node::File { live, .. }) => {
                live.extend_from_slice(bytes);
                Ok(())
            }
            _ => Err(Errno::EBADF.into()),
        }
    }

    fn sync_file(&self, file: &usize) -> io::Result<()> {
        self.nodes().get_mut(*file).ok_or(Errno::EBADF)?.sync();
        Ok(())
    }

    fn close(&self, _file: usize) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, dir: &usize, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let mut nodes = self.nodes();
        let (live, pending) = entries(&mut nodes, *dir)?;
        let inode = live.remove(from).ok_or(Errno::ENOENT)?;
        live.insert(to.to_owned(), inode);
        pending.push(Change::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
            inode,
        });
        Ok(())
    }

    fn sync_dir(&self, dir: &usize) -> io::Result<()> {
        self.sync_file(dir)
    }

    fn sync_all(&self, _dir: &usize) -> io::Result<()> {
        self.nodes().iter_mut().for_each(Node::sync);
        Ok(())
    }

    fn device(&self, _dir: &usize) -> io::Result<u64> {
        Ok(1)
    }

    fn unlink(&self, dir: &usize, name: &OsStr) -> io::Result<()> {
        let mut nodes = self.nodes();
        let (live, pending) = entries(&mut nodes, *dir)?;
        live.remove(name).ok_or(Errno::ENOENT)?;
        pending.push(Change::Remove(name.to_owned()));
        Ok(())
    }

    fn list(&self, dir: &usize) -> io::Result<Vec<OsString>> {
        Ok(entries(&mut self.nodes(), *dir)?
            .0
            .keys()
            .cloned()
            .collect())
    }

    /// What is found here is always another process's, which has ended.
    fn is_running(&self, _pid: u32) -> bool {
        false
    }

    fn read_file(&self, path: &Path, limit: u64) -> io::Result<Contents> {
        let (dir, name) = self.parent(path)?;
        let mut nodes = self.nodes();
        let inode = *entries(&mut nodes, dir)?
            .0
            .get(&name)
            .ok_or(Errno::ENOENT)?;
        match nodes.get(inode) {
            Some(Node::File { live, .. }) => match u64::try_from(live.len()) {
                Ok(length) if length > limit => Ok(Contents::TooLarge { length }),
                _ => Ok(Contents::Bytes(live.clone())),
            },
            _ => Ok(Contents::NotAFile),
        }
    }
}
