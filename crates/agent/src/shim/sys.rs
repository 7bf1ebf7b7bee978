//! The system calls that have no safe wrapper: the only `unsafe` of this crate's process side.

#![expect(
    unsafe_code,
    reason = "fork, wait, pidfd and mount calls without a safe wrapper"
)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::sys::socket::{ControlMessageOwned, RecvMsg};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdRegisterError};

/// From linux/sched.h, as a flag of clone3(2).
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// As clone3(2) takes it.
const SIGCHLD: u64 = libc::SIGCHLD as u64;

/// On which side of a fork we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forked {
    /// In the parent, with the child's pid.
    Parent(i32),
    /// In the child.
    Child,
}

/// fork(2), for a process with a single thread; into a cgroup v2 where one is given and the kernel can
/// (Linux 5.7), which spares the child the slow move. Says whether it did.
///
/// # Errors
/// EAGAIN and ENOMEM, also when the process has other threads (EDEADLK): the child of such a
/// process may find any lock held for ever.
pub(crate) fn fork_single_threaded(cgroup: Option<BorrowedFd<'_>>) -> io::Result<(Forked, bool)> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::from_raw_os_error(libc::EDEADLK));
    }
    if let Some(cgroup) = cgroup.and_then(|cgroup| u64::try_from(cgroup.as_raw_fd()).ok()) {
        // SAFETY: zeroes are valid arguments.
        let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
        arguments.flags = CLONE_INTO_CGROUP;
        arguments.exit_signal = SIGCHLD;
        arguments.cgroup = cgroup;
        // SAFETY: without CLONE_VM this is fork(2): a copy of the whole process, whose one thread is
        // the caller, on its own copy of the stack. The arguments live for the call.
        let pid = unsafe {
            libc::syscall(
                libc::SYS_clone3,
                &raw mut arguments,
                size_of::<libc::clone_args>(),
            )
        };
        match i32::try_from(pid) {
            Ok(0) => return Ok((Forked::Child, true)),
            Ok(pid) if pid > 0 => return Ok((Forked::Parent(pid), true)),
            // An older kernel, or a cgroup that does not take it: the child may still join itself.
            _ => {}
        }
    }
    // SAFETY: with one thread the child is a complete copy: no lock is held by a thread that does
    // not exist in it, so it may allocate and call what it likes.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok((Forked::Child, false)),
        pid => Ok((Forked::Parent(pid), false)),
    }
}

/// Ends the process at once, without destructors or buffers: for the child of a fork.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// What waiting for children found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaped {
    /// A child has ended with this raw status.
    Ended {
        /// Its pid, free again.
        pid: i32,
        /// The raw wait(2) status.
        status: i32,
    },
    /// There are children, none of which has ended.
    NoneEnded,
    /// There are no children.
    NoChildren,
}

/// waitpid(2) for any child, raw: real-time signals in the status are kept.
///
/// # Errors
/// None that a caller could handle; EINTR is retried.
pub(crate) fn reap_any(block: bool) -> io::Result<Reaped> {
    let flags = if block { 0 } else { libc::WNOHANG };
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for an int.
        match unsafe { libc::waitpid(-1, &raw mut status, flags | libc::__WALL) } {
            -1 => {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ECHILD) => return Ok(Reaped::NoChildren),
                    _ => return Err(error),
                }
            }
            0 => return Ok(Reaped::NoneEnded),
            pid => return Ok(Reaped::Ended { pid, status }),
        }
    }
}

/// Reaps the process behind a pidfd if it is our child and has ended; else does nothing. Gives its exit code when
/// it has ended by itself.
pub(crate) fn reap_pidfd(pidfd: BorrowedFd<'_>) -> Option<i32> {
    let id = libc::id_t::try_from(pidfd.as_raw_fd()).ok()?;
    // SAFETY: a siginfo_t of zeroes is valid, and the kernel only writes it; the fields that are read are those
    // that waitid(2) sets, or zero.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let waited = libc::waitid(
            libc::P_PIDFD,
            id,
            &raw mut info,
            libc::WEXITED | libc::WNOHANG,
        );
        let by_itself = waited == 0 && info.si_pid() != 0 && info.si_code == libc::CLD_EXITED;
        by_itself.then(|| info.si_status())
    }
}

/// Waits for the end of the process behind a pidfd and reaps it, if it is our child.
pub(crate) fn await_pidfd(pidfd: BorrowedFd<'_>) {
    let Ok(id) = libc::id_t::try_from(pidfd.as_raw_fd()) else {
        return;
    };
    // SAFETY: a siginfo_t of zeroes is valid, and the kernel only writes it.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        while libc::waitid(libc::P_PIDFD, id, &raw mut info, libc::WEXITED) == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// A handle on a process that no other process can take over (Linux 5.3).
///
/// # Errors
/// ESRCH when there is no such process (any more).
pub(crate) fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain integers.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// An open descriptor that is the same as long as this lives.
pub(crate) trait Pidfd: AsRawFd {}

impl Pidfd for OwnedFd {}
impl Pidfd for Arc<OwnedFd> {}

/// Watches a pidfd, which becomes readable when its process ends; for the agent, on its runtime.
///
/// # Errors
/// When the reactor is out of resources; gives the pidfd back.
pub(crate) fn watch_end<P: Pidfd>(pidfd: P) -> Result<AsyncFd<P>, (P, io::Error)> {
    // SAFETY: an OwnedFd stays the same open descriptor as long as it lives, and it, or a share of it, lives in
    // the AsyncFd.
    unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) }
        .map_err(AsyncFdRegisterError::into_parts)
}

/// Sends a signal to the process behind a pidfd.
///
/// # Errors
/// ESRCH when it has ended, EINVAL for a number that is no signal, EPERM.
pub(crate) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32) -> io::Result<()> {
    // SAFETY: the descriptor is open for the call; a null siginfo means "as kill(2) does".
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

/// kill(2) for one process.
///
/// # Errors
/// ESRCH, EPERM, EINVAL.
pub(crate) fn kill(pid: i32, signal: i32) -> io::Result<()> {
    if pid <= 1 {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: plain integers.
    if unsafe { libc::kill(pid, signal) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Closes every descriptor from 3 on: for a program at its very start, which has opened none.
pub(crate) fn close_inherited() {
    // SAFETY: called before anything of ours has been opened, so that no owner is left with a
    // closed descriptor.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, 0u32);
    }
}

/// The handles that came with a message, each of them ours now and closed at an exec.
///
/// # Errors
/// ENOBUFS when there were more than there was room for.
pub(crate) fn passed_handles<S>(message: &RecvMsg<'_, '_, S>) -> io::Result<Vec<OwnedFd>> {
    let mut handles = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part {
            // SAFETY: the kernel has made these descriptors for us with this message, and nobody else knows them.
            handles.extend(
                raw.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    Ok(handles)
}

/// The place of this process's last argument, which others see in the list of processes (proc(5), `cmdline`).
#[derive(Debug)]
pub(crate) struct ShownArgument {
    start: usize,
    /// In bytes, the NUL at its end not included.
    room: usize,
}

impl ShownArgument {
    /// For a program with one thread. `None` where the kernel does not tell where its arguments are.
    pub(crate) fn last() -> Option<Self> {
        let room = std::env::args_os().next_back()?.len();
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let fields = stat.get(stat.rfind(')')? + 1..)?;
        // Field 49, `arg_end`; the first here is the third.
        let end: usize = fields.split_ascii_whitespace().nth(46)?.parse().ok()?;
        let start = end.checked_sub(room + 1)?;
        (end != 0).then_some(Self { start, room })
    }

    /// Shows `text` in its place, as much as there is room for.
    pub(crate) fn set(&self, text: &[u8]) {
        let length = text.len().min(self.room);
        let place = std::ptr::with_exposed_provenance_mut::<u8>(self.start);
        // SAFETY: the kernel has put the arguments into this process's own stack, where they can be written to and
        // stay for good; `room` bytes and a NUL are the last one of them. Nobody has a reference to them, and
        // there is no other thread that could read them meanwhile.
        unsafe {
            place.write_bytes(0, self.room);
            place.copy_from_nonoverlapping(text.as_ptr(), length);
        }
    }
}

/// Lets go of the pages of a private file mapping that is read-only and has not been written to.
pub(crate) fn release_pages(start: usize, length: usize) {
    // SAFETY: such a page holds what its file holds, and the kernel reads it again when it is touched:
    // nothing that can be observed changes.
    unsafe {
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(start),
            length,
            libc::MADV_DONTNEED,
        );
    }
}

/// Brings the pages of a private file mapping that is read-only in, where the kernel can (Linux 5.14).
pub(crate) fn fetch_pages(start: usize, length: usize) {
    // SAFETY: this only reads what can be read at any time.
    unsafe {
        libc::madvise(
            std::ptr::with_exposed_provenance_mut(start),
            length,
            libc::MADV_POPULATE_READ,
        );
    }
}

/// Gives free memory of the heap back, where the C library keeps it otherwise.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: has no preconditions and takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Sets every signal back to its default disposition.
pub(crate) fn default_dispositions() {
    /// As large as a kernel's sigaction is on any architecture; zeroes are SIG_DFL.
    const DEFAULT: [u64; 8] = [0; 8];
    for signal in 1..=64 {
        // SAFETY: SIG_DFL is no code of ours and the old action is not asked for. The raw call, since
        // C libraries refuse the two signals that they use themselves and that may be inherited
        // ignored; numbers that cannot be set are refused by the kernel.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                DEFAULT.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8usize,
            );
        }
    }
}

/// Sets the nice value of this process to 0 where that is allowed.
pub(crate) fn reset_nice() {
    // SAFETY: plain integers.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 0);
    }
}

/// setrlimit(2) by number.
///
/// # Errors
/// EPERM when a hard limit would be raised without the right, EINVAL when soft > hard.
pub(crate) fn set_rlimit(resource: u32, soft: u64, hard: u64) -> io::Result<()> {
    let limit = libc::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: `limit` lives for the call; the old limit is not asked for.
    let result = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            &raw const limit,
            std::ptr::null_mut::<libc::rlimit64>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// A copy of the mount tree at `path`, attached nowhere (Linux 5.2). Mounts that are shared stay
/// members of their peer groups.
///
/// # Errors
/// What open_tree(2) says: EPERM without CAP_SYS_ADMIN, ENOENT, ELOOP.
pub(crate) fn open_tree_clone(path: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = i64::from(libc::AT_EMPTY_PATH)
        | i64::from(libc::AT_RECURSIVE)
        | i64::from(libc::OPEN_TREE_CLONE)
        | i64::from(libc::OPEN_TREE_CLOEXEC);
    // SAFETY: the descriptor is open for the call and the path is the empty C string.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, path.as_raw_fd(), c"".as_ptr(), flags) })
}

/// Attaches a tree made by [`open_tree_clone`] over what `target` is.
///
/// # Errors
/// What move_mount(2) says.
pub(crate) fn move_mount(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let empty: &CStr = c"";
    // SAFETY: both descriptors are open for the call and both paths are the empty C string.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            empty.as_ptr(),
            target.as_raw_fd(),
            empty.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH | libc::MOVE_MOUNT_T_EMPTY_PATH,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes the top mount of a tree read-only (Linux 5.12).
///
/// # Errors
/// What mount_setattr(2) says.
pub(crate) fn set_read_only(tree: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: `attributes` lives for the call and its size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    match RawFd::try_from(result) {
        // SAFETY: the kernel has just made this descriptor for us, nobody else owns it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
