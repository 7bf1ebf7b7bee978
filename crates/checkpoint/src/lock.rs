//! One writer a root.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag, open};
use nix::sys::stat::Mode;

use crate::{CheckpointError, Durability, create_dir_all};

/// The exclusive right to write below a root, held until it is dropped or the process ends.
///
/// It is a flock(2) on a file that is never removed; the file holds the id of the process that has
/// it, for the message to others. Children do not inherit it.
#[derive(Debug)]
pub struct RootLock {
    file: Flock<File>,
    path: PathBuf,
}

/// How often the file is opened anew when somebody replaces it meanwhile.
const ATTEMPTS: usize = 16;

impl RootLock {
    /// Takes the lock at `path` at once or not at all; creates the file and its directory (0700).
    ///
    /// # Errors
    /// [`CheckpointError::Locked`] when another process, or another part of this one, has it.
    pub fn acquire(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            create_dir_all(parent, Durability::Power)?;
        }
        for _ in 0..ATTEMPTS {
            let file = open_lock(path)?;
            let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((file, Errno::EWOULDBLOCK)) => {
                    return Err(CheckpointError::Locked {
                        path: path.to_owned(),
                        holder: holder(file),
                    });
                }
                Err((_, errno)) => return Err(io_error(path, errno.into())),
            };
            // A lock on a file that no longer has the name locks out nobody.
            if is_at(&file, path) {
                // Full or read-only: who has it cannot be said then, but it is held.
                let _only_a_hint = write_pid(&mut file);
                return Ok(Self {
                    file,
                    path: path.to_owned(),
                });
            }
        }
        Err(io_error(path, Errno::ESTALE.into()))
    }

    /// The lock file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the lock file still is the one that was locked. When somebody removed it, a second
    /// supervisor could take another lock of the same name.
    #[must_use]
    pub fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }
}

fn open_lock(path: &Path) -> Result<File, CheckpointError> {
    let flags =
        OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    match open(path, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
        Ok(file) => Ok(file.into()),
        // What is on record is taken up all the same; the file names an earlier holder then.
        Err(Errno::EROFS) => {
            let flags = flags & !(OFlag::O_ACCMODE | OFlag::O_CREAT);
            open(path, flags, Mode::empty())
                .map(File::from)
                .map_err(|_errno| io_error(path, Errno::EROFS.into()))
        }
        Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO) => Err(CheckpointError::NotAFile {
            path: path.to_owned(),
        }),
        Err(errno) => Err(io_error(path, errno.into())),
    }
}

fn io_error(path: &Path, source: io::Error) -> CheckpointError {
    CheckpointError::Io {
        action: "lock",
        path: path.to_owned(),
        source,
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), std::fs::symlink_metadata(path)) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

/// Only a hint for people, so it is written in place.
fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{}\n", std::process::id()).as_bytes())
}

fn holder(file: File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
