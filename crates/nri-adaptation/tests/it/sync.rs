//! Synchronize, in parts and while things go on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_nri_adaptation::{
    Adaptation, ChangeCause, CloseCause, Limits, Metrics, NodeState, PluginState,
};
use longshore_nri_api::{
    Container, ContainerAdjustment, ContainerState, ContainerUpdate, CreateContainerRequest,
    CreateContainerResponse, RunPodSandboxRequest, SynchronizeRequest, SynchronizeResponse,
};
use prost::Message;
use tokio::time::sleep;

use crate::fake::{
    Fake, Gate, Live, Node, adaptation, builder, container, creation, options, pod, present, soon,
};
use crate::order::{adds_env, create, env};

/// Reasons for which plugins were closed.
#[derive(Clone, Default)]
pub(crate) struct Closed(Arc<Mutex<Vec<(String, String)>>>);

impl Metrics for Closed {
    fn closed(&self, plugin: &str, cause: &CloseCause) {
        self.0
            .lock()
            .unwrap()
            .push((plugin.to_owned(), cause.to_string()));
    }
}

impl Closed {
    pub(crate) fn reasons(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().clone()
    }
}

/// A plugin whose Synchronize waits at the gate, registered and arrived there.
async fn syncing(fake: Fake, adaptation: &Adaptation) -> (Live, Gate) {
    let gate = Gate::default();
    let waiting = gate.clone();
    let fake = fake.on("Synchronize", move |_| {
        let gate = waiting.clone();
        async move {
            gate.pass().await;
            Ok(SynchronizeResponse::default())
        }
    });
    let live = fake.attach(adaptation);
    live.register().await.unwrap();
    gate.arrived(1).await;
    (live, gate)
}

#[tokio::test]
async fn events_wait_for_synchronize_and_requests_do_not() {
    let node = Node::with(2, 2);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let plugin = Fake::new("00-slow").on("CreateContainer", |_| async {
        let adjust = adds_env("TOO_LATE").adjust;
        let update = vec![ContainerUpdate::new("ctr1")];
        Ok(CreateContainerResponse {
            adjust,
            update,
            evict: Vec::new(),
        })
    });
    let (plugin, gate) = syncing(plugin, &adaptation).await;
    assert_eq!(adaptation.plugins()[0].state, PluginState::Synchronizing);
    // The runtime waits for nothing.
    soon(adaptation.run_pod_sandbox(&pod(7), &options()))
        .await
        .unwrap();
    let created = create(&adaptation, 7).await.unwrap();
    assert_eq!(created, ContainerAdjustment::default());
    soon(adaptation.start_container(&pod(7), &container(7), &options()))
        .await
        .unwrap();
    assert_eq!(
        plugin.methods(),
        ["Configure", "Synchronize"],
        "nothing before it returned"
    );
    assert_eq!(adaptation.plugins()[0].queued, 3);

    gate.open();
    soon(adaptation.active("slow")).await;
    let expected = [
        "Configure",
        "Synchronize",
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
    ];
    assert_eq!(plugin.methods(), expected);
    let told = plugin.requests::<RunPodSandboxRequest>("RunPodSandbox");
    assert_eq!(told[0].pod, Some(pod(7)));
    let [applied] = &node.applied()[..] else {
        panic!("its updates count all the same")
    };
    assert_eq!(applied.cause, ChangeCause::Late);
    assert_eq!(applied.updates, [ContainerUpdate::new("ctr1")]);

    create(&adaptation, 8).await.unwrap();
    assert_eq!(
        plugin.methods().last().map(String::as_str),
        Some("CreateContainer")
    );
}

#[tokio::test]
async fn what_the_snapshot_shows_is_not_told_again() {
    let node = Node::with(0, 0);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let gate = node.hold_snapshots();
    let plugin = Fake::new("00-a").attach(&adaptation);
    plugin.register().await.unwrap();
    gate.arrived(1).await;
    // Both happen before the snapshot is complete; the first shows in it.
    for number in [1, 2] {
        adaptation
            .run_pod_sandbox(&pod(number), &options())
            .await
            .unwrap();
        create(&adaptation, number).await.unwrap();
    }
    let mut created = container(1);
    created.state = ContainerState::ContainerCreated as i32;
    node.set(NodeState {
        pods: vec![pod(1)],
        containers: vec![created],
    });
    gate.open();
    soon(adaptation.active("a")).await;
    let pods: Vec<_> = plugin.requests::<RunPodSandboxRequest>("RunPodSandbox");
    let containers: Vec<_> = plugin.requests::<CreateContainerRequest>("CreateContainer");
    assert_eq!(pods, [RunPodSandboxRequest { pod: Some(pod(2)) }]);
    assert_eq!(containers.len(), 1);
    assert_eq!(
        containers[0].container.as_ref().map(|it| it.id.as_str()),
        Some("ctr2")
    );
}

#[tokio::test]
async fn a_request_that_is_under_way_is_shown_to_a_plugin_that_becomes_active_meanwhile() {
    let adaptation = adaptation().await;
    let gate = Gate::default();
    let waiting = gate.clone();
    let first = Fake::new("10-first").on("CreateContainer", move |_| {
        let gate = waiting.clone();
        async move {
            gate.pass().await;
            Ok(adds_env("FIRST"))
        }
    });
    let _first = first.join(&adaptation).await;
    let creating = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move { create(&adaptation, 0).await })
    };
    gate.arrived(1).await;
    let second = Fake::new("00-second").on("CreateContainer", |_| async { Ok(adds_env("SECOND")) });
    let _second = second.join(&adaptation).await;
    gate.open();
    assert_eq!(env(&creating.await.unwrap().unwrap()), ["FIRST", "SECOND"]);
}

#[tokio::test]
async fn more_events_than_are_kept_close_the_plugin() {
    let (closed, mut limits) = (Closed::default(), Limits::default());
    limits.kept_events = 2;
    let adaptation = builder()
        .limits(limits)
        .metrics(closed.clone())
        .start(Node::default())
        .await
        .unwrap();
    let (plugin, _gate) = syncing(Fake::new("00-slow"), &adaptation).await;
    for _ in 0..3 {
        adaptation
            .run_pod_sandbox(&pod(0), &options())
            .await
            .unwrap();
    }
    plugin.closed().await;
    let reason = "it was synchronized so slowly that more than 2 events came";
    soon(async {
        while closed.reasons().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        closed.reasons(),
        [("00-slow".to_owned(), reason.to_owned())]
    );
}

fn large(count: usize, length: usize) -> Node {
    let containers = (0..count).map(|number| Container {
        status_message: "x".repeat(length),
        ..container(number)
    });
    let node = Node::default();
    node.set(NodeState {
        pods: vec![pod(0), pod(1)],
        containers: containers.collect(),
    });
    node
}

/// Answers a Synchronize as a plugin that knows of parts.
fn in_parts(request: &[u8]) -> SynchronizeResponse {
    let more = SynchronizeRequest::decode(request).unwrap().more;
    SynchronizeResponse {
        more,
        update: Vec::new(),
    }
}

#[tokio::test]
async fn row_272_a_large_node_is_told_in_parts_of_which_all_but_the_last_say_so() {
    let adaptation = builder().start(large(20, 600 << 10)).await.unwrap();
    let plugin = Fake::new("00-a").join(&adaptation).await;
    let parts = plugin.requests::<SynchronizeRequest>("Synchronize");
    let more: Vec<bool> = parts.iter().map(|part| part.more).collect();
    assert_eq!(more, [true, true, true, false]);
    let pods: usize = parts.iter().map(|part| part.pods.len()).sum();
    let ids: Vec<_> = parts
        .iter()
        .flat_map(|part| &part.containers)
        .map(|it| &it.id)
        .collect();
    assert_eq!((pods, ids.len()), (2, 20));
    assert!((0..20).all(|number| *ids[number] == format!("ctr{number}")));
    assert!(parts.iter().all(|part| part.encoded_len() <= 4 << 20));
}

#[tokio::test(start_paused = true)]
async fn each_part_has_its_own_time() {
    let adaptation = builder().start(large(20, 600 << 10)).await.unwrap();
    let plugin = Fake::new("00-a")
        .on("Synchronize", |request| async move {
            sleep(Duration::from_millis(1900)).await;
            Ok(in_parts(&request))
        })
        .join(&adaptation)
        .await;
    assert!(plugin.is_open(), "four parts took almost eight seconds");
}

#[tokio::test]
async fn an_object_that_fits_in_no_message_closes_the_plugin_and_is_named() {
    let closed = Closed::default();
    let adaptation = builder()
        .metrics(closed.clone())
        .start(large(1, 5 << 20))
        .await
        .unwrap();
    let plugin = Fake::new("00-a").attach(&adaptation);
    plugin.register().await.unwrap();
    plugin.closed().await;
    let reasons = closed.reasons();
    assert!(
        reasons[0].1.starts_with(r#"container "ctr0" has 52"#),
        "{reasons:?}"
    );
}

#[tokio::test]
async fn a_plugin_that_lies_about_more_or_updates_too_early_is_closed() {
    let update = || vec![ContainerUpdate::new("ctr0")];
    for (part, answer) in [
        (
            1,
            SynchronizeResponse {
                more: false,
                update: Vec::new(),
            },
        ),
        (
            1,
            SynchronizeResponse {
                more: true,
                update: update(),
            },
        ),
        (
            4,
            SynchronizeResponse {
                more: true,
                update: Vec::new(),
            },
        ),
    ] {
        let (closed, node) = (Closed::default(), large(20, 600 << 10));
        let adaptation = builder()
            .metrics(closed.clone())
            .start(node.clone())
            .await
            .unwrap();
        let seen = Arc::new(Mutex::new(0));
        let plugin = Fake::new("00-liar").on("Synchronize", move |request| {
            let mut seen = seen.lock().unwrap();
            *seen += 1;
            let reply = if *seen == part {
                answer.clone()
            } else {
                in_parts(&request)
            };
            async move { Ok(reply) }
        });
        let plugin = plugin.attach(&adaptation);
        plugin.register().await.unwrap();
        plugin.closed().await;
        let reasons = closed.reasons();
        let expected = format!("part {part} of 4 was answered as if it were the last");
        assert!(reasons[0].1.contains(&expected), "{reasons:?}");
        assert!(node.applied().is_empty());
        let reason = adaptation.plugins().remove(0).closed.unwrap().reason;
        assert!(reason.contains(&expected), "{reason}");
    }
}

#[tokio::test]
async fn updates_of_a_synchronized_plugin_are_applied_before_it_is_active() {
    let node = Node::with(1, 1);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let _plugin = Fake::new("00-a")
        .on("Synchronize", |_| async {
            Ok(SynchronizeResponse {
                update: vec![ContainerUpdate::new("ctr0")],
                more: false,
            })
        })
        .join(&adaptation)
        .await;
    let applied = node.applied();
    assert_eq!(applied.len(), 1);
    assert_eq!(applied[0].cause, ChangeCause::Synchronize);
    assert_eq!(applied[0].plugin.to_string(), "00-a");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_fails_or_hangs_in_configure_or_synchronize_is_closed_alone() {
    let adaptation = adaptation().await;
    let good = Fake::new("00-good").join(&adaptation).await;
    let broken = longshore_ttrpc::Status::new(longshore_ttrpc::Code::Unknown, "no");
    for fake in [
        Fake::new("10-a").hangs("Configure"),
        Fake::new("10-b").hangs("Synchronize"),
        Fake::new("10-c").fails("Configure", broken.clone()),
        Fake::new("10-d").fails("Synchronize", broken.clone()),
        Fake::new("10-e").raw("Configure", vec![0xff; 9]),
        Fake::new("10-f").raw("Synchronize", vec![0x0a, 0x05, 0x01]),
    ] {
        let plugin = fake.attach(&adaptation);
        plugin.register().await.unwrap();
        plugin.closed().await;
    }
    assert!(good.is_open());
    assert_eq!(present(&adaptation).len(), 1);
    assert_eq!(
        adaptation.plugins().len(),
        7,
        "with why the others were closed"
    );
    adaptation
        .create_container(creation(0), &options())
        .await
        .unwrap();
}
