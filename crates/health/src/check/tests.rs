use super::*;
use crate::{CommandProbe, Family, HttpProbe, TcpProbe};

fn command() -> Probe {
    Probe::Command(CommandProbe::shell("true").unwrap())
}

/// What is told, result by result.
fn told(probe: &Probe, results: Vec<ProbeResult>) -> Vec<Option<CheckStatus>> {
    let mut state = CheckState::new(probe, &Timing::default());
    results
        .into_iter()
        .map(|result| {
            let mut actions = Vec::new();
            let due = state.due().unwrap();
            state.step(CheckerEvent::Due, due, &mut actions);
            let [CheckerAction::Probe(run)] = actions[..] else {
                panic!("{actions:?}");
            };
            actions.clear();
            state.step(CheckerEvent::Finished { run, result }, due, &mut actions);
            match actions[..] {
                [] => None,
                [CheckerAction::Report(status)] => {
                    assert_eq!(state.status(), status);
                    Some(status)
                }
                ref other => panic!("{other:?}"),
            }
        })
        .collect()
}

#[test]
fn hc13_a_check_begins_typed_and_empty_then_tells_the_exit_code() {
    let state = CheckState::new(&command(), &Timing::default());
    assert_eq!(state.status(), CheckStatus::Command(None));
    let found = told(&command(), vec![ProbeResult::Exited(1)]);
    assert_eq!(found, [Some(CheckStatus::Command(Some(1)))]);
}

#[test]
fn hc14_only_changes_are_told() {
    let exits = [1, 1, 0, 0, 1].map(ProbeResult::Exited).to_vec();
    let code = |code| Some(CheckStatus::Command(Some(code)));
    assert_eq!(
        told(&command(), exits),
        [code(1), None, code(0), None, code(1)]
    );
}

#[test]
fn hc15_a_timeout_or_an_error_leads_back_to_the_empty_status() {
    let timed_out = || ProbeResult::TimedOut(Duration::from_secs(1));
    let results = vec![
        timed_out(),
        ProbeResult::Exited(3),
        timed_out(),
        ProbeResult::Signaled(9),
        ProbeResult::Exited(3),
        ProbeResult::Failed("no such container".to_owned()),
    ];
    let three = Some(CheckStatus::Command(Some(3)));
    let empty = Some(CheckStatus::Command(None));
    assert_eq!(
        told(&command(), results),
        [None, three, empty, None, three, empty]
    );
}

#[test]
fn hc15_a_transient_failure_tells_and_changes_nothing() {
    let results = vec![
        ProbeResult::Exited(3),
        ProbeResult::Transient("the engine is away".to_owned()),
        ProbeResult::Exited(3),
    ];
    let three = Some(CheckStatus::Command(Some(3)));
    assert_eq!(told(&command(), results), [three, None, None]);
}

#[test]
fn hc17_http_is_absent_until_there_is_a_status() {
    let probe = Probe::Http(HttpProbe::new(80, "/", &[]).unwrap());
    let refused = || ProbeResult::Failed("refused".to_owned());
    let results = vec![
        refused(),
        ProbeResult::Status(200),
        ProbeResult::Status(503),
        refused(),
    ];
    let status = |status| Some(CheckStatus::Http(Some(status)));
    let expected = [
        None,
        status(200),
        status(503),
        Some(CheckStatus::Http(None)),
    ];
    assert_eq!(told(&probe, results), expected);
}

#[test]
fn hc17_tcp_is_false_and_then_true() {
    let probe = Probe::Tcp(TcpProbe::new(80, Family::V4).unwrap());
    let refused = || ProbeResult::Refused("refused".to_owned());
    let results = vec![refused(), refused(), ProbeResult::Connected];
    let tcp = |succeeded| Some(CheckStatus::Tcp(Some(succeeded)));
    assert_eq!(told(&probe, results), [tcp(false), None, tcp(true)]);
}
