//! Golden files: one file of each version of a record, kept for ever.

use std::fmt::Debug;
use std::path::Path;

use crate::record::{AnyRecord, Loaded, Record};

/// With this variable set a golden file that is missing is written; none is ever changed.
const WRITE: &str = "LONGSHORE_GOLDEN_WRITE";

/// Checks the golden files of `R` in `dir`, and returns what is wrong with them.
///
/// * `v<VERSION>.rec` holds `sample` and its bytes are what is written today.
/// * Every `v<n>.rec` up to `READS_UP_TO` is read; there is one for each version from `oldest` on.
/// * `releases` lists, a line each, a release and the newest version that it reads (`0.1.0 1`). The
///   last line before that of `release` is the previous release, and reads what is written today.
///
/// With `LONGSHORE_GOLDEN_WRITE=1` in the environment the first of these is written when it is missing.
///
/// # Errors
/// A text for the test to panic with.
pub fn check_golden<R: Record + PartialEq + Debug>(
    dir: impl AsRef<Path>,
    sample: &R,
    oldest: u16,
    release: &str,
) -> Result<(), String> {
    let dir = dir.as_ref();
    let today = dir.join(format!("v{}.rec", R::VERSION));
    let written = sample.to_file(&today).map_err(|error| error.to_string())?;
    if std::env::var_os(WRITE).is_some() && !today.exists() {
        std::fs::create_dir_all(dir).map_err(|error| error.to_string())?;
        std::fs::write(&today, &written).map_err(|error| error.to_string())?;
    }
    let golden = std::fs::read(&today).unwrap_or_default();
    if golden != written {
        let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(format!(
            "{} is not what is written today: a changed body needs a new version, whose file is made \
             with {WRITE}=1. Today's bytes: {hex}",
            today.display()
        ));
    }
    match crate::read::<R>(&today) {
        Ok(Loaded::Record(read)) if read == *sample => {}
        other => return Err(format!("{} was read as {other:?}", today.display())),
    }
    for version in oldest..=R::READS_UP_TO {
        let path = dir.join(format!("v{version}.rec"));
        match crate::read::<R>(&path) {
            Ok(Loaded::Record(_)) => {}
            other => return Err(format!("{} was read as {other:?}", path.display())),
        }
    }
    previous_release_reads(dir, R::VERSION, R::READS_UP_TO, release)
}

fn previous_release_reads(
    dir: &Path,
    writes: u16,
    reads: u16,
    release: &str,
) -> Result<(), String> {
    let path = dir.join("releases");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut previous = None;
    for line in text.lines() {
        let parsed = line
            .split_once(' ')
            .and_then(|(r, v)| Some((r, v.parse::<u16>().ok()?)));
        let Some((name, reads_up_to)) = parsed else {
            return Err(format!(
                "{}: {line:?} is not \"RELEASE VERSION\"",
                path.display()
            ));
        };
        if name == release {
            return match previous {
                _ if reads_up_to != reads => Err(format!(
                    "{}: release {release} reads up to {reads}",
                    path.display()
                )),
                Some((previous, read)) if read < writes => Err(format!(
                    "release {previous} reads up to version {read}, but {release} writes {writes}"
                )),
                _ => Ok(()),
            };
        }
        previous = Some((name, reads_up_to));
    }
    Err(format!(
        "{}: add a line \"{release} {reads}\"",
        path.display()
    ))
}
