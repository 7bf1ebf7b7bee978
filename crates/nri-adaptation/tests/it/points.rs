//! What a better adaptation than Go's has to do: the ten points.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_nri_adaptation::{Compat, PluginState, RequestError};
use longshore_nri_api::{
    ConfigureResponse, ContainerEviction, ContainerUpdate, CreateContainerRequest,
    CreateContainerResponse, Empty, Event, LinuxDevice, LinuxResources, SynchronizeResponse,
    UpdateContainerRequest, UpdateContainerResponse, UpdateContainersRequest, service,
};
use longshore_ttrpc::{CallError, Code, Status};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::events::life;
use crate::fake::{
    Fake, Gate, Node, adaptation, builder, container, creation, defaults, mask, options, pod, soon,
};
use crate::order::{adds_env, create, env};
use crate::raw::Raw;

#[tokio::test(start_paused = true)]
async fn point_01_fifty_silent_connections_do_not_delay_a_good_plugin() {
    let adaptation = defaults().start(Node::with(2, 2)).await.unwrap();
    let silent: Vec<_> = (0..50).map(|_| Raw::attach(&adaptation)).collect();
    let began = Instant::now();
    let _good = Fake::new("10-good").join(&adaptation).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "no timer had to run out");
    create(&adaptation, 0).await.unwrap();
    for raw in silent {
        raw.closed().await;
    }
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn row_259_an_idle_connection_does_not_delay_a_good_plugin() {
    let adaptation = adaptation().await;
    let _idle = Raw::attach(&adaptation);
    let began = Instant::now();
    let _good = Fake::new("10-good").join(&adaptation).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn point_02_no_bytes_of_a_peer_panic_or_touch_another_plugin(
        frames in proptest::collection::vec(
            (prop_oneof![Just(1_u32), Just(2), any::<u32>()], proptest::collection::vec(any::<u8>(), 0..200)),
            0..8,
        ),
        tail in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let adaptation = adaptation().await;
            let good = Fake::new("10-good").join(&adaptation).await;
            let mut raw = Raw::attach(&adaptation);
            for (connection, payload) in frames {
                raw.send(&crate::raw::mux(connection, &payload)).await;
            }
            raw.send(&tail).await;
            raw.closed().await;
            create(&adaptation, 0).await.unwrap();
            assert!(good.is_open());
            assert_eq!(adaptation.plugins().len(), 1);
        });
    }
}

#[tokio::test]
async fn point_02_what_a_registered_peer_answers_is_bounded_before_it_is_decoded() {
    let adaptation = adaptation().await;
    let events = mask(&[Event::CreateContainer]);
    let bomb = [0x12, 0x00].repeat((4 << 20) / 2 - 16);
    let plugin = Fake::new("10-bomb")
        .bits(events)
        .raw("CreateContainer", bomb);
    let plugin = plugin.join(&adaptation).await;
    let refused = create(&adaptation, 0).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    plugin.closed().await;
}

#[tokio::test]
async fn point_03_pods_run_in_parallel_each_in_order_and_handlers_may_update() {
    let node = Node::with(8, 8);
    let mut parallel = longshore_nri_adaptation::PluginPolicy::default();
    parallel.serial = false;
    let adaptation = builder()
        .policy("a", parallel)
        .start(node.clone())
        .await
        .unwrap();
    let gate = Gate::default();
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let (waiting, seen) = (gate.clone(), Arc::clone(&order));
    let started = Arc::clone(&order);
    let plugin = Fake::new("00-a")
        .on("CreateContainer", move |request| {
            let gate = waiting.clone();
            let id = id_of(&request);
            seen.lock().unwrap().push(format!("create {id}"));
            async move {
                gate.pass().await;
                Ok(adds_env("A"))
            }
        })
        .on("StartContainer", move |request| {
            started
                .lock()
                .unwrap()
                .push(format!("start {}", id_of(&request)));
            async { Ok(Empty {}) }
        })
        .join(&adaptation)
        .await;
    let mut tasks = Vec::new();
    for number in 0..8 {
        let creating = adaptation.clone();
        tasks.push(tokio::spawn(async move {
            create(&creating, number).await.map(drop)
        }));
    }
    gate.arrived(8).await;
    for number in 0..8 {
        let starting = adaptation.clone();
        tasks.push(tokio::spawn(async move {
            starting
                .start_container(&pod(number), &container(number), &options())
                .await
        }));
    }
    // While all of that is under way.
    let update = UpdateContainersRequest {
        update: vec![ContainerUpdate::new("ctr3")],
        evict: Vec::new(),
    };
    assert!(plugin.update(&update).await.unwrap().failed.is_empty());
    assert_eq!(node.applied().len(), 1);
    gate.open();
    for task in tasks {
        soon(task).await.unwrap().unwrap();
    }
    let order = order.lock().unwrap();
    for number in 0..8 {
        let place = |what: &str| {
            order
                .iter()
                .position(|it| *it == format!("{what} ctr{number}"))
        };
        assert!(place("create") < place("start"), "{order:?}");
    }
}

fn id_of(request: &[u8]) -> String {
    use prost::Message;
    CreateContainerRequest::decode(request)
        .unwrap()
        .container
        .unwrap()
        .id
}

#[tokio::test]
async fn point_04_registration_blocks_no_request_and_loses_no_event() {
    let adaptation = builder().start(Node::with(0, 0)).await.unwrap();
    let old = Fake::new("99-old").join(&adaptation).await;
    // Plugins come while containers do.
    let running = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move {
            for number in 0..60 {
                soon(life(&adaptation, number)).await;
                tokio::task::yield_now().await;
            }
        })
    };
    let mut plugins = Vec::new();
    for number in 0..12 {
        let slow = number % 3 == 0;
        let fake = Fake::new(&format!("{number:02}-new")).on("Synchronize", move |_| async move {
            if slow {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            Ok(SynchronizeResponse::default())
        });
        plugins.push(fake.join(&adaptation).await);
    }
    running.await.unwrap();
    let whole = old.methods()[2..].to_vec();
    assert_eq!(whole.len(), 60 * 13, "the old plugin missed nothing");
    for plugin in &plugins {
        let methods = plugin.methods();
        assert_eq!(methods[..2], ["Configure", "Synchronize"]);
        // From its first event on the plugin has seen exactly what the old one has.
        let seen = &methods[2..];
        assert_eq!(seen, &whole[whole.len() - seen.len()..]);
    }
}

#[tokio::test]
async fn point_05_required_plugins_and_validators_fail_closed() {
    let mut required = longshore_nri_adaptation::PluginPolicy::default();
    required.on_failure = longshore_nri_adaptation::OnFailure::FailUntilBack;
    let adaptation = builder()
        .policy("guard", required)
        .start(Node::default())
        .await
        .unwrap();
    assert!(matches!(
        create(&adaptation, 0).await,
        Err(RequestError::Missing { .. })
    ));
    let validate = &[Event::ValidateContainerAdjustment];
    let guard = Fake::new("10-guard")
        .events(validate)
        .join(&adaptation)
        .await;
    create(&adaptation, 0).await.unwrap();
    guard.vanish();
    let mut changes = adaptation.changes();
    let gone = |_: &u64| {
        adaptation
            .plugins()
            .iter()
            .all(|it| it.state == PluginState::Missing)
    };
    soon(changes.wait_for(gone)).await.unwrap();
    for _ in 0..3 {
        assert!(matches!(
            create(&adaptation, 0).await,
            Err(RequestError::Missing { .. })
        ));
    }
}

#[tokio::test]
async fn point_06_removals_pids_and_evictions_are_honoured_and_the_request_is_not_lost() {
    let mut original = creation(0);
    let shown = original.container.as_mut().unwrap();
    shown.env = vec!["SECRET=1".to_owned(), "KEPT=1".to_owned()];
    shown.linux.get_or_insert_default().devices = vec![LinuxDevice {
        path: "/dev/old".to_owned(),
        ..Default::default()
    }];
    let adaptation = adaptation().await;
    let _plugin = Fake::new("00-a")
        .on("CreateContainer", |_| async {
            let mut reply = CreateContainerResponse::default();
            let adjust = reply.adjust.get_or_insert_default();
            adjust
                .remove_env("SECRET")
                .remove_device("/dev/old")
                .remove_rdt();
            adjust.set_rdt_clos_id("new");
            let mut pids = ContainerUpdate::new("ctr1");
            pids.resources_mut().set_pids_limit(7);
            reply.update.push(pids);
            reply.evict.push(ContainerEviction::new("ctr1", "too loud"));
            Ok(reply)
        })
        .on("UpdateContainer", |_| async {
            Ok(UpdateContainerResponse {
                update: vec![ContainerUpdate::new("ctr0")],
                evict: Vec::new(),
            })
        })
        .join(&adaptation)
        .await;
    let created = adaptation
        .create_container(original, &options())
        .await
        .unwrap();
    assert_eq!(env(&created.adjustment), ["-SECRET"]);
    let linux = created.adjustment.linux.as_ref().unwrap();
    assert_eq!(linux.devices[0].path, "-/dev/old");
    let rdt = linux.rdt.as_ref().unwrap();
    assert!(rdt.remove && rdt.clos_id.is_some());
    let resources = created.updates[0]
        .linux
        .as_ref()
        .unwrap()
        .resources
        .as_ref()
        .unwrap();
    assert_eq!(resources.pids.unwrap().limit, 7);
    assert_eq!(created.evictions[0].plugin, "00-a");
    assert_eq!(created.evictions[0].eviction.container_id, "ctr1");

    let mut wanted = LinuxResources::default();
    wanted.set_cpu_shares(999_u64);
    let request = UpdateContainerRequest {
        pod: Some(pod(0)),
        container: Some(container(0)),
        linux_resources: Some(wanted.clone()),
    };
    let changed = adaptation
        .update_container(request, &options())
        .await
        .unwrap();
    let shares = |it: &LinuxResources| it.cpu.as_ref().and_then(|cpu| cpu.shares);
    assert_eq!(shares(&changed.requested), shares(&wanted));

    // Switchable: under Go what was removed first is forgotten.
    let go = builder()
        .compat(Compat::GoAdaptation)
        .start(Node::default())
        .await
        .unwrap();
    let _plugin = Fake::new("00-a")
        .on("CreateContainer", |_| async {
            let mut reply = CreateContainerResponse::default();
            reply
                .adjust
                .get_or_insert_default()
                .remove_rdt()
                .set_rdt_clos_id("new");
            Ok(reply)
        })
        .join(&go)
        .await;
    let created = create(&go, 0).await.unwrap();
    assert!(!created.linux.unwrap().rdt.unwrap().remove);
}

#[tokio::test]
async fn point_07_plugins_are_asked_to_shut_down_before_they_are_closed() {
    let adaptation = adaptation().await;
    let plugin = Fake::new("00-a").join(&adaptation).await;
    let deaf = Fake::new("10-b").hangs("Shutdown").join(&adaptation).await;
    let old = Status::unimplemented(service::PLUGIN, "Shutdown");
    let old = Fake::new("20-c")
        .fails("Shutdown", old)
        .join(&adaptation)
        .await;
    soon(adaptation.shutdown()).await;
    for plugin in [&plugin, &deaf, &old] {
        assert_eq!(
            plugin.methods().last().map(String::as_str),
            Some("Shutdown")
        );
        plugin.closed().await;
    }
    assert!(adaptation.plugins().is_empty());
    let (mut near, far) = tokio::io::duplex(64);
    adaptation.attach(far);
    let mut rest = Vec::new();
    assert_eq!(
        soon(near.read_to_end(&mut rest)).await.unwrap(),
        0,
        "nobody is accepted any more"
    );
    drop(near.shutdown().await);
    soon(adaptation.shutdown()).await;
}

#[tokio::test]
async fn point_08_nothing_is_accepted_before_registration_and_no_second_one() {
    let node = Node::with(1, 1);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let plugin = Fake::new("00-a").attach(&adaptation);
    let update = UpdateContainersRequest {
        update: vec![ContainerUpdate::new("ctr0")],
        evict: Vec::new(),
    };
    assert!(matches!(
        plugin.update(&update).await,
        Err(CallError::Remote(_))
    ));
    assert!(plugin.methods().is_empty(), "it is not even configured");
    plugin.register().await.unwrap();
    soon(adaptation.active("a")).await;
    assert!(plugin.register_as("99", "b").await.is_err());
    plugin.closed().await;
    assert!(node.applied().is_empty());
}

#[tokio::test(start_paused = true)]
async fn point_09_a_handler_is_told_the_deadline_and_ends_with_it() {
    let adaptation = adaptation().await;
    let ended = Gate::default();
    let guard = ended.clone();
    let plugin = Fake::new("00-a")
        .on("CreateContainer", move |_| {
            let ended = Ended(guard.clone());
            async move {
                let _ended = ended;
                std::future::pending::<Result<CreateContainerResponse, Status>>().await
            }
        })
        .join(&adaptation)
        .await;
    create(&adaptation, 0).await.unwrap();
    ended.arrived(1).await;
    plugin.closed().await;
}

/// Arrives at the gate when it is dropped.
struct Ended(Gate);

impl Drop for Ended {
    fn drop(&mut self) {
        let gate = self.0.clone();
        tokio::spawn(async move { gate.pass().await });
    }
}

#[tokio::test]
async fn point_10_plugins_that_know_state_change_alone_get_all_nine_events_by_it() {
    let adaptation = adaptation().await;
    let nine = [
        Event::RunPodSandbox,
        Event::PostUpdatePodSandbox,
        Event::StopPodSandbox,
        Event::RemovePodSandbox,
        Event::PostCreateContainer,
        Event::StartContainer,
        Event::PostStartContainer,
        Event::PostUpdateContainer,
        Event::RemoveContainer,
    ];
    // An old plugin: no version, nothing but the first methods of the protocol.
    let mut fake = Fake::new("00-old")
        .events(&nine)
        .on("Configure", move |_| async move {
            Ok(ConfigureResponse {
                events: mask(&nine),
            })
        });
    for event in nine {
        let method = longshore_nri_api::event_name(event);
        fake = fake.fails(method, Status::unimplemented(service::PLUGIN, method));
    }
    let plugin = fake.join(&adaptation).await;
    life(&adaptation, 0).await;
    let told = plugin.requests::<longshore_nri_api::StateChangeEvent>("StateChange");
    let events: Vec<_> = told
        .iter()
        .map(longshore_nri_api::StateChangeEvent::event)
        .collect();
    let expected = [
        Event::RunPodSandbox,
        Event::PostUpdatePodSandbox,
        Event::PostCreateContainer,
        Event::StartContainer,
        Event::PostStartContainer,
        Event::PostUpdateContainer,
        Event::RemoveContainer,
        Event::StopPodSandbox,
        Event::RemovePodSandbox,
    ];
    assert_eq!(events, expected);
    assert_eq!(plugin.methods()[2..4], ["RunPodSandbox", "StateChange"]);
    assert_eq!(
        plugin.methods().len(),
        2 + 1 + 9,
        "its own method is tried once"
    );
    assert_eq!(told[0].pod, Some(pod(0)));
}
