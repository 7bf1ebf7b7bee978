//! Names of temporary files, recognisable so that stale ones can be swept.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = ".longshore-tmp-";

/// How many names are tried when a name is taken, by a stale file or a planted one.
pub(crate) const ATTEMPTS: usize = 128;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A name that this process has not used before: its id, and a number.
pub(crate) fn next() -> OsString {
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{nth:x}", std::process::id()).into()
}

/// Whether `name` is one that [`next`] gives, in any process.
pub(crate) fn is_temp(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}

/// Whether the process that gave the name may still be writing the file. Our own process is, unless it
/// has not come to that number: then an earlier process had the same id.
pub(crate) fn may_be_in_use(name: &OsStr, is_running: impl Fn(u32) -> bool) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    let parsed = rest.and_then(|rest| {
        let (pid, nth) = rest.split_once('-')?;
        Some((pid.parse::<u32>().ok()?, u64::from_str_radix(nth, 16).ok()?))
    });
    match parsed {
        None => false,
        Some((pid, nth)) if pid == std::process::id() => {
            is_running(pid) && nth < NEXT.load(Ordering::Relaxed)
        }
        Some((pid, _)) => is_running(pid),
    }
}
