//! Bad input of peers: the connection ends with a reason, other plugins are untouched.

// long: every line of what bad input gets, in one place

use std::time::Duration;

use longshore_nri_adaptation::{Adaptation, Builder, Compat, Limits, OnFailure, RequestError};
use longshore_nri_api::{
    Container, ContainerUpdate, CreateContainerRequest, CreateContainerResponse, Empty, Event,
    Mount, UpdateContainersRequest, service,
};
use longshore_ttrpc::{CallError, Code, Status};
use tokio::io::AsyncWriteExt;
use tokio::time::Instant;

use crate::fake::{
    Fake, Live, Node, adaptation, builder, container, creation, defaults, mask, options, pod,
    present, soon,
};
use crate::order::{adds_env, create, env, policy};
use crate::raw::{Raw, message, mux, registration, request, response};
use crate::sync::Closed;

/// An adaptation with a good plugin, which has to stay as it is.
async fn guarded() -> (Adaptation, Live, Closed) {
    guarded_by(builder()).await
}

async fn guarded_by(builder: Builder) -> (Adaptation, Live, Closed) {
    let closed = Closed::default();
    let adaptation = builder
        .metrics(closed.clone())
        .start(Node::with(1, 1))
        .await
        .unwrap();
    let good = Fake::new("99-good").on("CreateContainer", |_| async { Ok(adds_env("GOOD")) });
    let good = good.join(&adaptation).await;
    (adaptation, good, closed)
}

/// The good plugin still answers.
async fn untouched(adaptation: &Adaptation, good: &Live) {
    assert!(good.is_open());
    assert!(env(&create(adaptation, 0).await.unwrap()).contains(&"GOOD"));
}

#[tokio::test]
async fn frames_over_the_limit_close_the_connection_before_anything_is_stored() {
    let (adaptation, good, closed) = guarded().await;
    for length in [(4 << 20) + 11, u32::MAX] {
        let mut raw = Raw::attach(&adaptation);
        let header = [&2_u32.to_be_bytes()[..], &length.to_be_bytes()].concat();
        raw.send(&header).await;
        raw.closed().await;
    }
    let reasons = closed.reasons();
    assert!(
        reasons[0].1.contains("4194315 bytes on connection 2"),
        "{reasons:?}"
    );
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn of_an_unregistered_peer_no_large_frame_is_stored() {
    let (adaptation, good, closed) = guarded().await;
    let mut raw = Raw::attach(&adaptation);
    raw.send(&[&2_u32.to_be_bytes()[..], &(1_u32 << 20).to_be_bytes()].concat())
        .await;
    raw.closed().await;
    assert!(closed.reasons()[0].1.contains("at most 262144 are allowed"));
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn a_half_frame_ends_the_connection() {
    let (adaptation, good, closed) = guarded().await;
    let mut raw = Raw::attach(&adaptation);
    let whole = request(1, "RegisterPlugin", registration("10-a"));
    raw.send(&whole[..whole.len() - 3]).await;
    raw.stream.shutdown().await.unwrap();
    raw.closed().await;
    untouched(&adaptation, &good).await;
    assert!(closed.reasons()[0].1.contains("in the middle of a frame"));
}

#[tokio::test(start_paused = true)]
async fn garbage_ends_the_connection_or_runs_into_the_registration_timeout() {
    let (adaptation, good, _) = guarded().await;
    let mut seed = 7_u32;
    let mut byte = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed.to_be_bytes()[0]
    };
    for _ in 0..20 {
        let garbage: Vec<u8> = (0..3000).map(|_| byte()).collect();
        let mut raw = Raw::attach(&adaptation);
        raw.send(&garbage).await;
        raw.closed().await;
    }
    // Garbage within good frames.
    for garbage in [
        vec![0xff; 64],
        message(1, 1, &[0xff; 32]),
        message(1, 9, b"x"),
    ] {
        let mut raw = Raw::attach(&adaptation);
        raw.send(&mux(2, &garbage)).await;
        raw.closed().await;
    }
    untouched(&adaptation, &good).await;
    assert_eq!(adaptation.plugins().len(), 1);
}

#[tokio::test]
async fn a_registration_that_is_no_message_ends_the_connection() {
    let (adaptation, good, closed) = guarded().await;
    for payload in [vec![0x0a, 0x05, b'x'], vec![0x0a, 0x01, 0xff]] {
        let mut raw = Raw::attach(&adaptation);
        raw.send(&request(1, "RegisterPlugin", payload)).await;
        assert_eq!(raw.status().await.unwrap().code, 13);
        raw.closed().await;
    }
    untouched(&adaptation, &good).await;
    assert!(
        closed.reasons()[0]
            .1
            .starts_with("its RegisterPlugin was refused")
    );
}

#[tokio::test]
async fn an_unregistered_peer_may_send_64_kib() {
    let (adaptation, good, _) = guarded().await;
    let mut raw = Raw::attach(&adaptation);
    raw.send(&request(1, "RegisterPlugin", vec![b' '; 65 << 10]))
        .await;
    let status = raw.status().await.unwrap();
    assert_eq!(status.code, 8);
    // It is told so, and may try again.
    raw.send(&request(3, "RegisterPlugin", registration("10-a")))
        .await;
    assert_eq!(raw.status().await, None);
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn an_answer_that_decodes_huge_is_refused_with_status_8_and_the_plugins_name() {
    let (adaptation, good, closed) = guarded().await;
    // A million updates of two bytes each.
    let plugin = Fake::new("10-bomb").raw("CreateContainer", [0x12, 0x00].repeat(1 << 20));
    let plugin = plugin.join(&adaptation).await;
    let refused = create(&adaptation, 0).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.to_string().contains("10-bomb"), "{refused}");
    plugin.closed().await;
    untouched(&adaptation, &good).await;
    assert_eq!(closed.reasons()[0].0, "10-bomb");
}

#[tokio::test]
async fn updates_that_decode_huge_are_answered_with_status_8_and_the_plugins_name() {
    let (adaptation, good, _) = guarded().await;
    let plugin = Fake::new("10-bomb").join(&adaptation).await;
    let bomb = UpdateContainersRequest {
        update: vec![ContainerUpdate::default(); 1 << 20],
        evict: Vec::new(),
    };
    let Err(CallError::Remote(status)) = plugin.update(&bomb).await else {
        panic!("it is refused")
    };
    assert_eq!(status.code, Code::ResourceExhausted);
    assert!(status.message.contains("10-bomb"), "{status}");
    plugin.closed().await;
    untouched(&adaptation, &good).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_is_closed_and_the_request_goes_on() {
    let (adaptation, good, _) = guarded_by(defaults()).await;
    let raw = Raw::join(&adaptation, "10-deaf", mask(&[Event::CreateContainer])).await;
    let mut large = creation(0);
    large.container.as_mut().unwrap().args = vec!["x".repeat(1000); 1000];
    let began = Instant::now();
    let created = soon(adaptation.create_container(large, &options()))
        .await
        .unwrap();
    assert_eq!(env(&created.adjustment), ["GOOD"]);
    assert_eq!(began.elapsed().as_secs(), 2);
    assert_eq!(present(&adaptation).len(), 1);
    raw.closed().await;
    untouched(&adaptation, &good).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_registers_is_closed_after_the_registration_timeout() {
    let (adaptation, good, closed) = guarded_by(defaults()).await;
    let began = Instant::now();
    Raw::attach(&adaptation).closed().await;
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    let reason = "it did not register within 5s".to_owned();
    assert_eq!(closed.reasons(), [(String::new(), reason)]);
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn a_plugin_that_registers_twice_is_refused_and_closed() {
    let (adaptation, good, closed) = guarded().await;
    let plugin = Fake::new("10-twice").join(&adaptation).await;
    let Err(CallError::Remote(status)) = plugin.register_as("00", "other").await else {
        panic!("it is refused")
    };
    assert_eq!(status.code, Code::AlreadyExists);
    plugin.closed().await;
    untouched(&adaptation, &good).await;
    let reason = "it called RegisterPlugin a second time".to_owned();
    assert_eq!(closed.reasons(), [("10-twice".to_owned(), reason)]);
}

#[tokio::test]
async fn more_connections_than_are_accepted_are_closed_at_once() {
    let mut limits = Limits::default();
    limits.unregistered = 2;
    limits.registered = 1;
    let closed = Closed::default();
    let adaptation = builder()
        .limits(limits)
        .metrics(closed.clone())
        .start(Node::default())
        .await
        .unwrap();
    let silent = [Raw::attach(&adaptation), Raw::attach(&adaptation)];
    Raw::attach(&adaptation).closed().await;
    let reason = "2 connections have not registered yet, no more are accepted".to_owned();
    assert_eq!(closed.reasons(), [(String::new(), reason)]);
    for raw in silent {
        drop(raw);
    }
    soon(async {
        while closed.reasons().len() < 3 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let first = Fake::new("00-a").join(&adaptation).await;
    let second = Fake::new("10-b").attach(&adaptation);
    let Err(CallError::Remote(status)) = second.register().await else {
        panic!("it is refused")
    };
    assert_eq!(status.code, Code::ResourceExhausted);
    second.closed().await;
    assert!(first.is_open());
    first.vanish();
    soon(async {
        while !present(&adaptation).is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    Fake::new("10-b").join(&adaptation).await.vanish();
}

#[tokio::test]
async fn the_default_limits_are_those_of_the_specification() {
    let limits = Limits::default();
    assert_eq!((limits.unregistered, limits.registered), (64, 256));
}

#[tokio::test]
async fn row_274_under_go_unknown_events_close_the_plugin() {
    let adaptation = builder()
        .compat(Compat::GoAdaptation)
        .start(Node::default())
        .await
        .unwrap();
    let plugin = Fake::new("10-new").bits(0x4000 | 1).attach(&adaptation);
    plugin.register().await.unwrap();
    plugin.closed().await;
}

#[tokio::test]
async fn answers_to_nothing_and_frames_of_other_connections_are_dropped() {
    let (adaptation, good, _) = guarded().await;
    let mut raw = Raw::join(&adaptation, "10-odd", mask(&[Event::RunPodSandbox])).await;
    raw.send(&response(4711, b"late".to_vec())).await;
    raw.send(&response(2, Vec::new())).await;
    raw.send(&mux(7, b"whatever")).await;
    raw.send(&mux(2, b"")).await;
    let running = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move { adaptation.run_pod_sandbox(&pod(0), &options()).await })
    };
    let (connection, stream, _, _) = raw.next().await.unwrap();
    assert_eq!(connection, service::PLUGIN_CONNECTION);
    raw.send(&response(stream, Vec::new())).await;
    running.await.unwrap().unwrap();
    assert_eq!(adaptation.plugins().len(), 2, "it stays");
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn requests_with_wrong_ids_are_answered_and_nothing_else_happens() {
    let (adaptation, good, _) = guarded().await;
    let mut raw = Raw::join(&adaptation, "10-odd", mask(&[Event::RunPodSandbox])).await;
    for stream in [0, 1, 2, 4] {
        raw.send(&request(stream, "UpdateContainers", Vec::new()))
            .await;
        assert_eq!(raw.status().await.unwrap().code, 3, "stream {stream}");
    }
    raw.send(&request(3, "UpdateContainers", Vec::new())).await;
    assert_eq!(raw.status().await, None);
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn methods_and_services_that_do_not_exist_are_answered_with_status_12() {
    let adaptation = adaptation().await;
    let plugin = Fake::new("10-a").join(&adaptation).await;
    let answer = plugin.ask("Reboot", &Empty {}).await;
    assert!(matches!(answer, Err(CallError::Remote(status)) if status.code == Code::Unimplemented));
    let answer = plugin
        .client
        .call_raw(
            service::PLUGIN,
            "RegisterPlugin",
            &Empty {},
            &Default::default(),
        )
        .await;
    assert!(matches!(answer, Err(CallError::Remote(status)) if status.code == Code::Unimplemented));
    assert!(plugin.is_open());
}

#[tokio::test]
async fn an_answer_of_the_wrong_type_closes_the_plugin_and_the_request_goes_on() {
    let (adaptation, good, closed) = guarded().await;
    let bytes = [
        vec![0xff; 12],
        vec![0x0a, 0x01, 0xff],
        vec![0x0a, 0x7f],
        vec![0x08],
    ];
    for (number, bytes) in bytes.into_iter().enumerate() {
        let plugin = Fake::new("10-wrong")
            .raw("CreateContainer", bytes)
            .join(&adaptation)
            .await;
        untouched(&adaptation, &good).await;
        plugin.closed().await;
        let reason = &closed.reasons()[number];
        assert_eq!(reason.0, "10-wrong");
        assert!(
            reason
                .1
                .contains("CreateContainer failed: the answer cannot be used"),
            "{reason:?}"
        );
    }
}

#[tokio::test]
async fn updates_with_values_that_no_container_can_have_are_refused() {
    let node = Node::with(1, 1);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let plugin = Fake::new("10-a").join(&adaptation).await;
    let mut nul = ContainerUpdate::new("ctr0");
    nul.resources_mut().set_unified("memory.high", "1\0");
    let mut path = ContainerUpdate::new("ctr0");
    path.resources_mut().set_unified("../../x", "1");
    for update in [nul, path, ContainerUpdate::new("")] {
        let request = UpdateContainersRequest {
            update: vec![update],
            evict: Vec::new(),
        };
        let Err(CallError::Remote(status)) = plugin.update(&request).await else {
            panic!("it is refused")
        };
        assert_eq!(status.code, Code::InvalidArgument);
    }
    assert!(node.applied().is_empty());
    assert!(plugin.is_open());
}

#[tokio::test]
async fn adjustments_with_nul_too_many_entries_or_paths_that_escape_fail_the_request_by_name() {
    let (adaptation, good, _) = guarded().await;
    let mut nul = adds_env("A");
    nul.adjust.as_mut().unwrap().add_env("B", "x\0y");
    let mut many = CreateContainerResponse::default();
    let args = vec!["x"; 20_000];
    many.adjust.get_or_insert_default().set_args(args);
    let mut escapes = CreateContainerResponse::default();
    escapes.adjust.get_or_insert_default().add_mount(Mount {
        destination: "/mnt/../../etc".to_owned(),
        ..Default::default()
    });
    for (reply, field) in [(nul, "env"), (many, "args"), (escapes, "mounts")] {
        let fake = Fake::new("10-bad").on("CreateContainer", move |_| {
            let reply = reply.clone();
            async move { Ok(reply) }
        });
        let plugin = fake.join(&adaptation).await;
        let failed = create(&adaptation, 0).await.unwrap_err();
        assert!(matches!(failed, RequestError::Merge(_)), "{failed}");
        let text = failed.to_string();
        assert!(text.contains("10-bad") && text.contains(field), "{text}");
        assert_eq!(adaptation.remove_plugin("bad"), 1);
        plugin.closed().await;
    }
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn a_million_entries_are_refused() {
    let (adaptation, good, _) = guarded().await;
    // An adjustment with a million environment variables, each of them empty.
    let adjust = [0x22, 0x00].repeat(1_000_000);
    let mut reply = vec![0x0a];
    prost::encoding::encode_varint(adjust.len() as u64, &mut reply);
    reply.extend(adjust);
    let plugin = Fake::new("10-many")
        .raw("CreateContainer", reply)
        .join(&adaptation)
        .await;
    let failed = create(&adaptation, 0).await.unwrap_err();
    assert_eq!(failed.code(), Code::ResourceExhausted);
    plugin.closed().await;
    untouched(&adaptation, &good).await;
}

#[tokio::test]
async fn a_conflict_names_both_plugins_the_field_and_the_key_and_closes_nobody() {
    let adaptation = adaptation().await;
    let mut plugins = Vec::new();
    for name in ["00-bar", "10-foo"] {
        let fake = Fake::new(name).on("CreateContainer", |_| async { Ok(adds_env("KEY")) });
        plugins.push(fake.join(&adaptation).await);
    }
    let conflict = create(&adaptation, 0).await.unwrap_err();
    assert_eq!(
        conflict.to_string(),
        r#"plugins "00-bar" and "10-foo" both tried to set Env "KEY""#
    );
    assert!(plugins.iter().all(Live::is_open));
}

#[tokio::test]
async fn a_plugin_that_is_killed_inside_a_handler_is_left_out_or_fails_the_request_by_its_policy() {
    for (on_failure, expected) in [(OnFailure::Ignore, true), (OnFailure::FailRequest, false)] {
        let policy = policy(|policy| policy.on_failure = on_failure);
        let adaptation = builder()
            .policy("victim", policy)
            .start(Node::default())
            .await
            .unwrap();
        let good = Fake::new("99-good").on("CreateContainer", |_| async { Ok(adds_env("GOOD")) });
        let good = good.join(&adaptation).await;
        let victim = Fake::new("10-victim")
            .hangs("CreateContainer")
            .join(&adaptation)
            .await;
        let creating = {
            let adaptation = adaptation.clone();
            tokio::spawn(async move { create(&adaptation, 0).await })
        };
        victim.called("CreateContainer").await;
        victim.vanish();
        let created = soon(creating).await.unwrap();
        assert_eq!(created.is_ok(), expected, "{created:?}");
        untouched(&adaptation, &good).await;
    }
}

#[tokio::test]
async fn row_252_an_old_plugin_gets_state_change_for_ever_after_the_first_status_12() {
    let adaptation = adaptation().await;
    let mut fake = Fake::new("10-old").events(&[
        Event::RunPodSandbox,
        Event::StartContainer,
        Event::CreateContainer,
    ]);
    for method in ["RunPodSandbox", "StartContainer"] {
        fake = fake.fails(method, Status::unimplemented(service::PLUGIN, method));
    }
    let plugin = fake.join(&adaptation).await;
    adaptation
        .run_pod_sandbox(&pod(0), &options())
        .await
        .unwrap();
    create(&adaptation, 0).await.unwrap();
    for _ in 0..2 {
        adaptation
            .start_container(&pod(0), &container(0), &options())
            .await
            .unwrap();
    }
    let methods = plugin.methods();
    assert_eq!(
        methods[2..],
        [
            "RunPodSandbox",
            "StateChange",
            "CreateContainer",
            "StateChange",
            "StateChange"
        ]
    );
    let told = plugin.requests::<longshore_nri_api::StateChangeEvent>("StateChange");
    let events: Vec<_> = told
        .iter()
        .map(longshore_nri_api::StateChangeEvent::event)
        .collect();
    assert_eq!(
        events,
        [
            Event::RunPodSandbox,
            Event::StartContainer,
            Event::StartContainer
        ]
    );
    assert_eq!(told[1].container, Some(container(0)));
    assert!(adaptation.plugins()[0].state_change_only);
}

#[tokio::test]
async fn update_pod_sandbox_has_no_fallback() {
    let adaptation = adaptation().await;
    let status = Status::unimplemented(service::PLUGIN, "UpdatePodSandbox");
    let _plugin = Fake::new("10-old")
        .fails("UpdatePodSandbox", status)
        .join(&adaptation)
        .await;
    let request = longshore_nri_api::UpdatePodSandboxRequest {
        pod: Some(pod(0)),
        ..Default::default()
    };
    let failed = adaptation
        .update_pod_sandbox(request, &options())
        .await
        .unwrap_err();
    assert_eq!(failed.code(), Code::Unimplemented);
}

#[tokio::test(start_paused = true)]
async fn the_fallback_has_no_more_time_than_the_event() {
    let adaptation = defaults().start(Node::with(2, 2)).await.unwrap();
    let plugin = Fake::new("10-old")
        .on("RunPodSandbox", |_| async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            Err::<Empty, _>(Status::unimplemented(service::PLUGIN, "RunPodSandbox"))
        })
        .hangs("StateChange")
        .join(&adaptation)
        .await;
    let began = Instant::now();
    adaptation
        .run_pod_sandbox(&pod(0), &options())
        .await
        .unwrap();
    assert_eq!(began.elapsed().as_millis() / 10, 200);
    plugin.closed().await;
}

#[tokio::test]
async fn an_oversized_request_fails_and_the_plugin_stays() {
    let adaptation = adaptation().await;
    let plugin = Fake::new("10-a").join(&adaptation).await;
    let request = CreateContainerRequest {
        pod: Some(pod(0)),
        container: Some(Container {
            args: vec!["x".repeat(1 << 20); 5],
            ..container(0)
        }),
    };
    let failed = adaptation
        .create_container(request, &options())
        .await
        .unwrap_err();
    assert_eq!(failed.code(), Code::ResourceExhausted);
    assert!(failed.to_string().contains("at most 4194304"), "{failed}");
    assert!(plugin.is_open());
}
