//! Every state of the record with every state of the container.

use super::*;

fn recorded(stage: Stage) -> Recorded {
    let started = matches!(stage, Stage::Running | Stage::Killing(_));
    Recorded {
        stage,
        rebooted: false,
        container: (stage != Stage::Intended).then(|| "c1".to_owned()),
        run: started.then_some(RUN),
        started_by: None,
        pid: started.then_some(4711),
        told_running: started,
        healthy: None,
        kill: None,
    }
}

fn plan() -> Plan {
    Plan {
        logs: false,
        ..Plan::default()
    }
}

#[test]
fn every_record_with_every_container_goes_on_where_it_was() {
    use Condition::{Created, Down, Paused, Removing, Restarting, Running};
    let killing = Stage::Killing(KillCause::Asked);
    // What is told, and the next that is done.
    let launch = ("", Some(Action::Pull));
    let start = ("", Some(Action::Record(Stage::Starting)));
    let removed = ("FAILED removed-by-other", None);
    let watch = ("", Some(Action::Wait));
    let told = ("RUNNING", Some(Action::Wait));
    let kill = ("", Some(signal("SIGTERM")));
    let take_down = ("", Some(Action::Remove));
    let exit = ("FAILED exited", Some(Action::Remove));
    let killed = ("KILLED killed", Some(Action::Remove));
    let never = ("KILLED killed", None);
    type Row<'a> = (Stage, Option<Condition>, (&'a str, Option<Action>));
    let table: &[Row<'_>] = &[
        (Stage::Intended, None, launch),
        (Stage::Intended, Some(Created), start.clone()),
        (Stage::Intended, Some(Running), told.clone()),
        (Stage::Intended, Some(Paused), told.clone()),
        (Stage::Intended, Some(Restarting), take_down.clone()),
        (Stage::Intended, Some(Down), exit.clone()),
        (Stage::Starting, None, removed.clone()),
        (Stage::Starting, Some(Created), start),
        (Stage::Starting, Some(Running), told.clone()),
        (Stage::Starting, Some(Paused), told),
        (Stage::Starting, Some(Restarting), take_down.clone()),
        (Stage::Starting, Some(Down), exit.clone()),
        (Stage::Running, None, removed),
        (
            Stage::Running,
            Some(Created),
            ("FAILED restarted-by-other", Some(Action::Remove)),
        ),
        (Stage::Running, Some(Running), watch.clone()),
        (Stage::Running, Some(Paused), watch),
        (Stage::Running, Some(Restarting), take_down.clone()),
        (Stage::Running, Some(Down), exit),
        (
            Stage::Running,
            Some(Removing),
            ("FAILED removed-by-other", Some(Action::Remove)),
        ),
        (killing, None, never),
        (killing, Some(Created), killed.clone()),
        (killing, Some(Running), kill),
        (killing, Some(Paused), ("", Some(Action::Unpause))),
        (killing, Some(Restarting), take_down),
        (killing, Some(Down), killed),
    ];
    for (stage, condition, (expected, action)) in table {
        let mut life = Life::attach(plan(), recorded(*stage));
        assert!(has(&life.done, &Action::Inspect));
        let answer = condition.map_or_else(
            || Err(no_container()),
            |condition| {
                Ok(Found {
                    code: 3,
                    ..found(condition)
                })
            },
        );
        if matches!(condition, Some(Running | Paused | Restarting)) {
            life.feed(Event::Held(Held::Yes));
        } else {
            life.state.init = crate::state::Init::Unknown;
        }
        let actions = life.feed(Event::Inspected(answer));
        assert_eq!(life.last_told(), *expected, "{stage:?} {condition:?}");
        if let Some(action) = action {
            assert!(
                has(&actions, action),
                "{stage:?} {condition:?}: {actions:?}"
            );
        }
        assert!(!has(&actions, &Action::Create), "{stage:?} {condition:?}");
    }
}

#[test]
fn a_kill_goes_on_with_what_is_left_of_its_grace_and_its_own_signal() {
    for (left, expected) in [(Duration::ZERO, "SIGKILL"), (3 * SECOND, "SIGINT")] {
        let mut life = Life::attach(
            plan(),
            Recorded {
                kill: Some(RecordedKill {
                    left,
                    signal: Some("SIGINT".to_owned()),
                }),
                ..recorded(Stage::Killing(KillCause::Asked))
            },
        );
        life.feed(Event::Held(Held::Yes));
        life.feed(Event::Inspected(Ok(found(Condition::Running))));
        assert!(
            has(&life.done, &signal(expected)),
            "{left:?}: {:?}",
            life.done
        );
        let killed = signal("SIGKILL");
        if !left.is_zero() {
            life.pass(left - Duration::from_millis(1));
            assert!(!has(&life.done, &killed), "{:?}", life.done);
            life.pass(Duration::from_millis(1));
        }
        assert!(has(&life.done, &killed), "{left:?}: {:?}", life.done);
    }
}

#[test]
fn what_is_over_on_record_is_only_removed() {
    let mut life = Life::attach(plan(), recorded(Stage::Over));
    assert_eq!(life.done, [Action::Remove]);
    life.feed(Event::Removed(Ok(())));
    assert!(life.state.is_gone());
    assert_eq!(life.told(), [""; 0]);
}

#[test]
fn dx_08_what_is_over_on_record_is_read_to_its_end_before_it_is_removed() {
    let life = Life::attach(Plan::default(), recorded(Stage::Over));
    let expected = [Action::StartLogs, Action::DrainLogs, Action::Remove];
    assert_eq!(life.done, expected);
}

#[test]
fn another_run_than_the_recorded_one_is_taken_down() {
    let mut life = Life::attach(plan(), recorded(Stage::Running));
    life.feed(Event::Held(Held::Ended));
    life.feed(Event::Inspected(Ok(Found {
        run: Some(RUN + 1),
        ..found(Condition::Running)
    })));
    assert!(has(&life.done, &Action::Remove));
    life.feed(Event::Removed(Ok(())));
    assert_eq!(life.told(), ["FAILED restarted-by-other"]);
    // Restarted, and exited since.
    let mut life = Life::attach(plan(), recorded(Stage::Running));
    life.feed(Event::Held(Held::Ended));
    life.feed(Event::Inspected(Ok(Found {
        run: Some(RUN + 1),
        ..found(Condition::Down)
    })));
    assert_eq!(life.told(), ["FAILED restarted-by-other"]);
}

#[test]
fn a_run_that_began_after_the_start_was_answered_is_another_one() {
    // The engine answered the start and nothing after it: which run it is was never seen.
    let unseen = |stage| Recorded {
        run: None,
        started_by: Some(RUN),
        ..recorded(stage)
    };
    for stage in [Stage::Starting, Stage::Running] {
        for (run, condition, other) in [
            (RUN - 1, Condition::Running, false),
            (RUN, Condition::Paused, false),
            // A clock that was set meanwhile is not somebody else's doing.
            (RUN + 999_999_999, Condition::Running, false),
            (RUN + 1_000_000_001, Condition::Running, true),
            (RUN + 1_000_000_001, Condition::Down, true),
        ] {
            let mut life = Life::attach(plan(), unseen(stage));
            life.feed(Event::Held(Held::Ended));
            life.feed(Event::Inspected(Ok(Found {
                run: Some(run),
                ..found(condition)
            })));
            life.feed(Event::Removed(Ok(())));
            let told = life
                .told()
                .iter()
                .any(|told| told == "FAILED restarted-by-other");
            assert_eq!(told, other, "{stage:?}, run at {run}, {condition:?}");
        }
    }
}

#[test]
fn without_an_engine_a_recorded_task_is_what_it_was_until_its_process_dies() {
    let mut life = Life::attach(plan(), recorded(Stage::Running));
    life.feed(Event::Held(Held::Yes));
    for _ in 0..100 {
        life.feed(Event::Inspected(Err(absent())));
        life.pass(60 * SECOND);
    }
    assert_eq!(life.told(), [""; 0]);
    life.feed(Event::InitDied);
    life.feed(Event::Inspected(Err(absent())));
    life.pass(STATUS);
    assert_eq!(life.told(), ["FAILED engine-gone"]);
    // It was dead before.
    let mut life = Life::attach(plan(), recorded(Stage::Killing(KillCause::Asked)));
    life.feed(Event::Held(Held::Ended));
    life.feed(Event::Inspected(Err(absent())));
    life.pass(STATUS);
    assert_eq!(life.told(), ["KILLED killed"]);
}

#[test]
fn after_a_reboot_the_engine_is_waited_for_and_an_intent_is_void() {
    let rebooted = |stage| Recorded {
        rebooted: true,
        ..recorded(stage)
    };
    let mut life = Life::attach(plan(), rebooted(Stage::Running));
    assert!(!life.done.iter().any(|it| matches!(it, Action::Hold(_))));
    life.feed(Event::Inspected(Err(absent())));
    life.pass(600 * SECOND);
    assert_eq!(life.told(), [""; 0]);
    life.feed(down(255));
    assert_eq!(life.told(), ["FAILED exited"]);
    let mut life = Life::attach(plan(), rebooted(Stage::Intended));
    life.feed(Event::Inspected(Err(no_container())));
    assert_eq!(life.told(), ["FAILED rebooted"]);
}

#[test]
fn a_kill_while_it_is_attached_is_not_forgotten() {
    let mut life = Life::attach(plan(), recorded(Stage::Running));
    life.feed(Event::Held(Held::Yes));
    life.feed(Event::Kill(Kill::asked()));
    let actions = life.pass(ANSWER);
    assert!(has(&actions, &init_signal("SIGTERM")), "{actions:?}");
    assert!(has(&life.pass(ANSWER), &init_signal("SIGKILL")));
    life.feed(Event::InitDied);
    life.pass(STATUS);
    assert_eq!(life.told(), ["KILLED killed"]);
}
