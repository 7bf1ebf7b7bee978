use longshore_health::{CheckStatus, HealthReport};

use super::*;
use crate::Ending;

/// It runs and exits with `code`, and the engine adds this.
fn ends(code: i64, change: impl FnOnce(&mut Found)) -> Life {
    let mut life = Life::running(Plan::default());
    life.feed(Event::Seen(Seen::Die(Some(code))));
    life.feed(Event::InitDied);
    let mut found = Found {
        code,
        ..found(Condition::Down)
    };
    change(&mut found);
    life.feed(Event::Inspected(Ok(found)));
    life.feed(Event::LogsDrained);
    // Who was killed gets the time in which somebody may be named.
    life.pass(SECOND);
    life
}

#[test]
fn an_engine_that_tells_of_the_lack_of_memory_after_the_exit_is_heard() {
    let mut life = Life::running(Plan::default());
    life.feed(Event::Seen(Seen::Die(Some(137))));
    life.feed(Event::InitDied);
    life.feed(down(137));
    life.feed(Event::LogsDrained);
    assert_eq!(life.last_told(), "RUNNING");
    life.pass(SECOND / 10);
    life.feed(Event::Seen(Seen::OutOfMemory));
    life.pass(SECOND);
    assert_eq!(life.last_told(), "FAILED out-of-memory");
}

#[test]
fn dx_37_each_end_has_a_word_a_state_and_an_exit_code_of_its_own() {
    for (code, out_of_memory, told, exits) in [
        (0, false, "FINISHED exited", 0),
        (1, false, "FAILED exited", 1),
        (125, false, "FAILED exited", 125),
        (126, false, "FAILED exited", 126),
        (127, false, "FAILED exited", 127),
        (128, false, "FAILED exited", 128),
        (137, false, "FAILED signaled", 137),
        (143, false, "FAILED signaled", 143),
        (137, true, "FAILED out-of-memory", 137),
        (1, true, "FAILED out-of-memory", 1),
        // A child ran out of memory, and its parent went on.
        (0, true, "FINISHED exited", 0),
        (255, false, "FAILED exited", 255),
        (-1, false, "FAILED exited", 255),
    ] {
        let life = ends(code, |found| found.out_of_memory = out_of_memory);
        assert_eq!(life.last_told(), told, "{code}");
        let ending = life.done.iter().find_map(|action| match action {
            Action::Tell(update) => match &update.news {
                News::Ended(ending) => Some(ending.clone()),
                _ => None,
            },
            _ => None,
        });
        assert_eq!(ending.unwrap().exit_code(), exits, "{code}");
    }
}

#[test]
fn every_ending_has_a_word_of_its_own_and_says_what_it_knows() {
    let text = || "why".to_owned();
    let started = |code| Ending::NotStarted {
        code,
        problem: text(),
    };
    let killed = |during_launch| Ending::Killed {
        during_launch,
        code: None,
    };
    let all = [
        Ending::Exited(1),
        Ending::Signaled(9),
        Ending::OutOfMemory(Some(137)),
        Ending::Invalid(text()),
        Ending::NotRecorded(text()),
        Ending::ImageMissing(text()),
        Ending::PullFailed(text()),
        Ending::NotCreated(text()),
        Ending::NotWanted(text()),
        started(125),
        started(126),
        started(127),
        killed(true),
        killed(false),
        Ending::Unhealthy {
            problem: text(),
            code: None,
        },
        Ending::OutOfTime(None),
        Ending::EngineGone,
        Ending::ExitMissed,
        Ending::StoppedByOther {
            signal: Some(15),
            code: Some(143),
        },
        Ending::RemovedByOther(None),
        Ending::RestartedByOther,
        Ending::Rebooted,
    ];
    let words: std::collections::BTreeSet<_> = all.iter().map(Ending::word).collect();
    let messages: std::collections::BTreeSet<_> = all.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), all.len());
    assert_eq!(messages.len(), all.len());
    let stopped = all[18].to_string();
    assert!(
        stopped.contains("SIGTERM") && stopped.contains("somebody else"),
        "{stopped}"
    );
    assert_eq!(
        Ending::EngineGone.to_string(),
        "daemon gone, exit status unknown"
    );
}

#[test]
fn an_exit_before_the_start_is_answered_is_told_in_order() {
    let mut life = Life::new(Plan::default());
    for event in [
        Event::Recorded(Ok(())),
        pulled(),
        created(),
        Event::Recorded(Ok(())),
    ] {
        life.feed(event);
    }
    life.feed(Event::Exited(Ok(3)));
    life.feed(Event::Started(Ok(RUN)));
    life.feed(down(3));
    life.feed(Event::LogsDrained);
    assert_eq!(life.told(), ["STARTING", "RUNNING", "FAILED exited"]);
}

#[test]
fn the_last_status_waits_for_the_output_but_not_for_long() {
    let mut life = Life::running(Plan::default());
    let actions = life.feed(Event::Exited(Ok(0)));
    assert!(has(&actions, &Action::DrainLogs));
    life.feed(Event::InitDied);
    life.feed(down(0));
    assert_eq!(life.last_told(), "RUNNING");
    life.pass(DRAIN);
    assert_eq!(life.last_told(), "FINISHED exited");
}

#[test]
fn what_has_ended_is_removed_until_it_is_gone() {
    let mut life = ends(0, |_| {});
    assert!(has(&life.done, &Action::Remove));
    for _ in 0..20 {
        life.feed(Event::Removed(Err(status(500, "device or resource busy"))));
        assert!(has(&life.pass(60 * SECOND), &Action::Remove));
    }
    assert_eq!(
        life.feed(Event::Removed(Err(no_container()))),
        [Action::Finish]
    );
    // Unless it is to be kept.
    let mut life = Life::running(Plan {
        remove: false,
        ..Plan::default()
    });
    life.feed(Event::InitDied);
    life.feed(down(0));
    life.feed(Event::LogsDrained);
    assert!(!has(&life.done, &Action::Remove) && has(&life.done, &Action::Finish));
}

fn checked() -> Life {
    let life = Life::running(Plan {
        checks: true,
        check: Some(CheckStatus::Command(None)),
        ..Plan::default()
    });
    assert!(has(&life.done, &Action::StartChecks));
    life
}

fn health(healthy: bool, kill: bool) -> Event {
    // The type is open to additions.
    Event::Health(HealthReport {
        healthy,
        kill,
        failures: 1,
        reason: "the command exited with 1".to_owned(),
    })
}

#[test]
fn hc_03_health_is_told_as_it_changes() {
    let mut life = checked();
    for healthy in [true, false, true] {
        life.feed(health(healthy, false));
    }
    assert_eq!(
        life.told()[2..],
        ["RUNNING healthy", "RUNNING unhealthy", "RUNNING healthy"]
    );
}

#[test]
fn hc_08_a_task_that_fails_its_health_check_is_killed_and_the_status_says_so() {
    let mut life = checked();
    let actions = life.feed(health(false, true));
    assert!(has(&actions, &Action::PauseChecks) && has(&actions, &signal("SIGTERM")));
    // What its check says meanwhile is not told any more.
    assert_eq!(life.feed(health(true, false)), []);
    assert_eq!(life.feed(Event::Check(CheckStatus::Command(Some(0)))), []);
    life.feed(Event::InitDied);
    life.feed(down(143));
    life.feed(Event::LogsDrained);
    assert_eq!(life.last_told(), "KILLED killed-by-health-check");
    let last = life.done.iter().rev().find_map(|action| match action {
        Action::Tell(update) => Some(update),
        _ => None,
    });
    assert_eq!(last.unwrap().healthy, Some(false));
}

#[test]
fn hc_16_health_and_check_keep_what_the_other_said() {
    let mut life = checked();
    let updates = |life: &Life| -> Vec<_> {
        let told = life.done.iter().filter_map(|action| match action {
            Action::Tell(update) => Some((update.healthy, update.check)),
            _ => None,
        });
        told.collect()
    };
    assert_eq!(
        updates(&life)[1],
        (None, Some(CheckStatus::Command(None))),
        "empty, and there"
    );
    life.feed(Event::Check(CheckStatus::Command(Some(1))));
    life.feed(health(true, false));
    life.feed(Event::Check(CheckStatus::Command(Some(2))));
    life.feed(Event::InitDied);
    life.feed(down(0));
    life.feed(Event::LogsDrained);
    assert_eq!(
        updates(&life)[2..],
        [
            (None, Some(CheckStatus::Command(Some(1)))),
            (Some(true), Some(CheckStatus::Command(Some(1)))),
            (Some(true), Some(CheckStatus::Command(Some(2)))),
            (Some(true), Some(CheckStatus::Command(Some(2)))),
        ]
    );
}

#[test]
fn checks_rest_while_the_container_is_frozen() {
    let mut life = checked();
    assert_eq!(life.feed(Event::Seen(Seen::Pause)), [Action::PauseChecks]);
    assert_eq!(life.feed(health(false, true)), [], "it cannot answer");
    assert_eq!(
        life.feed(Event::Seen(Seen::Unpause)),
        [Action::ResumeChecks]
    );
    life.feed(health(true, false));
    assert_eq!(life.last_told(), "RUNNING healthy");
}
