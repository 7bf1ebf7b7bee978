//! The examples do what they say: each is served by a stub, and asked by a runtime.

use longshore_nri_stub::Plugin;
use longshore_nri_stub::api::{
    ConfigureRequest, Container, ContainerAdjustment, CreateContainerRequest,
    CreateContainerResponse, Field, Hooks, LinuxNamespace, Mount, OwningPlugins, PodSandbox,
    SynchronizeRequest, ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse,
};
use longshore_nri_stub::{CallError, Session, Stub};
use tempfile::tempdir;

use crate::runtime::{FakeRuntime, pair, today};

#[path = "../../examples/cpu_shares.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod cpu_shares;
#[path = "../../examples/device_injector.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod device_injector;
#[path = "../../examples/logger.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod logger;
#[path = "../../examples/validator.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod validator;

/// A plugin that is configured with this text.
async fn configured<P: Plugin>(plugin: P, config: &str) -> (Stub<P>, Session, FakeRuntime) {
    let (stub, mut runtime) = pair(plugin);
    let serves = async {
        runtime.registration().await;
        let request = ConfigureRequest {
            config: config.into(),
            ..today()
        };
        runtime.configure(&request).await.unwrap();
        runtime
    };
    let (session, runtime) = tokio::join!(stub.start(), serves);
    (stub, session.unwrap(), runtime)
}

async fn create(
    runtime: &FakeRuntime,
    annotations: &[(&str, &str)],
) -> Result<ContainerAdjustment, CallError> {
    let annotations = annotations
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()));
    let request = CreateContainerRequest {
        pod: Some(PodSandbox {
            annotations: annotations.collect(),
            ..PodSandbox::default()
        }),
        container: Some(Container {
            name: "c0".into(),
            ..Container::default()
        }),
    };
    let reply: CreateContainerResponse = runtime.call("CreateContainer", &request).await?;
    Ok(reply.adjust.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn the_device_injector_gives_what_annotations_ask_for() {
    let (_stub, _session, runtime) = configured(device_injector::Injector, "").await;
    let adjustment = create(
        &runtime,
        &[
            (
                "devices.noderesource.dev/container.c0",
                "- path: /dev/nri-null\n  type: c\n  major: 1\n  minor: 3\n  uid: 7",
            ),
            ("devices.noderesource.dev/container.c1", "nonsense"),
            ("devices.noderesource.dev", "[{path: /dev/wide, type: c}]"),
            (
                "mounts.nri.io/pod",
                "[{source: /home, destination: /host-home, type: bind, options: [bind, ro]}]",
            ),
            (
                "cdi-devices.noderesource.dev",
                "[vendor.com/class=a, vendor.com/class=b]",
            ),
            (
                "network-devices.noderesource.dev",
                "[{hostIf: eth1, name: eth0}]",
            ),
            (
                "io-priority.noderesource.dev",
                "{class: IOPRIO_CLASS_RT, priority: 3}",
            ),
            (
                "scheduling-policy.noderesource.dev",
                "{policy: SCHED_FIFO, priority: 10, flags: [SCHED_FLAG_RESET_ON_FORK]}",
            ),
            ("sysctl.noderesource.dev", "{net.core.somaxconn: \"1024\"}"),
            (
                "memory-policy.noderesource.dev",
                "{mode: MPOL_BIND, nodes: \"0-1\"}",
            ),
        ],
    )
    .await
    .unwrap();
    let linux = adjustment.linux.unwrap();
    assert_eq!(linux.devices.len(), 1, "the narrowest annotation wins");
    let device = &linux.devices[0];
    assert_eq!(
        (device.path.as_str(), device.major, device.minor),
        ("/dev/nri-null", 1, 3)
    );
    assert_eq!(device.uid.map(|uid| uid.value), Some(7));
    assert_eq!(device.gid, None);
    assert_eq!(adjustment.mounts[0].options, ["bind", "ro"]);
    assert_eq!(adjustment.cdi_devices.len(), 2);
    assert_eq!(linux.net_devices["eth1"].name, "eth0");
    assert_eq!(linux.io_priority.unwrap().priority, 3);
    let scheduler = linux.scheduler.unwrap();
    assert_eq!((scheduler.priority, scheduler.flags.len()), (10, 1));
    assert_eq!(linux.sysctl["net.core.somaxconn"], "1024");
    assert_eq!(linux.memory_policy.unwrap().nodes, "0-1");

    assert_eq!(
        create(&runtime, &[]).await.unwrap(),
        ContainerAdjustment::default()
    );
    for (key, value) in [
        ("devices.noderesource.dev", "nonsense"),
        ("io-priority.noderesource.dev", "{class: FAST}"),
        ("memory-policy.noderesource.dev", "{mode: MPOL_X}"),
    ] {
        let failed = create(&runtime, &[(key, value)]).await;
        assert!(
            matches!(failed, Err(CallError::Remote(_))),
            "{key}: {failed:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_logger_writes_lines_and_leaves_its_marks() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("log");
    let config = format!(
        "logFile: {}\nevents: [CreateContainer]\naddAnnotation: seen\nsetEnv: OWNER\n",
        path.display()
    );
    let (_stub, _session, runtime) = configured(logger::Logger::default(), &config).await;
    let all = SynchronizeRequest {
        pods: vec![PodSandbox {
            name: "p0".into(),
            ..PodSandbox::default()
        }],
        ..SynchronizeRequest::default()
    };
    runtime.synchronize(&all).await.unwrap();
    let adjustment = create(&runtime, &[("who", "me")]).await.unwrap();
    let mark = format!("logger-pid-{}", std::process::id());
    assert_eq!(adjustment.annotations["seen"], mark);
    let env: Vec<_> = adjustment
        .env
        .iter()
        .map(|it| (it.key.as_str(), it.value.as_str()))
        .collect();
    assert_eq!(env, [("-OWNER", ""), ("OWNER", mark.as_str())]);
    let lines = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(
        lines,
        [
            "Configure test-runtime 1.2.3 NRI v9.8.7",
            "Synchronize 1 pods 0 containers",
            r#"Synchronize {"name":"p0"}"#,
            r#"CreateContainer {"annotations":{"who":"me"}} {"name":"c0"}"#,
        ]
    );
}

async fn verdict(
    runtime: &FakeRuntime,
    adjust: ContainerAdjustment,
) -> ValidateContainerAdjustmentResponse {
    let mut owners = OwningPlugins::default();
    owners
        .claim("id0", Field::Mounts, Some("/data"), "10-mounter")
        .unwrap();
    let request = ValidateContainerAdjustmentRequest {
        container: Some(Container {
            id: "id0".into(),
            ..Container::default()
        }),
        adjust: Some(adjust),
        owners: Some(owners),
        ..ValidateContainerAdjustmentRequest::default()
    };
    runtime
        .call("ValidateContainerAdjustment", &request)
        .await
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_validator_names_who_asked_for_too_much() {
    let plugin = validator::Validator::default();
    let (_stub, _session, runtime) = configured(plugin, "/srv/data\n").await;
    let mount = |source: &str| {
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_mount(Mount {
            source: source.into(),
            destination: "/data".into(),
            ..Mount::default()
        });
        adjustment
    };
    let namespace = |kind: &str, path: &str| {
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_or_replace_namespace(LinuxNamespace {
            r#type: kind.into(),
            path: path.into(),
        });
        adjustment
    };
    let mut hooks = ContainerAdjustment::default();
    hooks.add_hooks(Hooks::default());
    let mut harmless = ContainerAdjustment::default();
    harmless.add_env("A", "1").remove_mount("/etc");
    for (adjustment, reason) in [
        (harmless, None),
        (mount("/srv/data/a"), None),
        (mount("tmpfs"), None),
        (
            mount("/srv/database"),
            Some("10-mounter mounts /srv/database"),
        ),
        (mount("/srv/data/../../etc"), Some("10-mounter mounts")),
        (mount("/var/lib/plugins/x"), Some("10-mounter mounts")),
        (hooks, Some("OCI hooks")),
        (namespace("uts", ""), None),
        (namespace("uts", "/proc/1/ns/uts"), Some("uts namespace")),
        (namespace("-network", ""), Some("network namespace")),
    ] {
        let verdict = verdict(&runtime, adjustment.clone()).await;
        assert_eq!(
            verdict.reject,
            reason.is_some(),
            "{adjustment:?}: {verdict:?}"
        );
        assert!(
            verdict.reason.contains(reason.unwrap_or_default()),
            "{verdict:?}"
        );
    }
}

/// What a newcomer copies is what is tried here.
#[test]
fn the_plugin_in_the_documentation_is_the_example() {
    let example = include_str!("../../examples/cpu_shares.rs");
    let blocks = [
        (include_str!("../../README.md"), "```no_run\n"),
        (
            include_str!("../../../../docs/quickstart-nri.md"),
            "```rust\n",
        ),
    ];
    for (text, fence) in blocks {
        let (_, rest) = text.split_once(fence).unwrap();
        let (block, _) = rest.split_once("```").unwrap();
        assert_eq!(block, example);
    }
}

#[tokio::test(start_paused = true)]
async fn the_plugin_in_the_documentation_sets_shares() {
    let (_stub, _session, runtime) = configured(cpu_shares::Shares, "").await;
    let key = "cpu-shares.example.com";
    let adjustment = create(&runtime, &[(key, "512")]).await.unwrap();
    let resources = adjustment.linux.unwrap().resources.unwrap();
    assert_eq!(resources.cpu.unwrap().shares.unwrap().value, 512);
    assert_eq!(
        create(&runtime, &[]).await.unwrap(),
        ContainerAdjustment::default()
    );
    let refused = create(&runtime, &[(key, "lots")]).await.unwrap_err();
    assert!(refused.to_string().contains("invalid digit"), "{refused}");
}
