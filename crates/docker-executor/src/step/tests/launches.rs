use super::*;
use crate::{CreateFailure, Ending};

#[test]
fn nothing_exists_before_it_is_on_record_and_may_run_only_once_that_is() {
    let mut life = Life::new(Plan::default());
    assert_eq!(life.done, [Action::Record(Stage::Intended)]);
    let actions = life.feed(Event::Recorded(Ok(())));
    assert_eq!(life.told(), ["STARTING"]);
    assert!(has(&actions, &Action::Pull));
    assert_eq!(life.feed(pulled()), [Action::Create]);
    assert_eq!(life.feed(created()), [Action::Record(Stage::Starting)]);
    assert_eq!(life.feed(Event::Recorded(Ok(()))), [Action::Start]);
    assert_eq!(
        life.feed(Event::Started(Ok(RUN))),
        [
            Action::Record(Stage::Starting),
            Action::StartLogs,
            Action::Inspect
        ]
    );
    let actions = life.feed(inspected(Condition::Running));
    assert!(has(&actions, &Action::Hold(4711)), "{actions:?}");
    assert_eq!(life.told(), ["STARTING", "RUNNING"]);
}

#[test]
fn a_task_that_cannot_be_recorded_is_not_launched() {
    for steps in [0, 1] {
        let mut life = Life::new(Plan::default());
        for _ in 0..steps {
            life.feed(Event::Recorded(Ok(())));
            life.feed(pulled());
            life.feed(created());
        }
        life.feed(Event::Recorded(Err("disk full".to_owned())));
        assert_eq!(life.last_told(), "FAILED not-recorded");
        assert!(!has(&life.done, &Action::Start));
    }
}

#[test]
fn what_a_launch_waits_for_is_told_until_it_goes_on() {
    let mut life = Life::new(Plan::default());
    life.feed(Event::Recorded(Ok(())));
    assert_eq!(life.state.problem(), None);
    life.feed(Event::Pulled(Err(status(500, "no route to the registry"))));
    let told = |life: &Life| life.state.problem().unwrap_or_default().to_owned();
    assert!(told(&life).contains("no route"), "{}", told(&life));
    // While it is tried again, too.
    assert!(has(&life.pass(2 * SECOND), &Action::Pull));
    assert!(told(&life).contains("no route"), "{}", told(&life));
    life.feed(pulled());
    assert_eq!(life.state.problem(), None);
    life.feed(Event::Created(Err(CreateFailure::Engine(status(
        500, "no space",
    )))));
    assert!(told(&life).contains("no space"), "{}", told(&life));
    life.feed(created());
    assert_eq!(life.state.problem(), None);
    // What is not tried again is no matter of waiting.
    let mut life = Life::new(Plan::default());
    life.feed(Event::Recorded(Ok(())));
    life.feed(Event::Pulled(Err(status(403, "denied"))));
    assert_eq!(life.state.problem(), None);
}

/// What fails, and what comes of it.
#[test]
fn each_failure_of_a_launch_has_an_ending_of_its_own() {
    let no_image = EngineError::NotFound {
        call: "pull",
        subject: "x".to_owned(),
        what: longshore_engine::Missing::Image,
        message: String::new(),
    };
    let stalled = EngineError::PullStalled {
        image: "x".to_owned(),
        after: SECOND,
    };
    let runc = "unable to start container process: exec: ";
    let not_found = format!("{runc}\"x\": executable file not found in $PATH");
    let denied = format!("{runc}\"/x\": permission denied");
    let steps: &[(usize, Event, &str)] = &[
        (1, Event::Pulled(Err(no_image.clone())), "image-missing"),
        (1, Event::Pulled(Err(stalled)), "pull-failed"),
        (1, Event::Pulled(Err(status(403, "denied"))), "pull-failed"),
        (
            2,
            Event::Created(Err(CreateFailure::Engine(no_image))),
            "image-missing",
        ),
        (
            2,
            Event::Created(Err(CreateFailure::Engine(status(400, "no")))),
            "not-created",
        ),
        (
            2,
            Event::Created(Err(CreateFailure::Hook("no".to_owned()))),
            "not-wanted",
        ),
        (
            4,
            Event::Started(Err(status(400, &not_found))),
            "program-not-found",
        ),
        (
            4,
            Event::Started(Err(status(400, &denied))),
            "program-not-executable",
        ),
        (
            4,
            Event::Started(Err(status(500, "port is already allocated"))),
            "not-started",
        ),
        (4, Event::Started(Err(no_container())), "removed-by-other"),
    ];
    for (at, event, expected) in steps {
        let mut life = Life::new(Plan {
            logs: false,
            ..Plan::default()
        });
        let before = [
            Event::Recorded(Ok(())),
            pulled(),
            created(),
            Event::Recorded(Ok(())),
        ];
        for event in before.into_iter().take(*at) {
            life.feed(event);
        }
        life.feed(event.clone());
        life.feed(Event::Swept);
        assert_eq!(life.told(), ["STARTING", &format!("FAILED {expected}")]);
        // What was made is removed.
        assert_eq!(has(&life.done, &Action::Remove), *at == 4, "{expected}");
        assert_eq!(life.pass(Duration::from_secs(600)), []);
    }
}

#[test]
fn an_engine_that_is_away_is_asked_again_for_a_minute() {
    let mut life = Life::new(Plan::default());
    life.feed(Event::Recorded(Ok(())));
    let mut asked = 0;
    while life.last_told() == "STARTING" {
        life.feed(Event::Pulled(Err(absent())));
        let again = life.pass(2 * SECOND);
        asked += usize::from(has(&again, &Action::Pull));
        assert!(asked < 100);
    }
    assert!(asked > 20, "{asked}");
    assert_eq!(life.last_told(), "FAILED pull-failed");
}

#[test]
fn a_creation_whose_answer_is_lost_is_looked_for() {
    let lost = || Event::Created(Err(CreateFailure::Engine(absent())));
    // It took place.
    let mut life = Life::new(Plan::default());
    life.feed(Event::Recorded(Ok(())));
    life.feed(pulled());
    assert_eq!(life.feed(lost()), [Action::Inspect]);
    assert_eq!(
        life.feed(inspected(Condition::Created)),
        [Action::Record(Stage::Starting)]
    );
    // It did not.
    let mut life = Life::new(Plan::default());
    life.feed(Event::Recorded(Ok(())));
    life.feed(pulled());
    life.feed(lost());
    life.feed(Event::Inspected(Err(absent())));
    assert_eq!(life.pass(SECOND), [Action::Inspect]);
    assert_eq!(
        life.feed(Event::Inspected(Err(no_container()))),
        [Action::Create]
    );
}

#[test]
fn a_name_that_is_taken_is_our_own_container_or_fails() {
    let taken = || {
        Event::Created(Err(CreateFailure::Engine(EngineError::Conflict {
            call: "create",
            subject: "n".to_owned(),
            message: "already in use".to_owned(),
        })))
    };
    let asked = || {
        let mut life = Life::new(Plan::default());
        life.feed(Event::Recorded(Ok(())));
        life.feed(pulled());
        assert_eq!(life.feed(taken()), [Action::Inspect]);
        life
    };
    let mut ours = asked();
    let actions = ours.feed(inspected(Condition::Created));
    assert_eq!(actions, [Action::Record(Stage::Starting)]);
    let mut strangers = asked();
    strangers.feed(Event::Inspected(Err(crate::labels::stranger("n"))));
    assert_eq!(strangers.last_told(), "FAILED not-created");
    assert!(
        !has(&strangers.done, &Action::Remove),
        "never anybody else's"
    );
    // An engine holds the name of a container that it is still creating, which cannot be seen yet.
    let mut under_way = asked();
    for _ in 0..3 {
        assert_eq!(under_way.feed(Event::Inspected(Err(no_container()))), []);
        assert_eq!(under_way.pass(SECOND), [Action::Create]);
        assert_eq!(under_way.feed(taken()), [Action::Inspect]);
    }
    let actions = under_way.feed(inspected(Condition::Created));
    assert_eq!(actions, [Action::Record(Stage::Starting)]);
    // For ever: until there is no patience left.
    let mut stuck = asked();
    for _ in 0..60 {
        stuck.feed(Event::Inspected(Err(no_container())));
        if has(&stuck.pass(SECOND), &Action::Create) {
            stuck.feed(taken());
        }
    }
    assert_eq!(stuck.last_told(), "FAILED not-created");
}

#[test]
fn a_start_whose_answer_is_lost_is_looked_at() {
    for (condition, expected) in [
        (Condition::Running, vec!["STARTING", "RUNNING"]),
        (Condition::Paused, vec!["STARTING", "RUNNING"]),
        (Condition::Created, vec!["STARTING"]),
        (
            Condition::Down,
            vec!["STARTING", "RUNNING", "FINISHED exited"],
        ),
    ] {
        let mut life = Life::new(Plan::default());
        life.feed(Event::Recorded(Ok(())));
        life.feed(pulled());
        life.feed(created());
        life.feed(Event::Recorded(Ok(())));
        assert_eq!(life.feed(Event::Started(Err(absent()))), [Action::Inspect]);
        life.feed(inspected(condition));
        if condition != Condition::Created {
            life.feed(inspected(condition));
        }
        life.feed(Event::LogsDrained);
        assert_eq!(life.told(), expected, "{condition:?}");
        if condition == Condition::Created {
            assert_eq!(life.pass(SECOND), [Action::Start]);
        }
    }
}

#[test]
fn running_is_told_though_the_container_cannot_be_looked_at() {
    let mut life = Life::new(Plan::default());
    life.feed(Event::Recorded(Ok(())));
    life.feed(pulled());
    life.feed(created());
    life.feed(Event::Recorded(Ok(())));
    life.feed(Event::Started(Ok(RUN)));
    life.pass(ANSWER);
    assert_eq!(life.told(), ["STARTING", "RUNNING"]);
    life.feed(inspected(Condition::Running));
    assert_eq!(life.told(), ["STARTING", "RUNNING"]);
}

#[test]
fn a_refused_task_has_one_status() {
    let mut actions = Vec::new();
    let ending = Ending::Invalid("container is missing".to_owned());
    let state = State::refused(Plan::default(), ending, Duration::ZERO, &mut actions);
    let told: Vec<_> = actions.iter().filter_map(word).collect();
    assert_eq!(told, ["ERROR invalid"]);
    assert!(state.is_gone() && has(&actions, &Action::Finish));
}

#[test]
fn a_start_that_is_refused_may_have_left_a_process_which_is_ended_first() {
    for (status, message, sweeps, told) in [
        (500, "id already in use", true, "FAILED not-started"),
        (409, "exists", true, "FAILED not-started"),
        (
            400,
            "exec: \"x\": executable file not found in $PATH",
            false,
            "FAILED program-not-found",
        ),
    ] {
        for kill in [false, true] {
            let mut life = Life::new(Plan::default());
            for event in [
                Event::Recorded(Ok(())),
                pulled(),
                created(),
                Event::Recorded(Ok(())),
            ] {
                life.feed(event);
            }
            if kill {
                life.feed(Event::Kill(Kill::asked()));
            }
            let actions = life.feed(Event::Started(Err(EngineError::Status {
                call: "start",
                subject: "c1".to_owned(),
                status,
                message: message.to_owned(),
            })));
            assert_eq!(has(&actions, &Action::Sweep), sweeps, "{message}");
            if sweeps {
                assert!(!life.state.is_over(), "{message}");
                life.feed(Event::Swept);
            }
            let expected = if kill {
                "KILLED killed-during-launch"
            } else {
                told
            };
            assert_eq!(life.last_told(), expected, "{message}");
        }
    }
}
