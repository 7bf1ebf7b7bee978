//! The output files of a sandbox.
//!
//! The container's user may own the sandbox and can put anything under the name `stdout`. What is
//! not a plain file of ours with a single name is set aside by a rename and never opened for
//! writing; files are opened relative to the sandbox's handle with O_NOFOLLOW.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

use crate::dirs;

/// When an output file is put aside, and how many are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// A file that would grow beyond this many bytes is renamed first.
    pub max_bytes: u64,
    /// How many older files are kept, at most 99: `<name>.1` is the newest of them.
    pub keep: u32,
}

/// A place in an output file that outlives its renames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The file's inode.
    pub inode: u64,
    /// How many bytes it has up to here.
    pub bytes: u64,
}

/// An output file and the older ones beside it.
#[derive(Debug)]
pub struct LogFile {
    dir: OwnedFd,
    name: &'static str,
    owner: Option<(u32, u32)>,
    rotation: Rotation,
    /// `None` while its file system is read-only: a container is restarted all the same.
    file: Option<File>,
    size: u64,
    /// Bytes that could not be written: the disk was full, or read-only.
    lost: u64,
    begun: u64,
}

impl LogFile {
    /// Opens `name` in the sandbox `dir` for appending; it belongs to `owner`, a uid and a gid.
    ///
    /// On a read-only file system output is lost until it is writable again.
    ///
    /// # Errors
    /// What openat(2) says, such as ENOSPC.
    pub fn open(
        dir: OwnedFd,
        name: &'static str,
        owner: Option<(u32, u32)>,
        rotation: Rotation,
    ) -> io::Result<Self> {
        let (file, size) = match open_plain(&dir, name, owner) {
            Ok((file, size)) => (Some(file), size),
            Err(error) if error.raw_os_error() == Some(libc::EROFS) => (None, 0),
            Err(error) => return Err(error),
        };
        Ok(Self {
            dir,
            name,
            owner,
            rotation,
            file,
            size,
            lost: 0,
            begun: 0,
        })
    }

    /// Appends; never fails and never blocks the container: what does not fit on the disk is lost,
    /// and the file says so as soon as there is room.
    pub fn append(&mut self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.file.is_none()
            && let Ok((file, size)) = open_plain(&self.dir, self.name, self.owner)
        {
            (self.file, self.size) = (Some(file), size);
            self.begun += 1;
        }
        if self.size > 0 && self.size.saturating_add(length) > self.rotation.max_bytes {
            // Without a new file the old one grows on: better than to lose the output.
            if let Ok((file, size)) = self.rotate() {
                (self.file, self.size) = (Some(file), size);
                self.begun += 1;
            }
        }
        let Some(file) = &mut self.file else {
            self.lost = self.lost.saturating_add(length);
            return;
        };
        if self.lost > 0 {
            let note = format!(
                "\n[{} bytes of output were lost: the disk was full or read-only]\n",
                self.lost
            );
            if file.write_all(note.as_bytes()).is_err() {
                self.lost = self.lost.saturating_add(length);
                return;
            }
            self.size += u64::try_from(note.len()).unwrap_or_default();
            self.lost = 0;
        }
        match file.write_all(bytes) {
            Ok(()) => self.size = self.size.saturating_add(length),
            Err(_full) => self.lost = self.lost.saturating_add(length),
        }
    }

    /// How many files were begun since this was opened: it grows with each rotation.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Where the next byte goes; `None` while the file cannot be written.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        let stat = fstat(self.file.as_ref()?).ok()?;
        Some(Mark {
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
        })
    }

    /// Takes back what was appended after `mark`, in files that were begun since, too. False when the file of the mark
    /// is not there any more: then nothing is taken back.
    ///
    /// # Errors
    /// What openat(2), ftruncate(2), unlinkat(2) or renameat(2) say.
    pub fn rewind(&mut self, mark: Mark) -> io::Result<bool> {
        let Some(n) = (0..=self.rotation.keep.min(99)).find(|n| {
            let stat = dirs::kind_at(&self.dir, self.numbered(*n)).ok().flatten();
            stat.is_some_and(|stat| stat.st_ino == mark.inode && dirs::is(&stat, SFlag::S_IFREG))
        }) else {
            return Ok(false);
        };
        for newer in 0..n {
            let name = self.numbered(newer);
            match unlinkat(&self.dir, name.as_str(), UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(Errno::EISDIR) => dirs::set_aside(&self.dir, &name)?,
                Err(error) => return Err(error.into()),
            }
        }
        if n > 0 {
            renameat(&self.dir, self.numbered(n).as_str(), &self.dir, self.name)?;
        }
        let (file, size) = open_plain(&self.dir, self.name, self.owner)?;
        // Its owner may have emptied it, or put another one there meanwhile.
        if fstat(&file)?.st_ino == mark.inode && size > mark.bytes {
            file.set_len(mark.bytes)?;
        }
        self.size = size.min(mark.bytes);
        self.file = Some(file);
        Ok(true)
    }

    fn rotate(&self) -> io::Result<(File, u64)> {
        let keep = self.rotation.keep.min(99);
        for n in 1..=keep {
            let name = self.numbered(n);
            if dirs::kind_at(&self.dir, &name)?.is_some_and(|stat| dirs::is(&stat, SFlag::S_IFDIR))
            {
                // A file cannot be renamed over a directory, nor the other way round.
                dirs::set_aside(&self.dir, &name)?;
            }
        }
        for n in (0..keep).rev() {
            let from = self.numbered(n);
            let to = self.numbered(n + 1);
            match renameat(&self.dir, from.as_str(), &self.dir, to.as_str()) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if self.rotation.keep == 0 {
            match unlinkat(&self.dir, self.name, UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        open_plain(&self.dir, self.name, self.owner)
    }

    fn numbered(&self, n: u32) -> String {
        if n == 0 {
            self.name.to_owned()
        } else {
            format!("{}.{n}", self.name)
        }
    }
}

fn open_plain(dir: impl AsFd, name: &str, owner: Option<(u32, u32)>) -> io::Result<(File, u64)> {
    // Not blocking: a fifo without a reader must not hold us.
    let flags = OFlag::O_WRONLY
        | OFlag::O_APPEND
        | OFlag::O_CREAT
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_CLOEXEC
        | OFlag::O_NOCTTY;
    for _attempt in 0..8 {
        match openat(dir.as_fd(), name, flags, Mode::from_bits_truncate(0o644)) {
            Ok(handle) => {
                let stat = fstat(&handle)?;
                let ours = owner.is_some_and(|(uid, _)| uid == stat.st_uid)
                    || stat.st_uid == nix::unistd::geteuid().as_raw();
                if dirs::is(&stat, SFlag::S_IFREG) && stat.st_nlink == 1 && ours {
                    if let Some((uid, gid)) = owner {
                        fchown(&handle, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
                    }
                    let size = u64::try_from(stat.st_size).unwrap_or_default();
                    return Ok((File::from(handle), size));
                }
            }
            Err(Errno::ELOOP | Errno::EISDIR | Errno::ENXIO | Errno::EACCES) => {}
            Err(error) => return Err(error.into()),
        }
        match dirs::set_aside(dir.as_fd(), name) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::ELOOP.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SMALL: Rotation = Rotation {
        max_bytes: 10,
        keep: 2,
    };

    fn open(root: &std::path::Path) -> LogFile {
        LogFile::open(dirs::open(root).unwrap(), "stdout", None, SMALL).unwrap()
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_one_goes() {
        let root = tempfile::tempdir().unwrap();
        let mut log = open(root.path());
        for line in ["one------\n", "two------\n", "three----\n", "four-----\n"] {
            log.append(line.as_bytes());
        }
        let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
        assert_eq!(read("stdout"), "four-----\n");
        assert_eq!(read("stdout.1"), "three----\n");
        assert_eq!(read("stdout.2"), "two------\n");
        assert_eq!(log.begun(), 3);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_relaunch_appends() {
        let root = tempfile::tempdir().unwrap();
        open(root.path()).append(b"a");
        open(root.path()).append(b"b");
        assert_eq!(
            fs::read_to_string(root.path().join("stdout")).unwrap(),
            "ab"
        );
    }

    #[test]
    fn whatever_is_planted_is_set_aside() {
        type Plant = fn(&std::path::Path, &std::path::Path);
        let plants: [(&str, Plant); 5] = [
            ("a link", |at, target| {
                std::os::unix::fs::symlink(target, at).unwrap();
            }),
            ("a dangling link", |at, _| {
                std::os::unix::fs::symlink("nowhere/x", at).unwrap();
            }),
            ("a hard link", |at, target| {
                fs::hard_link(target, at).unwrap();
            }),
            ("a fifo", |at, _| {
                nix::unistd::mkfifo(at, Mode::from_bits_truncate(0o600)).unwrap();
            }),
            ("a directory", |at, _| fs::create_dir(at).unwrap()),
        ];
        for (what, plant) in plants {
            let root = tempfile::tempdir().unwrap();
            let sandbox = root.path().join("sandbox");
            fs::create_dir(&sandbox).unwrap();
            let secret = root.path().join("secret");
            fs::write(&secret, "untouched").unwrap();
            plant(&sandbox.join("stdout"), &secret);
            open(&sandbox).append(b"out");
            assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched", "{what}");
            let stdout = sandbox.join("stdout");
            assert!(stdout.symlink_metadata().unwrap().is_file(), "{what}");
            assert_eq!(fs::read_to_string(stdout).unwrap(), "out", "{what}");
            assert!(
                sandbox.join("stdout.aside-0").symlink_metadata().is_ok(),
                "{what}"
            );
        }
    }

    #[test]
    fn a_directory_planted_where_the_older_file_goes_is_set_aside() {
        let root = tempfile::tempdir().unwrap();
        let mut log = open(root.path());
        fs::create_dir(root.path().join("stdout.1")).unwrap();
        log.append(b"0123456789");
        log.append(b"next");
        assert_eq!(
            fs::read_to_string(root.path().join("stdout")).unwrap(),
            "next"
        );
        assert_eq!(
            fs::read_to_string(root.path().join("stdout.1")).unwrap(),
            "0123456789"
        );
        assert!(root.path().join("stdout.1.aside-0").is_dir());
    }

    #[test]
    fn what_came_after_a_mark_is_taken_back_across_renames() {
        let root = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(root.path().join(name)).ok();
        let mut log = open(root.path());
        log.append(b"kept");
        let mark = log.mark().unwrap();
        assert_eq!(mark.bytes, 4);
        log.append(b"gone");
        assert!(log.rewind(mark).unwrap());
        assert_eq!(read("stdout").unwrap(), "kept");
        // Two renames later the file of the mark is the second oldest.
        for piece in ["0123456789", "abcdefghij"] {
            log.append(piece.as_bytes());
        }
        assert_eq!(read("stdout.2").unwrap(), "kept");
        let mut log = open(root.path());
        assert!(log.rewind(mark).unwrap());
        assert_eq!(read("stdout").unwrap(), "kept");
        assert_eq!((read("stdout.1"), read("stdout.2")), (None, None));
        log.append(b"!");
        assert_eq!(read("stdout").unwrap(), "kept!");
    }

    #[test]
    fn a_mark_whose_file_is_gone_or_shorter_takes_nothing_back() {
        let root = tempfile::tempdir().unwrap();
        let mut log = open(root.path());
        log.append(b"one");
        let mark = log.mark().unwrap();
        fs::write(root.path().join("stdout"), "").unwrap();
        assert!(log.rewind(mark).unwrap());
        log.append(b"x");
        assert_eq!(fs::read_to_string(root.path().join("stdout")).unwrap(), "x");
        let elsewhere = Mark {
            inode: u64::MAX,
            bytes: 0,
        };
        assert!(!log.rewind(elsewhere).unwrap());
        assert_eq!(fs::read_to_string(root.path().join("stdout")).unwrap(), "x");
    }
}
