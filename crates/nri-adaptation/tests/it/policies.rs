//! Timeouts, strikes, and what the policy of a plugin says.

use std::time::Duration;

use longshore_nri_adaptation::{Adaptation, CallFailure, OnFailure, PluginState, RequestError};
use longshore_nri_api::{ContainerUpdate, Event, EventMask, Field, UpdateContainersRequest};
use longshore_ttrpc::{Code, Status};
use tokio::time::{Instant, sleep};

use crate::fake::{Fake, Node, adaptation, builder, defaults, options, pod, present, soon};
use crate::order::{adds_env, create, env, policy};

#[tokio::test(start_paused = true)]
async fn row_260_a_plugin_that_is_late_is_closed_and_the_request_goes_on_without_it() {
    let adaptation = defaults().start(Node::with(2, 2)).await.unwrap();
    let late = Fake::new("00-late")
        .hangs("CreateContainer")
        .join(&adaptation)
        .await;
    let good = Fake::new("10-good").on("CreateContainer", |_| async { Ok(adds_env("GOOD")) });
    let _good = good.join(&adaptation).await;
    let began = Instant::now();
    assert_eq!(env(&create(&adaptation, 0).await.unwrap()), ["GOOD"]);
    assert_eq!(began.elapsed().as_secs(), 2);
    late.closed().await;
    assert_eq!(present(&adaptation).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_has_as_many_strikes_as_its_policy_says_and_a_late_reply_harms_nothing() {
    let patient = policy(|policy| policy.strikes = 3);
    let adaptation = defaults()
        .policy("00-late", patient)
        .start(Node::default())
        .await
        .unwrap();
    let plugin = Fake::new("00-late")
        .on("CreateContainer", |_| async {
            sleep(Duration::from_secs(3)).await;
            Ok(adds_env("LATE"))
        })
        .join(&adaptation)
        .await;
    for strikes in 1..3 {
        assert!(env(&create(&adaptation, 0).await.unwrap()).is_empty());
        assert_eq!(adaptation.plugins()[0].strikes, strikes);
    }
    // An answer in time forgets them.
    adaptation
        .run_pod_sandbox(&pod(0), &options())
        .await
        .unwrap();
    assert_eq!(adaptation.plugins()[0].strikes, 0);
    sleep(Duration::from_secs(5)).await;
    assert!(plugin.is_open(), "late replies came meanwhile");
    for _ in 0..3 {
        create(&adaptation, 0).await.unwrap();
    }
    plugin.closed().await;
}

#[tokio::test(start_paused = true)]
async fn timeouts_can_be_those_of_a_plugin_and_of_an_event() {
    let quick = policy(|policy| {
        policy.request_timeout = Some(Duration::from_millis(100));
        let created = EventMask::of(Event::CreateContainer);
        policy.event_timeouts = vec![(created, Duration::from_secs(10))];
    });
    let adaptation = defaults()
        .policy("quick", quick)
        .start(Node::default())
        .await
        .unwrap();
    let plugin = Fake::new("00-quick")
        .hangs("RunPodSandbox")
        .on("CreateContainer", |_| async {
            sleep(Duration::from_secs(9)).await;
            Ok(adds_env("SLOW"))
        })
        .join(&adaptation)
        .await;
    assert_eq!(env(&create(&adaptation, 0).await.unwrap()), ["SLOW"]);
    let began = Instant::now();
    adaptation
        .run_pod_sandbox(&pod(0), &options())
        .await
        .unwrap();
    assert_eq!(began.elapsed().as_millis() / 10, 10);
    plugin.closed().await;
}

#[tokio::test(start_paused = true)]
async fn under_fail_request_a_late_plugin_fails_the_request_and_the_next_goes_on() {
    let strict = policy(|policy| policy.on_failure = OnFailure::FailRequest);
    let adaptation = defaults()
        .policy("late", strict)
        .start(Node::default())
        .await
        .unwrap();
    let plugin = Fake::new("00-late")
        .hangs("CreateContainer")
        .join(&adaptation)
        .await;
    let failed = create(&adaptation, 0).await;
    let Err(RequestError::Plugin {
        plugin: name,
        failure,
        ..
    }) = failed
    else {
        panic!("it fails: {failed:?}")
    };
    assert_eq!(name, "00-late");
    assert!(matches!(failure, CallFailure::Timeout(_)));
    plugin.closed().await;
    create(&adaptation, 0).await.unwrap();
}

#[tokio::test]
async fn under_fail_until_back_nothing_is_created_without_the_plugin() {
    let required = policy(|policy| policy.on_failure = OnFailure::FailUntilBack);
    let adaptation = builder()
        .policy("guard", required)
        .start(Node::default())
        .await
        .unwrap();
    let missing = |created: Result<_, RequestError>| matches!(created, Err(RequestError::Missing { plugin }) if plugin == "guard");
    assert!(missing(create(&adaptation, 0).await), "from the start on");
    assert_eq!(adaptation.plugins()[0].state, PluginState::Missing);
    adaptation
        .run_pod_sandbox(&pod(0), &options())
        .await
        .unwrap();

    let plugin = Fake::new("10-guard").join(&adaptation).await;
    create(&adaptation, 0).await.unwrap();
    plugin.vanish();
    let gone = |adaptation: &Adaptation| adaptation.plugins()[0].state == PluginState::Missing;
    let mut changes = adaptation.changes();
    soon(changes.wait_for(|_| gone(&adaptation))).await.unwrap();
    assert!(create(&adaptation, 0).await.is_err(), "until it is back");

    let back = Fake::new("10-guard").join(&adaptation).await;
    create(&adaptation, 0).await.unwrap();
    back.vanish();
    soon(changes.wait_for(|_| gone(&adaptation))).await.unwrap();
    assert!(adaptation.remove_plugin("guard") > 0, "or removed");
    create(&adaptation, 0).await.unwrap();
    assert!(adaptation.plugins().is_empty());
}

#[tokio::test]
async fn an_answer_that_is_an_error_fails_the_request_and_later_plugins_are_not_asked() {
    let adaptation = adaptation().await;
    let refusal = Status::new(Code::PermissionDenied, "not on this node");
    let first = Fake::new("00-a")
        .fails("CreateContainer", refusal)
        .join(&adaptation)
        .await;
    let second = Fake::new("10-b").join(&adaptation).await;
    let failed = create(&adaptation, 0).await.unwrap_err();
    assert_eq!(failed.code(), Code::PermissionDenied);
    assert!(failed.to_string().contains("00-a"), "{failed}");
    assert!(failed.to_string().contains("not on this node"), "{failed}");
    assert!(first.is_open());
    assert!(!second.methods().contains(&"CreateContainer".to_owned()));
    let status = &adaptation.plugins()[0];
    assert_eq!(
        status.last_error.as_deref(),
        Some("CreateContainer: not on this node (status 7 PermissionDenied)")
    );
    assert_eq!(status.requests, 1);
}

#[tokio::test]
async fn a_plugin_may_set_only_the_fields_and_gets_only_the_events_that_its_policy_allows() {
    let narrow = policy(|policy| {
        policy.allow_fields = [Field::Annotations].into_iter().collect();
        policy.allow_events = EventMask::of(Event::CreateContainer);
    });
    let node = Node::with(1, 1);
    let adaptation = builder()
        .policy("a", narrow)
        .start(node.clone())
        .await
        .unwrap();
    let plugin = Fake::new("00-a").on("CreateContainer", |_| async { Ok(adds_env("A")) });
    let plugin = plugin.join(&adaptation).await;
    adaptation
        .run_pod_sandbox(&pod(0), &options())
        .await
        .unwrap();
    let denied = create(&adaptation, 0).await.unwrap_err();
    assert_eq!(
        denied.to_string(),
        r#"plugin "00-a" set Env, which its policy does not allow"#
    );
    assert_eq!(
        plugin.methods(),
        ["Configure", "Synchronize", "CreateContainer"]
    );

    let mut update = ContainerUpdate::new("ctr0");
    update.resources_mut().set_pids_limit(3);
    let request = UpdateContainersRequest {
        update: vec![update],
        evict: Vec::new(),
    };
    assert!(plugin.update(&request).await.is_err());
    assert!(node.applied().is_empty());
}
