use std::fmt::Debug;

use longshore_checkpoint::testing::check_golden;
use longshore_task_spec::logs::StreamPosition;

use super::*;
use crate::KillCause;

/// Every version of a record that was ever written is in `tests/golden/`.
fn golden<R: Record + PartialEq + Debug>(sample: &R) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(R::KIND);
    check_golden(dir, sample, 1, "0.1.0").unwrap();
}

#[test]
fn a_task_record_has_the_bytes_of_its_golden_file_and_shows_no_secret() {
    let record = TaskRecord {
        id: "web-1".to_owned(),
        name: "longshore-web-1-01234567".to_owned(),
        framework: "marathon".to_owned(),
        task: vec![10, 1, 116],
        sandbox: Some(("/sandbox".to_owned(), "/mnt/mesos/sandbox".to_owned())),
        log_owner: Some((1000, 1000)),
        task_environment: vec![("TOKEN".to_owned(), "hunter2".to_owned())],
        tell_killing: true,
        stop_signal: Some("SIGQUIT".to_owned()),
        logs: LogMode::Files,
        remove: true,
        acknowledge: Acknowledge::ByCaller,
        launched_ms: 1_790_000_000_123,
        boot_id: "6f1d5f1e-3c5b-4d0a-9f0e-0123456789ab".to_owned(),
    };
    golden(&record);
    assert!(!format!("{record:?}").contains("hunter2"));
}

#[test]
fn a_state_record_has_the_bytes_of_its_golden_file() {
    golden(&StateRecord {
        stage: Stage::Killing(KillCause::Unhealthy),
        boot_id: "6f1d5f1e-3c5b-4d0a-9f0e-0123456789ab".to_owned(),
        container: Some("c1".to_owned()),
        run: Some(1_790_000_000_123_456_789),
        process: Some((4711, 987)),
        told_running: true,
        healthy: Some(false),
        logs: LogPosition {
            stdout: StreamPosition {
                last_nanos: Some(1),
                count: 2,
                file: Some((3, 4)),
            },
            stderr: StreamPosition::default(),
        },
        pending: vec![vec![1], vec![2, 3]],
        last: Some(vec![2, 3]),
        ended_ms: Some(1_790_000_001_000),
        cleaned: false,
        kill: Some(KillRecord {
            grace_ms: 5000,
            by_ms: 1_790_000_002_000,
            signal: Some("SIGQUIT".to_owned()),
        }),
        started_by: Some(1_790_000_000_223_456_789),
    });
}

#[test]
fn a_state_of_version_1_has_no_kill_on_record() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/executor.state/v1.rec");
    let read = longshore_checkpoint::read::<StateRecord>(golden).unwrap();
    let longshore_checkpoint::Loaded::Record(state) = read else {
        panic!("{read:?}");
    };
    assert_eq!(state.stage, Stage::Killing(KillCause::Unhealthy));
    assert_eq!(
        (state.ended_ms, state.cleaned, state.kill),
        (Some(1_790_000_001_000), false, None)
    );
}

#[test]
fn what_is_left_of_a_grace_shrinks_with_the_clock_and_never_grows() {
    let kill = RecordedKill {
        left: Duration::from_secs(5),
        signal: Some("SIGINT".to_owned()),
    };
    let record = KillRecord::new(kill.clone(), 10_000);
    for (now, left) in [
        (10_000, 5000),
        (12_000, 3000),
        (15_000, 0),
        (99_000, 0),
        (1, 5000),
    ] {
        let expected = RecordedKill {
            left: Duration::from_millis(left),
            ..kill.clone()
        };
        assert_eq!(record.left(now), expected, "at {now}");
    }
}
