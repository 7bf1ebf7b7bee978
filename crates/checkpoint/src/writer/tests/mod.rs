//! Crashes, failures and power cuts at every single operation, in memory.
//!
//! `Scene::every_fault` runs an action once without a fault to count its operations, then once for each
//! of them with the fault there.

mod crash;
mod failure;

use std::path::Path;

use super::*;
use crate::CodecError;
use crate::testing::{Fault, FaultFs, MemoryFs};

/// A record that is told apart from every other by its text.
#[derive(Debug, Clone, PartialEq)]
struct Note(&'static str);

const OLD: Note = Note("old, a little longer");
const NEW: Note = Note("new");

impl Record for Note {
    const KIND: &'static str = "note";
    const VERSION: u16 = 1;
    const MAX_BODY: usize = 4096;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn decode(_version: u16, body: &[u8]) -> Result<Self, CodecError> {
        [OLD, NEW]
            .into_iter()
            .find(|note| note.0.as_bytes() == body)
            .ok_or(CodecError::TrailingBytes { count: body.len() })
    }
}

/// What a test finds at a path, as text: `missing`, `empty`, `damaged` or the note's.
fn found(fs: &MemoryFs, path: &str) -> &'static str {
    match Writer::with_file_system(fs).read::<Note>(path).unwrap() {
        Loaded::Missing => "missing",
        Loaded::Empty => "empty",
        Loaded::Record(note) => note.0,
        Loaded::Damaged(_) => "damaged",
    }
}

/// The names in a directory that are temporary files.
fn temps(fs: &MemoryFs, dir: &str) -> usize {
    let names = fs.names(Path::new(dir)).unwrap_or_default();
    names.iter().filter(|name| temp::is_temp(name)).count()
}

/// A file system on which `before` has been done, all of it durable.
fn scene(before: impl Fn(&Writer<&MemoryFs>)) -> MemoryFs {
    let fs = MemoryFs::new();
    before(&Writer::with_file_system(&fs));
    fs.synced()
}

/// Runs `action` on copies of `scene`, with `fault` at each of its operations in turn, and hands what
/// became of the file system to `check` with the operation's number and the action's result.
fn every_fault<T>(
    scene: &MemoryFs,
    fault: Fault,
    action: impl Fn(&Writer<FaultFs<&MemoryFs>>) -> Result<T, CheckpointError>,
    check: impl Fn(usize, &MemoryFs, Result<T, CheckpointError>),
) {
    let mut at = 0;
    loop {
        let fs = scene.after_process_crash();
        let writer = Writer::with_file_system(FaultFs::new(&fs, at, fault));
        let result = action(&writer);
        if !writer.file_system().happened() {
            assert!(result.is_ok(), "it works without a fault");
            break;
        }
        check(at, &fs, result);
        at += 1;
        assert!(at < 1000, "the action ends");
    }
    assert!(at > 0, "the action has operations");
}
