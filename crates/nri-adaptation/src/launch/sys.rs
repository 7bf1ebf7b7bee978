//! The system calls that have no safe wrapper: the only `unsafe` of this crate.
//!
//! A crate that maps descriptors into a child would spare two of the calls here; it would bring a
//! second copy of `nix` and still not close what an embedding program leaks.

#![expect(
    unsafe_code,
    reason = "what a child does between fork and exec, and pidfd_open, have no safe wrapper"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The descriptor of the socket in a launched plugin.
pub(crate) const SOCKET: RawFd = 3;

/// Lets the command's process lead a session of its own, with `socket` as descriptor 3 and nothing
/// open beyond that, whatever the embedding program has left open.
pub(crate) fn isolate(command: &mut Command, socket: OwnedFd) {
    let child = move || {
        // SAFETY: setsid(2) takes nothing and touches no memory.
        if unsafe { libc::setsid() } == -1 {
            return Err(io::Error::last_os_error());
        }
        if socket.as_raw_fd() == SOCKET {
            // SAFETY: an open descriptor and plain integers.
            if unsafe { libc::fcntl(SOCKET, libc::F_SETFD, 0) } == -1 {
                return Err(io::Error::last_os_error());
            }
        // SAFETY: an open descriptor and a number. What was open as 3 in the parent, this copy of the
        // process does not need: the pipe on which std reports a failure was opened after `socket` and
        // three more, so it lies beyond.
        } else if unsafe { libc::dup2(socket.as_raw_fd(), SOCKET) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // What the embedding program ignores, its plugins need not: TERM has to end them.
        for signal in 1..=64 {
            // SAFETY: SIG_DFL is no code of ours; what cannot be set is refused.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
        // Marked, not closed, so that a failure to execute can still be reported. A kernel that knows
        // the flag not (before 5.11) is left with what the embedding program marked itself.
        // SAFETY: plain integers.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                SOCKET + 1,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            );
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only: it takes no lock and allocates
    // nothing (`last_os_error` reads errno).
    unsafe {
        command.pre_exec(child);
    }
}

/// A handle on a process that no other process can take over (Linux 5.3).
///
/// # Errors
/// ESRCH when there is no such process (any more).
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers; the kernel marks the descriptor close-on-exec.
    let result = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us, nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Watches a pidfd, which becomes readable when its process ends.
///
/// # Errors
/// When the reactor is out of resources.
pub(crate) fn watch_end(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd stays the same open descriptor as long as it lives, and it lives in the
    // AsyncFd.
    unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }
        .map_err(|error| error.into_parts().1)
}
