//! One clock for several processes.

use std::io;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC`: the same scale in every process of a machine, as `Instant` is not meant to be.
///
/// # Errors
/// When the kernel has no such clock.
pub fn monotonic() -> io::Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_MONOTONIC)?.into())
}
