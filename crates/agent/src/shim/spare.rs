//! A shim that is started before there is a container for it: what a start takes is then over when one is
//! launched.
//!
//! ```text
//!  agent --spawn `shim spare`--> set up, waits            fd 0: a socket, whose other end the agent holds
//!    |--- order: dir + run/ (locked) + report ---> fd 0: run/, locked   fd 1: /dev/null   a shim like any other
//!    '--- closed, or the agent's end ------------> ends
//! ```
//!
//! Before its order it holds nothing but that socket, and lives no longer than the agent. The lock travels with the
//! order: while that is on its way the kernel holds it, so that it is never free in between.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use longshore_sandbox::dirs;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::socket::{ControlMessage, MsgFlags, recvmsg, sendmsg};
use nix::sys::stat::{SFlag, fstat};

use super::{Ready, run as run_container, sys};
use crate::memory;
use crate::process::{SHIM_NAME, SPARE_NAME};

/// What stands in the place of a container's directory (an absolute path) until there is one.
const WORD: &str = "spare";
/// As long as the kernel takes a path.
const MAX_ORDER: usize = libc::PATH_MAX as usize;

/// The argument that makes a shim wait for its order, with room for a directory of `longest` bytes, which
/// will take its place in the list of processes.
pub(crate) fn argument(longest: usize) -> OsString {
    let padding = " ".repeat(longest.saturating_sub(WORD.len()));
    OsString::from(format!("{WORD}{padding}"))
}

pub(super) fn is_asked_for(argument: &OsStr) -> bool {
    argument.as_bytes().trim_ascii_end() == WORD.as_bytes()
}

/// Sends a spare its order: to start the container in `dir`, whose locked `run/` and whose report these are.
/// Never waits.
///
/// # Errors
/// EPIPE or ECONNRESET when it is gone, EINVAL when `dir` is too long: then nobody has the order.
pub(crate) fn order(
    spare: BorrowedFd<'_>,
    dir: &Path,
    lock: BorrowedFd<'_>,
    report: BorrowedFd<'_>,
) -> io::Result<()> {
    let dir = dir.as_os_str().as_bytes();
    if dir.is_empty() || dir.len() > MAX_ORDER {
        return Err(Errno::EINVAL.into());
    }
    let handles = [lock.as_raw_fd(), report.as_raw_fd()];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let text = [IoSlice::new(dir)];
    let passed = [ControlMessage::ScmRights(&handles)];
    // A packet goes whole or not at all.
    sendmsg::<()>(spare.as_raw_fd(), &text, &passed, flags, None)?;
    Ok(())
}

/// Waits for the order and becomes that container's shim. Ends without one when the agent does.
pub(super) fn run() -> ExitCode {
    let is_socket = |stat| dirs::is(&stat, SFlag::S_IFSOCK);
    if !fstat(io::stdin()).is_ok_and(is_socket) {
        let _nobody_reads = writeln!(io::stderr(), "the shim is started by the agent alone");
        return ExitCode::from(2);
    }
    let shown = sys::ShownArgument::last();
    if let Some(shown) = &shown {
        shown.set(WORD.as_bytes());
    }
    let ready = Ready::new(SPARE_NAME);
    memory::fetch_program();
    match receive(io::stdin().as_fd()) {
        Ok(Some((dir, report))) => {
            if let Some(shown) = &shown {
                shown.set(dir.as_os_str().as_bytes());
            }
            let _a_name_only = prctl::set_name(SHIM_NAME);
            run_container(ready, &dir, report, None)
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The directory and the report of the order, whose lock takes the place of the socket; `None` when none will come.
fn receive(orders: BorrowedFd<'_>) -> io::Result<Option<(PathBuf, File)>> {
    let mut text = [0; MAX_ORDER];
    let mut passed = cmsg_space!([i32; 2]);
    let (length, handles) = loop {
        let mut parts = [IoSliceMut::new(&mut text)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(orders.as_raw_fd(), &mut parts, Some(&mut passed), flags) {
            Ok(message) => break (message.bytes, sys::passed_handles(&message)?),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if length == 0 {
        return Ok(None);
    }
    let Ok([lock, report]) = <[OwnedFd; 2]>::try_from(handles) else {
        return Err(Errno::EBADMSG.into());
    };
    nix::unistd::dup2_stdin(&lock)?;
    let dir = OsString::from_vec(text.get(..length).unwrap_or_default().to_vec());
    Ok(Some((PathBuf::from(dir), report.into())))
}
