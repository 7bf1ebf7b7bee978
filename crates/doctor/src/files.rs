//! Reading with a bound.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// More of a file is not read.
const BYTES_MAX: u64 = 1 << 20;
/// More entries of a directory are not looked at.
const ENTRIES_MAX: usize = 10_000;

/// The text of a file; nothing where it is none, or cannot be read.
pub(crate) fn text(path: &Path) -> String {
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    let mut bytes = Vec::new();
    if is_file && let Ok(file) = File::open(path) {
        let _what_there_is = file.take(BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What lies in a directory, by name.
pub(crate) fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.take(ENTRIES_MAX).map(|it| it.path()).collect();
    paths.sort();
    paths
}

/// The directory and those below it, without links, other file systems, and directories of this name.
pub(crate) fn directories(top: &Path, without: &str) -> Vec<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;

    let Ok(first) = std::fs::symlink_metadata(top) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut left = vec![top.to_owned()];
    while let Some(dir) = left.pop() {
        if found.len() == ENTRIES_MAX {
            break;
        }
        for path in entries(&dir) {
            let meta = std::fs::symlink_metadata(&path);
            let ours = meta.is_ok_and(|meta| meta.is_dir() && meta.dev() == first.dev());
            if ours && path.file_name().is_none_or(|name| name != without) {
                left.push(path);
            }
        }
        found.push(dir);
    }
    found
}
