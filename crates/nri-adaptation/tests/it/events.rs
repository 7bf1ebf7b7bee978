//! Events, subscriptions and their order: rows 25 to 46.

use std::sync::{Arc, Mutex};

use longshore_nri_adaptation::{Adaptation, Compat};
use longshore_nri_api::{
    Container, Empty, Event, PodSandbox, StopContainerRequest, UpdateContainerRequest,
    UpdatePodSandboxRequest, event_name,
};

use crate::fake::{Fake, Node, adaptation, builder, container, creation, options, pod};

/// The thirteen events in the order of a life.
const LIFE: [Event; 13] = [
    Event::RunPodSandbox,
    Event::UpdatePodSandbox,
    Event::PostUpdatePodSandbox,
    Event::CreateContainer,
    Event::PostCreateContainer,
    Event::StartContainer,
    Event::PostStartContainer,
    Event::UpdateContainer,
    Event::PostUpdateContainer,
    Event::StopContainer,
    Event::RemoveContainer,
    Event::StopPodSandbox,
    Event::RemovePodSandbox,
];

const CONTAINER_EVENTS: &[Event] = &[
    Event::CreateContainer,
    Event::PostCreateContainer,
    Event::StartContainer,
    Event::PostStartContainer,
    Event::UpdateContainer,
    Event::PostUpdateContainer,
    Event::StopContainer,
    Event::RemoveContainer,
];

/// One call of the life cycle.
pub(crate) async fn call(
    adaptation: &Adaptation,
    event: Event,
    pod: &PodSandbox,
    container: &Container,
) {
    let (o, pod_of, it) = (options(), Some(pod.clone()), Some(container.clone()));
    match event {
        Event::RunPodSandbox => adaptation.run_pod_sandbox(pod, &o).await.unwrap(),
        Event::UpdatePodSandbox => {
            let request = UpdatePodSandboxRequest {
                pod: pod_of,
                ..Default::default()
            };
            adaptation.update_pod_sandbox(request, &o).await.unwrap();
        }
        Event::PostUpdatePodSandbox => adaptation.post_update_pod_sandbox(pod, &o).await.unwrap(),
        Event::CreateContainer => {
            let request = longshore_nri_api::CreateContainerRequest {
                pod: pod_of,
                container: it,
            };
            adaptation.create_container(request, &o).await.unwrap();
        }
        Event::PostCreateContainer => {
            adaptation
                .post_create_container(pod, container, &o)
                .await
                .unwrap();
        }
        Event::StartContainer => adaptation
            .start_container(pod, container, &o)
            .await
            .unwrap(),
        Event::PostStartContainer => {
            adaptation
                .post_start_container(pod, container, &o)
                .await
                .unwrap();
        }
        Event::UpdateContainer => {
            let request = UpdateContainerRequest {
                pod: pod_of,
                container: it,
                ..Default::default()
            };
            adaptation.update_container(request, &o).await.unwrap();
        }
        Event::PostUpdateContainer => {
            adaptation
                .post_update_container(pod, container, &o)
                .await
                .unwrap();
        }
        Event::StopContainer => {
            let request = StopContainerRequest {
                pod: pod_of,
                container: it,
            };
            adaptation.stop_container(request, &o).await.unwrap();
        }
        Event::RemoveContainer => adaptation
            .remove_container(pod, container, &o)
            .await
            .unwrap(),
        Event::StopPodSandbox => adaptation.stop_pod_sandbox(pod, &o).await.unwrap(),
        Event::RemovePodSandbox => adaptation.remove_pod_sandbox(pod, &o).await.unwrap(),
        Event::ValidateContainerAdjustment | Event::Unknown | Event::Last => unreachable!(),
    }
}

pub(crate) async fn life(adaptation: &Adaptation, number: usize) {
    for event in LIFE {
        call(adaptation, event, &pod(number), &container(number)).await;
    }
}

/// Exactly the events of the subscription arrive, in the order in which they happen.
async fn one_plugin(events: &[Event]) {
    let adaptation = adaptation().await;
    let plugin = Fake::new("00-test").events(events).join(&adaptation).await;
    life(&adaptation, 0).await;
    let mut expected = vec!["Configure", "Synchronize"];
    expected.extend(
        LIFE.iter()
            .filter(|event| events.contains(event))
            .map(|it| event_name(*it)),
    );
    assert_eq!(plugin.methods(), expected);
}

macro_rules! rows {
    ($($name:ident: $events:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            one_plugin($events).await;
        }
    )*};
}

rows! {
    row_026_one_plugin_gets_run_pod_sandbox_alone: &[Event::RunPodSandbox];
    row_027_one_plugin_gets_update_pod_sandbox_alone: &[Event::UpdatePodSandbox];
    row_028_one_plugin_gets_post_update_pod_sandbox_alone: &[Event::PostUpdatePodSandbox];
    row_029_one_plugin_gets_stop_pod_sandbox_alone: &[Event::StopPodSandbox];
    row_030_one_plugin_gets_remove_pod_sandbox_alone: &[Event::RemovePodSandbox];
    row_031_one_plugin_gets_create_container_alone: &[Event::CreateContainer];
    row_032_one_plugin_gets_post_create_container_alone: &[Event::PostCreateContainer];
    row_033_one_plugin_gets_start_container_alone: &[Event::StartContainer];
    row_034_one_plugin_gets_post_start_container_alone: &[Event::PostStartContainer];
    row_035_one_plugin_gets_update_container_alone: &[Event::UpdateContainer];
    row_036_one_plugin_gets_post_update_container_alone: &[Event::PostUpdateContainer];
    row_037_one_plugin_gets_stop_container_alone: &[Event::StopContainer];
    row_038_one_plugin_gets_remove_container_alone: &[Event::RemoveContainer];
    row_039_one_plugin_gets_the_pod_events: &[
        Event::RunPodSandbox,
        Event::UpdatePodSandbox,
        Event::PostUpdatePodSandbox,
        Event::StopPodSandbox,
        Event::RemovePodSandbox,
    ];
    row_040_one_plugin_gets_the_container_requests: &[
        Event::CreateContainer,
        Event::UpdateContainer,
        Event::StopContainer,
    ];
    row_041_one_plugin_gets_container_requests_and_events: CONTAINER_EVENTS;
    row_042_one_plugin_gets_everything: &LIFE;
}

#[tokio::test]
async fn row_025_without_plugins_every_call_succeeds() {
    let adaptation = adaptation().await;
    life(&adaptation, 0).await;
    life(&adaptation, 1).await;
    assert!(adaptation.plugins().is_empty());
}

/// The names of the plugins in the order in which they answered each event.
async fn three_plugins(compat: Compat, events: &[Event]) -> Vec<(&'static str, Vec<String>)> {
    let adaptation = builder()
        .compat(compat)
        .start(Node::with(2, 2))
        .await
        .unwrap();
    let order: Arc<Mutex<Vec<(&'static str, String)>>> = Arc::default();
    let mut plugins = Vec::new();
    for name in ["20-test", "99-foo", "00-bar"] {
        let mut fake = Fake::new(name).events(events);
        for event in events {
            let (order, method) = (Arc::clone(&order), event_name(*event));
            fake = fake.on(method, move |_| {
                order.lock().unwrap().push((method, name.to_owned()));
                async { Ok(Empty {}) }
            });
        }
        plugins.push(fake.join(&adaptation).await);
    }
    let names: Vec<_> = adaptation
        .plugins()
        .into_iter()
        .map(|plugin| plugin.name)
        .collect();
    assert_eq!(names, ["00-bar", "20-test", "99-foo"]);
    for event in events {
        call(&adaptation, *event, &pod(0), &container(0)).await;
    }
    let order = order.lock().unwrap();
    let of = |method| {
        let of_method = order.iter().filter(move |(called, _)| *called == method);
        of_method.map(|(_, name)| name.clone()).collect()
    };
    events
        .iter()
        .map(|event| (event_name(*event), of(event_name(*event))))
        .collect()
}

async fn order(events: &[Event]) {
    let expected = ["00-bar", "20-test", "99-foo"];
    for compat in [Compat::Correct, Compat::GoAdaptation] {
        for (method, mut names) in three_plugins(compat, events).await {
            let in_turn = [
                "CreateContainer",
                "UpdateContainer",
                "StopContainer",
                "UpdatePodSandbox",
            ]
            .contains(&method);
            if !in_turn && compat == Compat::Correct {
                names.sort();
            }
            assert_eq!(names, expected, "{method} {compat:?}");
        }
    }
}

#[tokio::test]
async fn row_044_three_plugins_are_asked_in_order_of_their_index() {
    let requests = [
        Event::CreateContainer,
        Event::StartContainer,
        Event::UpdateContainer,
        Event::StopContainer,
        Event::RemoveContainer,
    ];
    order(&requests).await;
}

#[tokio::test]
async fn row_045_three_plugins_get_container_requests_and_events_in_order() {
    order(CONTAINER_EVENTS).await;
}

#[tokio::test]
async fn row_046_three_plugins_get_everything_in_order() {
    order(&LIFE).await;
}

#[tokio::test]
async fn row_043_a_plugin_without_a_mask_gets_everything_but_validates_too() {
    let adaptation = adaptation().await;
    let plugin = Fake::new("00-test").bits(0).join(&adaptation).await;
    adaptation
        .create_container(creation(0), &options())
        .await
        .unwrap();
    assert_eq!(
        plugin.methods(),
        [
            "Configure",
            "Synchronize",
            "CreateContainer",
            "ValidateContainerAdjustment"
        ]
    );
}
