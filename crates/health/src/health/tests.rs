use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{CommandProbe, Family, HttpProbe, Run, TcpProbe, Timing};

const SECOND: Duration = Duration::from_secs(1);

fn policy(limit: u32, grace: Duration) -> HealthPolicy {
    HealthPolicy {
        timing: Timing {
            delay: Duration::ZERO,
            interval: SECOND,
            timeout: SECOND,
        },
        consecutive_failures: limit,
        grace_period: grace,
    }
}

fn command() -> Probe {
    Probe::Command(CommandProbe::shell("true").unwrap())
}

/// Feeds results, each at its second; what was told as (second, healthy, kill).
fn told(
    probe: Probe,
    policy: &HealthPolicy,
    results: &[(u64, ProbeResult)],
) -> Vec<(u64, bool, bool)> {
    let mut state = HealthState::new(probe, policy);
    let mut told = Vec::new();
    for (second, result) in results {
        for report in run(&mut state, Duration::from_secs(*second), result.clone()) {
            assert_eq!(report.reason.is_empty(), report.healthy, "{report:?}");
            told.push((*second, report.healthy, report.kill));
        }
    }
    told
}

/// One run that begins as soon as it may, and ends at `now`.
fn run(state: &mut HealthState, now: Duration, result: ProbeResult) -> Vec<HealthReport> {
    let mut actions = Vec::new();
    let due = state.due().unwrap();
    state.step(CheckerEvent::Due, due, &mut actions);
    let [CheckerAction::Probe(run)] = actions[..] else {
        panic!("{actions:?}");
    };
    actions.clear();
    state.step(CheckerEvent::Finished { run, result }, now, &mut actions);
    actions
        .into_iter()
        .map(|action| match action {
            CheckerAction::Report(report) => report,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn exits(all: &[(u64, i32)]) -> Vec<(u64, ProbeResult)> {
    all.iter()
        .map(|(second, status)| (*second, ProbeResult::Exited(*status)))
        .collect()
}

#[test]
fn hc2_a_healthy_task_is_told_once() {
    let results = exits(&[(1, 0), (2, 0), (3, 0)]);
    assert_eq!(
        told(command(), &policy(3, 10 * SECOND), &results),
        [(1, true, false)]
    );
}

#[test]
fn hc3_every_change_is_told() {
    let results = exits(&[(1, 0), (2, 1), (3, 0), (4, 0)]);
    let expected = [(1, true, false), (2, false, false), (3, true, false)];
    assert_eq!(told(command(), &policy(3, 10 * SECOND), &results), expected);
}

#[test]
fn hc6_failures_within_the_grace_say_nothing() {
    let results = exits(&[(1, 1), (5000, 1), (9999, 1)]);
    assert_eq!(told(command(), &policy(1, 9999 * SECOND), &results), []);
    let state = HealthState::new(command(), &policy(1, 9999 * SECOND));
    assert_eq!(state.healthy(), None, "no status carries the field");
}

#[test]
fn hc8_a_timeout_is_a_failure() {
    let results = [(1, ProbeResult::TimedOut(SECOND))];
    assert_eq!(
        told(command(), &policy(1, Duration::ZERO), &results),
        [(1, false, true)]
    );
}

#[test]
fn hc21_a_command_killed_by_a_signal_is_a_failure() {
    let results = [(1, ProbeResult::Signaled(9)), (2, ProbeResult::Signaled(9))];
    let expected = [(1, false, false), (2, false, true)];
    assert_eq!(
        told(command(), &policy(2, Duration::ZERO), &results),
        expected
    );
}

#[test]
fn hc22_the_last_moment_of_the_grace_belongs_to_it() {
    for (grace, second, expected) in [
        (10, 10, vec![]),
        (10, 11, vec![(11, false, true)]),
        (0, 0, vec![(0, false, true)]),
    ] {
        let found = told(
            command(),
            &policy(1, grace * SECOND),
            &exits(&[(second, 1)]),
        );
        assert_eq!(found, expected, "grace {grace}, at {second}");
    }
}

#[test]
fn hc22_the_first_success_ends_the_grace_for_ever() {
    let results = exits(&[(1, 1), (2, 0), (3, 1), (4, 1)]);
    let expected = [(2, true, false), (3, false, false), (4, false, true)];
    assert_eq!(
        told(command(), &policy(2, 100 * SECOND), &results),
        expected
    );
}

#[test]
fn hc22_failures_ignored_in_the_grace_do_not_count_later() {
    let results = exits(&[(1, 1), (10, 1), (11, 1), (12, 1)]);
    let expected = [(11, false, false), (12, false, true)];
    assert_eq!(told(command(), &policy(2, 10 * SECOND), &results), expected);
}

#[test]
fn hc22_after_the_threshold_every_failure_asks_for_the_kill_until_a_success() {
    let results = exits(&[(1, 1), (2, 1), (3, 1), (4, 0), (5, 1)]);
    let expected = [
        (1, false, false),
        (2, false, true),
        (3, false, true),
        (4, true, false),
        (5, false, false),
    ];
    assert_eq!(
        told(command(), &policy(2, Duration::ZERO), &results),
        expected
    );
    let zero = told(command(), &policy(0, Duration::ZERO), &exits(&[(1, 1)]));
    assert_eq!(zero, [(1, false, true)], "a limit of 0 is as 1");
}

#[test]
fn hc22_a_transient_failure_says_nothing_and_resets_nothing() {
    let away = || ProbeResult::Transient("the engine is away".to_owned());
    let failed = || ProbeResult::Exited(1);
    let results = [(1, away()), (2, failed()), (3, away()), (4, failed())];
    let expected = [(2, false, false), (4, false, true)];
    assert_eq!(
        told(command(), &policy(2, Duration::ZERO), &results),
        expected
    );
}

#[test]
fn hc9_each_type_passes_by_its_own_answer() {
    let http = || Probe::Http(HttpProbe::new(80, "/", &[]).unwrap());
    let tcp = || Probe::Tcp(TcpProbe::new(80, Family::V4).unwrap());
    let refused = ProbeResult::Refused("refused".to_owned());
    let failed = ProbeResult::Failed("garbage".to_owned());
    let cases = [
        (command(), ProbeResult::Exited(0), true),
        (command(), ProbeResult::Exited(127), false),
        (command(), failed.clone(), false),
        (http(), ProbeResult::Status(200), true),
        (http(), ProbeResult::Status(399), true),
        (http(), ProbeResult::Status(400), false),
        (http(), refused.clone(), false),
        (http(), failed, false),
        (tcp(), ProbeResult::Connected, true),
        (tcp(), refused, false),
        (tcp(), ProbeResult::TimedOut(SECOND), false),
    ];
    for (probe, result, healthy) in cases {
        let shown = format!("{probe:?} {result:?}");
        let found = told(probe, &policy(1, Duration::ZERO), &[(1, result)]);
        assert_eq!(found, [(1, healthy, !healthy)], "{shown}");
    }
}

#[derive(Clone, Debug)]
enum Op {
    Wait(u8),
    Due,
    Finish(bool),
    Transient,
    FinishAnOlderOne,
    Pause,
    Resume,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..5).prop_map(Op::Wait),
        6 => Just(Op::Due),
        6 => any::<bool>().prop_map(Op::Finish),
        1 => Just(Op::Transient),
        1 => Just(Op::FinishAnOlderOne),
        1 => Just(Op::Pause),
        1 => Just(Op::Resume),
    ]
}

proptest! {
    /// Against the rules, said over the whole history instead of step by step.
    #[test]
    fn hc22_any_history_is_told_as_the_rules_say(
        ops in prop::collection::vec(op(), 0..200),
        limit in 0u32..5,
        grace in 0u32..20,
        delay in 0u32..4,
        interval in 0u32..4,
    ) {
        let grace = SECOND * grace;
        let mut policy = policy(limit, grace);
        policy.timing.delay = SECOND * delay;
        policy.timing.interval = SECOND * interval;
        let mut state = HealthState::new(command(), &policy);
        let mut now = Duration::ZERO;
        let mut under_way: Option<Run> = None;
        let mut last_run: Option<Run> = None;
        let mut paused = false;
        // Every verdict that counted, with its time.
        let mut history: Vec<(Duration, bool)> = Vec::new();
        for op in ops {
            let mut result = None;
            let event = match op {
                Op::Wait(seconds) => {
                    now += SECOND * u32::from(seconds);
                    continue;
                }
                Op::Due => CheckerEvent::Due,
                Op::Finish(passed) => {
                    let Some(run) = under_way.or(last_run) else { continue };
                    if under_way.is_some() {
                        result = Some(passed);
                    }
                    CheckerEvent::Finished { run, result: ProbeResult::Exited(i32::from(!passed)) }
                }
                Op::Transient => {
                    let Some(run) = under_way else { continue };
                    CheckerEvent::Finished { run, result: ProbeResult::Transient(String::new()) }
                }
                Op::FinishAnOlderOne => CheckerEvent::Finished { run: Run::default(), result: ProbeResult::Exited(0) },
                Op::Pause => CheckerEvent::Pause,
                Op::Resume => CheckerEvent::Resume,
            };
            let due = state.due();
            let mut actions = Vec::new();
            state.step(event.clone(), now, &mut actions);
            let mut report = None;
            let mut began = None;
            let mut cancelled = false;
            for action in actions {
                match action {
                    CheckerAction::Probe(run) => began = Some(run),
                    CheckerAction::Cancel => cancelled = true,
                    CheckerAction::Report(told) => report = Some(told),
                }
            }
            match event {
                CheckerEvent::Due => {
                    let may = !paused && under_way.is_none() && due.is_some_and(|due| now >= due);
                    prop_assert_eq!(began.is_some(), may);
                }
                CheckerEvent::Resume => prop_assert_eq!(began.is_some(), paused),
                CheckerEvent::Pause => prop_assert_eq!(cancelled, under_way.is_some()),
                CheckerEvent::Finished { run, .. } if under_way == Some(run) => {
                    under_way = None;
                    prop_assert_eq!(state.due(), Some(now + policy.timing.interval));
                }
                CheckerEvent::Finished { .. } => prop_assert!(report.is_none(), "an older run"),
            }
            match event {
                CheckerEvent::Pause => (paused, under_way) = (true, None),
                CheckerEvent::Resume => paused = false,
                CheckerEvent::Due | CheckerEvent::Finished { .. } => {}
            }
            if let Some(run) = began {
                prop_assert!(under_way.is_none() && last_run < Some(run), "one at a time, and a new one");
                (under_way, last_run) = (Some(run), Some(run));
            }
            let Some(passed) = result else {
                prop_assert!(report.is_none());
                continue;
            };
            history.push((now, passed));
            prop_assert_eq!(report, expected(&history, limit, grace));
        }
    }
}

/// What the rules want to be told after the last verdict of a history.
fn expected(history: &[(Duration, bool)], limit: u32, grace: Duration) -> Option<HealthReport> {
    let first_success = history.iter().position(|(_, passed)| *passed);
    let counts = |index: usize| {
        let (at, passed) = history[index];
        let proven = first_success.is_some_and(|first| first < index);
        !passed && (proven || grace.is_zero() || at > grace)
    };
    let last = history.len() - 1;
    let run = |end: usize| {
        u32::try_from(
            (0..end)
                .rev()
                .take_while(|index| !history[*index].1)
                .filter(|index| counts(*index))
                .count(),
        )
        .unwrap()
    };
    if history[last].1 {
        let news = first_success == Some(last) || run(last) > 0;
        return news.then(|| HealthReport {
            healthy: true,
            kill: false,
            failures: 0,
            reason: String::new(),
        });
    }
    counts(last).then(|| HealthReport {
        healthy: false,
        kill: run(last + 1) >= limit,
        failures: run(last + 1),
        reason: "the command exited with 1".to_owned(),
    })
}
