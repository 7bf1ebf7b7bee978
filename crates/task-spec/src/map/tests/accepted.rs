// long: one test a row of the mapping

use longshore_engine::spec::{NetworkMode, PortBinding, Propagation, Protocol};
use longshore_engine::{Mount, MountKind};

use super::*;
use crate::DefaultDns;

fn environment(spec: &ContainerSpec) -> Vec<(&str, &str)> {
    spec.env
        .iter()
        .map(|variable| (variable.name.as_str(), variable.value.as_str()))
        .collect()
}

fn resources(
    resources: &[(&str, f64)],
    limits: &[(&str, f64)],
    context: &TaskContext,
) -> ContainerSpec {
    map_task(&with_resources(resources, limits), context)
        .unwrap()
        .container
}

#[test]
fn row_privileged_name_and_image() {
    let mapped = map_task(
        &task(r#""privileged":true,"force_pull_image":true,"#, "", ""),
        &context(),
    )
    .unwrap();
    assert!(mapped.container.privileged && mapped.pull == PullPolicy::Always);
    assert_eq!(mapped.container.name.as_deref(), Some("longshore-1"));
    assert_eq!(
        mapped.container.image, "docker.io/library/busybox:latest",
        "untagged is latest"
    );
    let mapped = map_task(&task("", "", ""), &context()).unwrap();
    assert!(!mapped.container.privileged && mapped.pull == PullPolicy::Missing);
}

#[test]
fn row_parameter_pull() {
    for (docker, policy) in [
        (r#"[{"key":"pull","value":"never"}]"#, PullPolicy::Never),
        (r#"[{"key":"pull","value":"missing"}]"#, PullPolicy::Missing),
        (
            r#"[{"key":"pull","value":"never"},{"key":"pull","value":"always"}]"#,
            PullPolicy::Always,
        ),
    ] {
        for forced in ["", r#""force_pull_image":true,"#] {
            let json = task(&format!(r#"{forced}"parameters":{docker},"#), "", "");
            assert_eq!(
                map_task(&json, &context()).unwrap().pull,
                policy,
                "{docker}"
            );
        }
    }
}

#[test]
fn row_cpus_request() {
    for (cpus, shares) in [
        (1.0, 1024),
        (0.5, 512),
        (0.1, 102),
        (0.0, 2),
        (0.001, 2),
        (3.7, 3788),
    ] {
        let spec = resources(&[("cpus", cpus)], &[], &context());
        assert_eq!(spec.resources.cpu_shares, Some(shares), "{cpus}");
        assert_eq!(spec.resources.cpu_quota, None, "no limit without one");
    }
    let two = resources(&[("cpus", 0.5), ("cpus", 0.5)], &[], &context());
    assert_eq!(
        two.resources.cpu_shares,
        Some(1024),
        "resources of one name add up"
    );
    assert_eq!(resources(&[], &[], &context()).resources.cpu_shares, None);
}

#[test]
fn row_resources_are_those_of_the_task_and_of_its_executor() {
    let mut task = with_resources(&[("cpus", 1.0), ("mem", 64.0)], &[]);
    task.executor = Some(longshore_mesos_api::v1::ExecutorInfo {
        resources: vec![scalar("cpus", 0.5), scalar("mem", 32.0)],
        ..Default::default()
    });
    let spec = map_task(&task, &context()).unwrap().container;
    assert_eq!(spec.resources.cpu_shares, Some(1536));
    assert_eq!(spec.resources.memory, Some(96 * MIB));
}

#[test]
fn dx18_row_limits_cpus() {
    let cfs = TaskContext {
        enable_cfs: true,
        ..context()
    };
    let infinity = f64::INFINITY;
    type Scalars<'a> = &'a [(&'a str, f64)];
    let cases: [(&TaskContext, Scalars<'_>, Scalars<'_>, Option<i64>); 6] = [
        (&cfs, &[("cpus", 1.0)], &[], Some(100_000)),
        (&cfs, &[("cpus", 0.001)], &[], Some(1000)),
        (
            &context(),
            &[("cpus", 0.5)],
            &[("cpus", 1.5)],
            Some(150_000),
        ),
        (&context(), &[], &[("cpus", 0.0)], Some(1000)),
        (&cfs, &[("cpus", 1.0)], &[("cpus", infinity)], None),
        (&context(), &[("cpus", 1.0)], &[], None),
    ];
    for (context, request, limits, quota) in cases {
        let spec = resources(request, limits, context);
        assert_eq!(spec.resources.cpu_quota, quota, "{request:?} {limits:?}");
        assert_eq!(
            spec.resources.cpu_period,
            quota.map(|_| 100_000),
            "{request:?} {limits:?}"
        );
    }
}

#[test]
fn row_mem_request_limit_and_reservation() {
    let infinity = f64::INFINITY;
    type Case = (
        &'static [(&'static str, f64)],
        Vec<(&'static str, f64)>,
        Option<u64>,
        Option<u64>,
        Option<i32>,
    );
    let cases: Vec<Case> = vec![
        (&[("mem", 64.0)], vec![], Some(64 * MIB), None, None),
        (&[("mem", 64.9)], vec![], Some(64 * MIB), None, None),
        (&[("mem", 1.0)], vec![], Some(32 * MIB), None, None),
        (
            &[("mem", 64.0)],
            vec![("mem", 64.0)],
            Some(64 * MIB),
            Some(64 * MIB),
            None,
        ),
        (
            &[("mem", 16.0)],
            vec![("mem", 20.0)],
            Some(32 * MIB),
            Some(32 * MIB),
            Some(999),
        ),
        // A quarter of the host's 16 GiB.
        (
            &[("mem", 4096.0)],
            vec![("mem", 8192.0)],
            Some(8 * GIB),
            Some(4 * GIB),
            Some(750),
        ),
        (
            &[("mem", 4096.0)],
            vec![("mem", infinity)],
            None,
            Some(4 * GIB),
            Some(750),
        ),
        (
            &[("mem", 65536.0)],
            vec![("mem", infinity)],
            None,
            Some(64 * GIB),
            Some(0),
        ),
        (&[], vec![("mem", 64.0)], Some(64 * MIB), None, None),
        (&[], vec![], None, None, None),
    ];
    for (request, limits, memory, reservation, score) in cases {
        let spec = resources(request, &limits, &context());
        assert_eq!(spec.resources.memory, memory, "{request:?} {limits:?}");
        assert_eq!(
            spec.resources.memory_reservation, reservation,
            "{request:?} {limits:?}"
        );
        assert_eq!(spec.oom_score_adj, score, "{request:?} {limits:?}");
    }
}

#[test]
fn dx20_infinite_limits_are_no_limits() {
    let infinity = f64::INFINITY;
    let limits = [("cpus", infinity), ("mem", infinity)];
    let spec = resources(&[("cpus", 1.0), ("mem", 64.0)], &limits, &context());
    assert_eq!(
        (spec.resources.cpu_quota, spec.resources.memory),
        (None, None)
    );
}

#[test]
fn dx24_row_environment() {
    let context = TaskContext {
        task_environment: vec![
            ("B".to_owned(), "hook".to_owned()),
            ("Z".to_owned(), "z".to_owned()),
        ],
        ..context()
    };
    let mut task = task(
        r#""parameters":[{"key":"env","value":"P=p=q"},{"key":"env","value":"MESOS_SANDBOX=/x"}],"#,
        "",
        r#""command":{"shell":false,"environment":{"variables":[
            {"name":"B","value":"own"},{"name":"A","value":"first"},{"name":"A","value":"second"},
            {"name":"S","type":"SECRET","secret":{"type":"VALUE","value":{"data":"aHVudGVyMg=="}}},
            {"name":"MESOS_CONTAINER_NAME","value":"mine"},{"name":"LINES","value":"a\nb"}]}},"#,
    );
    let mut cpus = scalar("cpus", 1.0);
    cpus.allocation_info = Some(longshore_mesos_api::v1::resource::AllocationInfo {
        role: Some("X".to_owned()),
    });
    task.resources = vec![cpus];
    let mapped = map_task(&task, &context).unwrap();
    let expected = [
        ("A", "second"),
        ("B", "hook"),
        ("LINES", "a\nb"),
        ("MESOS_ALLOCATION_ROLE", "X"),
        ("MESOS_CONTAINER_NAME", "longshore-1"),
        ("MESOS_SANDBOX", "/mnt/mesos/sandbox"),
        ("P", "p=q"),
        ("S", "hunter2"),
        ("Z", "z"),
    ];
    assert_eq!(environment(&mapped.container), expected);
    let shown = format!("{mapped:?} {context:?}");
    for secret in ["hunter2", "second", "hook", "p=q"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn row_environment_without_resources_or_sandbox() {
    let context = TaskContext {
        sandbox: None,
        ..context()
    };
    let spec = map_with(&context, "", "", "");
    assert_eq!(
        environment(&spec),
        [("MESOS_CONTAINER_NAME", "longshore-1")]
    );
    assert_eq!(spec.mounts, []);
}

fn volumes(text: &str) -> Vec<Mount> {
    let mut mounts = map("", &format!(r#""volumes":[{text}],"#), "").mounts;
    let sandbox = mounts.pop().unwrap();
    assert_eq!(sandbox.target, "/mnt/mesos/sandbox", "always last");
    mounts
}

#[test]
fn dx30_row_volumes_host_path() {
    let found = volumes(
        r#"{"host_path":"/srv/a","container_path":"/a","mode":"RW"},
           {"host_path":"b/c","container_path":"/b","mode":"RO"},
           {"host_path":"/srv/d","container_path":"d","mode":"RO"}"#,
    );
    let expected = [
        Mount::bind("/srv/a", "/a"),
        Mount::bind("/var/lib/x/sandbox/b/c", "/b").read_only(),
        Mount::bind("/srv/d", "/mnt/mesos/sandbox/d").read_only(),
    ];
    assert_eq!(found, expected);
}

#[test]
fn row_volumes_docker_volume_with_its_driver_and_options() {
    let text = r#"{"container_path":"/v","mode":"RO","source":{"type":"DOCKER_VOLUME","docker_volume":
        {"driver":"rexray","name":"vol1","driver_options":{"parameter":[{"key":"password","value":"hunter2"}]}}}}"#;
    let found = volumes(text);
    assert!(found[0].read_only);
    let MountKind::Volume {
        name,
        driver,
        driver_options,
        ..
    } = &found[0].kind
    else {
        panic!("{found:?}");
    };
    assert_eq!(
        (name.as_deref(), driver.as_deref()),
        (Some("vol1"), Some("rexray"))
    );
    assert_eq!(driver_options["password"], "hunter2");
    assert!(!format!("{found:?}").contains("hunter2"));
}

#[test]
fn row_volume_driver_makes_a_relative_host_path_the_name_of_a_volume() {
    let spec = map(
        r#""volume_driver":"rexray","#,
        r#""volumes":[{"host_path":"vol1","container_path":"/v","mode":"RW"},
            {"host_path":"vol2","container_path":"data","mode":"RW"},
            {"host_path":"/srv","container_path":"/s","mode":"RW"}],"#,
        "",
    );
    assert_eq!(spec.volume_driver.as_deref(), Some("rexray"));
    let targets: Vec<_> = spec
        .mounts
        .iter()
        .map(|mount| mount.target.as_str())
        .collect();
    assert_eq!(
        targets,
        ["/v", "/mnt/mesos/sandbox/data", "/s", "/mnt/mesos/sandbox"]
    );
    let volumes = spec
        .mounts
        .iter()
        .filter(|mount| matches!(mount.kind, MountKind::Volume { .. }));
    assert_eq!(volumes.count(), 2);
}

#[test]
fn row_volumes_other_sources_are_served() {
    let found = volumes(
        r#"{"container_path":"/h","mode":"RW","source":{"type":"HOST_PATH","host_path":
             {"path":"/srv/h","mount_propagation":{"mode":"BIDIRECTIONAL"}}}},
           {"container_path":"/i","mode":"RW","source":{"type":"HOST_PATH","host_path":
             {"path":"/srv/i","mount_propagation":{"mode":"HOST_TO_CONTAINER"}}}},
           {"container_path":"/s","mode":"RW","source":{"type":"SANDBOX_PATH","sandbox_path":
             {"type":"SELF","path":"sub"}}}"#,
    );
    let propagations: Vec<_> = found
        .iter()
        .map(|mount| match &mount.kind {
            MountKind::Bind {
                source,
                propagation,
                ..
            } => (source.as_str(), *propagation),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [
        ("/srv/h", Some(Propagation::RShared)),
        ("/srv/i", Some(Propagation::RSlave)),
        ("/var/lib/x/sandbox/sub", None),
    ];
    assert_eq!(propagations, expected);
}

#[test]
fn dx12_row_sandbox_is_the_last_mount_and_may_have_a_colon() {
    let mut context = context();
    context.sandbox.as_mut().unwrap().host = "/var/lib/x/task:1/sandbox".to_owned();
    let spec = map_with(&context, "", "", "");
    let MountKind::Bind {
        source,
        create_source,
        ..
    } = &spec.mounts[0].kind
    else {
        panic!("{spec:?}");
    };
    assert_eq!(source, "/var/lib/x/task:1/sandbox");
    assert!(
        !create_source,
        "a sandbox that is not there is not made by an engine"
    );
}

#[test]
fn row_network() {
    let network = |docker: &str, container: &str| map(docker, container, "").network;
    assert_eq!(network("", ""), NetworkMode::Host, "the default");
    assert_eq!(network(r#""network":"HOST","#, ""), NetworkMode::Host);
    assert_eq!(network(r#""network":"BRIDGE","#, ""), NetworkMode::Bridge);
    assert_eq!(network(r#""network":"NONE","#, ""), NetworkMode::None);
    let named = NetworkMode::Named("net.1".to_owned());
    assert_eq!(
        network(
            r#""network":"USER","#,
            r#""network_infos":[{"name":"net.1"}],"#
        ),
        named
    );
}

#[test]
fn row_network_parameter_replaces_the_network() {
    let spec = map(
        r#""network":"BRIDGE","parameters":[{"key":"net","value":"mine"}],"#,
        "",
        "",
    );
    assert_eq!(spec.network, NetworkMode::Named("mine".to_owned()));
    let spec = map(
        r#""parameters":[{"key":"network","value":"container:abc"}],"#,
        "",
        "",
    );
    assert_eq!(spec.network, NetworkMode::Container("abc".to_owned()));
}

#[test]
fn row_network_addresses_that_are_asked_for() {
    let spec = map(
        r#""network":"USER","#,
        r#""network_infos":[{"name":"n","ip_addresses":[{"ip_address":"10.1.0.5"},
            {"protocol":"IPv6","ip_address":"fd00::5"}]}],"#,
        "",
    );
    assert_eq!(spec.endpoint.ipv4_address.as_deref(), Some("10.1.0.5"));
    assert_eq!(spec.endpoint.ipv6_address.as_deref(), Some("fd00::5"));
    let any = map(
        r#""network":"BRIDGE","#,
        r#""network_infos":[{"ip_addresses":[{"protocol":"IPv4"}]}],"#,
        "",
    );
    assert_eq!(any.endpoint.ipv4_address, None);
}

#[test]
fn dx23_row_default_dns() {
    let dns = DefaultDns::parse(
        r#"{"mesos":[{"network_mode":"CNI","network_name":"x","dns":{"nameservers":["9.9.9.9"]}}],
            "docker":[{"network_mode":"BRIDGE","dns":{"nameservers":["1.1.1.1"],"search":["b"],"options":["o"]}},
            {"network_mode":"USER","dns":{"nameservers":["2.2.2.2"]}},
            {"network_mode":"USER","network_name":"named","dns":{"nameservers":["3.3.3.3"]}}]}"#,
    )
    .unwrap();
    let context = TaskContext {
        default_dns: dns,
        ..context()
    };
    let user = |name: &str| format!(r#""network_infos":[{{"name":"{name}"}}],"#);
    let cases = [
        (r#""network":"BRIDGE","#, String::new(), vec!["1.1.1.1"]),
        (r#""network":"USER","#, user("named"), vec!["3.3.3.3"]),
        (r#""network":"USER","#, user("other"), vec!["2.2.2.2"]),
        (r#""network":"HOST","#, String::new(), vec![]),
        (
            r#""network":"BRIDGE","parameters":[{"key":"dns","value":"4.4.4.4"}],"#,
            String::new(),
            vec!["4.4.4.4"],
        ),
        (
            r#""network":"BRIDGE","parameters":[{"key":"dns-search","value":"s"}],"#,
            String::new(),
            vec![],
        ),
    ];
    for (docker, container, servers) in cases {
        let spec = map_with(&context, docker, &container, "");
        assert_eq!(spec.dns, servers, "{docker} {container}");
    }
    let spec = map_with(&context, r#""network":"BRIDGE","#, "", "");
    assert_eq!(
        (spec.dns_search, spec.dns_options),
        (vec!["b".to_owned()], vec!["o".to_owned()])
    );
    assert!(DefaultDns::parse("{").is_err());
}

#[test]
fn row_hostname() {
    let spec = map(r#""network":"BRIDGE","#, r#""hostname":"h","#, "");
    assert_eq!(spec.hostname.as_deref(), Some("h"));
}

#[test]
fn dx11_dx29_row_port_mappings() {
    let spec = map(
        r#""network":"BRIDGE","port_mappings":[{"host_port":10000,"container_port":80},
            {"host_port":10009,"container_port":53,"protocol":"UDP"}],"#,
        "",
        r#""resources":[{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":9000,"end":9000},
            {"begin":10000,"end":10009}]}}],"#,
    );
    let binding = |container_port, protocol, host_port| PortBinding {
        container_port,
        protocol,
        host_ip: None,
        host_port: Some(host_port),
    };
    let expected = [
        binding(80, Protocol::Tcp, 10000),
        binding(53, Protocol::Udp, 10009),
    ];
    assert_eq!(spec.ports, expected);
}

#[test]
fn row_devices_by_parameter() {
    let spec = map(
        r#""parameters":[{"key":"device","value":"/dev/fuse:/dev/f:rw"}],"#,
        "",
        "",
    );
    let device = &spec.resources.devices[0];
    let shown = (
        device.path_on_host.as_str(),
        device.path_in_container.as_str(),
        device.permissions.as_str(),
    );
    assert_eq!(shown, ("/dev/fuse", "/dev/f", "rw"));
}

#[test]
fn dx9_row_command_shell_true_is_bin_sh() {
    for command in [
        r#"{"value":"echo \"$A\" 'b'"}"#,
        r#"{"shell":true,"value":"echo \"$A\" 'b'"}"#,
    ] {
        let spec = map("", "", &format!(r#""command":{command},"#));
        assert_eq!(spec.entrypoint, Some(vec!["/bin/sh".to_owned()]));
        assert_eq!(
            spec.cmd,
            Some(vec!["-c".to_owned(), "echo \"$A\" 'b'".to_owned()])
        );
    }
}

#[test]
fn dx9_row_command_shell_false_is_value_then_arguments() {
    let cases = [
        (r#"{"shell":false}"#, None),
        (r#"{"shell":false,"value":"ls"}"#, Some(vec!["ls"])),
        (
            r#"{"shell":false,"arguments":["-l","a b"]}"#,
            Some(vec!["-l", "a b"]),
        ),
        (
            r#"{"shell":false,"value":"ls","arguments":["-l"]}"#,
            Some(vec!["ls", "-l"]),
        ),
    ];
    for (command, expected) in cases {
        let spec = map("", "", &format!(r#""command":{command},"#));
        assert_eq!(spec.entrypoint, None, "{command}: the image's");
        let expected =
            expected.map(|words| words.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(spec.cmd, expected, "{command}");
    }
}

#[test]
fn row_parameters_come_last_and_the_last_one_counts() {
    let spec = map(
        r#""parameters":[{"key":"memory","value":"1g"},{"key":"memory","value":"2g"},{"key":"user","value":"app"},
            {"key":"entrypoint","value":"/bin/bash"},{"key":"cap-add","value":"NET_ADMIN"},
            {"key":"cap-add","value":"SYS_TIME"},{"key":"tmpfs","value":"/t:size=1m"}],"#,
        "",
        r#""command":{"value":"x","user":"other"},"#,
    );
    assert_eq!(spec.resources.memory, Some(2 * GIB));
    assert_eq!(spec.user.as_deref(), Some("app"));
    assert_eq!(spec.entrypoint, Some(vec!["/bin/bash".to_owned()]));
    assert_eq!(spec.cap_add, ["NET_ADMIN", "SYS_TIME"]);
    assert_eq!(spec.tmpfs["/t"], "size=1m");
}

#[test]
fn row_ignored_user_is_the_containers() {
    let spec = map("", "", r#""command":{"shell":false,"user":"app"},"#);
    assert_eq!(spec.user.as_deref(), Some("app"));
}

#[test]
fn row_ignored_linux_info() {
    let spec = map(
        "",
        r#""linux_info":{"bounding_capabilities":{"capabilities":["NET_RAW","CHOWN"]},"share_pid_namespace":true,
            "seccomp":{"unconfined":true},"ipc_mode":"PRIVATE","shm_size":64},"#,
        "",
    );
    assert_eq!(spec.cap_drop, ["ALL"]);
    assert_eq!(spec.cap_add, ["CAP_CHOWN", "CAP_NET_RAW"]);
    assert_eq!(spec.pid_mode.as_deref(), Some("host"));
    assert_eq!(spec.security_options, ["seccomp=unconfined"]);
    assert_eq!(
        (spec.ipc_mode.as_deref(), spec.shm_size),
        (Some("private"), Some(64 * MIB))
    );
    let shared = map("", r#""linux_info":{"ipc_mode":"SHARE_PARENT"},"#, "");
    assert_eq!(shared.ipc_mode.as_deref(), Some("host"));
}

#[test]
fn row_ignored_rlimit_info() {
    let spec = map(
        "",
        r#""rlimit_info":{"rlimits":[{"type":"RLMT_NOFILE","soft":1024,"hard":4096},{"type":"RLMT_CORE"},
            {"type":"RLMT_NPROC","soft":5,"hard":18446744073709551615}]},"#,
        "",
    );
    let limits: Vec<_> = spec
        .resources
        .ulimits
        .iter()
        .map(|it| (it.name.as_str(), it.soft, it.hard))
        .collect();
    assert_eq!(
        limits,
        [("nofile", 1024, 4096), ("core", -1, -1), ("nproc", 5, -1)]
    );
}

#[test]
fn row_ignored_tty_info() {
    let spec = map(
        "",
        r#""tty_info":{"window_size":{"rows":24,"columns":80}},"#,
        "",
    );
    assert!(spec.tty);
    assert_eq!(
        spec.extra_host_config["ConsoleSize"],
        serde_json::json!([24, 80])
    );
}

#[test]
fn row_ignored_disk_is_counted_and_not_enforced() {
    let spec = resources(&[("disk", 1024.0)], &[], &context());
    assert!(spec.storage_options.is_empty());
}

#[test]
fn the_images_own_health_check_is_not_run_beside_the_tasks() {
    assert!(map("", "", "").no_healthcheck);
}
