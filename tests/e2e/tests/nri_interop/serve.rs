//! A plugin on the Go stub at a runtime that a script drives.

use std::time::Duration;

use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_simulate::{Case, Outcome, Serving, Site, Step, StepReport};
use serde_json::{Value, json};

use crate::peer;

const PATIENCE: Duration = Duration::from_secs(60);

async fn perform(serving: &mut Serving, step: &Value) -> StepReport {
    let step = Step::parse(&step.to_string(), "a step", 1).unwrap();
    let report = serving.perform(1, &step, 1).await;
    assert!(report.problems.is_empty(), "{report:?}");
    report
}

#[tokio::test]
async fn a_script_drives_a_go_plugin() {
    let Some(program) = peer::program("nri-plugin").await else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let case = "policy: {request_timeout_ms: 60000}\npods: [{id: p0}]\n";
    let case = Case::parse(case, "case").unwrap();
    let site = Site::new(SocketOptions::new(&socket));
    let mut serving = Serving::start(case, site, PATIENCE).await.unwrap();
    let spec = json!({"adjust": {"env": [{"key": "A", "value": "1"}]}});
    let mut plugin = peer::plugin(&program, &socket, "10-go", &spec);
    perform(
        &mut serving,
        &json!({"action": "wait-for-plugin", "plugin": "10-go"}),
    )
    .await;
    let create = json!({"event": "CreateContainer", "pod": "p0", "container": {"id": "c0"}});
    let created = perform(&mut serving, &create).await;
    let Outcome::Created { adjustment, .. } = &created.outcome else {
        panic!("{created:?}");
    };
    assert_eq!(adjustment.env[0].key, "A");
    perform(
        &mut serving,
        &json!({"event": "StopContainer", "container": "c0"}),
    )
    .await;
    let stopped = plugin.event("StopContainer").await;
    assert_eq!(stopped["container"], "c0", "{stopped}");
    perform(
        &mut serving,
        &json!({"action": "remove-plugin", "plugin": "go"}),
    )
    .await;
    perform(
        &mut serving,
        &json!({"action": "wait-until-gone", "plugin": "go"}),
    )
    .await;
    serving.close().await;
}
