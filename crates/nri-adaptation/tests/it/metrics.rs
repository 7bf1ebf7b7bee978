//! What is counted: rows 1 to 15.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_nri_adaptation::{Adaptation, CallFailure, CloseCause, Metrics};
use longshore_nri_api::{
    ContainerAdjustment, ContainerEviction, ContainerUpdate, CreateContainerResponse, Event,
    StopContainerResponse, SynchronizeResponse, UpdateContainerResponse, event_name,
};

use crate::events::call;
use crate::fake::{Fake, Live, Node, builder, container, creation, options, pod};

/// Everything that was recorded.
#[derive(Debug, Default)]
struct Records {
    invocations: Vec<(String, String, bool)>,
    latencies: Vec<(String, String, Duration)>,
    adjustments: Vec<(String, String, Option<ContainerAdjustment>, usize, usize)>,
    counts: Vec<usize>,
    closed: Vec<(String, String)>,
    /// What came first, latency or invocation, of each call.
    order: Vec<&'static str>,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Records>>);

impl Metrics for Recorder {
    fn invocation(&self, plugin: &str, operation: &str, outcome: Result<(), &CallFailure>) {
        let mut records = self.0.lock().unwrap();
        records.order.push("invocation");
        let record = (plugin.to_owned(), operation.to_owned(), outcome.is_ok());
        records.invocations.push(record);
    }

    fn latency(&self, plugin: &str, operation: &str, latency: Duration) {
        let mut records = self.0.lock().unwrap();
        records.order.push("latency");
        records
            .latencies
            .push((plugin.to_owned(), operation.to_owned(), latency));
    }

    fn adjustments(
        &self,
        plugin: &str,
        operation: &str,
        adjustment: Option<&ContainerAdjustment>,
        updates: usize,
        evictions: usize,
    ) {
        let record = (
            plugin.to_owned(),
            operation.to_owned(),
            adjustment.cloned(),
            updates,
            evictions,
        );
        self.0.lock().unwrap().adjustments.push(record);
    }

    fn plugin_count(&self, active: usize) {
        self.0.lock().unwrap().counts.push(active);
    }

    fn closed(&self, plugin: &str, cause: &CloseCause) {
        self.0
            .lock()
            .unwrap()
            .closed
            .push((plugin.to_owned(), cause.to_string()));
    }
}

fn updates(count: usize) -> Vec<ContainerUpdate> {
    (0..count)
        .map(|number| ContainerUpdate::new(format!("other{number}")))
        .collect()
}

fn evictions(count: usize) -> Vec<ContainerEviction> {
    (0..count)
        .map(|number| ContainerEviction::new(format!("other{number}"), "why"))
        .collect()
}

/// The plugin of the setup: subscribed to everything, with updates and evictions in its answers.
async fn measured() -> (Recorder, Adaptation, Live) {
    let recorder = Recorder::default();
    let adaptation = builder()
        .metrics(recorder.clone())
        .start(Node::with(1, 1))
        .await
        .unwrap();
    let plugin = Fake::new("00-test-plugin")
        .bits(0)
        .on("Synchronize", |_| async {
            Ok(SynchronizeResponse {
                update: updates(1),
                more: false,
            })
        })
        .on("CreateContainer", |_| async {
            Ok(CreateContainerResponse {
                adjust: Some(ContainerAdjustment::default()),
                update: updates(1),
                evict: evictions(1),
            })
        })
        .on("UpdateContainer", |_| async {
            Ok(UpdateContainerResponse {
                update: updates(1),
                evict: evictions(2),
            })
        })
        .on("StopContainer", |_| async {
            Ok(StopContainerResponse { update: updates(1) })
        })
        .join(&adaptation)
        .await;
    (recorder, adaptation, plugin)
}

/// One record of each call; `adjustments` are the counts that are expected.
fn check(records: &Records, operation: &str, adjustments: Option<(bool, usize, usize)>) {
    let name = "00-test-plugin";
    let invocations: Vec<_> = records
        .invocations
        .iter()
        .filter(|it| it.1 == operation)
        .collect();
    assert_eq!(
        invocations,
        [&(name.to_owned(), operation.to_owned(), true)]
    );
    let latencies: Vec<_> = records
        .latencies
        .iter()
        .filter(|it| it.1 == operation)
        .collect();
    let [(plugin, _, latency)] = latencies[..] else {
        panic!("one latency of {operation}: {latencies:?}")
    };
    assert_eq!(plugin, name);
    assert!(*latency > Duration::ZERO);
    let found: Vec<_> = records
        .adjustments
        .iter()
        .filter(|it| it.1 == operation)
        .map(|(plugin, _, adjust, updates, evictions)| {
            assert_eq!(plugin, name);
            (adjust.is_some(), *updates, *evictions)
        })
        .collect();
    assert_eq!(found, adjustments.into_iter().collect::<Vec<_>>());
}

macro_rules! rows {
    ($($name:ident: $event:ident, $adjustments:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let (recorder, adaptation, _plugin) = measured().await;
            call(&adaptation, Event::$event, &pod(0), &container(0)).await;
            check(&recorder.0.lock().unwrap(), event_name(Event::$event), $adjustments);
        }
    )*};
}

rows! {
    row_002_metrics_of_run_pod_sandbox: RunPodSandbox, None;
    row_003_metrics_of_update_pod_sandbox: UpdatePodSandbox, None;
    row_004_metrics_of_post_update_pod_sandbox: PostUpdatePodSandbox, None;
    row_005_metrics_of_stop_pod_sandbox: StopPodSandbox, None;
    row_006_metrics_of_remove_pod_sandbox: RemovePodSandbox, None;
    row_007_metrics_of_create_container: CreateContainer, Some((true, 1, 1));
    row_008_metrics_of_post_create_container: PostCreateContainer, None;
    row_009_metrics_of_start_container: StartContainer, None;
    row_010_metrics_of_post_start_container: PostStartContainer, None;
    row_011_metrics_of_update_container: UpdateContainer, Some((false, 1, 2));
    row_012_metrics_of_post_update_container: PostUpdateContainer, None;
    row_013_metrics_of_stop_container: StopContainer, Some((false, 1, 0));
    row_014_metrics_of_remove_container: RemoveContainer, None;
}

#[tokio::test]
async fn row_001_metrics_of_synchronize() {
    let (recorder, _adaptation, _plugin) = measured().await;
    let records = recorder.0.lock().unwrap();
    check(&records, "Synchronize", Some((false, 1, 0)));
    assert!(
        records.invocations.iter().all(|it| it.1 != "Configure"),
        "it is not recorded"
    );
}

#[tokio::test]
async fn row_015_metrics_of_validation_latency_before_invocation_and_the_count_of_plugins() {
    let (recorder, adaptation, plugin) = measured().await;
    adaptation
        .create_container(creation(0), &options())
        .await
        .unwrap();
    {
        let records = recorder.0.lock().unwrap();
        check(&records, "ValidateContainerAdjustment", None);
        assert_eq!(records.counts.last(), Some(&1));
        assert!(
            records
                .order
                .chunks(2)
                .all(|pair| pair == ["latency", "invocation"])
        );
    }
    assert_eq!(adaptation.remove_plugin("test-plugin"), 1);
    plugin.closed().await;
    let records = recorder.0.lock().unwrap();
    assert_eq!(records.counts.last(), Some(&0));
    let removed = (
        "00-test-plugin".to_owned(),
        "the operator removed it".to_owned(),
    );
    assert_eq!(records.closed, [removed]);
}
