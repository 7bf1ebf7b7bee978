#![doc = include_str!("../README.md")]
//!
//! # Invariants
//! - Pure: no clock, no randomness, no I/O. The same calls give the same answers.
//! - A delay is never longer than its policy's maximum, and never shorter than its unjittered value
//!   times `1 - jitter`. No arithmetic overflows, whatever the number of failures.
//! - A random number is taken as it comes: outside 0 to 1 it is clamped, NaN counts as 0.
//! - Nothing is terminal: a program over its start limit is still retried, slowly.
//! - Memory is bounded: a start history holds at most [`BURST_MAX`] times.
//! - Times passed to one history may go backwards; it then answers as if no time had passed.

mod delay;
mod limit;
mod restart;

pub use delay::Backoff;
pub use limit::{BURST_MAX, StartLimit, Starts};
pub use restart::{Restart, RestartPolicy, RestartState};

use std::time::Duration;

/// Why a policy's values were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BackoffError {
    /// A backoff would not wait at all.
    #[error("the initial delay of a backoff is zero: make it at least 1ms")]
    ZeroInitial,
    /// A backoff begins above its own maximum.
    #[error(
        "the initial delay {initial:?} is longer than the maximum {max:?}: swap or change them"
    )]
    InitialAboveMax {
        /// The initial delay.
        initial: Duration,
        /// The maximum delay.
        max: Duration,
    },
    /// A jitter outside 0 to 1.
    #[error("the jitter {jitter} is not a fraction: give a number from 0 to 1")]
    Jitter {
        /// The value refused.
        jitter: f64,
    },
    /// A start limit that counts more starts than are remembered.
    #[error("a start limit of {burst} starts is too large: give at most {max}, or 0 for no limit")]
    Burst {
        /// The value refused.
        burst: u32,
        /// The largest value.
        max: u32,
    },
}
