//! A file system with a fault at the Nth operation.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::errno::Errno;

use crate::fs::{Contents, FileSystem};

/// What happens at the chosen operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this errno, and the following ones work. A write fails half-way.
    Fail(i32),
    /// It fails with this errno and so does every one after it, as on a disk that went read-only.
    FailOn(i32),
    /// The program ends before it, that is: it and all after it do nothing. A write is done half-way.
    Crash,
    /// The process aborts before it; a write is done half-way.
    Abort,
}

/// Passes operations on to `fs` and counts them, from 0; at operation `at` the fault happens.
#[derive(Debug)]
pub struct FaultFs<F> {
    fs: F,
    at: usize,
    fault: Fault,
    count: AtomicUsize,
}

impl<F: FileSystem> FaultFs<F> {
    /// `fs` with `fault` at operation `at`.
    pub const fn new(fs: F, at: usize, fault: Fault) -> Self {
        Self {
            fs,
            at,
            fault,
            count: AtomicUsize::new(0),
        }
    }

    /// The operations that were begun.
    pub fn operations(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the fault has happened.
    pub fn happened(&self) -> bool {
        self.operations() > self.at
    }

    fn step(&self) -> io::Result<()> {
        let nth = self.count.fetch_add(1, Ordering::Relaxed);
        let failed = |errno| Err(io::Error::from_raw_os_error(errno));
        match self.fault {
            Fault::Fail(errno) if nth == self.at => failed(errno),
            Fault::FailOn(errno) if nth >= self.at => failed(errno),
            Fault::Crash if nth >= self.at => Err(Errno::ECANCELED.into()),
            Fault::Abort if nth == self.at => std::process::abort(),
            _ => Ok(()),
        }
    }
}

impl<F: FileSystem> FileSystem for FaultFs<F> {
    type Dir = F::Dir;
    type File = F::File;

    fn open_dir(&self, path: &Path) -> io::Result<Self::Dir> {
        self.step()?;
        self.fs.open_dir(path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        self.fs.create_dir(path)
    }
    fn create_file(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<Self::File> {
        self.step()?;
        self.fs.create_file(dir, name)
    }
    fn write_all(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()> {
        if self.operations() == self.at {
            self.fs.write_all(file, &bytes[..bytes.len() / 2])?;
        }
        self.step()?;
        self.fs.write_all(file, bytes)
    }
    fn sync_file(&self, file: &Self::File) -> io::Result<()> {
        self.step()?;
        self.fs.sync_file(file)
    }
    fn close(&self, file: Self::File) -> io::Result<()> {
        let step = self.step();
        // A failing close closes as well.
        self.fs.close(file).and(step)
    }
    fn rename(&self, dir: &Self::Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.step()?;
        self.fs.rename(dir, from, to)
    }
    fn sync_dir(&self, dir: &Self::Dir) -> io::Result<()> {
        self.step()?;
        self.fs.sync_dir(dir)
    }
    fn sync_all(&self, dir: &Self::Dir) -> io::Result<()> {
        self.step()?;
        self.fs.sync_all(dir)
    }
    fn device(&self, dir: &Self::Dir) -> io::Result<u64> {
        self.step()?;
        self.fs.device(dir)
    }
    fn unlink(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<()> {
        self.step()?;
        self.fs.unlink(dir, name)
    }
    fn list(&self, dir: &Self::Dir) -> io::Result<Vec<OsString>> {
        self.step()?;
        self.fs.list(dir)
    }
    fn is_running(&self, pid: u32) -> bool {
        self.fs.is_running(pid)
    }
    fn read_file(&self, path: &Path, limit: u64) -> io::Result<Contents> {
        self.step()?;
        self.fs.read_file(path, limit)
    }
}
