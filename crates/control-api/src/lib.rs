//! Internal to Longshore: the control service's generated messages, client and (feature `server`) server.
//!
//! The services are `proto/longshore/control/v1/{control,nri,task}.proto`; the code under `gen/` comes from
//! `cargo xtask codegen`. Both sides bound a message at [`MAX_MESSAGE`] bytes before decoding it.
//!
//! Times are milliseconds since the Unix epoch, lengths of time milliseconds, and 0 is "none".

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod r#gen;

pub use r#gen::longshore::control::v1;

/// The largest message either side of the control service accepts, in bytes.
pub const MAX_MESSAGE: usize = 8 * 1024 * 1024;

/// The most a single [`v1::CsiLogsResponse`] or [`v1::TaskLogsResponse`] carries, in bytes.
pub const MAX_LOG_CHUNK: usize = 32 * 1024;

/// The largest serialized `TaskInfo` of a [`v1::RunTaskRequest`], in bytes.
pub const MAX_TASK_INFO: usize = 2 * 1024 * 1024;

/// The lower-case word for how far a task is.
#[must_use]
pub fn task_phase_word(phase: v1::TaskPhase) -> &'static str {
    match phase {
        v1::TaskPhase::Unspecified => "unknown",
        v1::TaskPhase::Starting => "starting",
        v1::TaskPhase::Running => "running",
        v1::TaskPhase::Killing => "killing",
        v1::TaskPhase::Ended => "ended",
    }
}

/// The lower-case word for a state, as shown to people and in JSON.
#[must_use]
pub fn state_word(state: v1::State) -> &'static str {
    match state {
        v1::State::Unspecified => "unknown",
        v1::State::Recovering => "recovering",
        v1::State::Starting => "starting",
        v1::State::Probing => "probing",
        v1::State::Ready => "ready",
        v1::State::Unhealthy => "unhealthy",
        v1::State::Backoff => "backoff",
        v1::State::Failing => "failing",
        v1::State::Stopping => "stopping",
        v1::State::Stopped => "stopped",
        v1::State::Kept => "kept",
        v1::State::Idle => "idle",
    }
}
