//! The output of containers, read from their sandboxes: a bounded tail, then what follows.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longshore_csi_manager::LogReader;
use longshore_paths::{ContainerId, StateRoot};

/// How much of the end of stderr is read for its last lines, in bytes.
const TAIL_BYTES: u64 = 16 * 1024;

/// The longest line that is kept, in characters.
const LINE_MAX: usize = 500;

/// Reads the sandboxes of the embedded agent.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    state: StateRoot,
    /// How long stderr was when the present run of a container began. One entry a plugin's
    /// container.
    begun: Mutex<HashMap<ContainerId, u64>>,
}

impl Sandboxes {
    pub(crate) fn new(state: StateRoot) -> Self {
        Self {
            state,
            begun: Mutex::default(),
        }
    }

    fn stderr(&self, container: &ContainerId) -> PathBuf {
        self.state.sandbox(container).join("stderr")
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<ContainerId, u64>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogReader for Sandboxes {
    fn begins(&self, container: &ContainerId) {
        let length =
            std::fs::symlink_metadata(self.stderr(container)).map_or(0, |found| found.len());
        self.begun().insert(container.clone(), length);
    }

    fn stderr_tail(&self, container: &ContainerId, lines: usize) -> Vec<String> {
        let path = self.stderr(container);
        let length = std::fs::symlink_metadata(&path).map_or(0, |found| found.len());
        // A file that is shorter than it was has been rotated.
        let begun = self.begun().get(container).copied();
        let begun = begun.filter(|begun| *begun <= length);
        let own = begun.map_or(TAIL_BYTES, |begun| (length - begun).min(TAIL_BYTES));
        if own == 0 {
            return Vec::new();
        }
        let Ok(mut tail) = Tail::open(path, own) else {
            return Vec::new();
        };
        // Where a run begins, a line begins.
        tail.began_inside &= own == TAIL_BYTES;
        let mut bytes = vec![0; usize::try_from(TAIL_BYTES).unwrap_or(0)];
        let read = tail.read(&mut bytes).unwrap_or(0);
        last_lines(&bytes[..read], tail.began_inside, lines)
    }
}

/// The last `count` lines; the first is left out when it began before `bytes`.
fn last_lines(bytes: &[u8], cut: bool, count: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<&str> = text.lines().skip(usize::from(cut)).collect();
    let lines = lines.split_off(lines.len().saturating_sub(count));
    lines
        .into_iter()
        .map(|line| line.chars().take(LINE_MAX).collect())
        .collect()
}

/// A file that is read from near its end on, and on after it was rotated or truncated.
#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    file: Option<File>,
    began_inside: bool,
}

impl Tail {
    /// Begins at most `bytes` before the end. A file that is not there yet is an empty one.
    ///
    /// # Errors
    /// What is there is no regular file, or cannot be opened.
    pub fn open(path: PathBuf, bytes: u64) -> std::io::Result<Self> {
        let mut tail = Self {
            path,
            file: None,
            began_inside: false,
        };
        if let Some(mut file) = open(&tail.path)? {
            let length = file.metadata()?.len();
            let start = length.saturating_sub(bytes);
            tail.began_inside = start > 0;
            file.seek(SeekFrom::Start(start))?;
            tail.file = Some(file);
        }
        Ok(tail)
    }

    /// What there is to read now; 0 when nothing is.
    ///
    /// # Errors
    /// Reading fails.
    pub fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            self.file = open(&self.path)?;
        }
        let Some(file) = &mut self.file else {
            return Ok(0);
        };
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read(&mut buffer[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        if filled == 0 {
            let position = file.stream_position()?;
            let found = file.metadata()?;
            let named = std::fs::symlink_metadata(&self.path).ok();
            if named.is_some_and(|named| (named.dev(), named.ino()) != (found.dev(), found.ino())) {
                // Rotated: what is there now is read from its beginning, next time.
                self.file = None;
            } else if found.len() < position {
                file.seek(SeekFrom::Start(0))?;
            }
        }
        Ok(filled)
    }
}

/// A regular file, never by a link that a container may have planted.
fn open(path: &Path) -> std::io::Result<Option<File>> {
    use nix::libc::{O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK};
    let opened = File::options()
        .read(true)
        .custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        .open(path);
    match opened {
        Ok(file) if file.metadata()?.is_file() => Ok(Some(file)),
        Ok(_) => Err(std::io::Error::other(format!(
            "{} is not a regular file",
            path.display()
        ))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(tail: &mut Tail) -> String {
        let mut buffer = [0; 64];
        let length = tail.read(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn a_tail_goes_on_through_appending_and_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        let mut tail = Tail::open(path.clone(), 4).unwrap();
        assert_eq!(read(&mut tail), "");
        std::fs::write(&path, "one\n").unwrap();
        assert_eq!(read(&mut tail), "one\n");
        File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .write_all(b"two\n")
            .unwrap();
        assert_eq!(read(&mut tail), "two\n");
        std::fs::hard_link(&path, dir.path().join("stdout.1")).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "three\n").unwrap();
        assert_eq!(read(&mut tail), "");
        assert_eq!(read(&mut tail), "three\n");
    }

    #[test]
    fn only_the_end_of_a_long_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        std::fs::write(&path, "a long beginning\nend\n").unwrap();
        assert_eq!(read(&mut Tail::open(path, 4).unwrap()), "end\n");
    }

    #[test]
    fn the_last_lines_are_of_the_present_run() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Sandboxes::new(StateRoot::new(dir.path()));
        let id = ContainerId::new("c").unwrap();
        assert_eq!(logs.stderr_tail(&id, 5), Vec::<String>::new());
        let path = logs.stderr(&id);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "first run\n").unwrap();
        assert_eq!(logs.stderr_tail(&id, 5), ["first run"]);
        logs.begins(&id);
        assert_eq!(logs.stderr_tail(&id, 5), Vec::<String>::new());
        std::fs::write(&path, "first run\nsecond\nrun\n").unwrap();
        assert_eq!(logs.stderr_tail(&id, 5), ["second", "run"]);
        std::fs::write(&path, "rotated\n").unwrap();
        assert_eq!(logs.stderr_tail(&id, 5), ["rotated"]);
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        Tail::open(path, 4).unwrap_err();
    }

    #[test]
    fn the_last_lines_are_whole_ones() {
        let lines = last_lines(b"cut off\none\ntwo\nthree", true, 2);
        assert_eq!(lines, ["two", "three"]);
        assert_eq!(last_lines(b"cut off\none\n", true, 5), ["one"]);
        assert_eq!(last_lines(b"", false, 5), Vec::<String>::new());
    }
}
