//! The output files of a task from the oldest byte that is kept, and on over rotations.
//!
//! ```text
//!   stdout.3 ─► stdout.2 ─► stdout.1 ─► stdout ─► (rotated: it is stdout.1 now, and the new stdout is next)
//! ```
//!
//! A file that becomes shorter is being brought back to its last recorded place by whoever writes it, and will say the same
//! again: what was read of it is not read twice.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use longshore_sandbox::dirs;

/// More rotated files than anybody keeps.
const MAX_FILES: u32 = 1000;
/// So much is read at a time while lines are counted, in bytes.
const BLOCK: usize = 64 << 10;

/// One stream of a task.
#[derive(Debug)]
pub struct OutputReader {
    sandbox: Option<OwnedFd>,
    name: &'static str,
    file: Option<File>,
    position: u64,
}

impl OutputReader {
    /// Reads `stdout` or `stderr` of a sandbox: from the oldest file that is kept, or only the last `tail` lines of what is
    /// there now. A sandbox that is not there has no output. Blocking: as much is read as the last lines have.
    ///
    /// # Errors
    /// What is there is no directory; reading fails.
    pub fn open(sandbox: &Path, name: &'static str, tail: Option<u64>) -> io::Result<Self> {
        let sandbox = match dirs::open(sandbox) {
            Ok(dir) => Some(dir),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut reader = Self {
            sandbox,
            name,
            file: None,
            position: 0,
        };
        if let Some(lines) = tail {
            reader.begin_before_the_end(lines)?;
        }
        Ok(reader)
    }

    /// What comes next; 0 when there is nothing now. Blocking, shortly.
    ///
    /// # Errors
    /// Reading fails.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.file.is_none() {
            self.file = self.oldest()?;
        }
        // Each round leaves a file behind for good.
        for _ in 0..MAX_FILES {
            let read = self.read_here(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let Some(newer) = self.newer()? else {
                return Ok(0);
            };
            // What came between the end that was read and the rotation.
            let read = self.read_here(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            (self.file, self.position) = (Some(newer), 0);
        }
        Ok(0)
    }

    fn read_here(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(file) = &mut self.file else {
            return Ok(0);
        };
        file.seek(SeekFrom::Start(self.position))?;
        let read = file.read(buffer)?;
        self.position = self
            .position
            .saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }

    /// At the first of the last `lines` lines; a last one without an end counts.
    fn begin_before_the_end(&mut self, lines: u64) -> io::Result<()> {
        let mut wanted = Wanted::new(lines);
        for index in 0..MAX_FILES {
            let Some(mut file) = self.named(index)? else {
                // The newest may be missing for a moment, while it is rotated.
                if index > 0 {
                    break;
                }
                continue;
            };
            let begin = wanted.begin_in(&mut file)?;
            (self.file, self.position) = (Some(file), begin.unwrap_or(0));
            if begin.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn oldest(&self) -> io::Result<Option<File>> {
        let mut found = None;
        for index in 0..MAX_FILES {
            match self.named(index)? {
                Some(file) => found = Some(file),
                // The newest may be missing for a moment, while it is rotated.
                None if index > 0 => break,
                None => {}
            }
        }
        Ok(found)
    }

    /// The file after this one; none when this is the newest.
    fn newer(&self) -> io::Result<Option<File>> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let own = file.metadata()?;
        for index in 0..MAX_FILES {
            match self.named(index)? {
                Some(known) => {
                    let known = known.metadata()?;
                    if (known.dev(), known.ino()) == (own.dev(), own.ino()) {
                        return match index.checked_sub(1) {
                            None => Ok(None),
                            Some(newer) => self.named(newer),
                        };
                    }
                }
                None if index > 0 => break,
                None => {}
            }
        }
        // It was rotated away before it was left: on with the oldest that is kept.
        self.oldest()
    }

    fn named(&self, index: u32) -> io::Result<Option<File>> {
        let Some(sandbox) = &self.sandbox else {
            return Ok(None);
        };
        let name = match index {
            0 => self.name.to_owned(),
            index => format!("{}.{index}", self.name),
        };
        match dirs::read_at(sandbox, &name) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Counts ends of lines backwards.
struct Wanted {
    /// Ends that may still be passed over.
    left: u64,
    /// Whether nothing was looked at yet.
    at_the_end: bool,
}

impl Wanted {
    const fn new(lines: u64) -> Self {
        Self {
            left: lines,
            at_the_end: true,
        }
    }

    /// Where the lines begin, if that is in this file; what follows it has been looked at.
    fn begin_in(&mut self, file: &mut File) -> io::Result<Option<u64>> {
        let mut end = file.metadata()?.len();
        let mut buffer = vec![0; BLOCK];
        while end > 0 {
            let begin = end.saturating_sub(BLOCK as u64);
            let block = usize::try_from(end - begin).unwrap_or(BLOCK);
            let block = &mut buffer[..block];
            file.seek(SeekFrom::Start(begin))?;
            match file.read_exact(block) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    // It was made shorter.
                    end = begin.min(file.metadata()?.len());
                    continue;
                }
                other => other?,
            }
            for (index, byte) in block.iter().enumerate().rev() {
                let place = begin + index as u64;
                let ends_the_last_line = std::mem::replace(&mut self.at_the_end, false);
                if *byte != b'\n' {
                    if ends_the_last_line && self.left == 0 {
                        return Ok(Some(place + 1));
                    }
                    continue;
                }
                if ends_the_last_line && self.left > 0 {
                    continue;
                }
                match self.left.checked_sub(1) {
                    None | Some(0) => return Ok(Some(place + 1)),
                    Some(left) => self.left = left,
                }
            }
            end = begin;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use longshore_sandbox::{LogFile, Rotation};

    use super::*;

    fn all(reader: &mut OutputReader) -> String {
        let mut text = Vec::new();
        let mut buffer = [0; 7];
        loop {
            match reader.read(&mut buffer).unwrap() {
                0 => return String::from_utf8(text).unwrap(),
                read => text.extend(&buffer[..read]),
            }
        }
    }

    fn log(dir: &Path) -> LogFile {
        let rotation = Rotation {
            max_bytes: 16,
            keep: 4,
        };
        LogFile::open(dirs::open(dir).unwrap(), "stdout", None, rotation).unwrap()
    }

    #[test]
    fn rotated_files_come_first_and_rotation_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path());
        let mut expected = String::new();
        let mut write = |log: &mut LogFile, text: &str| {
            log.append(text.as_bytes());
            expected.push_str(text);
            expected.clone()
        };
        for line in 0..4 {
            write(&mut log, &format!("line {line} ....\n"));
        }
        let so_far = write(&mut log, "x");
        let mut reader = OutputReader::open(dir.path(), "stdout", None).unwrap();
        let mut found = all(&mut reader);
        assert_eq!(found, so_far);
        let mut so_far = String::new();
        for line in 0..30 {
            so_far = write(&mut log, &format!("more {line}...\n"));
            found.push_str(&all(&mut reader));
        }
        assert_eq!(found, so_far);
    }

    #[test]
    fn a_file_that_is_cut_back_and_written_again_is_not_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout");
        std::fs::write(&path, "one two three").unwrap();
        let mut reader = OutputReader::open(dir.path(), "stdout", None).unwrap();
        assert_eq!(all(&mut reader), "one two three");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(4).unwrap();
        assert_eq!(all(&mut reader), "");
        std::fs::write(&path, "one two three four").unwrap();
        assert_eq!(all(&mut reader), " four");
    }

    #[test]
    fn a_reader_that_was_left_behind_goes_on_with_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = log(dir.path());
        log.append(b"first");
        let mut reader = OutputReader::open(dir.path(), "stdout", None).unwrap();
        assert_eq!(all(&mut reader), "first");
        for line in 0..20 {
            log.append(format!("{line:<16}").as_bytes());
        }
        let rest = all(&mut reader);
        assert!(rest.ends_with(&format!("{:<16}", 19)), "{rest}");
        assert!(rest.len() >= 4 * 16, "{rest}");
    }

    #[test]
    fn a_tail_and_a_missing_sandbox() {
        let dir = tempfile::tempdir().unwrap();
        // The oldest first; a line may go on in the next file.
        let cases: &[(&[&str], u64, &str)] = &[
            (&["one\ntwo\nthree\n"], 1, "three\n"),
            (&["one\ntwo\nthree\n"], 2, "two\nthree\n"),
            (&["one\ntwo\nthree\n"], 3, "one\ntwo\nthree\n"),
            (&["one\ntwo\nthree\n"], 9, "one\ntwo\nthree\n"),
            (&["one\ntwo\nthree\n"], 0, ""),
            (&["one\ntwo\nthr"], 1, "thr"),
            (&["one\ntwo\nthr"], 2, "two\nthr"),
            (&["one\ntwo\nthr"], 0, ""),
            (&["one\n\n"], 1, "\n"),
            (&["one\n", "two\n"], 1, "two\n"),
            (&["one\n", "two\n"], 2, "one\ntwo\n"),
            (&["zero\none\n", "two\n", ""], 2, "one\ntwo\n"),
            (&["zero\none\n", "tw", "o\nx"], 2, "two\nx"),
            (&[""], 5, ""),
        ];
        for (files, lines, expected) in cases {
            for (index, text) in files.iter().rev().enumerate() {
                let name = match index {
                    0 => "stderr".to_owned(),
                    index => format!("stderr.{index}"),
                };
                std::fs::write(dir.path().join(name), text).unwrap();
            }
            let mut reader = OutputReader::open(dir.path(), "stderr", Some(*lines)).unwrap();
            assert_eq!(all(&mut reader), *expected, "{files:?}, {lines}");
            // What comes later comes all.
            let mut newest = File::options()
                .append(true)
                .open(dir.path().join("stderr"))
                .unwrap();
            io::Write::write_all(&mut newest, b"later\n").unwrap();
            assert_eq!(all(&mut reader), "later\n", "{files:?}, {lines}");
            for entry in std::fs::read_dir(dir.path()).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
        let long = format!("{}\nend\n", "x".repeat(3 * BLOCK));
        std::fs::write(dir.path().join("stderr"), &long).unwrap();
        for (lines, expected) in [(1, "end\n"), (2, long.as_str())] {
            let mut reader = OutputReader::open(dir.path(), "stderr", Some(lines)).unwrap();
            assert_eq!(all(&mut reader), expected);
        }
        let mut reader = OutputReader::open(&dir.path().join("none"), "stderr", None).unwrap();
        assert_eq!(all(&mut reader), "");
    }

    #[test]
    fn a_planted_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("stdout")).unwrap();
        let mut reader = OutputReader::open(dir.path(), "stdout", None).unwrap();
        reader.read(&mut [0; 8]).unwrap_err();
    }
}
