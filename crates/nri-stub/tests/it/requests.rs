//! Requests of the runtime, and calls of the plugin.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_nri_stub::api::{
    ContainerAdjustment, CreateContainerRequest, CreateContainerResponse, Empty, Event, EventMask,
    PostStartContainerRequest, RunPodSandboxRequest, StateChangeEvent, StopContainerRequest,
    StopContainerResponse, SynchronizeRequest, UpdateContainerRequest, UpdateContainerResponse,
    UpdateContainersRequest, UpdatePodSandboxRequest, ValidateContainerAdjustmentRequest,
    ValidateContainerAdjustmentResponse, event_name,
};
use longshore_nri_stub::{CallError, Handlers, StubError};
use longshore_ttrpc::CallOptions;
use tokio::time::Instant;

use crate::recorder::{Recorder, container, pod, resources, run_pod, update};
use crate::runtime::{active, code};

#[tokio::test(start_paused = true)]
async fn every_method_reaches_its_handler() {
    let plugin = Recorder::default();
    let seen = plugin.clone();
    let (_stub, _session, runtime) = active(plugin).await;
    // All requests have the pod in field 1 and the container in field 2.
    let both = PostStartContainerRequest {
        pod: pod("p"),
        container: container(),
    };
    let alone = RunPodSandboxRequest { pod: pod("p") };
    for event in EventMask::ALL.iter() {
        let name = event_name(event);
        let answer: Result<Empty, _> = match event {
            Event::RunPodSandbox
            | Event::PostUpdatePodSandbox
            | Event::StopPodSandbox
            | Event::RemovePodSandbox => runtime.call(name, &alone).await,
            Event::PostCreateContainer
            | Event::StartContainer
            | Event::PostStartContainer
            | Event::PostUpdateContainer
            | Event::RemoveContainer => runtime.call(name, &both).await,
            _ => continue,
        };
        assert!(answer.is_ok(), "{name}: {answer:?}");
        let line = if name.ends_with("PodSandbox") {
            "p"
        } else {
            "p c"
        };
        assert_eq!(seen.taken(), [format!("{name} {line}")]);
    }

    let request = UpdatePodSandboxRequest {
        pod: pod("p"),
        overhead_linux_resources: resources("which", "overhead"),
        linux_resources: resources("which", "own"),
    };
    let answer: Empty = runtime.call("UpdatePodSandbox", &request).await.unwrap();
    assert_eq!(
        (answer, seen.taken()),
        (Empty {}, vec!["UpdatePodSandbox p".to_owned()])
    );

    let request = CreateContainerRequest {
        pod: pod("p"),
        container: container(),
    };
    let answer: CreateContainerResponse = runtime.call("CreateContainer", &request).await.unwrap();
    let env: Vec<String> = answer
        .adjust
        .unwrap()
        .env
        .into_iter()
        .map(|it| it.key)
        .collect();
    assert_eq!(env, ["A", "-B"]);
    assert_eq!(answer.update, [update("other")]);
    assert_eq!(answer.evict[0].reason, "old");

    let request = UpdateContainerRequest {
        pod: pod("p"),
        container: container(),
        linux_resources: resources("id", "itself"),
    };
    let answer: UpdateContainerResponse = runtime.call("UpdateContainer", &request).await.unwrap();
    assert_eq!(answer.update, [update("itself")]);
    assert_eq!(seen.taken(), ["CreateContainer p c", "UpdateContainer p c"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_ask_the_runtime_while_it_is_asked() {
    let (_stub, _session, mut runtime) = active(Recorder::default()).await;
    let request = StopContainerRequest {
        pod: pod("p"),
        container: container(),
    };
    let answer: StopContainerResponse = runtime.call("StopContainer", &request).await.unwrap();
    assert_eq!(
        answer.update,
        [update("inner")],
        "the failed ones come back"
    );
    assert_eq!(
        runtime.updates.recv().await.unwrap().update,
        [update("inner")]
    );
}

#[tokio::test(start_paused = true)]
async fn row_133_unsolicited_updates_are_delivered_and_the_failed_ones_returned() {
    let (stub, session, mut runtime) = active(Recorder::default()).await;
    let handle = stub.handle();
    let failed = handle
        .update_containers(vec![update("a"), update("b")])
        .await
        .unwrap();
    assert_eq!(failed, [update("b")]);
    assert_eq!(
        runtime.updates.recv().await.unwrap().update,
        [update("a"), update("b")]
    );
    let refused = handle.update_containers(Vec::new()).await;
    assert!(
        matches!(&refused, Err(StubError::UpdateContainers { .. })),
        "{refused:?}"
    );
    assert!(refused.unwrap_err().to_string().contains("no updates"));

    let evict = UpdateContainersRequest {
        update: vec![update("a")],
        evict: vec![longshore_nri_stub::api::ContainerEviction::new("b", "full")],
    };
    let answered = handle
        .update_and_evict(evict.clone(), Duration::from_secs(1))
        .await;
    assert_eq!(answered.unwrap(), [update("a")]);
    assert_eq!(runtime.updates.recv().await.unwrap(), evict);
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_not_answered_ends_with_the_request_timeout() {
    let (stub, _session, runtime) = active(Recorder::default()).await;
    // The runtime's queue of updates takes eight, then it does not answer.
    let handle = stub.handle();
    for _ in 0..8 {
        handle.update_containers(vec![update("a")]).await.unwrap();
    }
    let began = Instant::now();
    let late = handle.update_containers(vec![update("a")]).await;
    assert!(
        matches!(
            late,
            Err(StubError::UpdateContainers {
                source: CallError::Timeout(_)
            })
        ),
        "{late:?}"
    );
    assert_eq!(began.elapsed(), Duration::from_millis(2007));
    drop(runtime);
}

#[tokio::test(start_paused = true)]
async fn state_changes_of_old_runtimes_reach_the_nine_handlers() {
    let plugin = Recorder::default();
    let seen = plugin.clone();
    let (_stub, _session, runtime) = active(plugin).await;
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
    for number in -1..17 {
        let request = StateChangeEvent {
            event: number,
            pod: pod("p"),
            container: container(),
        };
        let answer: Result<Empty, _> = runtime.call("StateChange", &request).await;
        assert!(answer.is_ok(), "{number}: {answer:?}");
        let event = Event::try_from(number).unwrap_or(Event::Unknown);
        let expected = nine.contains(&event).then(|| {
            let name = event_name(event);
            let line = if name.ends_with("PodSandbox") {
                "p"
            } else {
                "p c"
            };
            format!("{name} {line}")
        });
        assert_eq!(seen.taken(), Vec::from_iter(expected), "{number}");
    }
    let failing = StateChangeEvent {
        event: Event::RunPodSandbox.into(),
        pod: pod("fail"),
        container: None,
    };
    assert_eq!(
        code(runtime.call::<Empty>("StateChange", &failing).await),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn events_without_a_handler_are_answered_with_success_and_unknown_methods_with_12() {
    let plugin = Handlers::new().on_run_pod_sandbox(|_| async {});
    let (_stub, _session, runtime) = active(plugin).await;
    for event in EventMask::ALL.iter() {
        let answer: Result<Empty, _> = runtime.call(event_name(event), &Empty {}).await;
        assert!(answer.is_ok(), "{event:?}: {answer:?}");
    }
    for method in ["Shutdown", "StateChange", "Synchronize"] {
        let answer: Result<Empty, _> = runtime.call(method, &Empty {}).await;
        assert!(answer.is_ok(), "{method}: {answer:?}");
    }
    let (_stub, _session, runtime) = active(Handlers::new().on_run_pod_sandbox(|_| async {})).await;
    for method in ["", "Nonsense", "RegisterPlugin", "createContainer"] {
        assert_eq!(
            code(runtime.call::<Empty>(method, &Empty {}).await),
            12,
            "{method}"
        );
    }
    let options = CallOptions::timeout(Duration::from_secs(1));
    let elsewhere =
        runtime
            .client
            .call::<Empty>("nri.other.Plugin", "Shutdown", &Empty {}, &options);
    assert_eq!(code(elsewhere.await), 12);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_validator_is_a_rejection() {
    let (_stub, _session, runtime) = active(Recorder::default()).await;
    let mut adjust = ContainerAdjustment::default();
    for expected in [None, Some("1 variables are too many")] {
        let request = ValidateContainerAdjustmentRequest {
            adjust: Some(adjust.clone()),
            ..ValidateContainerAdjustmentRequest::default()
        };
        let verdict: ValidateContainerAdjustmentResponse = runtime
            .call("ValidateContainerAdjustment", &request)
            .await
            .unwrap();
        assert_eq!(verdict.reject, expected.is_some());
        assert_eq!(verdict.reason, expected.unwrap_or_default());
        adjust.add_env("A", "1");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_fails_with_is_told_and_harms_nothing_else() {
    let (_stub, _session, runtime) = active(Recorder::default()).await;
    for (name, number, text) in [
        ("status", 5, "no such pod"),
        ("fail", 2, "it did not work"),
        ("panic", 13, "panicked"),
    ] {
        let failed = run_pod(&runtime, name).await;
        assert!(
            failed.as_ref().unwrap_err().to_string().contains(text),
            "{failed:?}"
        );
        assert_eq!(code(failed), number, "{name}");
    }
    assert!(run_pod(&runtime, "fine").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_the_runtime_gives_up() {
    let plugin = Recorder::default();
    let running = Arc::clone(&plugin.running);
    let (_stub, _session, runtime) = active(plugin).await;
    // With a deadline of the request.
    let options = CallOptions::timeout(Duration::from_secs(1));
    let request = RunPodSandboxRequest { pod: pod("hang") };
    let service = longshore_nri_stub::api::service::PLUGIN;
    let call = runtime
        .client
        .call::<Empty>(service, "RunPodSandbox", &request, &options);
    let early = tokio::time::timeout(Duration::from_millis(500), call).await;
    assert!(early.is_err());
    assert_eq!(
        running.load(Ordering::SeqCst),
        1,
        "the runtime cannot take a request back"
    );
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(
        running.load(Ordering::SeqCst),
        0,
        "its deadline is the handler's"
    );
    // Without one: that of the configuration.
    let began = Instant::now();
    let options = CallOptions::default();
    let call = runtime
        .client
        .call::<Empty>(service, "RunPodSandbox", &request, &options);
    assert_eq!(code(call.await), 4);
    assert_eq!(began.elapsed(), Duration::from_millis(2007));
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert!(run_pod(&runtime, "fine").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_dropped_when_the_connection_is_lost() {
    let plugin = Recorder::default();
    let running = Arc::clone(&plugin.running);
    let (_stub, session, runtime) = active(plugin).await;
    let client = runtime.client.clone();
    let call = async {
        let request = RunPodSandboxRequest { pod: pod("hang") };
        let service = longshore_nri_stub::api::service::PLUGIN;
        let options = CallOptions::default();
        client
            .call::<Empty>(service, "RunPodSandbox", &request, &options)
            .await
    };
    let dies = async {
        while running.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        drop(runtime);
    };
    let (answer, (), ended) = tokio::join!(call, dies, session.wait());
    assert!(answer.is_err() && ended.is_err());
    while running.load(Ordering::SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_decodes_huge_or_not_at_all_is_refused_and_the_next_request_served() {
    let (_stub, _session, runtime) = active(Recorder::default()).await;
    // 2 MiB of empty containers would be half a gigabyte.
    let huge = prost::bytes::Bytes::from([0x12, 0x00].repeat(1 << 20));
    let options = CallOptions::timeout(Duration::from_secs(9));
    let service = longshore_nri_stub::api::service::PLUGIN;
    let refused = runtime
        .client
        .call::<Empty>(service, "Synchronize", &Raw(huge), &options)
        .await;
    assert!(
        refused
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("00-test"),
        "{refused:?}"
    );
    assert_eq!(code(refused), 8);
    for method in ["Configure", "Synchronize", "CreateContainer", "StateChange"] {
        let garbage = Raw(prost::bytes::Bytes::from_static(&[0xff; 7]));
        let refused = runtime
            .client
            .call::<Empty>(service, method, &garbage, &options)
            .await;
        assert_eq!(code(refused), 13, "{method}");
    }
    assert!(run_pod(&runtime, "fine").await.is_ok());
    assert!(
        runtime
            .synchronize(&SynchronizeRequest::default())
            .await
            .is_ok()
    );
}

/// Bytes in the place of a message.
#[derive(Debug, Default)]
pub(crate) struct Raw(pub(crate) prost::bytes::Bytes);

impl prost::Message for Raw {
    fn encode_raw(&self, buffer: &mut impl prost::bytes::BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: prost::encoding::WireType,
        _: &mut impl prost::bytes::Buf,
        _: prost::encoding::DecodeContext,
    ) -> Result<(), prost::DecodeError> {
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
