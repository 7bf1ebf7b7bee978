//! What has been set aside: found again by its name, judged again by its bytes.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{Writer, io_error};
use crate::fs::{Contents, FileSystem};
use crate::record::Damage;
use crate::{CheckpointError, envelope};

/// The longest file that can hold a record of any kind, in bytes.
const FILE_MAX: u64 = (envelope::HEADER + envelope::KIND_MAX + envelope::BODY_MAX) as u64;

/// What a file is, whatever its kind.
#[derive(Debug)]
#[non_exhaustive]
pub enum Judgement {
    /// It has no bytes.
    Empty,
    /// A record of this kind, intact; its body may still be none that this program understands.
    Intact {
        /// The kind.
        kind: String,
        /// The version of its body.
        version: u16,
    },
    /// No record that this program can read.
    Damaged(Damage),
    /// A link, directory, pipe or device.
    NotAFile,
}

impl std::fmt::Display for Judgement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Intact { kind, version } => write!(
                f,
                "an intact record of kind {kind:?}, version {version}, that was of no use there"
            ),
            Self::Damaged(damage) => damage.fmt(f),
            Self::NotAFile => f.write_str("not a regular file"),
        }
    }
}

impl<F: FileSystem> Writer<F> {
    /// The files in `dir` that [`quarantine`](Self::quarantine) has renamed, sorted; not below `dir`.
    ///
    /// # Errors
    /// When the directory cannot be read; a missing directory is not an error.
    pub fn set_aside_in(&self, dir: impl AsRef<Path>) -> Result<Vec<PathBuf>, CheckpointError> {
        let path = dir.as_ref();
        let names = match self.fs.open_dir(path).and_then(|dir| self.fs.list(&dir)) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("list", path)(error)),
        };
        let mut found: Vec<PathBuf> = names
            .iter()
            .filter(|name| is_aside(name.as_bytes()))
            .map(|name| path.join(name))
            .collect();
        found.sort();
        Ok(found)
    }

    /// What the file at `path` is, or `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn judge(&self, path: impl AsRef<Path>) -> Result<Option<Judgement>, CheckpointError> {
        let path = path.as_ref();
        let bytes = match self.fs.read_file(path, FILE_MAX) {
            Ok(Contents::Bytes(bytes)) => bytes,
            Ok(Contents::TooLarge { length }) => {
                let limit = FILE_MAX;
                let damage = Damage::TooLarge { length, limit };
                return Ok(Some(Judgement::Damaged(damage)));
            }
            Ok(Contents::NotAFile) => return Ok(Some(Judgement::NotAFile)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", path)(error)),
        };
        if bytes.is_empty() {
            return Ok(Some(Judgement::Empty));
        }
        Ok(Some(match envelope::kind_and_version(&bytes) {
            Ok((kind, version)) => Judgement::Intact { kind, version },
            Err(damage) => Judgement::Damaged(damage),
        }))
    }
}

/// Whether a name ends as those do that [`Writer::quarantine`] gives.
fn is_aside(name: &[u8]) -> bool {
    const MARK: &[u8] = b".corrupt-";
    let digits = name
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    digits > 0 && name[..name.len() - digits].ends_with(MARK)
}

/// [`Writer::set_aside_in`] on this machine.
///
/// # Errors
/// See there.
pub fn set_aside_in(dir: impl AsRef<Path>) -> Result<Vec<PathBuf>, CheckpointError> {
    Writer::new().set_aside_in(dir)
}

/// [`Writer::judge`] on this machine.
///
/// # Errors
/// See there.
pub fn judge(path: impl AsRef<Path>) -> Result<Option<Judgement>, CheckpointError> {
    Writer::new().judge(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_a_quarantine_gives_count() {
        for (name, aside) in [
            ("container.info.corrupt-1", true),
            ("a.corrupt-20", true),
            (".corrupt-1", true),
            ("a.corrupt-", false),
            ("a.corrupt-1x", false),
            ("a.corrupt", false),
            ("corrupt-1", false),
            ("1", false),
            ("", false),
        ] {
            assert_eq!(is_aside(name.as_bytes()), aside, "{name:?}");
        }
    }
}
