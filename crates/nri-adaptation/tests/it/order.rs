//! Which request reaches which plugin when, and whose a deadline is. What policies do is in `policies.rs`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longshore_nri_adaptation::{
    Adaptation, BuiltinPlugin, Limits, PluginPolicy, PluginState, RequestError, RequestOptions,
};
use longshore_nri_api::{
    ConfigureRequest, ContainerAdjustment, ContainerUpdate, CreateContainerRequest,
    CreateContainerResponse, Empty, EventMask, UpdateContainersRequest, UpdateContainersResponse,
    ValidateContainerAdjustmentRequest, service,
};
use longshore_ttrpc::{CallOptions, Client, Code, Status};
use prost::Message;
use tokio::time::{Instant, sleep};

use crate::fake::{
    Fake, Gate, Node, PATIENCE, adaptation, builder, container, creation, options, pod, soon,
};

pub(crate) fn adds_env(name: &str) -> CreateContainerResponse {
    let mut adjust = ContainerAdjustment::default();
    adjust.add_env(name, "1");
    CreateContainerResponse {
        adjust: Some(adjust),
        ..Default::default()
    }
}

pub(crate) fn env(adjustment: &ContainerAdjustment) -> Vec<&str> {
    adjustment
        .env
        .iter()
        .map(|entry| entry.key.as_str())
        .collect()
}

pub(crate) fn policy(change: impl FnOnce(&mut PluginPolicy)) -> PluginPolicy {
    let mut policy = PluginPolicy::default();
    change(&mut policy);
    policy
}

pub(crate) async fn create(
    adaptation: &Adaptation,
    number: usize,
) -> Result<ContainerAdjustment, RequestError> {
    let created = soon(adaptation.create_container(creation(number), &options())).await;
    created.map(|created| created.adjustment)
}

/// Creates in the background.
fn creating(
    adaptation: &Adaptation,
    number: usize,
) -> tokio::task::JoinHandle<Result<ContainerAdjustment, RequestError>> {
    let adaptation = adaptation.clone();
    tokio::spawn(async move { create(&adaptation, number).await })
}

/// A plugin that creates slowly: each creation waits at the gate.
fn slow(name: &str, gate: &Gate) -> Fake {
    let gate = gate.clone();
    let name_of_env = name.replace('-', "_");
    Fake::new(name).on("CreateContainer", move |_| {
        let (gate, env) = (gate.clone(), adds_env(&name_of_env));
        async move {
            gate.pass().await;
            Ok(env)
        }
    })
}

#[tokio::test]
async fn requests_of_one_pod_keep_their_order_through_the_whole_chain() {
    // Even a plugin that takes several requests at once gets those of one pod in order.
    let parallel = policy(|policy| policy.serial = false);
    let adaptation = builder()
        .default_policy(parallel)
        .start(Node::default())
        .await
        .unwrap();
    let gate = Gate::default();
    let first = slow("00-a", &gate).join(&adaptation).await;
    let second = Fake::new("10-b").join(&adaptation).await;
    let create = creating(&adaptation, 0);
    gate.arrived(1).await;
    let start = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move {
            adaptation
                .start_container(&pod(0), &container(0), &options())
                .await
        })
    };
    // A request of another pod that both get: the one of the first pod would be with them by now.
    adaptation
        .run_pod_sandbox(&pod(1), &options())
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(!second.methods().contains(&"StartContainer".to_owned()));
    gate.open();
    create.await.unwrap().unwrap();
    start.await.unwrap().unwrap();
    let of = |methods: Vec<String>| {
        let wanted = ["CreateContainer", "StartContainer"];
        methods
            .into_iter()
            .filter(|it| wanted.contains(&it.as_str()))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(first.methods()), ["CreateContainer", "StartContainer"]);
    assert_eq!(of(second.methods()), ["CreateContainer", "StartContainer"]);
}

#[tokio::test]
async fn different_pods_are_pipelined_and_a_plugin_gets_one_request_at_a_time() {
    let adaptation = adaptation().await;
    let gate = Gate::default();
    let first = Fake::new("00-a").join(&adaptation).await;
    let second = slow("10-b", &gate).join(&adaptation).await;
    let requests = [creating(&adaptation, 0), creating(&adaptation, 1)];
    gate.arrived(1).await;
    // The first plugin is done with one while the second has the other.
    let both = || {
        first
            .requests::<CreateContainerRequest>("CreateContainer")
            .len()
            == 2
    };
    soon(async {
        while !both() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let waiting = || adaptation.plugins()[1].queued;
    soon(async {
        while waiting() != 1 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(
        second
            .requests::<CreateContainerRequest>("CreateContainer")
            .len(),
        1
    );
    gate.open();
    for request in requests {
        request.await.unwrap().unwrap();
    }
    assert_eq!(
        second
            .requests::<CreateContainerRequest>("CreateContainer")
            .len(),
        2
    );
}

#[tokio::test]
async fn a_plugin_that_opts_out_gets_requests_of_different_pods_side_by_side() {
    let parallel = policy(|policy| policy.serial = false);
    let adaptation = builder()
        .policy("b", parallel)
        .start(Node::default())
        .await
        .unwrap();
    let gate = Gate::default();
    let _plugin = slow("10-b", &gate).join(&adaptation).await;
    let requests = [
        creating(&adaptation, 0),
        creating(&adaptation, 1),
        creating(&adaptation, 2),
    ];
    gate.arrived(3).await;
    gate.open();
    for request in requests {
        request.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn events_go_to_all_plugins_at_once() {
    let adaptation = adaptation().await;
    let gate = Gate::default();
    let mut plugins = Vec::new();
    for name in ["00-a", "10-b", "20-c"] {
        let gate = gate.clone();
        let plugin = Fake::new(name).on("RunPodSandbox", move |_| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(Empty {})
            }
        });
        plugins.push(plugin.join(&adaptation).await);
    }
    let running = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move { adaptation.run_pod_sandbox(&pod(0), &options()).await })
    };
    gate.arrived(3).await;
    gate.open();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn updates_from_inside_a_handler_do_not_deadlock() {
    let node = Node::with(2, 2);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let client: Arc<OnceLock<Client>> = Arc::default();
    let asking = Arc::clone(&client);
    let plugin = Fake::new("00-a")
        .on("CreateContainer", move |_| {
            let client = asking.get().unwrap().clone();
            async move {
                let update = ContainerUpdate::new("ctr1");
                let request = UpdateContainersRequest {
                    update: vec![update],
                    evict: Vec::new(),
                };
                let options = CallOptions::timeout(PATIENCE);
                let answer: UpdateContainersResponse = client
                    .call(service::RUNTIME, "UpdateContainers", &request, &options)
                    .await
                    .map_err(|error| Status::new(Code::Internal, error.to_string()))?;
                assert!(answer.failed.is_empty());
                Ok(adds_env("UPDATED"))
            }
        })
        .attach(&adaptation);
    client.get_or_init(|| plugin.client.clone());
    plugin.register().await.unwrap();
    soon(adaptation.active("a")).await;
    assert_eq!(env(&create(&adaptation, 0).await.unwrap()), ["UPDATED"]);
    assert_eq!(node.applied().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_callers_deadline_closes_no_plugin_and_the_next_request_waits_for_the_answer() {
    let adaptation = adaptation().await;
    let plugin = Fake::new("00-a")
        .on("CreateContainer", |_| async {
            sleep(Duration::from_millis(1500)).await;
            Ok(adds_env("A"))
        })
        .join(&adaptation)
        .await;
    let began = Instant::now();
    let impatient = RequestOptions {
        deadline: Some(began + Duration::from_millis(100)),
        ..Default::default()
    };
    let late = adaptation.create_container(creation(0), &impatient).await;
    assert!(
        matches!(late, Err(RequestError::Deadline { .. })),
        "{late:?}"
    );
    assert_eq!(began.elapsed().as_millis() / 10, 10, "it is told at once");
    // The same pod, and another one: each after the request that was given up.
    let other = {
        let adaptation = adaptation.clone();
        tokio::spawn(async move { adaptation.run_pod_sandbox(&pod(1), &options()).await })
    };
    adaptation
        .start_container(&pod(0), &container(0), &options())
        .await
        .unwrap();
    other.await.unwrap().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(1500));
    assert!(plugin.is_open());
    let status = &adaptation.plugins()[0];
    assert_eq!((status.strikes, status.state), (0, PluginState::Active));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_in_the_queue_of_the_pod_or_plugin_is_the_callers_alone() {
    let adaptation = adaptation().await;
    let gate = Gate::default();
    let plugin = slow("00-a", &gate).join(&adaptation).await;
    let first = creating(&adaptation, 0);
    gate.arrived(1).await;
    for number in [0, 1] {
        let impatient = RequestOptions {
            deadline: Some(Instant::now() + Duration::from_millis(10)),
            ..Default::default()
        };
        let late = adaptation.run_pod_sandbox(&pod(number), &impatient).await;
        assert!(
            matches!(late, Err(RequestError::Deadline { .. })),
            "{late:?}"
        );
    }
    gate.open();
    first.await.unwrap().unwrap();
    assert!(
        !plugin.methods().contains(&"RunPodSandbox".to_owned()),
        "it was never sent"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_harms_nothing() {
    let adaptation = adaptation().await;
    let gate = Gate::default();
    let first = slow("00-a", &gate).join(&adaptation).await;
    let second = Fake::new("10-b").join(&adaptation).await;
    let request = creating(&adaptation, 0);
    gate.arrived(1).await;
    request.abort();
    assert!(request.await.is_err());
    let next = creating(&adaptation, 0);
    gate.open();
    next.await.unwrap().unwrap();
    assert!(first.is_open());
    assert_eq!(
        first
            .requests::<CreateContainerRequest>("CreateContainer")
            .len(),
        2
    );
    let asked = second
        .requests::<CreateContainerRequest>("CreateContainer")
        .len();
    assert_eq!(asked, 1, "plugins later in the chain are not asked");
}

#[tokio::test]
async fn plugins_of_the_same_name_are_asked_in_the_order_of_their_arrival() {
    let adaptation = adaptation().await;
    let mut plugins = Vec::new();
    for (name, env) in [
        ("10-b", "B"),
        ("10-a", "FIRST"),
        ("10-a", "SECOND"),
        ("00-z", "Z"),
    ] {
        let fake = Fake::new(name).on("CreateContainer", move |_| async move { Ok(adds_env(env)) });
        let live = fake.attach(&adaptation);
        live.register().await.unwrap();
        let count = plugins.len() + 1;
        plugins.push(live);
        let mut changes = adaptation.changes();
        let active = |_: &u64| {
            let all = adaptation.plugins();
            all.iter()
                .filter(|it| it.state == PluginState::Active)
                .count()
                == count
        };
        soon(changes.wait_for(active)).await.unwrap();
    }
    assert_eq!(
        env(&create(&adaptation, 0).await.unwrap()),
        ["Z", "FIRST", "SECOND", "B"]
    );
}

#[tokio::test]
async fn more_requests_than_are_accepted_fail_at_once() {
    let mut limits = Limits::default();
    limits.requests = 1;
    let adaptation = builder()
        .limits(limits)
        .start(Node::default())
        .await
        .unwrap();
    let gate = Gate::default();
    let _plugin = slow("00-a", &gate).join(&adaptation).await;
    let first = creating(&adaptation, 0);
    gate.arrived(1).await;
    let busy = create(&adaptation, 1).await;
    assert!(
        matches!(busy, Err(RequestError::Busy { max: 1 })),
        "{busy:?}"
    );
    gate.open();
    first.await.unwrap().unwrap();
    create(&adaptation, 1).await.unwrap();
}

#[tokio::test]
async fn a_request_without_a_container_or_pod_is_refused() {
    let adaptation = adaptation().await;
    let _plugin = Fake::new("00-a").join(&adaptation).await;
    let request = CreateContainerRequest::default();
    let refused = adaptation.create_container(request, &options()).await;
    assert!(matches!(
        refused,
        Err(RequestError::Incomplete {
            missing: "container",
            ..
        })
    ));
    let refused = adaptation
        .update_pod_sandbox(Default::default(), &options())
        .await;
    assert!(matches!(
        refused,
        Err(RequestError::Incomplete { missing: "pod", .. })
    ));
}

struct Builtin(&'static str);

impl BuiltinPlugin for Builtin {
    async fn configure(&self, request: ConfigureRequest) -> Result<EventMask, Status> {
        assert_eq!(request.runtime_name, "test-runtime");
        Ok(EventMask::ALL)
    }

    async fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> Result<CreateContainerResponse, Status> {
        let container = request.container.unwrap();
        assert!(
            !container.env.is_empty() || self.0 == "FIRST",
            "it is shown what came before"
        );
        assert!(container.id != "ctr1", "this one panics");
        Ok(adds_env(self.0))
    }

    async fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> Result<(), String> {
        match request.container.unwrap().id.as_str() {
            "ctr2" => Err("not this one".to_owned()),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn built_in_plugins_stand_in_the_same_chain_and_a_panic_is_an_error_like_another() {
    let adaptation = builder()
        .builtin("20", "last", Builtin("LAST"))
        .builtin("00", "first", Builtin("FIRST"))
        .start(Node::with(1, 1))
        .await
        .unwrap();
    let fake = Fake::new("10-remote").on("CreateContainer", |_| async { Ok(adds_env("REMOTE")) });
    let _remote = fake.join(&adaptation).await;
    assert_eq!(
        env(&create(&adaptation, 0).await.unwrap()),
        ["FIRST", "REMOTE", "LAST"]
    );
    let failed = create(&adaptation, 1).await.unwrap_err();
    assert!(failed.to_string().contains("panicked"), "{failed}");
    let rejected = create(&adaptation, 2).await.unwrap_err();
    assert_eq!(
        rejected.to_string(),
        r#"validator "00-first" rejected container adjustment, reason: not this one"#
    );
    adaptation.shutdown().await;
    let ended = create(&adaptation, 0).await;
    assert!(matches!(ended, Err(RequestError::Shutdown)), "{ended:?}");
}

#[tokio::test]
async fn a_built_in_plugin_without_a_valid_name_does_not_start() {
    let started = builder()
        .builtin("1", "x", Builtin("X"))
        .start(Node::default())
        .await;
    assert!(started.unwrap_err().to_string().contains(r#""1" "x""#));
}

#[tokio::test]
async fn metadata_of_a_request_goes_along() {
    let adaptation = adaptation().await;
    let plugin = Fake::new("00-a").join(&adaptation).await;
    let traced = RequestOptions {
        metadata: vec![longshore_ttrpc::KeyValue {
            key: "traceparent".to_owned(),
            value: "00-1-2-03".to_owned(),
        }],
        ..Default::default()
    };
    adaptation.run_pod_sandbox(&pod(0), &traced).await.unwrap();
    assert_eq!(plugin.metadata("RunPodSandbox"), traced.metadata);
    let request = longshore_nri_api::RunPodSandboxRequest { pod: Some(pod(0)) };
    let told = plugin.requests::<longshore_nri_api::RunPodSandboxRequest>("RunPodSandbox");
    assert_eq!(told, [request]);
    assert!(Empty {}.encode_to_vec().is_empty());
}
