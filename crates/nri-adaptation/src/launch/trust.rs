//! Who could change a file: its owner, whoever may write to it, and whoever may write to a directory or
//! replace a link on the way to it.
//!
//! The way is walked from `/`, one name after another, links resolved by hand. A directory is judged
//! before anything in it is looked at, so what is found in it can only have been put there, and can only
//! be replaced, by somebody who is trusted: the file may be opened by its path afterwards.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::unistd::geteuid;

use super::LaunchError;

/// How many links are followed, as by the kernel.
const LINKS_MAX: usize = 40;
/// How many names are looked at on the way to one file.
const NAMES_MAX: usize = 1024;

/// What somebody who is not trusted could change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Distrust {
    /// The file or directory.
    pub path: PathBuf,
    /// Who could change it.
    pub who: Changer,
}

/// Who could change a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changer {
    /// Its owner, who is neither root nor the runtime's user.
    Owner {
        /// The owner.
        uid: u32,
    },
    /// Its group or everybody.
    Writers {
        /// Its permissions.
        mode: u32,
    },
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match self.who {
            Changer::Owner { uid } => write!(
                f,
                "{path:?} belongs to user {uid}, not to root; chown it, or use another place"
            ),
            Changer::Writers { mode } => write!(
                f,
                "{path:?} has mode {mode:04o}, so that others than root can change it; chmod go-w, or use \
                 another place"
            ),
        }
    }
}

/// Judges files.
#[derive(Debug, Clone)]
pub(super) struct Judge {
    /// Whoever may own files; `None` trusts everybody.
    owners: Option<Vec<u32>>,
    /// Judged from here on; what is above is not looked at. `/` but in tests.
    anchor: PathBuf,
}

impl Judge {
    /// Trusts root and the own user, or everybody.
    pub(super) fn new(trust_any_owner: bool) -> Self {
        Self {
            owners: (!trust_any_owner).then(|| vec![0, geteuid().as_raw()]),
            anchor: PathBuf::from("/"),
        }
    }

    /// What is at an absolute path, if nobody else could have put it there.
    pub(super) fn look(&self, path: &Path) -> Result<Metadata, LaunchError> {
        let failed = |source| LaunchError::Look {
            path: path.to_owned(),
            source,
        };
        if self.owners.is_none() {
            return fs::metadata(path).map_err(failed);
        }
        let mut way = Way::new(path);
        let mut real = PathBuf::from("/");
        let mut metadata = fs::symlink_metadata(&real).map_err(failed)?;
        self.judge(&real, &metadata, path)?;
        while let Some(name) = way.next().map_err(failed)? {
            match name {
                Step::Root => real = PathBuf::from("/"),
                // The parent of a directory that was judged was judged as well.
                Step::Up => {
                    real.pop();
                }
                Step::Down(name) => {
                    let next = real.join(name);
                    let found = fs::symlink_metadata(&next).map_err(failed)?;
                    if found.is_symlink() {
                        way.follow(&fs::read_link(&next).map_err(failed)?)
                            .map_err(failed)?;
                        continue;
                    }
                    real = next;
                    self.judge(&real, &found, path)?;
                    metadata = found;
                    continue;
                }
            }
            metadata = fs::symlink_metadata(&real).map_err(failed)?;
        }
        Ok(metadata)
    }

    fn judge(&self, real: &Path, metadata: &Metadata, asked: &Path) -> Result<(), LaunchError> {
        let above = real != self.anchor && self.anchor.starts_with(real);
        let Some(owners) = self.owners.as_ref().filter(|_| !above) else {
            return Ok(());
        };
        let who = match (metadata.uid(), metadata.mode()) {
            (uid, _) if !owners.contains(&uid) => Changer::Owner { uid },
            (_, mode) if mode & 0o022 != 0 => Changer::Writers {
                mode: mode & 0o7777,
            },
            _ => return Ok(()),
        };
        Err(LaunchError::Untrusted {
            path: asked.to_owned(),
            distrust: Distrust {
                path: real.to_owned(),
                who,
            },
        })
    }
}

enum Step {
    Root,
    Up,
    Down(OsString),
}

/// The names that are still to be walked.
struct Way {
    steps: VecDeque<Step>,
    links: usize,
    names: usize,
}

impl Way {
    fn new(path: &Path) -> Self {
        Self {
            steps: steps(path).collect(),
            links: 0,
            names: 0,
        }
    }

    fn next(&mut self) -> io::Result<Option<Step>> {
        self.names += 1;
        if self.names > NAMES_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        Ok(self.steps.pop_front())
    }

    fn follow(&mut self, target: &Path) -> io::Result<()> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        for step in steps(target).rev() {
            self.steps.push_front(step);
        }
        Ok(())
    }
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = Step> + '_ {
    path.components().filter_map(|component| match component {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Down(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
pub(super) mod tests;
