//! Without the agent, and the end.

use super::*;

#[test]
fn the_first_attempt_after_a_lasting_subscription_is_at_once_and_the_others_pause() {
    let mut bench = Bench::subscribed(true);
    bench.pass(BACKOFF - Duration::from_millis(1));
    bench.step(broken());
    assert_eq!(bench.subscribes_with(), None);
    assert_eq!(bench.armed(Timer::Retry), Some(BACKOFF / 2));
    bench.step(Event::Fired(Timer::Retry));
    bench.subscribe();
    bench.pass(BACKOFF);
    bench.step(broken());
    assert!(bench.subscribes_with().is_some());
    for refusal in [Refusal::Unreachable, Refusal::NotReady, Refusal::Refused] {
        bench.step(Event::NotSubscribed(refusal, "no".into()));
        assert_eq!(bench.armed(Timer::Retry), Some(BACKOFF / 2));
        assert!(bench.told().is_empty(), "told once");
        bench.step(Event::Fired(Timer::Retry));
        assert!(bench.subscribes_with().is_some());
    }
    // An attempt that hangs is given up.
    bench.step(Event::Fired(Timer::Attempt));
    assert!(matches!(bench.actions[0], Action::Close));
    assert_eq!(bench.armed(Timer::Retry), Some(BACKOFF / 2));
}

#[test]
fn pauses_are_never_none_whatever_the_random_number() {
    for random in [-1.0, 0.0, 0.3, 1.0, 7.0, f64::NAN] {
        let mut bench = Bench::new(true);
        bench.step(Event::Start);
        let mut actions = Vec::new();
        let at = At {
            now: Duration::ZERO,
            random,
        };
        let failed = Event::NotSubscribed(Refusal::Unreachable, String::new());
        bench.core.step(failed, at, &mut actions);
        bench.actions = actions;
        let pause = bench.armed(Timer::Retry).unwrap();
        assert!(
            (MIN_PAUSE..=BACKOFF).contains(&pause),
            "{random}: {pause:?}"
        );
    }
}

#[test]
fn ex16_without_checkpoints_the_loss_of_the_agent_is_a_shutdown_at_once() {
    let mut bench = Bench::subscribed(false);
    bench.update("t", 1, RUNNING);
    bench.step(broken());
    assert_eq!(bench.told(), ["disconnected: cut", "shutdown AgentLost 5s"]);
    assert_eq!(bench.armed(Timer::Shutdown), Some(STOP_ALONE));
    // What the executor still says may arrive.
    bench.step(Event::Fired(Timer::Retry));
    assert_eq!(bench.subscribes_with(), Some((vec![], vec![1])));
    bench.step(Event::NotSubscribed(Refusal::Unreachable, "no".into()));
    bench.update("t", 2, TaskState::TaskKilled);
    bench.step(Event::Finish);
    assert_eq!(bench.told(), ["ended AgentLost { unacknowledged: 2 }"]);
}

#[test]
fn ex16_with_checkpoints_the_recovery_timeout_runs_from_the_loss_to_the_subscription() {
    let mut bench = Bench::subscribed(true);
    bench.step(broken());
    assert_eq!(bench.armed(Timer::Recovery), Some(RECOVERY));
    bench.step(Event::Fired(Timer::Retry));
    bench.step(Event::NotSubscribed(Refusal::Unreachable, "no".into()));
    assert_eq!(bench.armed(Timer::Recovery), None, "it runs already");
    bench.step(Event::Fired(Timer::Retry));
    bench.subscribe();
    assert!(bench.disarmed(Timer::Recovery));
    bench.step(broken());
    assert_eq!(bench.armed(Timer::Recovery), Some(RECOVERY));
    bench.step(Event::Fired(Timer::Recovery));
    assert_eq!(bench.told(), ["shutdown AgentLost 5s"]);
    bench.step(Event::Finish);
    assert_eq!(bench.told(), ["ended AgentLost { unacknowledged: 0 }"]);
}

#[test]
fn an_executor_that_was_never_taken_waits_only_for_an_agent_that_is_there() {
    let shutdown = "shutdown AgentLost 5s";
    for (checkpoint, refusal, expected) in [
        (true, Refusal::Unreachable, Some(NOT_READY)),
        (true, Refusal::NotReady, Some(NOT_READY)),
        (true, Refusal::Refused, None),
        (false, Refusal::Unreachable, None),
        (false, Refusal::NotReady, Some(NOT_READY)),
        (false, Refusal::Refused, None),
    ] {
        let mut bench = Bench::new(checkpoint);
        bench.step(Event::Start);
        bench.step(Event::NotSubscribed(refusal, "no".into()));
        assert_eq!(bench.armed(Timer::Recovery), expected, "{refusal:?}");
        let told = bench.told();
        assert_eq!(told[0], "disconnected: no");
        assert_eq!(
            told.get(1).map(String::as_str) == Some(shutdown),
            expected.is_none()
        );
        if expected.is_some() {
            bench.step(Event::Fired(Timer::Recovery));
            assert_eq!(bench.told(), [shutdown]);
        }
        bench.step(Event::Finish);
        assert_eq!(bench.told(), ["ended AgentLost { unacknowledged: 0 }"]);
        assert!(bench.core.has_ended());
    }
}

#[test]
fn a_refusal_after_a_subscription_is_waited_out() {
    let mut bench = Bench::subscribed(true);
    bench.step(broken());
    bench.step(Event::Fired(Timer::Retry));
    bench.step(Event::NotSubscribed(Refusal::Refused, "401".into()));
    assert!(bench.told().is_empty());
    assert!(bench.armed(Timer::Retry).is_some());
}

#[test]
fn a_shutdown_of_the_agent_has_its_grace_and_is_told_once() {
    let mut bench = Bench::subscribed(true);
    bench.step(of_agent(typed(event::Type::Shutdown)));
    assert_eq!(bench.told(), ["shutdown Agent 5s"]);
    assert_eq!(bench.armed(Timer::Shutdown), Some(GRACE));
    bench.pass(Duration::from_secs(1));
    bench.step(of_agent(typed(event::Type::Shutdown)));
    assert!(bench.actions.is_empty(), "the time is not prolonged");
    bench.update("t", 1, TaskState::TaskKilled);
    bench.step(Event::Fired(Timer::Shutdown));
    assert_eq!(
        bench.told(),
        ["ended ShutdownTimedOut { unacknowledged: 1 }"]
    );
}

#[test]
fn a_shutdown_can_come_before_subscribed_and_shortens_one_for_want_of_an_agent() {
    let mut bench = Bench::subscribed(false);
    bench.step(broken());
    bench.step(Event::Fired(Timer::Retry));
    bench.step(of_agent(typed(event::Type::Shutdown)));
    assert!(bench.told().is_empty());
    assert_eq!(bench.armed(Timer::Shutdown), Some(GRACE));
}

#[test]
fn in_a_local_agent_no_timer_ends_the_executor() {
    let mut bench = Bench::with(|settings| settings.local = true);
    bench.step(Event::Start);
    bench.subscribe();
    bench.step(of_agent(typed(event::Type::Shutdown)));
    assert_eq!(bench.armed(Timer::Shutdown), None);
}

#[test]
fn the_end_comes_with_the_last_acknowledgement() {
    let mut bench = Bench::subscribed(true);
    bench.update("t", 1, RUNNING);
    bench.update("t", 2, FINISHED);
    bench.step(Event::Finish);
    assert!(bench.told().is_empty());
    assert_eq!(bench.armed(Timer::Finish), Some(ACKNOWLEDGE));
    bench.acknowledge("t", 1);
    bench.acknowledge("t", 2);
    assert_eq!(bench.told(), ["acknowledged t 2", "ended Acknowledged"]);
    // After it nothing has an effect.
    for event in [Event::Start, broken(), launch("t"), Event::Finish] {
        assert!(bench.step(event).is_empty());
    }
}

#[test]
fn the_end_comes_at_once_when_nothing_is_unacknowledged() {
    let mut bench = Bench::subscribed(true);
    bench.step(Event::Finish);
    assert_eq!(bench.told(), ["ended Acknowledged"]);
}

#[test]
fn an_agent_that_does_not_acknowledge_is_waited_for_no_longer_than_the_bound() {
    let mut bench = Bench::subscribed(true);
    bench.update("t", 1, FINISHED);
    bench.step(Event::Finish);
    assert_eq!(bench.armed(Timer::Finish), Some(ACKNOWLEDGE));
    // While it is away it has the recovery timeout too, once.
    bench.pass(Duration::from_secs(30));
    bench.step(broken());
    let whole = RECOVERY + ACKNOWLEDGE;
    let left = whole - Duration::from_secs(30);
    assert_eq!(bench.armed(Timer::Finish), Some(left));
    bench.pass(Duration::from_secs(880));
    bench.step(Event::Fired(Timer::Retry));
    bench.subscribe();
    assert_eq!(
        bench.armed(Timer::Finish),
        Some(whole - Duration::from_secs(910))
    );
    bench.step(Event::Fired(Timer::Finish));
    assert_eq!(
        bench.told(),
        ["ended NotAcknowledged { unacknowledged: 1 }"]
    );
}

#[test]
fn a_refused_last_update_ends_too() {
    let mut bench = Bench::subscribed(true);
    bench.update("t", 1, FINISHED);
    bench.step(Event::Finish);
    bench.step(Event::Sent(Outcome::Invalid("no".into())));
    assert_eq!(bench.told(), ["refused 1 no", "ended Acknowledged"]);
}
