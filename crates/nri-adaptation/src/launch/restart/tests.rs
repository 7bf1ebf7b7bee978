use longshore_backoff::{Backoff, StartLimit};
use proptest::prelude::*;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn policy() -> RestartPolicy {
    RestartPolicy {
        backoff: Backoff::new(seconds(1), seconds(60), 0.0).unwrap(),
        stable_after: seconds(10),
        start_limit: StartLimit::new(4, seconds(120)).unwrap(),
        slow_retry: seconds(300),
    }
}

fn waiting(until: u64, failing: bool) -> SupervisionState {
    SupervisionState::Waiting {
        until: seconds(until),
        failing,
    }
}

/// Feeds events and compares what each one does.
fn check(restarts: Option<RestartPolicy>, steps: &[(u64, Event, Action, SupervisionState)]) {
    let mut supervision = Supervision::new(restarts);
    for (number, (at, event, action, state)) in steps.iter().enumerate() {
        let step = format!("step {number}: {event:?} at {at} s");
        assert_eq!(
            supervision.step(*event, seconds(*at), 0.0),
            *action,
            "{step}"
        );
        assert_eq!(supervision.state(), *state, "{step}");
    }
}

#[test]
fn the_first_restart_is_immediate_then_it_backs_off_then_it_is_slow() {
    use SupervisionState::Starting;
    let until = |at| Action::WaitUntil(seconds(at));
    check(
        Some(policy()),
        &[
            (0, Event::Start, Action::Spawn, Starting),
            (1, Event::Ended, Action::Spawn, Starting),
            (2, Event::SpawnFailed, until(3), waiting(3, false)),
            (2, Event::Due, until(3), waiting(3, false)),
            (3, Event::Due, Action::Spawn, Starting),
            (4, Event::Ended, until(6), waiting(6, false)),
            (6, Event::Due, Action::Spawn, Starting),
            (7, Event::Ended, until(307), waiting(307, true)),
            (307, Event::Due, Action::Spawn, Starting),
        ],
    );
}

#[test]
fn a_stable_run_forgets_the_failures_before_it() {
    use SupervisionState::{Running, Starting};
    check(
        Some(policy()),
        &[
            (0, Event::Start, Action::Spawn, Starting),
            (1, Event::Ended, Action::Spawn, Starting),
            (
                2,
                Event::Ended,
                Action::WaitUntil(seconds(3)),
                waiting(3, false),
            ),
            (3, Event::Due, Action::Spawn, Starting),
            (4, Event::Ready, Action::Nothing, Running),
            (20, Event::Ended, Action::Spawn, Starting),
        ],
    );
}

#[test]
fn a_lost_plugin_is_ended_and_then_started_again() {
    use SupervisionState::{Ending, Running, Starting};
    check(
        Some(policy()),
        &[
            (0, Event::Start, Action::Spawn, Starting),
            (1, Event::Ready, Action::Nothing, Running),
            (30, Event::Lost, Action::Terminate, Ending),
            (30, Event::Lost, Action::Nothing, Ending),
            (32, Event::Ended, Action::Spawn, Starting),
            (37, Event::Lost, Action::Terminate, Ending),
        ],
    );
}

#[test]
fn stop_ends_it_from_every_state_and_start_begins_anew() {
    use SupervisionState::{Ending, Running, Starting, Stopped, Stopping};
    check(
        Some(policy()),
        &[
            (0, Event::Stop, Action::Nothing, Stopped),
            (0, Event::Start, Action::Spawn, Starting),
            (0, Event::Start, Action::Nothing, Starting),
            (0, Event::Stop, Action::Terminate, Stopping),
            (0, Event::Ready, Action::Nothing, Stopping),
            (0, Event::Start, Action::Nothing, Stopping),
            (1, Event::Ended, Action::Nothing, Stopped),
            (1, Event::Start, Action::Spawn, Starting),
            (2, Event::Ready, Action::Nothing, Running),
            (3, Event::Lost, Action::Terminate, Ending),
            (3, Event::Stop, Action::Terminate, Stopping),
            (4, Event::Ended, Action::Nothing, Stopped),
            (5, Event::Start, Action::Spawn, Starting),
            (5, Event::Ended, Action::Spawn, Starting),
            (
                5,
                Event::Ended,
                Action::WaitUntil(seconds(6)),
                waiting(6, false),
            ),
            (5, Event::Stop, Action::Nothing, Stopped),
            (6, Event::Due, Action::Nothing, Stopped),
        ],
    );
}

#[test]
fn without_restarts_the_end_is_the_end_until_somebody_starts_it() {
    use SupervisionState::{Gone, Starting, Stopped};
    check(
        None,
        &[
            (0, Event::Start, Action::Spawn, Starting),
            (1, Event::Ended, Action::Nothing, Gone),
            (2, Event::Due, Action::Nothing, Gone),
            (3, Event::Start, Action::Spawn, Starting),
            (3, Event::SpawnFailed, Action::Nothing, Gone),
            (4, Event::Stop, Action::Nothing, Stopped),
        ],
    );
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Start),
        Just(Event::SpawnFailed),
        Just(Event::Ready),
        Just(Event::Lost),
        Just(Event::Ended),
        Just(Event::Due),
        Just(Event::Stop),
    ]
}

proptest! {
    /// A model of the process: at most one lives, it is ended only when it lives, and after `Stop`
    /// and its end nothing is started.
    #[test]
    fn there_is_never_a_second_process_and_none_after_stop(
        events in proptest::collection::vec((events(), 0u64..400, 0.0f64..1.0), 0..200),
    ) {
        let mut supervision = Supervision::new(Some(policy()));
        let (mut now, mut alive, mut wanted) = (0, false, false);
        for (event, later, random) in events {
            now += later;
            // What the world cannot say: an end of what does not live.
            if matches!(event, Event::Ended | Event::SpawnFailed) {
                if !alive || event == Event::SpawnFailed && supervision.state() != SupervisionState::Starting {
                    continue;
                }
                alive = false;
            }
            match event {
                Event::Start if supervision.state() != SupervisionState::Stopping => wanted = true,
                Event::Stop => wanted = false,
                _ => {}
            }
            match supervision.step(event, seconds(now), random) {
                Action::Spawn => {
                    prop_assert!(!alive && wanted);
                    alive = true;
                }
                Action::Terminate => prop_assert!(alive),
                Action::WaitUntil(at) => {
                    prop_assert!(!alive && wanted);
                    prop_assert!(at > seconds(now) && at <= seconds(now + 300));
                }
                Action::Nothing => {}
            }
            prop_assert_eq!(
                alive,
                matches!(
                    supervision.state(),
                    SupervisionState::Starting | SupervisionState::Running
                        | SupervisionState::Ending | SupervisionState::Stopping
                )
            );
        }
    }
}
