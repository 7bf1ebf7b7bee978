//! The system calls that have no safe wrapper: the only `unsafe` of this crate.

#![expect(unsafe_code, reason = "pidfd calls have no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

/// A handle of a process, which becomes readable when it ends.
///
/// # Errors
/// There is no such process.
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers; the kernel marks the descriptor close-on-exec.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us, nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to the process of a handle.
///
/// # Errors
/// It has ended, or is another user's.
pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: an open descriptor and plain integers; no information is passed along.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
