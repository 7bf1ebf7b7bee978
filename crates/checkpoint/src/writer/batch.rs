//! Many records at once, for the price of few synchronisations.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{Durability, Writer, io_error, not_durable, split};
use crate::CheckpointError;
use crate::fs::FileSystem;
use crate::record::AnyRecord;

/// From this many files (or directories) on, the file system is synchronised as a whole.
const SYNC_ALL_FROM: usize = 8;

/// The most directories that are held open at once.
const DIRS_MAX: usize = 128;

/// A record whose temporary file is written.
struct Written<'a> {
    dir: usize,
    temp: OsString,
    name: &'a OsStr,
    path: &'a Path,
}

/// A directory that holds records of the batch.
struct Opened<'a, D> {
    dir: D,
    path: &'a Path,
}

impl<F: FileSystem> Writer<F> {
    /// Replaces several records. Each on its own is old or new, never in between; together they may be
    /// part old, part new after a failure or crash. Of two records for one path the later one stays.
    ///
    /// All temporary files are written, synchronised once ([`Durability::Power`]), renamed, and each
    /// directory synchronised once; a batch over more than 128 directories is done in parts.
    ///
    /// # Errors
    /// The first failure. Records whose rename was reached before it are new, the others old; no
    /// temporary file is left.
    pub fn write_batch<P: AsRef<Path>>(
        &self,
        records: &[(P, &dyn AnyRecord)],
        durability: Durability,
    ) -> Result<(), CheckpointError> {
        let mut rest = records;
        while !rest.is_empty() {
            let taken = part(rest)?;
            let (now, later) = rest.split_at(taken);
            self.write_part(now, durability)?;
            rest = later;
        }
        Ok(())
    }

    fn write_part<P: AsRef<Path>>(
        &self,
        records: &[(P, &dyn AnyRecord)],
        durability: Durability,
    ) -> Result<(), CheckpointError> {
        let mut dirs = Vec::new();
        let mut written = Vec::with_capacity(records.len());
        let renamed = self
            .write_temps(records, durability, &mut dirs, &mut written)
            .and_then(|()| self.rename_all(&dirs, &written));
        match renamed {
            Ok(()) if durability == Durability::Power => self.sync_dirs(&dirs),
            Ok(()) => Ok(()),
            Err((error, done)) => {
                for record in written.iter().skip(done) {
                    self.discard(&dirs[record.dir].dir, &record.temp);
                }
                Err(error)
            }
        }
    }

    /// Writes and synchronises all temporary files.
    fn write_temps<'a, P: AsRef<Path>>(
        &self,
        records: &'a [(P, &dyn AnyRecord)],
        durability: Durability,
        dirs: &mut Vec<Opened<'a, F::Dir>>,
        written: &mut Vec<Written<'a>>,
    ) -> Result<(), (CheckpointError, usize)> {
        let power = durability == Durability::Power;
        let together = power && records.len() >= SYNC_ALL_FROM;
        let mut known: BTreeMap<&Path, usize> = BTreeMap::new();
        for (path, record) in records {
            let path = path.as_ref();
            let mut one = || {
                let bytes = record.to_file(path)?;
                let (dir_path, name) = split(path)?;
                let dir = match known.get(dir_path) {
                    Some(dir) => *dir,
                    None => {
                        let dir = self.open_dir(dir_path, durability)?;
                        dirs.push(Opened {
                            dir,
                            path: dir_path,
                        });
                        known.insert(dir_path, dirs.len() - 1);
                        dirs.len() - 1
                    }
                };
                let temp = self.write_temp(&dirs[dir].dir, path, &bytes, power && !together)?;
                written.push(Written {
                    dir,
                    temp,
                    name,
                    path,
                });
                Ok(())
            };
            one().map_err(|error| (error, 0))?;
        }
        if together {
            self.sync_devices(dirs).map_err(|error| (error, 0))
        } else {
            Ok(())
        }
    }

    /// Renames all temporary files; on failure tells how many were.
    fn rename_all(
        &self,
        dirs: &[Opened<'_, F::Dir>],
        written: &[Written<'_>],
    ) -> Result<(), (CheckpointError, usize)> {
        for (done, record) in written.iter().enumerate() {
            let renamed = self
                .fs
                .rename(&dirs[record.dir].dir, &record.temp, record.name);
            renamed.map_err(|error| (io_error("replace", record.path)(error), done))?;
        }
        Ok(())
    }

    /// Synchronises each directory, or all of them at once when there are many.
    fn sync_dirs(&self, dirs: &[Opened<'_, F::Dir>]) -> Result<(), CheckpointError> {
        if dirs.len() >= SYNC_ALL_FROM {
            return self.sync_devices(dirs).map_err(|error| match error {
                CheckpointError::Io { path, source, .. } => {
                    CheckpointError::NotDurable { path, source }
                }
                other => other,
            });
        }
        for dir in dirs {
            self.fs.sync_dir(&dir.dir).map_err(not_durable(dir.path))?;
        }
        Ok(())
    }

    /// Synchronises each file system that one of `dirs` is on, once.
    fn sync_devices(&self, dirs: &[Opened<'_, F::Dir>]) -> Result<(), CheckpointError> {
        let mut synced = BTreeSet::new();
        for dir in dirs {
            let failed = io_error("synchronise the file system of", dir.path);
            let device = self.fs.device(&dir.dir).map_err(&failed)?;
            if synced.insert(device) {
                self.fs.sync_all(&dir.dir).map_err(&failed)?;
            }
        }
        Ok(())
    }
}

/// How many of the first records lie in at most [`DIRS_MAX`] directories.
fn part<P: AsRef<Path>>(records: &[(P, &dyn AnyRecord)]) -> Result<usize, CheckpointError> {
    let mut dirs = BTreeSet::new();
    for (taken, (path, _)) in records.iter().enumerate() {
        let (dir, _) = split(path.as_ref())?;
        if !dirs.contains(dir) && dirs.len() == DIRS_MAX {
            return Ok(taken);
        }
        dirs.insert(dir);
    }
    Ok(records.len())
}
