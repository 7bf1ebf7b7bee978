//! Engines that do not answer, exits that are not told.

use super::*;

fn logless() -> Plan {
    Plan {
        logs: false,
        ..Plan::default()
    }
}

#[test]
fn dx_36_an_engine_that_is_away_changes_no_state() {
    let mut life = Life::running(logless());
    life.feed(Event::EngineLost);
    life.feed(Event::Exited(Err(absent())));
    for _ in 0..1000 {
        life.feed(Event::Inspected(Err(absent())));
        life.pass(60 * SECOND);
    }
    assert_eq!(life.told(), ["STARTING", "RUNNING"]);
    // Live restore: it is back, and so is the container.
    let actions = life.feed(Event::EngineResumed);
    let looks = has(&actions, &Action::Inspect) || life.state.inspecting;
    assert!(looks, "{actions:?}");
    let actions = life.feed(inspected(Condition::Running));
    assert!(
        has(&actions, &Action::Wait),
        "subscribed again: {actions:?}"
    );
    assert_eq!(life.told(), ["STARTING", "RUNNING"]);
}

#[test]
fn dx_36_the_death_of_the_init_gives_the_engine_ten_seconds() {
    // It does not come back.
    let mut life = Life::running(logless());
    life.feed(Event::EngineLost);
    life.feed(Event::InitDied);
    life.feed(Event::Inspected(Err(absent())));
    life.pass(STATUS - Duration::from_millis(1));
    assert_eq!(life.last_told(), "RUNNING");
    life.feed(Event::Inspected(Err(absent())));
    life.pass(Duration::from_millis(1));
    assert_eq!(life.last_told(), "FAILED engine-gone");
    // It does, and knows.
    let mut life = Life::running(logless());
    life.feed(Event::EngineLost);
    life.feed(Event::InitDied);
    life.feed(Event::Inspected(Err(absent())));
    life.pass(3 * SECOND);
    life.feed(Event::EngineResumed);
    life.feed(Event::Seen(Seen::Die(Some(7))));
    life.feed(down(7));
    assert_eq!(life.last_told(), "FAILED exited");
    // It hangs: the last status does not wait for the look (MESOS-8605).
    let mut life = Life::running(logless());
    life.feed(Event::InitDied);
    assert!(life.state.inspecting);
    life.pass(STATUS);
    assert_eq!(life.last_told(), "FAILED engine-gone");
}

#[test]
fn a_code_without_a_look_is_enough_after_a_while() {
    let mut life = Life::running(logless());
    life.feed(Event::Exited(Ok(3)));
    life.feed(Event::InitDied);
    life.pass(ANSWER - Duration::from_millis(1));
    assert_eq!(life.last_told(), "RUNNING");
    life.pass(Duration::from_millis(1));
    assert_eq!(life.last_told(), "FAILED exited");
}

#[test]
fn an_exit_that_the_engine_missed_is_seen_by_the_kernel() {
    // It says that it runs, as long as it is asked (moby 33820).
    let mut life = Life::running(logless());
    life.feed(Event::InitDied);
    for _ in 0..100 {
        if !life.last_told().starts_with("RUNNING") {
            break;
        }
        life.feed(inspected(Condition::Running));
        life.pass(SOON);
    }
    assert_eq!(life.last_told(), "FAILED exit-missed");
}

#[test]
fn an_exit_that_no_client_was_told_is_seen_by_a_look() {
    // Where no init can be held.
    let mut life = Life::new(logless());
    for event in [
        Event::Recorded(Ok(())),
        pulled(),
        created(),
        Event::Recorded(Ok(())),
        Event::Started(Ok(RUN)),
        inspected(Condition::Running),
        Event::Held(Held::Impossible),
    ] {
        life.feed(event);
    }
    assert!(has(&life.pass(QUIET), &Action::Inspect));
    life.feed(down(0));
    assert_eq!(life.last_told(), "FINISHED exited");
}

#[test]
fn what_the_engine_calls_down_is_not_over_before_the_kernel_agrees() {
    let mut life = Life::running(logless());
    // A daemon without live-restore says so when it comes back.
    life.feed(down(255));
    assert_eq!(life.last_told(), "RUNNING");
    let actions = life.pass(5 * SECOND);
    assert!(has(&actions, &init_signal("SIGKILL")), "{actions:?}");
    assert_eq!(life.last_told(), "RUNNING");
    life.feed(Event::InitDied);
    assert_eq!(life.last_told(), "FAILED exited");
}

#[test]
fn a_subscription_that_answers_though_it_runs_is_a_false_alarm() {
    let mut life = Life::running(logless());
    life.feed(Event::Exited(Ok(0)));
    let actions = life.feed(inspected(Condition::Running));
    assert!(has(&actions, &Action::Wait), "{actions:?}");
    assert_eq!(life.last_told(), "RUNNING");
    life.feed(Event::Exited(Ok(4)));
    life.feed(Event::InitDied);
    life.feed(down(4));
    assert_eq!(life.told(), ["STARTING", "RUNNING", "FAILED exited"]);
}

#[test]
fn an_init_that_was_dead_before_it_could_be_held_has_ended() {
    let mut life = Life::new(logless());
    for event in [
        Event::Recorded(Ok(())),
        pulled(),
        created(),
        Event::Recorded(Ok(())),
        Event::Started(Ok(RUN)),
        inspected(Condition::Running),
        Event::Held(Held::Ended),
        down(0),
    ] {
        life.feed(event);
    }
    assert_eq!(life.told(), ["STARTING", "RUNNING", "FINISHED exited"]);
}

#[test]
fn a_look_that_hangs_at_the_end_costs_no_exit_status() {
    let mut life = Life::running(logless());
    let actions = life.feed(Event::InitDied);
    assert!(has(&actions, &Action::Inspect), "{actions:?}");
    // It is never answered, and the engine is there.
    let actions = life.pass(5 * SECOND);
    assert!(has(&actions, &Action::Inspect), "{actions:?}");
    life.feed(down(3));
    life.feed(Event::Seen(Seen::Die(Some(3))));
    assert_eq!(life.last_told(), "FAILED exited");
    // The first one comes late.
    life.feed(Event::Inspected(Err(absent())));
    assert_eq!(life.told(), ["STARTING", "RUNNING", "FAILED exited"]);
}

#[test]
fn who_stopped_it_is_waited_for_while_events_are_not_heard() {
    for (code, told) in [(3, "FAILED exited"), (143, "FAILED signaled")] {
        for missing in [Event::EventsMissing, Event::EngineLost] {
            let ended = || {
                let mut life = Life::running(logless());
                life.feed(missing.clone());
                life.feed(Event::Exited(Ok(code)));
                life.feed(Event::InitDied);
                life.feed(down(code));
                assert_eq!(life.last_told(), "RUNNING", "{code} {missing:?}");
                life
            };
            let mut life = ended();
            life.pass(SECOND);
            life.feed(Event::EngineResumed);
            assert_eq!(life.last_told(), "RUNNING", "{code} {missing:?}");
            life.feed(Event::Seen(Seen::Signal(15)));
            life.feed(Event::Seen(Seen::Die(Some(code))));
            assert_eq!(life.last_told(), "FAILED stopped-by-other");
            // Nobody did it, or nothing is ever heard.
            let mut life = ended();
            life.feed(Event::EngineResumed);
            life.feed(Event::Seen(Seen::Die(Some(code))));
            assert_eq!(life.last_told(), told);
            let mut life = ended();
            life.pass(6 * SECOND);
            assert_eq!(life.last_told(), told);
        }
    }
}

#[test]
fn where_the_engine_is_late_its_events_may_be_later() {
    for events in [true, false] {
        let mut life = Life::running(logless());
        life.feed(Event::InitDied);
        life.pass(4 * SECOND);
        life.feed(down(3));
        assert_eq!(life.last_told(), "RUNNING");
        if events {
            life.feed(Event::Seen(Seen::Signal(15)));
            life.feed(Event::Seen(Seen::Die(Some(3))));
            assert_eq!(life.last_told(), "FAILED stopped-by-other");
        } else {
            life.pass(2 * SECOND);
            assert_eq!(life.last_told(), "FAILED exited");
        }
    }
}
