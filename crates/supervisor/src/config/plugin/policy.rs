//! When a plugin counts as ill, and how it is started again.

use std::num::NonZeroU32;
use std::time::Duration;

use longshore_backoff::{Backoff, RestartPolicy, StartLimit};
use longshore_csi_probe::LivenessPolicy;

use super::{Refusal, refuse};
use crate::config::raw::{RawLiveness, RawRestart};
use crate::config::units::Span;

/// The part of a restart delay that is random.
const JITTER: f64 = 0.1;

pub(super) fn positive(key: &str, span: Duration) -> Result<Duration, Refusal> {
    if span.is_zero() {
        refuse(key, "0 is not allowed; write a length of time like \"5s\"")
    } else {
        Ok(span)
    }
}

pub(super) fn liveness(
    own: &RawLiveness,
    defaults: &RawLiveness,
) -> Result<Option<LivenessPolicy>, Refusal> {
    let span = |own: Option<Span>, default: Option<Span>| own.or(default).unwrap_or_default().0;
    let threshold = own
        .failure_threshold
        .or(defaults.failure_threshold)
        .unwrap_or_default();
    let Some(failure_threshold) = NonZeroU32::new(threshold) else {
        return refuse(
            "liveness.failure_threshold",
            "0 is not allowed; 1 is the strictest",
        );
    };
    let policy = LivenessPolicy {
        interval: span(own.interval, defaults.interval),
        timeout: positive("liveness.timeout", span(own.timeout, defaults.timeout))?,
        failure_threshold,
    };
    Ok((!policy.interval.is_zero()).then_some(policy))
}

pub(in crate::config) fn restart(
    own: &RawRestart,
    defaults: &RawRestart,
) -> Result<RestartPolicy, Refusal> {
    let span = |own: Option<Span>, default: Option<Span>| own.or(default).unwrap_or_default().0;
    let initial = positive("restart.initial", span(own.initial, defaults.initial))?;
    let max = span(own.max, defaults.max);
    if max < initial {
        return refuse(
            "restart.max",
            "shorter than `initial`; make it at least as long",
        );
    }
    let backoff = Backoff::new(initial, max, JITTER)
        .or_else(|error| refuse("restart.initial", error.to_string()))?;
    let burst = own
        .start_limit_burst
        .or(defaults.start_limit_burst)
        .unwrap_or_default();
    let window = span(own.start_limit_window, defaults.start_limit_window);
    Ok(RestartPolicy {
        backoff,
        stable_after: span(own.stable_after, defaults.stable_after),
        start_limit: StartLimit::new(burst, window)
            .or_else(|error| refuse("restart.start_limit_burst", error.to_string()))?,
        slow_retry: positive(
            "restart.slow_retry",
            span(own.slow_retry, defaults.slow_retry),
        )?,
    })
}
