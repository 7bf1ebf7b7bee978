//! Records come back, and their bytes do not change.

use std::path::Path;

use longshore_checkpoint::testing::check_golden;

use super::*;

#[test]
fn a_transition_survives_its_record() {
    let transition = Transition {
        at: UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
        from: PluginState::Ready,
        to: PluginState::Backoff,
        reason: "exited with 1".to_owned(),
        exit_status: Some(256),
        stderr: vec!["panic".to_owned()],
    };
    let record = HistoryRecord {
        version: Some("v1".to_owned()),
        transitions: vec![RecordedTransition::new(&transition)],
        ..HistoryRecord::default()
    };
    let body = record.encode().unwrap();
    let back = HistoryRecord::decode(1, &body).unwrap();
    assert_eq!(back, record);
    assert_eq!(back.transitions[0].to_transition(), transition);
}

/// Every version of a record that was ever written is in `tests/golden/`.
fn golden<R: Record + PartialEq + std::fmt::Debug>(sample: &R) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(R::KIND);
    check_golden(dir, sample, 1, "0.1.0").unwrap();
}

#[test]
fn a_container_record_has_the_bytes_of_its_golden_file() {
    golden(&ContainerRecord {
        plugin: "nfs".to_owned(),
        plugin_type: "org.example.nfs".to_owned(),
        plugin_name: "default".to_owned(),
        container_id: "longshore-0123456789abcdef-org-example-nfs-default--NODE_SERVICE".to_owned(),
        info: vec![8, 2, 18, 0],
        request: vec![10, 3, 10, 1, 97],
        hash: LaunchHash::from([7; 32]),
        socket: "/run/longshore/csi/abcdefghij234567/csi.sock".to_owned(),
        uid: 65534,
        grace_ms: 5_000,
    });
}

#[test]
fn a_history_record_has_the_bytes_of_its_golden_file() {
    golden(&HistoryRecord {
        configuration: Some(LaunchHash::from([7; 32])),
        version: Some("v1".to_owned()),
        name: Some("org.example.nfs".to_owned()),
        transitions: vec![RecordedTransition::new(&Transition {
            at: UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
            from: PluginState::Ready,
            to: PluginState::Backoff,
            reason: "exited with 1".to_owned(),
            exit_status: Some(256),
            stderr: vec!["panic".to_owned()],
        })],
    });
}

#[test]
fn a_totals_record_has_the_bytes_of_its_golden_file() {
    let total = Total {
        runs: 3,
        last_exit: Some(LastExit {
            at: UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
            status: Some(9),
            text: "signal 9".to_owned(),
        }),
    };
    let id = "longshore-0123456789abcdef-org-example-nfs-default--NODE_SERVICE".to_owned();
    let recorded = RecordedTotal::new((id.clone(), total.clone()));
    assert_eq!(recorded.clone().into_total(), (id, total));
    golden(&TotalsRecord {
        containers: vec![recorded],
    });
}
