//! Ends one container, as `plan` says.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::plan::{Act, Seen, Stop};
use crate::protocol::Watched;
use crate::{http, say, sys};

/// A look. An engine that takes longer counts as one that does not answer, and the next look follows.
const LOOK: Duration = Duration::from_secs(1);
/// Another call to the engine.
const CALL: Duration = Duration::from_secs(2);
/// Removing deletes a file system.
const REMOVE: Duration = Duration::from_secs(5);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Ends and removes `watched`, whose executor was found dead at `found`. `init` is its first process, if that was known in time.
pub(crate) fn stop(socket: &Path, watched: &Watched, init: Option<&OwnedFd>, found: Instant) {
    let container = &watched.container;
    let mut plan = Stop::new(watched.grace);
    let mut signal = Signal::SIGTERM.as_str().to_owned();
    say(&format!(
        "the executor is gone: container {container} is stopped, with a grace of {:?}",
        watched.grace
    ));
    loop {
        let seen = look(socket, container, &mut signal);
        let act = plan.next(&seen, found.elapsed());
        match act {
            Act::Rest => {}
            Act::Unpause => post(socket, &format!("/containers/{container}/unpause")),
            Act::Signal => post(
                socket,
                &format!("/containers/{container}/kill?signal={signal}"),
            ),
            Act::SignalInit => signal_init(init, &signal),
            Act::Kill => {
                // Both: an engine may take the call and never do it.
                signal_init(init, Signal::SIGKILL.as_str());
                if seen != Seen::Unanswered {
                    post(
                        socket,
                        &format!("/containers/{container}/kill?signal=SIGKILL"),
                    );
                }
            }
            Act::Remove => {
                let target = format!("/containers/{container}?force=1&v=1");
                // Whether it worked is seen by the next look.
                let _looked_at = http::call(socket, "DELETE", &target, REMOVE);
            }
            Act::End => {
                say(&format!("container {container} is removed"));
                return;
            }
            Act::GiveUp => {
                say(&format!(
                    "container {container} cannot be ended: the engine at {} does not do it; remove it by hand",
                    socket.display()
                ));
                return;
            }
        }
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

fn post(socket: &Path, target: &str) {
    // Whether it worked is seen by the next look.
    let _looked_at = http::call(socket, "POST", target, CALL);
}

/// Signals the container's first process where its engine does not.
fn signal_init(init: Option<&OwnedFd>, signal: &str) {
    let Some(init) = init else { return };
    let signal = Signal::from_str(signal).unwrap_or(Signal::SIGTERM);
    // It has ended: so much the better.
    let _gone = sys::pidfd_send_signal(init.as_fd(), signal as i32);
}

/// Asks the engine for the container; `signal` becomes the one that it wants to be stopped by.
fn look(socket: &Path, container: &str, signal: &mut String) -> Seen {
    let Ok(answer) = http::call(
        socket,
        "GET",
        &format!("/containers/{container}/json"),
        LOOK,
    ) else {
        return Seen::Unanswered;
    };
    if answer.status == 404 {
        return Seen::Missing;
    }
    let Ok(json) = serde_json::from_slice::<Value>(&answer.body) else {
        return Seen::Unanswered;
    };
    if answer.status != 200 {
        return Seen::Unanswered;
    }
    if let Some(wanted) = json["Config"]["StopSignal"].as_str().and_then(stop_signal) {
        *signal = wanted;
    }
    let state = &json["State"];
    if state["Running"].as_bool().unwrap_or(false) {
        Seen::Running {
            paused: state["Paused"].as_bool().unwrap_or(false),
        }
    } else {
        Seen::Down
    }
}

/// A signal as images name it, `SIGQUIT`, `QUIT` or `3`, in a form for an address.
fn stop_signal(text: &str) -> Option<String> {
    let plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+-".contains(&byte));
    if text.is_empty() || text.len() > 16 || !plain {
        return None;
    }
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_signals_get_into_an_address() {
        for good in ["SIGQUIT", "QUIT", "3", "SIGRTMIN+3"] {
            assert_eq!(stop_signal(good).as_deref(), Some(good));
        }
        for bad in ["", "TERM&x=1", "a b", "SIGTERMSIGTERMSIG"] {
            assert_eq!(stop_signal(bad), None);
        }
    }
}
