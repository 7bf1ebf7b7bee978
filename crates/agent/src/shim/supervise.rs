//! The life of a shim: carry output, notice the end, end the rest, write it down.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use longshore_checkpoint::{Durability, Reserved, Writer};
use longshore_sandbox::LogFile;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signalfd::SignalFd;

use super::sys::{self, Reaped};
use super::{child, make_shared, not_blocking, read_text, tree};
use crate::record::{self, Cgroups, ExitRecord, MemoryWatch, Reason};
use crate::{cgroup, memory};

/// As much as a pipe holds by default is read at a time, in pieces of this size.
const PIECE: usize = 16 * 1024;
/// Attempts to write the exit record, a tenth of a second apart: the disk may be full for a moment.
const EXIT_ATTEMPTS: u32 = 100;
const EXIT_PAUSE_MS: u16 = 100;
/// How much room is kept for it, in bytes. Most are a tenth of that.
const EXIT_ROOM: u64 = 4096;
/// Looks for a kill after the kernel has told of too little memory, and the pause between them.
const OOM_LOOKS: u32 = 200;
const OOM_PAUSE_MS: u16 = 10;
/// When a container has proved not to be a short one. While it is moved its shim sees nothing of it.
const SETTLE_AFTER_MS: u16 = 1000;

/// A container that runs, seen from its shim.
#[derive(Debug)]
pub(super) struct Supervision {
    pub dir: PathBuf,
    pub cgroups: Cgroups,
    /// Cgroups of the shims, which are joined when the container has proved not to be a short one:
    /// a move takes longer than `true`.
    pub join_later: Vec<PathBuf>,
    pub init: i32,
    /// Ends with the agent, where the container is to end with it, too.
    pub leash: Option<OwnedFd>,
    /// Room for the exit record, once the container has proved not to be a short one.
    pub reserved: Option<Reserved>,
    pub signals: SignalFd,
    /// The container's stdout and stderr, and where they go.
    pub streams: [OwnedFd; 2],
    pub logs: [LogFile; 2],
    /// Ends when the init has executed its program; says why when it could not.
    pub status: File,
}

impl Supervision {
    /// Stays until the container has ended and its end is on record.
    pub(super) fn run(mut self) -> ExitCode {
        for stream in &self.streams {
            // A stream that blocks is still carried, only not to its last byte.
            let _blocks = not_blocking(stream);
        }
        let events = self
            .cgroups
            .memory
            .clone()
            .and_then(|watch| MemoryEvents::watch(&watch).ok());
        let (status, not_executed) = self.wait_for_init(events.as_ref());
        let ended = tree::end(&self.cgroups);
        for index in 0..self.streams.len() {
            // All writers are dead; what is left is at most a pipe full (1 MiB for a user).
            for _ in 0..8 {
                if !self.carry(index) {
                    break;
                }
            }
        }
        let mut record = ExitRecord {
            status: Some(status),
            reason: None,
            message: not_executed,
            ended_ms: now_ms(),
        };
        if let Some(watch) = &self.cgroups.memory
            && let Some(peak) = cgroup::memory_exceeded(watch)
        {
            record.reason = Some(Reason::MemoryLimit {
                limit_bytes: watch.limit_bytes,
            });
            record.message = Some(format!(
                "Memory limit exceeded: Requested: {}MB Maximum Used: {}MB",
                watch.limit_bytes >> 20,
                peak >> 20
            ));
        }
        if ended.is_ok() && self.write_down(&record) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    /// Carries output until the init has ended; gives its raw status and why its program could not
    /// be executed.
    fn wait_for_init(&mut self, events: Option<&MemoryEvents>) -> (i32, Option<String>) {
        let mut open = [true; 2];
        let mut watch_status = true;
        let mut watch_memory = events.is_some();
        // The event may come before the kill that it tells of.
        let mut look_again = OOM_LOOKS;
        let mut not_executed = None;
        let begun = Instant::now();
        let mut settled = false;
        loop {
            // The first of these two polls may find the init ended already: ask before sleeping.
            if let Some(status) = self.reap() {
                if watch_status {
                    not_executed = self.read_status().1;
                }
                return (status, not_executed);
            }
            let ready = {
                let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
                let mut who = vec![Source::Child];
                for (index, stream) in self.streams.iter().enumerate() {
                    if open[index] {
                        fds.push(PollFd::new(stream.as_fd(), PollFlags::POLLIN));
                        who.push(Source::Stream(index));
                    }
                }
                if watch_status {
                    fds.push(PollFd::new(self.status.as_fd(), PollFlags::POLLIN));
                    who.push(Source::Status);
                }
                if let Some(leash) = &self.leash {
                    fds.push(PollFd::new(leash.as_fd(), PollFlags::POLLIN));
                    who.push(Source::Leash);
                }
                if let (Some(events), true) = (events, watch_memory) {
                    fds.push(PollFd::new(events.as_fd(), events.flags()));
                    who.push(Source::Memory);
                }
                let timeout = if look_again < OOM_LOOKS {
                    PollTimeout::from(OOM_PAUSE_MS)
                } else if settled {
                    PollTimeout::NONE
                } else {
                    PollTimeout::from(SETTLE_AFTER_MS)
                };
                match poll(&mut fds, timeout) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    // Out of kernel memory: nothing can be watched, so end it rather than lose it.
                    Err(_) => {
                        let _already_gone = sys::kill(self.init, libc::SIGKILL);
                    }
                }
                let mut ready: Vec<Source> = Vec::new();
                for (fd, source) in fds.iter().zip(who) {
                    if fd.revents().is_some_and(|events| !events.is_empty()) {
                        ready.push(source);
                    }
                }
                ready
            };
            for source in ready {
                match source {
                    // A signal only says that something has ended; `reap` finds out what.
                    Source::Child => while let Ok(Some(_)) = self.signals.read_signal() {},
                    Source::Stream(index) => open[index] = self.carry(index),
                    Source::Status => {
                        let (ended, text) = self.read_status();
                        watch_status = !ended;
                        not_executed = not_executed.or(text);
                    }
                    Source::Leash => {
                        self.leash = None;
                        let _already_gone = sys::kill(self.init, libc::SIGKILL);
                    }
                    Source::Memory => {
                        watch_memory = events.is_some_and(MemoryEvents::consume);
                        look_again = 0;
                    }
                }
            }
            if !settled && begun.elapsed() >= Duration::from_millis(u64::from(SETTLE_AFTER_MS)) {
                settled = true;
                let exit = self.dir.join(record::RUN).join(record::EXIT);
                // Without room its end is written as that of a short one.
                self.reserved = Reserved::new(exit, EXIT_ROOM).ok();
                let later = std::mem::take(&mut self.join_later);
                make_shared(&later);
                let _reported_by_the_agent = cgroup::join(&later);
                memory::release_clean_pages();
            }
            if look_again < OOM_LOOKS
                && let Some(watch) = &self.cgroups.memory
            {
                look_again += 1;
                if cgroup::memory_exceeded(watch).is_some() {
                    // The whole container ends, as on Mesos, not one process of it.
                    let _already_gone = sys::kill(self.init, libc::SIGKILL);
                    watch_memory = false;
                    look_again = OOM_LOOKS;
                }
            }
        }
    }

    /// Reaps whatever has ended, orphans of the container included; gives the init's raw status.
    fn reap(&self) -> Option<i32> {
        while let Ok(Reaped::Ended { pid, status }) = sys::reap_any(false) {
            if pid == self.init {
                return Some(status);
            }
        }
        None
    }

    /// Moves what there is from a stream to its file; false when the stream has ended.
    fn carry(&mut self, index: usize) -> bool {
        let mut piece = [0; PIECE];
        // Bounded: the other descriptors must get their turn.
        for _ in 0..16 {
            match nix::unistd::read(&self.streams[index], &mut piece) {
                Ok(0) => return false,
                Ok(length) => self.logs[index].append(&piece[..length]),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    /// Whether the pipe of the exec has ended, and the failure that came through it.
    fn read_status(&self) -> (bool, Option<String>) {
        let mut first = [0];
        match (&self.status).read(&mut first) {
            Ok(1) if first[0] == child::NOT_EXECUTED => (true, Some(read_text(&self.status))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (false, None),
            _ => (true, None),
        }
    }

    fn write_down(&mut self, record: &ExitRecord) -> bool {
        let path = self.dir.join(record::RUN).join(record::EXIT);
        for _ in 0..EXIT_ATTEMPTS {
            if Writer::new()
                .write(&path, record, Durability::Process)
                .is_ok()
            {
                return true;
            }
            if let Some(reserved) = self.reserved.take()
                && reserved.write(record).is_ok()
            {
                return true;
            }
            if !self.dir.exists() {
                return false;
            }
            let _a_pause = poll(&mut [], PollTimeout::from(EXIT_PAUSE_MS));
        }
        false
    }
}

enum Source {
    Child,
    Stream(usize),
    Status,
    Leash,
    Memory,
}

/// Tells when the kernel may have killed for memory: an eventfd on v1, a polled file on v2.
#[derive(Debug)]
enum MemoryEvents {
    V1(EventFd),
    V2(File),
}

impl MemoryEvents {
    fn watch(watch: &MemoryWatch) -> io::Result<Self> {
        if watch.v2 {
            let mut file = File::open(watch.dir.join("memory.events"))?;
            // Poll tells of changes since the last read.
            let _seen = file.read(&mut [0; 512])?;
            return Ok(Self::V2(file));
        }
        use std::io::Write as _;
        use std::os::fd::AsRawFd as _;
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let control = File::open(watch.dir.join("memory.oom_control"))?;
        let line = format!("{} {}", event.as_fd().as_raw_fd(), control.as_raw_fd());
        File::options()
            .write(true)
            .open(watch.dir.join("cgroup.event_control"))?
            .write_all(line.as_bytes())?;
        Ok(Self::V1(event))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::V1(event) => event.as_fd(),
            Self::V2(file) => file.as_fd(),
        }
    }

    fn flags(&self) -> PollFlags {
        match self {
            Self::V1(_) => PollFlags::POLLIN,
            Self::V2(_) => PollFlags::POLLPRI,
        }
    }

    /// Takes note of an event; false when there will be no more (the cgroup is gone).
    fn consume(&self) -> bool {
        match self {
            Self::V1(event) => event.read().is_ok(),
            Self::V2(file) => {
                use std::os::unix::fs::FileExt as _;
                file.read_at(&mut [0; 512], 0).is_ok()
            }
        }
    }
}

/// Milliseconds since the epoch.
pub(super) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
