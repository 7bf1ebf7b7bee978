use longshore_backoff::{Backoff, StartLimit};

use super::*;

mod model;

const SECOND: Duration = Duration::from_secs(1);
const GRACE: Duration = Duration::from_secs(5);

fn policy() -> RestartPolicy {
    RestartPolicy {
        backoff: Backoff::new(SECOND, 60 * SECOND, 0.0).unwrap(),
        stable_after: 10 * SECOND,
        start_limit: StartLimit::new(5, 120 * SECOND).unwrap(),
        slow_retry: 300 * SECOND,
    }
}

/// Drives a core by hand: every call returns the actions of one event.
struct Bench {
    core: Core,
    now: Duration,
}

impl Bench {
    fn new() -> Self {
        Self {
            core: Core::new(policy(), GRACE),
            now: Duration::ZERO,
        }
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let at = At {
            now: self.now,
            random: 0.0,
        };
        self.core.step(event, at, &mut actions);
        actions
    }

    fn running() -> Self {
        let mut bench = Self::new();
        bench.step(Event::Start);
        bench.bring_up();
        bench
    }

    /// From Preparing to Running.
    fn bring_up(&mut self) {
        assert_eq!(self.core.phase(), Phase::Preparing);
        assert_eq!(self.step(Event::Prepared(Ok(()))), [Action::Launch]);
        assert_eq!(
            self.step(Event::Launched(Ok(()))),
            [Action::Wait, Action::PostStart]
        );
        assert_eq!(self.step(Event::Started(Ok(()))), []);
        assert_eq!(self.core.phase(), Phase::Running);
    }
}

fn failed() -> Failure {
    Failure::new("it broke")
}

#[test]
fn walks_through_one_life() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(Event::Start), [Action::Prepare]);
    bench.bring_up();
    bench.now += 60 * SECOND;
    assert_eq!(
        bench.step(Event::Ended(Exit::unknown())),
        [Action::PostStop]
    );
    assert_eq!(bench.core.phase(), Phase::Cleaning);
    // The first restart after a stable run is immediate.
    assert_eq!(bench.step(Event::Cleaned(Ok(()))), [Action::Prepare]);
    bench.bring_up();
    let stop = bench.step(Event::Stop { grace: GRACE });
    assert_eq!(
        stop,
        [Action::Kill(SIGTERM), Action::Arm(Timer::Escalate, GRACE)]
    );
    assert_eq!(bench.step(Event::Killed(Ok(()))), []);
    assert!(
        bench
            .step(Event::Ended(Exit::unknown()))
            .contains(&Action::PostStop)
    );
    assert_eq!(bench.step(Event::Cleaned(Ok(()))), []);
    assert_eq!(bench.core.phase(), Phase::Down);
    assert_eq!(bench.core.runs(), 2);
}

#[test]
fn backs_off_then_is_failing_then_retries_slowly_for_ever() {
    let mut bench = Bench::running();
    let mut delays = Vec::new();
    for _ in 0..8 {
        bench.now += SECOND;
        assert_eq!(
            bench.step(Event::Ended(Exit::unknown())),
            [Action::PostStop]
        );
        match bench.step(Event::Cleaned(Ok(()))).as_slice() {
            [Action::Prepare] => delays.push(0),
            [Action::Arm(Timer::Retry, delay)] => {
                delays.push(delay.as_secs());
                bench.now += *delay;
                assert_eq!(bench.step(Event::Fired(Timer::Retry)), [Action::Prepare]);
            }
            other => panic!("unexpected {other:?}"),
        }
        bench.bring_up();
    }
    assert_eq!(delays, [0, 1, 2, 4, 300, 300, 300, 300]);
    assert!(bench.core.failing());
    // A stable run forgets it all.
    bench.now += 10 * SECOND;
    bench.step(Event::Ended(Exit::unknown()));
    assert_eq!(bench.step(Event::Cleaned(Ok(()))), [Action::Prepare]);
    assert!(!bench.core.failing());
}

#[test]
fn a_permanent_failure_is_failing_at_once() {
    let refused = Failure::permanent("403");
    for event in [
        Event::Launched(Err(LaunchFailure::Refused(refused.clone()))),
        Event::Prepared(Err(refused.clone())),
    ] {
        let mut bench = Bench::new();
        bench.step(Event::Start);
        if matches!(event, Event::Launched(_)) {
            bench.step(Event::Prepared(Ok(())));
        }
        assert_eq!(bench.step(event), [Action::Arm(Timer::Retry, 300 * SECOND)]);
        assert!(bench.core.failing());
        assert_eq!(bench.core.reason(), "403");
        assert_eq!(bench.core.next_retry(), Some(300 * SECOND));
    }
}

#[test]
fn an_agent_that_is_away_is_no_start_and_never_makes_failing() {
    let mut bench = Bench::new();
    bench.step(Event::Start);
    for _ in 0..50 {
        bench.step(Event::Prepared(Ok(())));
        let actions = bench.step(Event::Launched(Err(LaunchFailure::NotSent(failed()))));
        let [Action::Arm(Timer::Retry, delay)] = actions.as_slice() else {
            panic!("unexpected {actions:?}")
        };
        assert!(*delay <= 60 * SECOND && !delay.is_zero());
        bench.now += *delay;
        assert_eq!(bench.step(Event::Fired(Timer::Retry)), [Action::Prepare]);
    }
    assert!(!bench.core.failing());
}

#[test]
fn an_unanswered_launch_is_sent_again_without_pre_launch() {
    let mut bench = Bench::new();
    bench.step(Event::Start);
    bench.step(Event::Prepared(Ok(())));
    bench.step(Event::Launched(Err(LaunchFailure::Unknown(failed()))));
    assert_eq!(bench.step(Event::Fired(Timer::Retry)), [Action::Launch]);
    assert_eq!(
        bench.step(Event::Launched(Ok(()))),
        [Action::Wait, Action::PostStart]
    );
}

#[test]
fn a_stop_after_an_unanswered_launch_kills_and_waits() {
    let mut bench = Bench::new();
    bench.step(Event::Start);
    bench.step(Event::Prepared(Ok(())));
    assert_eq!(bench.step(Event::Stop { grace: GRACE }), []);
    let actions = bench.step(Event::Launched(Err(LaunchFailure::Unknown(failed()))));
    assert_eq!(
        actions,
        [
            Action::Wait,
            Action::Kill(SIGTERM),
            Action::Arm(Timer::Escalate, GRACE)
        ]
    );
    // The agent never had it: WAIT answers 404.
    assert!(
        bench
            .step(Event::Ended(Exit::unknown()))
            .contains(&Action::PostStop)
    );
    bench.step(Event::Cleaned(Ok(())));
    assert_eq!(bench.core.phase(), Phase::Down);
}

#[test]
fn a_failed_post_start_stops_the_container_unless_it_must_be_kept() {
    let mut bench = Bench::new();
    bench.step(Event::Attach);
    assert_eq!(bench.core.phase(), Phase::Starting);
    let keep = bench.step(Event::Started(Err(Failure::keep("fuse"))));
    assert_eq!(keep, [Action::Arm(Timer::Retry, SECOND)]);
    assert_eq!(bench.step(Event::Fired(Timer::Retry)), [Action::PostStart]);
    let stop = bench.step(Event::Started(Err(failed())));
    let kill = [
        Action::Cancel,
        Action::Disarm(Timer::Retry),
        Action::Kill(SIGTERM),
        Action::Arm(Timer::Escalate, GRACE),
    ];
    assert_eq!(stop, kill);
    bench.step(Event::Ended(Exit::unknown()));
    assert_eq!(
        bench.step(Event::Cleaned(Ok(()))),
        [Action::Arm(Timer::Retry, SECOND)]
    );
    assert_eq!(bench.core.reason(), "it broke");
}

#[test]
fn a_failed_wait_is_asked_again_and_restarts_nothing() {
    let mut bench = Bench::running();
    for delay in [1, 2, 4] {
        let actions = bench.step(Event::WaitFailed(failed()));
        assert_eq!(actions, [Action::Arm(Timer::Rewait, delay * SECOND)]);
        assert_eq!(bench.step(Event::Fired(Timer::Rewait)), [Action::Wait]);
        assert_eq!(bench.core.phase(), Phase::Running);
    }
}

#[test]
fn escalates_and_a_later_stop_only_shortens_the_grace() {
    let mut bench = Bench::running();
    bench.step(Event::Stop { grace: 10 * SECOND });
    assert_eq!(bench.step(Event::Stop { grace: 20 * SECOND }), []);
    let shorter = bench.step(Event::Stop { grace: SECOND });
    assert_eq!(shorter, [Action::Arm(Timer::Escalate, SECOND)]);
    let kill = [
        Action::Disarm(Timer::Rekill),
        Action::Kill(SIGKILL),
        Action::Arm(Timer::Escalate, KILL_AGAIN),
    ];
    assert_eq!(bench.step(Event::Fired(Timer::Escalate)), kill);
    assert_eq!(bench.step(Event::Fired(Timer::Escalate)), kill);
    let again = bench.step(Event::Killed(Err(failed())));
    assert_eq!(again, [Action::Arm(Timer::Rekill, SECOND)]);
    assert_eq!(
        bench.step(Event::Fired(Timer::Rekill)),
        [Action::Kill(SIGKILL)]
    );
}

#[test]
fn a_requested_restart_is_immediate_and_can_forget_failures() {
    let mut bench = Bench::running();
    for _ in 0..6 {
        bench.step(Event::Ended(Exit::unknown()));
        if bench.step(Event::Cleaned(Ok(()))) != [Action::Prepare] {
            assert_eq!(bench.step(Event::Fired(Timer::Retry)), [Action::Prepare]);
        }
        bench.bring_up();
    }
    assert!(bench.core.failing());
    bench.step(Event::Restart {
        grace: GRACE,
        reset: true,
        failure: None,
    });
    assert!(!bench.core.failing());
    bench.step(Event::Ended(Exit::unknown()));
    assert_eq!(bench.step(Event::Cleaned(Ok(()))), [Action::Prepare]);
    // One that counts as a failure goes through the backoff.
    bench.bring_up();
    let failure = Some(Failure::new("does not answer"));
    bench.step(Event::Restart {
        grace: GRACE,
        reset: false,
        failure,
    });
    bench.step(Event::Ended(Exit::unknown()));
    assert_eq!(
        bench.step(Event::Cleaned(Ok(()))),
        [Action::Arm(Timer::Retry, SECOND)]
    );
    assert_eq!(bench.core.reason(), "does not answer");
}

#[test]
fn answers_that_nobody_waits_for_change_nothing() {
    let mut bench = Bench::running();
    for event in [
        Event::Prepared(Ok(())),
        Event::Launched(Ok(())),
        Event::Started(Err(failed())),
        Event::Killed(Err(failed())),
        Event::Cleaned(Ok(())),
        Event::Fired(Timer::Retry),
        Event::Fired(Timer::Escalate),
        Event::Fired(Timer::Rekill),
    ] {
        assert_eq!(bench.step(event), []);
        assert_eq!(bench.core.phase(), Phase::Running);
    }
}
