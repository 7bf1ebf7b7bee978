//! What no file tells.

#![expect(unsafe_code, reason = "adjtimex has no safe wrapper")]

use std::io;
use std::path::Path;

use crate::Space;

/// The kernel's word for a clock that nobody keeps right (adjtimex(2)).
const UNSYNCHRONIZED: i32 = 0x40;

/// Whether somebody keeps the clock of this machine right; `None` where the kernel does not tell.
#[must_use]
pub fn clock_synchronized() -> Option<bool> {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: with no modes set nothing is changed; the kernel writes to the structure alone.
    let done = unsafe { libc::adjtimex(&raw mut state) };
    (done >= 0).then_some(state.status & UNSYNCHRONIZED == 0)
}

impl Space {
    /// Of the file system on which `path` is, or the nearest directory above it that there is.
    ///
    /// # Errors
    /// As statvfs(3).
    pub fn of(path: &Path) -> io::Result<Self> {
        let there = path.ancestors().find(|path| path.exists());
        let found = nix::sys::statvfs::statvfs(there.unwrap_or(Path::new("/")))?;
        let unit = found.fragment_size();
        Ok(Self {
            free_bytes: found.blocks_available().saturating_mul(unit),
            total_bytes: found.blocks().saturating_mul(unit),
            free_inodes: found.files_available(),
            total_inodes: found.files(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_has_room_and_the_clock_a_state() {
        let space = Space::of(Path::new("/no/such/directory")).unwrap();
        assert!(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
        assert!(clock_synchronized().is_some());
    }
}
