//! From "there may be a plugin at this endpoint" to "this version answers there".

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};
use tonic::transport::Channel;

use crate::{
    ApiVersion, Endpoint, Links, ProbeError, SocketId, Waiting,
    call::{self, Callee},
    detect::{Answer, Detection, Verdict},
    dial::{Dial, Dialled},
    error::timed_out,
    retry::Pauses,
};

/// How to probe.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// When to give up.
    pub deadline: Instant,
    /// The version that the plugin must speak, since it did so before. `None`: find it out, v1 first.
    pub expect: Option<ApiVersion>,
    /// Wait for a socket that does not exist yet. Otherwise it is [`ProbeError::SocketMissing`] at once.
    pub wait_for_socket: bool,
    /// How long one Probe may take before the plugin is dialled afresh (5 s).
    pub attempt_timeout: Duration,
    /// Whether the socket may be a symbolic link.
    pub links: Links,
    /// Where to say what is being waited for, for a status page.
    pub progress: Option<watch::Sender<Option<Waiting>>>,
}

impl ProbeOptions {
    /// Finds the version out and waits for the socket, until `deadline`.
    #[must_use]
    pub const fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            expect: None,
            wait_for_socket: true,
            attempt_timeout: Duration::from_secs(5),
            links: Links::Follow,
            progress: None,
        }
    }

    fn say(&self, waiting: Option<Waiting>) {
        if let Some(progress) = &self.progress {
            progress.send_if_modified(|old| {
                let new = *old != waiting;
                *old = waiting;
                new
            });
        }
    }
}

/// A plugin that answered and is ready.
#[derive(Clone, Debug)]
pub struct Probed {
    /// Where.
    pub endpoint: Endpoint,
    /// What it speaks.
    pub version: ApiVersion,
    /// The connection that was probed. It dials the same path again when it ends.
    pub channel: Channel,
    /// The answer's `ready`; `None` where the plugin has no such field (0.2), which counts as true.
    pub ready: Option<bool>,
    /// The socket file, for Unix endpoints.
    pub socket: Option<SocketId>,
}

/// Probes until the plugin is ready.
///
/// v1 is asked first, v0 only when v1 is answered with UNIMPLEMENTED (Mesos' order). `ready = false`, UNAVAILABLE,
/// a refused connection, one that ends without an answer and silence are tried again until the deadline, each time
/// on a new connection; every other status is an error at once. Cancel safe.
///
/// # Errors
/// [`ProbeError::TimedOut`] says what was missing last; else the first answer that cannot become better by itself.
pub async fn probe(endpoint: &Endpoint, options: &ProbeOptions) -> Result<Probed, ProbeError> {
    let started = Instant::now();
    let mut detection = Detection::new(options.expect);
    let mut pauses = Pauses::default();
    let mut last = None;
    let dial = Dial {
        wait: options.wait_for_socket,
        retry: true,
        links: options.links,
        deadline: options.deadline,
    };
    loop {
        let dialled = dial
            .to(endpoint, &mut |waiting| options.say(Some(waiting)))
            .await?;
        let waiting = match round(endpoint, options, &dialled, &mut detection).await? {
            Round::Found(version, ready) => {
                options.say(None);
                let Dialled { channel, socket } = dialled;
                return Ok(Probed {
                    endpoint: endpoint.clone(),
                    version,
                    channel,
                    ready,
                    socket,
                });
            }
            // The deadline cut this attempt short: what the one before met says more.
            Round::Later(Waiting::Answer) if Instant::now() >= options.deadline => {
                last.take().unwrap_or(Waiting::Answer)
            }
            Round::Later(waiting) => waiting,
        };
        last = Some(waiting.clone());
        tracing::debug!(%endpoint, %waiting, "probe again");
        options.say(Some(waiting.clone()));
        let next = Instant::now() + pauses.unready();
        if next >= options.deadline {
            sleep_until(options.deadline).await;
            return Err(timed_out(endpoint, started, waiting));
        }
        sleep_until(next).await;
    }
}

enum Round {
    Found(ApiVersion, Option<bool>),
    Later(Waiting),
}

/// One connection: one Probe, two where the first version is not implemented.
async fn round(
    endpoint: &Endpoint,
    options: &ProbeOptions,
    dialled: &Dialled,
    detection: &mut Detection,
) -> Result<Round, ProbeError> {
    let deadline = options
        .deadline
        .min(Instant::now() + options.attempt_timeout);
    let mut version = detection.first();
    loop {
        let probing = call::probe(dialled.channel.clone(), version);
        let result = timeout_at(deadline, probing).await.ok();
        match detection.step(result.as_ref().map_or(Answer::Silent, call::answer)) {
            Verdict::Try(other) => version = other,
            Verdict::Later(waiting) => return Ok(Round::Later(waiting)),
            Verdict::Found(found) => {
                return Ok(Round::Found(found, result.and_then(Result::ok).flatten()));
            }
            Verdict::Unknown => {
                return Err(ProbeError::UnknownVersion {
                    endpoint: endpoint.clone(),
                });
            }
            Verdict::Changed { expected, found } => {
                return Err(ProbeError::VersionChanged {
                    endpoint: endpoint.clone(),
                    expected,
                    found,
                });
            }
            Verdict::Refused => {
                let callee = Callee {
                    endpoint,
                    version,
                    deadline,
                };
                return match result {
                    Some(Err(status)) => Err(callee.failure("Probe", status)),
                    _ => Ok(Round::Later(Waiting::Answer)),
                };
            }
        }
    }
}
