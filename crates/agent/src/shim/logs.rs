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
use nix::unistd::{Gid, Uid, fchown};

use crate::dirs;
use crate::record::{Logs, User};

/// An output file and the older ones beside it.
#[derive(Debug)]
pub(crate) struct LogFile {
    dir: OwnedFd,
    name: &'static str,
    owner: Option<(u32, u32)>,
    options: Logs,
    /// `None` while its file system is read-only: a container is restarted all the same.
    file: Option<File>,
    size: u64,
    /// Bytes that could not be written: the disk was full, or read-only.
    lost: u64,
}

impl LogFile {
    /// Opens `name` in the sandbox `dir` for appending; it belongs to `user`.
    ///
    /// On a read-only file system output is lost until it is writable again.
    ///
    /// # Errors
    /// What openat(2) says, such as ENOSPC.
    pub(crate) fn open(
        dir: OwnedFd,
        name: &'static str,
        user: Option<&User>,
        options: Logs,
    ) -> io::Result<Self> {
        let owner = user.map(|user| (user.uid, user.gid));
        let (file, size) = match open_plain(&dir, name, owner) {
            Ok((file, size)) => (Some(file), size),
            Err(error) if error.raw_os_error() == Some(libc::EROFS) => (None, 0),
            Err(error) => return Err(error),
        };
        Ok(Self {
            dir,
            name,
            owner,
            options,
            file,
            size,
            lost: 0,
        })
    }

    /// Appends; never fails and never blocks the container: what does not fit on the disk is lost,
    /// and the file says so as soon as there is room.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.file.is_none()
            && let Ok((file, size)) = open_plain(&self.dir, self.name, self.owner)
        {
            (self.file, self.size) = (Some(file), size);
        }
        if self.size > 0 && self.size.saturating_add(length) > self.options.max_bytes {
            // Without a new file the old one grows on: better than to lose the output.
            if let Ok((file, size)) = self.rotate() {
                (self.file, self.size) = (Some(file), size);
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

    fn rotate(&self) -> io::Result<(File, u64)> {
        let keep = self.options.keep.min(99);
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
        if self.options.keep == 0 {
            match nix::unistd::unlinkat(
                &self.dir,
                self.name,
                nix::unistd::UnlinkatFlags::NoRemoveDir,
            ) {
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

    const SMALL: Logs = Logs {
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
}
