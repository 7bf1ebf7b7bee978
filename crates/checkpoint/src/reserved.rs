//! A record that is written even on a full disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::CheckpointError;
use crate::record::{AnyRecord, Record};

/// Room for one record, taken while there is some: [`write`](Self::write) needs none then.
///
/// The room is a file beside the record, `<name>.reserved`, which becomes the record by a rename. What is written is
/// process-durable, as with [`Durability::Process`](crate::Durability::Process). On a file system that never
/// overwrites in place (btrfs, a log-structured one) the room is a hope and no promise. Dropping it gives it back.
#[derive(Debug)]
pub struct Reserved {
    file: File,
    reserve: PathBuf,
    path: PathBuf,
    room: u64,
}

impl Reserved {
    /// Takes `room` bytes for the record at `path`, whose directory is there. An older reserve is replaced.
    ///
    /// # Errors
    /// There is no room, or the directory cannot be written to; nothing is left then.
    pub fn new(path: impl Into<PathBuf>, room: u64) -> Result<Self, CheckpointError> {
        let path = path.into();
        let mut reserve = path.clone().into_os_string();
        reserve.push(".reserved");
        let reserve = PathBuf::from(reserve);
        let failed = |source| failed("reserve", &reserve, source);
        match std::fs::remove_file(&reserve) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&reserve)
            .map_err(failed)?;
        let filled = io::copy(&mut io::Read::take(io::repeat(0), room), &mut file);
        if let Err(error) = filled.and_then(|_| file.flush()) {
            let _nothing_else_to_do = std::fs::remove_file(&reserve);
            return Err(failed(error));
        }
        Ok(Self {
            file,
            reserve,
            path,
            room,
        })
    }

    /// Puts the record in place, over an older one.
    ///
    /// # Errors
    /// The record cannot be encoded or is larger than the room, or the file system refuses. The older record then is
    /// in place and the room is given back.
    pub fn write<R: Record>(self, record: &R) -> Result<(), CheckpointError> {
        let bytes = record.to_file(&self.path)?;
        let length = bytes.len() as u64;
        if length > self.room {
            let text = format!("a record of {length} bytes in a room of {}", self.room);
            return Err(failed("write", &self.path, io::Error::other(text)));
        }
        self.file
            .write_all_at(&bytes, 0)
            .and_then(|()| self.file.set_len(length))
            .and_then(|()| rename(&self.reserve, &self.path))
            .map_err(|source| failed("write", &self.path, source))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        // After a write it is not there any more.
        let _gone = std::fs::remove_file(&self.reserve);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the checkpoint crate")]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> CheckpointError {
    CheckpointError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodecError, Durability, Loaded, Writer, read};

    #[derive(Debug, PartialEq)]
    struct Text(String);

    impl Text {
        fn new(text: &str) -> Self {
            Self(text.to_owned())
        }
    }

    impl Record for Text {
        const KIND: &'static str = "text";
        const VERSION: u16 = 1;
        const MAX_BODY: usize = 100;

        fn encode(&self) -> Result<Vec<u8>, CodecError> {
            Ok(self.0.clone().into_bytes())
        }

        fn decode(_: u16, body: &[u8]) -> Result<Self, CodecError> {
            Ok(Self(String::from_utf8_lossy(body).into_owned()))
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.collect()
    }

    #[test]
    fn a_reserved_record_is_written_over_an_older_one_and_leaves_no_reserve() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let (old, new) = (Text::new("old"), Text::new("new"));
        Writer::new()
            .write(&path, &old, Durability::Process)
            .unwrap();
        let reserved = Reserved::new(&path, 4096).unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        assert!(matches!(read::<Text>(&path).unwrap(), Loaded::Record(found) if found == old));
        reserved.write(&new).unwrap();
        assert!(matches!(read::<Text>(&path).unwrap(), Loaded::Record(found) if found == new));
        assert_eq!(names(dir.path()), ["r"]);
    }

    #[test]
    fn a_record_that_is_larger_than_its_room_is_refused_and_one_that_is_not_written_leaves_nothing()
    {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let error = Reserved::new(&path, 8)
            .unwrap()
            .write(&Text::new("x"))
            .unwrap_err();
        assert!(
            matches!(
                error,
                CheckpointError::Io {
                    action: "write",
                    ..
                }
            ),
            "{error}"
        );
        drop(Reserved::new(&path, 8).unwrap());
        assert_eq!(names(dir.path()), [""; 0]);
        Reserved::new(dir.path().join("none/r"), 8).unwrap_err();
    }
}
