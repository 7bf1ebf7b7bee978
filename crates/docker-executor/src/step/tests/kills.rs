use super::*;

const TERM: &str = "SIGTERM";
const KILL: &str = "SIGKILL";

fn killing() -> Plan {
    Plan {
        tell_killing: true,
        ..Plan::default()
    }
}

/// It dies, and the engine says so.
fn dies(life: &mut Life, code: i64) {
    life.feed(Event::InitDied);
    life.feed(down(code));
    life.feed(Event::LogsDrained);
}

#[test]
fn a_kill_while_it_starts_stays_on_record_when_the_start_is_answered() {
    for (kill, cause) in [
        (Kill::asked(), KillCause::Asked),
        (Kill::evicted("no"), KillCause::Asked),
    ] {
        let mut life = Life::new(killing());
        for event in [Event::Recorded(Ok(())), pulled(), created()] {
            life.feed(event);
        }
        assert_eq!(life.feed(Event::Recorded(Ok(()))), [Action::Start]);
        let stage = Action::Record(Stage::Killing(cause));
        assert!(has(&life.feed(Event::Kill(kill)), &stage));
        let answered = life.feed(Event::Started(Ok(1)));
        assert!(has(&answered, &stage), "{answered:?}");
        assert!(!has(&answered, &Action::Record(Stage::Starting)));
    }
}

#[test]
fn a_kill_before_it_runs_is_answered_at_once() {
    let steps = [Event::Recorded(Ok(())), pulled(), created()];
    for at in 0..=steps.len() {
        let mut life = Life::new(killing());
        for event in steps.iter().take(at) {
            life.feed(event.clone());
        }
        let actions = life.feed(Event::Kill(Kill::asked()));
        assert_eq!(life.last_told(), "KILLED killed-during-launch", "{at}");
        assert_eq!(has(&actions, &Action::CancelPull), at == 1);
        // A creation under way is awaited, and undone.
        if at == 2 {
            assert!(!has(&life.done, &Action::Finish));
            assert_eq!(life.feed(created()), [Action::Remove]);
        }
        if at >= 2 {
            assert_eq!(life.feed(Event::Removed(Ok(()))), [Action::Finish]);
        }
        assert!(has(&life.done, &Action::Finish), "{at}");
        assert!(!has(&life.done, &Action::Start));
    }
}

#[test]
fn a_kill_during_the_start_waits_for_its_answer_but_not_for_ever() {
    let starting = || {
        let mut life = Life::new(killing());
        life.feed(Event::Recorded(Ok(())));
        life.feed(pulled());
        life.feed(created());
        life.feed(Event::Recorded(Ok(())));
        life.feed(Event::Kill(Kill::asked()));
        assert_eq!(life.told(), ["STARTING", "KILLING"]);
        life
    };
    let mut life = starting();
    let actions = life.feed(Event::Started(Ok(RUN)));
    assert!(has(&actions, &signal(TERM)), "{actions:?}");
    life.feed(inspected(Condition::Running));
    life.feed(Event::Held(Held::Yes));
    dies(&mut life, 143);
    assert_eq!(life.told(), ["STARTING", "KILLING", "KILLED killed"]);

    let mut life = starting();
    let actions = life.pass(ANSWER);
    assert!(has(&actions, &signal(TERM)) && has(&actions, &init_signal(TERM)));
    let actions = life.pass(ANSWER);
    assert!(has(&actions, &signal(KILL)) && has(&actions, &init_signal(KILL)));
    // The start is given up: it may still take place, so the container has to go.
    life.feed(Event::Started(Err(absent())));
    life.feed(inspected(Condition::Created));
    assert_ne!(life.last_told(), "KILLED killed-during-launch");
    assert!(has(&life.done, &Action::Remove));
    life.feed(Event::LogsDrained);
    life.feed(Event::Removed(Ok(())));
    assert_eq!(life.last_told(), "KILLED killed-during-launch");

    let mut life = starting();
    life.feed(Event::Started(Err(status(500, "no"))));
    life.feed(Event::Swept);
    assert_eq!(life.last_told(), "KILLED killed-during-launch");
}

#[test]
fn dx_03_a_running_task_gets_its_signal_its_grace_and_kill() {
    let mut life = Life::running(killing());
    let actions = life.feed(Event::Kill(Kill::within(7 * SECOND)));
    assert!(has(&actions, &signal(TERM)), "{actions:?}");
    life.feed(signalled(TERM, Ok(())));
    let before = life.pass(7 * SECOND - Duration::from_millis(1));
    assert!(!has(&before, &signal(KILL)), "{before:?}");
    assert!(has(&life.pass(Duration::from_millis(1)), &signal(KILL)));
    life.feed(signalled(KILL, Ok(())));
    dies(&mut life, 137);
    assert_eq!(
        life.told(),
        ["STARTING", "RUNNING", "KILLING", "KILLED killed"]
    );
}

#[test]
fn dx_04_killing_is_told_to_those_who_know_it() {
    for tell_killing in [true, false] {
        let mut life = Life::running(Plan {
            tell_killing,
            ..Plan::default()
        });
        life.feed(Event::Kill(Kill::asked()));
        life.feed(Event::Kill(Kill::asked()));
        let told = life.told().iter().filter(|it| *it == "KILLING").count();
        assert_eq!(told, usize::from(tell_killing));
        // Not when its time is over.
        let mut life = Life::running(Plan {
            tell_killing,
            completion: Some(SECOND),
            ..Plan::default()
        });
        assert!(has(&life.pass(SECOND), &signal(KILL)));
        dies(&mut life, 137);
        assert_eq!(life.told(), ["STARTING", "RUNNING", "FAILED out-of-time"]);
    }
}

#[test]
fn dx_06_a_killed_task_that_exits_with_0_was_killed() {
    let mut life = Life::running(killing());
    life.feed(Event::Kill(Kill::asked()));
    life.feed(signalled(TERM, Ok(())));
    dies(&mut life, 0);
    assert_eq!(life.last_told(), "KILLED killed");
}

#[test]
fn dx_07_a_later_kill_shortens_the_grace_and_never_lengthens_it() {
    let mut life = Life::running(Plan {
        grace: 600 * SECOND,
        ..killing()
    });
    life.feed(Event::Kill(Kill::asked()));
    life.feed(signalled(TERM, Ok(())));
    let longer = life.feed(Event::Kill(Kill::within(6000 * SECOND)));
    assert_eq!(longer, []);
    life.feed(Event::Kill(Kill::within(Duration::from_nanos(100))));
    assert!(has(&life.pass(Duration::from_nanos(100)), &signal(KILL)));
    // As the first one.
    let mut life = Life::running(Plan {
        grace: 600 * SECOND,
        ..killing()
    });
    life.feed(Event::Kill(Kill::within(Duration::from_nanos(100))));
    assert!(has(&life.pass(Duration::from_nanos(100)), &signal(KILL)));
    // Before it runs.
    let mut life = Life::new(killing());
    for event in [
        Event::Recorded(Ok(())),
        pulled(),
        created(),
        Event::Recorded(Ok(())),
    ] {
        life.feed(event);
    }
    life.feed(Event::Kill(Kill::asked()));
    life.feed(Event::Kill(Kill::within(Duration::ZERO)));
    assert!(has(&life.feed(Event::Started(Ok(RUN))), &signal(KILL)));
}

/// Whose signal it is: the wish's, the policy's, the container's, the image's, TERM.
#[test]
fn the_first_signal_is_the_most_particular_one() {
    let run = |wish: Option<&str>, plan: Option<&str>, container: Option<&str>| {
        let mut life = Life::running(Plan {
            signal: plan.map(str::to_owned),
            ..Plan::default()
        });
        life.feed(Event::Inspected(Ok(Found {
            stop_signal: container.map(str::to_owned),
            ..found(Condition::Running)
        })));
        let actions = life.feed(Event::Kill(Kill {
            signal: wish.map(str::to_owned),
            ..Kill::asked()
        }));
        let sent = actions.into_iter().find_map(|action| match action {
            Action::Signal(name) => Some(name),
            _ => None,
        });
        sent.unwrap()
    };
    assert_eq!(run(Some("INT"), Some("HUP"), Some("QUIT")), "INT");
    assert_eq!(run(None, Some("HUP"), Some("QUIT")), "HUP");
    assert_eq!(run(None, None, Some("QUIT")), "QUIT");
    assert_eq!(run(None, None, None), TERM);
}

#[test]
fn a_signal_that_the_engine_does_not_know_is_term_instead() {
    let mut life = Life::running(Plan {
        signal: Some("SIGNOPE".to_owned()),
        ..Plan::default()
    });
    life.feed(Event::Kill(Kill::asked()));
    let actions = life.feed(signalled("SIGNOPE", Err(status(400, "invalid signal"))));
    assert_eq!(actions, [signal(TERM)]);
}

#[test]
fn dx_39_a_kill_that_fails_is_tried_again_and_escalates() {
    let mut life = Life::running(killing());
    life.feed(Event::Kill(Kill::asked()));
    life.feed(signalled(TERM, Err(status(500, "cannot kill"))));
    assert!(has(&life.pass(SECOND), &signal(TERM)), "tried again");
    life.feed(signalled(TERM, Ok(())));
    assert!(has(&life.pass(4 * SECOND), &signal(KILL)));
    life.feed(signalled(KILL, Err(status(500, "cannot kill"))));
    life.feed(inspected(Condition::Running));
    assert!(has(&life.pass(SECOND), &signal(KILL)), "tried again");
    life.feed(signalled(KILL, Ok(())));
    assert_eq!(life.last_told(), "KILLING", "not before it is down");
    dies(&mut life, 137);
    assert_eq!(life.last_told(), "KILLED killed");
}

#[test]
fn an_engine_that_does_not_answer_keeps_no_task_alive() {
    // Hung: 5 s for an answer, then the init is sent the signal without the engine.
    let mut life = Life::running(Plan {
        grace: 20 * SECOND,
        ..killing()
    });
    life.feed(Event::Kill(Kill::asked()));
    let early = life.pass(ANSWER - Duration::from_millis(1));
    assert!(!has(&early, &init_signal(TERM)));
    assert!(has(
        &life.pass(Duration::from_millis(1)),
        &init_signal(TERM)
    ));
    let at_grace = life.pass(15 * SECOND);
    assert!(has(&at_grace, &signal(KILL)) && has(&at_grace, &init_signal(KILL)));
    // It dies, the engine says nothing: 10 s for an exit status.
    life.feed(Event::InitDied);
    life.pass(STATUS - Duration::from_millis(1));
    assert_eq!(life.last_told(), "KILLING");
    life.pass(Duration::from_millis(1));
    assert_eq!(life.last_told(), "KILLED killed");

    // Away: at once.
    let mut life = Life::running(killing());
    life.feed(Event::Kill(Kill::asked()));
    let actions = life.feed(signalled(TERM, Err(absent())));
    assert!(has(&actions, &init_signal(TERM)));
    let at_grace = life.pass(5 * SECOND);
    assert!(has(&at_grace, &init_signal(KILL)), "{at_grace:?}");

    // Only KILL hangs.
    let mut life = Life::running(killing());
    life.feed(Event::Kill(Kill::within(SECOND)));
    life.feed(signalled(TERM, Ok(())));
    life.pass(SECOND);
    assert!(has(&life.pass(ANSWER), &init_signal(KILL)));
    assert!(has(&life.pass(ANSWER), &signal(KILL)), "again and again");
}

#[test]
fn a_frozen_container_is_thawed_first() {
    let mut life = Life::running(killing());
    life.feed(Event::Seen(Seen::Pause));
    let actions = life.feed(Event::Kill(Kill::asked()));
    assert!(has(&actions, &Action::Unpause) && !has(&actions, &signal(TERM)));
    assert!(has(&life.feed(Event::Unpaused(Ok(()))), &signal(TERM)));
    // An engine that does not thaw it holds nothing up.
    let mut life = Life::running(killing());
    life.feed(inspected(Condition::Paused));
    life.feed(Event::Kill(Kill::asked()));
    assert!(has(&life.pass(ANSWER), &signal(TERM)));
    let mut life = Life::running(killing());
    life.feed(inspected(Condition::Paused));
    life.feed(Event::Kill(Kill::within(Duration::ZERO)));
    let actions = life.feed(Event::Unpaused(Err(status(500, "no"))));
    assert!(has(&actions, &signal(KILL)));
}

#[test]
fn a_kill_after_the_end_changes_nothing() {
    let mut life = Life::running(killing());
    life.feed(Event::Exited(Ok(0)));
    assert_eq!(life.feed(Event::Kill(Kill::asked())), []);
    dies(&mut life, 0);
    assert_eq!(life.last_told(), "FINISHED exited");
    assert_eq!(life.feed(Event::Kill(Kill::asked())), []);
}

#[test]
fn the_first_cause_of_a_kill_counts() {
    for (first, second, expected) in [
        (KillCause::Asked, KillCause::OutOfTime, "KILLED killed"),
        (KillCause::OutOfTime, KillCause::Asked, "FAILED out-of-time"),
        (KillCause::Shutdown, KillCause::Asked, "KILLED killed"),
        (
            KillCause::Unhealthy,
            KillCause::Asked,
            "KILLED killed-by-health-check",
        ),
        (KillCause::Evicted, KillCause::Asked, "FAILED evicted"),
        (KillCause::Asked, KillCause::Evicted, "KILLED killed"),
    ] {
        let mut life = Life::running(killing());
        for cause in [first, second] {
            life.feed(Event::Kill(Kill {
                cause,
                ..Kill::asked()
            }));
        }
        dies(&mut life, 137);
        assert_eq!(life.last_told(), expected);
    }
}

#[test]
fn an_eviction_is_on_record_as_a_kill_that_older_releases_know() {
    let mut life = Life::running(killing());
    let actions = life.feed(Event::Kill(Kill::evicted("plugin \"10-a\": no room")));
    assert!(has(
        &actions,
        &Action::Record(Stage::Killing(KillCause::Asked))
    ));
    dies(&mut life, 137);
    let told = life.done.iter().find_map(|action| match action {
        Action::Tell(update) => match &update.news {
            News::Ended(ending) => Some(ending.to_string()),
            _ => None,
        },
        _ => None,
    });
    let text = told.unwrap();
    assert!(
        text.starts_with("evicted by plugin \"10-a\": no room"),
        "{text}"
    );
}
