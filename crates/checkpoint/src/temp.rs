//! Names of temporary files, recognisable so that stale ones can be swept.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = ".longshore-tmp-";

/// How many names are tried when a name is taken, by a stale file or a planted one.
pub(crate) const ATTEMPTS: usize = 128;

/// A name that this process has not used before.
pub(crate) fn next() -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nth = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{nth:x}", std::process::id()).into()
}

/// Whether `name` is one that [`next`] gives, in any process.
pub(crate) fn is_temp(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes())
}
