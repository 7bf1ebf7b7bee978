//! Behind our back.

use super::*;

fn logless() -> Plan {
    Plan {
        logs: false,
        ..Plan::default()
    }
}

/// What the engine tells, and what it then says; without a word of ours.
fn told_after(events: &[Event]) -> String {
    let mut life = Life::running(logless());
    for event in events {
        life.feed(event.clone());
    }
    life.pass(60 * SECOND);
    life.last_told()
}

fn seen(seen: Seen) -> Event {
    Event::Seen(seen)
}

#[test]
fn behind_our_back_each_deed_has_one_ending_that_names_it() {
    let removing = || inspected(Condition::Removing);
    let gone = || Event::Inspected(Err(no_container()));
    for (what, events, expected) in [
        (
            "docker stop",
            vec![
                seen(Seen::Signal(15)),
                seen(Seen::Die(Some(143))),
                Event::InitDied,
                down(143),
            ],
            "FAILED stopped-by-other",
        ),
        (
            "docker stop of what exits with 0",
            vec![
                seen(Seen::Signal(15)),
                seen(Seen::Die(Some(0))),
                Event::InitDied,
                down(0),
            ],
            "FAILED stopped-by-other",
        ),
        (
            "docker kill",
            vec![
                seen(Seen::Signal(9)),
                Event::Exited(Ok(137)),
                Event::InitDied,
                down(137),
            ],
            "FAILED stopped-by-other",
        ),
        (
            "docker kill, told after the exit",
            vec![
                Event::Exited(Ok(137)),
                Event::InitDied,
                down(137),
                seen(Seen::Signal(9)),
                seen(Seen::Die(Some(137))),
            ],
            "FAILED stopped-by-other",
        ),
        (
            "docker kill -s HUP of what goes on, and ends later",
            vec![seen(Seen::Signal(10)), Event::InitDied, down(0)],
            "FINISHED exited",
        ),
        (
            "kill(2)",
            vec![seen(Seen::Die(Some(137))), Event::InitDied, down(137)],
            "FAILED signaled",
        ),
        (
            "docker rm -f, seen at once",
            vec![
                seen(Seen::Signal(9)),
                seen(Seen::Die(Some(137))),
                Event::InitDied,
                removing(),
            ],
            "FAILED removed-by-other",
        ),
        (
            "docker rm -f, seen late",
            vec![Event::InitDied, gone()],
            "FAILED removed-by-other",
        ),
        (
            "docker rm -f, told by the event alone",
            vec![seen(Seen::Destroy), gone(), Event::InitDied],
            "FAILED removed-by-other",
        ),
        (
            "docker rename, docker update",
            vec![inspected(Condition::Running)],
            "RUNNING",
        ),
        (
            "docker pause",
            vec![seen(Seen::Pause), inspected(Condition::Paused)],
            "RUNNING",
        ),
    ] {
        assert_eq!(told_after(&events), expected, "{what}");
    }
}

#[test]
fn behind_our_back_a_restarted_container_is_taken_down() {
    let again = || {
        Event::Inspected(Ok(Found {
            run: Some(RUN + 1),
            pid: Some(4712),
            ..found(Condition::Running)
        }))
    };
    let histories: [Vec<Event>; 4] = [
        // docker restart, exit seen.
        vec![
            seen(Seen::Signal(15)),
            seen(Seen::Die(Some(143))),
            Event::InitDied,
            again(),
        ],
        // Exit and start both lost.
        vec![Event::InitDied, again()],
        vec![again()],
        // A restart policy that somebody gave it.
        vec![Event::InitDied, inspected(Condition::Restarting)],
    ];
    for events in histories {
        let mut life = Life::running(logless());
        for event in events {
            life.feed(event);
        }
        assert_eq!(life.last_told(), "RUNNING", "it runs still");
        assert!(has(&life.done, &Action::Remove));
        life.feed(Event::Removed(Err(absent())));
        assert!(
            has(&life.pass(60 * SECOND), &Action::Remove),
            "until it is gone"
        );
        assert_eq!(life.last_told(), "RUNNING");
        life.feed(Event::Removed(Ok(())));
        assert_eq!(life.last_told(), "FAILED restarted-by-other");
    }
}

#[test]
fn behind_our_back_nothing_is_taken_for_ours_while_we_kill_and_ours_for_nobody_elses() {
    let mut life = Life::running(logless());
    life.feed(Event::Kill(Kill::asked()));
    life.feed(seen(Seen::Signal(15)));
    life.feed(seen(Seen::Die(Some(143))));
    life.feed(seen(Seen::Stop));
    life.feed(Event::InitDied);
    life.feed(down(143));
    assert_eq!(life.last_told(), "KILLED killed");
}

#[test]
fn behind_our_back_a_kill_of_what_somebody_restarts_ends_it() {
    let mut life = Life::running(logless());
    life.feed(Event::Kill(Kill::asked()));
    life.feed(Event::InitDied);
    life.feed(inspected(Condition::Restarting));
    assert!(has(&life.done, &Action::Remove));
    life.feed(Event::Removed(Ok(())));
    assert_eq!(life.last_told(), "KILLED killed");
}

#[test]
fn a_signal_of_ours_that_is_no_kill_is_nobody_elses() {
    let mut life = Life::running(logless());
    assert_eq!(life.feed(Event::Signal("HUP".to_owned())), [signal("HUP")]);
    life.feed(signalled("HUP", Ok(())));
    life.feed(seen(Seen::Signal(1)));
    life.feed(seen(Seen::Die(Some(129))));
    life.feed(Event::InitDied);
    life.feed(down(129));
    assert_eq!(life.last_told(), "FAILED signaled");
    // A second one was not ours.
    let mut life = Life::running(logless());
    life.feed(Event::Signal("HUP".to_owned()));
    for _ in 0..2 {
        life.feed(seen(Seen::Signal(1)));
    }
    life.feed(seen(Seen::Die(Some(129))));
    life.feed(Event::InitDied);
    life.feed(down(129));
    assert_eq!(life.last_told(), "FAILED stopped-by-other");
    // Before it runs, and while it is killed, there is none.
    let mut life = Life::new(logless());
    assert_eq!(life.feed(Event::Signal("HUP".to_owned())), []);
    let mut life = Life::running(logless());
    life.feed(Event::Kill(Kill::asked()));
    assert_eq!(life.feed(Event::Signal("HUP".to_owned())), []);
}

#[test]
fn what_is_taken_down_because_it_was_restarted_is_that_after_a_restart_of_ours_too() {
    let mut life = Life::running(Plan::default());
    let actions = life.feed(Event::Inspected(Ok(Found {
        run: Some(RUN + 1),
        ..found(Condition::Running)
    })));
    let stage = Stage::Killing(KillCause::Restarted);
    let at = |wanted: &Action| actions.iter().position(|it| it == wanted);
    assert!(
        at(&Action::Record(stage)) < at(&Action::Remove) && at(&Action::Record(stage)).is_some()
    );
    // We have died, and it is removed.
    let recorded = Recorded {
        stage,
        rebooted: false,
        container: Some("c1".to_owned()),
        run: Some(RUN),
        started_by: None,
        pid: None,
        told_running: true,
        healthy: None,
        kill: None,
    };
    let mut life = Life::attach(Plan::default(), recorded);
    life.feed(Event::Inspected(Err(no_container())));
    assert_eq!(life.last_told(), "FAILED restarted-by-other");
}
