// long: one test a row of the mapping

use super::*;

/// Refused with all of these texts, of which the first is the field.
fn check(docker: &str, container: &str, rest: &str, texts: &[&str]) {
    refuse(&context(), &task(docker, container, rest), texts);
}

#[test]
fn bad_input_no_container_no_docker_no_image() {
    let mut none = task("", "", "");
    none.container = None;
    refuse(&context(), &none, &["container is missing"]);
    let mut none = task("", "", "");
    none.container.as_mut().unwrap().docker = None;
    refuse(&context(), &none, &["container.docker is missing"]);
    let mut none = task("", "", "");
    none.container
        .as_mut()
        .unwrap()
        .docker
        .as_mut()
        .unwrap()
        .image
        .clear();
    refuse(&context(), &none, &["container.docker.image is missing"]);
    let mut mesos = task("", "", "");
    mesos.container.as_mut().unwrap().r#type = ContainerType::Mesos.into();
    refuse(&context(), &mesos, &["container.type", "MESOS"]);
    mesos.container.as_mut().unwrap().r#type = 99;
    refuse(&context(), &mesos, &["container.type", "99"]);
    let mut none = task("", "", "");
    none.command = None;
    refuse(&context(), &none, &["command is missing"]);
}

#[test]
fn bad_input_invalid_reference() {
    for image in [
        "Busybox",
        "busybox:",
        "a b",
        "x@sha256:1",
        "http://x/y",
        "-x",
    ] {
        let mut bad = task("", "", "");
        image.clone_into(
            &mut bad
                .container
                .as_mut()
                .unwrap()
                .docker
                .as_mut()
                .unwrap()
                .image,
        );
        refuse(&context(), &bad, &["container.docker.image", image]);
    }
}

#[test]
fn dx30_bad_input_relative_paths_in_both_halves() {
    let volume = r#""volumes":[{"host_path":"a","container_path":"b","mode":"RW"}],"#;
    check(
        "",
        volume,
        "",
        &[
            "container.volumes[0].host_path",
            "\"a\"",
            "\"b\"",
            "absolute",
        ],
    );
}

#[test]
fn bad_input_volumes() {
    let with =
        |volume: &str, texts: &[&str]| check("", &format!(r#""volumes":[{volume}],"#), "", texts);
    with(
        r#"{"container_path":"/a","mode":"RW"}"#,
        &["container.volumes[0] is missing"],
    );
    with(
        r#"{"host_path":"../a","container_path":"/a","mode":"RW"}"#,
        &["host_path", "../a", "out of the sandbox"],
    );
    with(
        r#"{"host_path":"/a","container_path":"x/../../y","mode":"RW"}"#,
        &["container_path", "out of the sandbox"],
    );
    with(
        r#"{"host_path":"","container_path":"/a","mode":"RW"}"#,
        &["host_path", "no path"],
    );
    with(
        r#"{"host_path":"/a","container_path":"","mode":"RW"}"#,
        &["container_path", "no path"],
    );
    with(
        r#"{"host_path":"/a","container_path":"/a","mode":"RW","image":{"type":"DOCKER","docker":{"name":"x"}}}"#,
        &["only one of"],
    );
    with(
        r#"{"container_path":"/a","mode":"RW","image":{"type":"DOCKER","docker":{"name":"x"}}}"#,
        &["container.volumes[0].image", "\"x\"", "image"],
    );
    let source = |source: &str, texts: &[&str]| {
        with(
            &format!(r#"{{"container_path":"/a","mode":"RW","source":{{{source}}}}}"#),
            texts,
        );
    };
    source(
        r#""type":"DOCKER_VOLUME""#,
        &["source.docker_volume is missing"],
    );
    source(
        r#""type":"DOCKER_VOLUME","docker_volume":{"name":"/x"}"#,
        &["docker_volume.name", "/x"],
    );
    source(r#""type":"SECRET","secret":{}"#, &["source.type", "SECRET"]);
    source(
        r#""type":"CSI_VOLUME","csi_volume":{"plugin_name":"p"}"#,
        &["source.type", "CSI_VOLUME"],
    );
    source(r#""type":"UNKNOWN""#, &["source.type", "0"]);
    source(
        r#""type":"SANDBOX_PATH","sandbox_path":{"type":"PARENT","path":"x"}"#,
        &["PARENT"],
    );
    source(
        r#""type":"SANDBOX_PATH","sandbox_path":{"type":"SELF","path":"/x"}"#,
        &["sandbox_path.path", "/x"],
    );
    let twice = r#"{"host_path":"/a","container_path":"/x/","mode":"RW"},
        {"host_path":"/b","container_path":"/x","mode":"RW"}"#;
    with(twice, &["container.volumes", "/x", "two volumes"]);
    let mut mode = task(
        "",
        r#""volumes":[{"host_path":"/a","container_path":"/a","mode":"RW"}],"#,
        "",
    );
    mode.container.as_mut().unwrap().volumes[0].mode = 7;
    refuse(&context(), &mode, &["container.volumes[0].mode", "7"]);
}

#[test]
fn bad_input_relative_volumes_without_a_sandbox() {
    let none = TaskContext {
        sandbox: None,
        ..context()
    };
    let volume = r#""volumes":[{"host_path":"a","container_path":"/b","mode":"RW"}],"#;
    refuse(
        &none,
        &task("", volume, ""),
        &["container.volumes[0].host_path", "no sandbox"],
    );
}

#[test]
fn bad_input_two_volume_drivers() {
    let volume = |driver: &str| {
        format!(
            r#"{{"container_path":"/{driver}","mode":"RW","source":{{"type":"DOCKER_VOLUME","docker_volume":
                {{"driver":"{driver}","name":"vol"}}}}}}"#
        )
    };
    let two = format!(r#""volumes":[{},{}],"#, volume("one"), volume("two"));
    check(
        "",
        &two,
        "",
        &[
            "container.volumes[1].source.docker_volume.driver",
            "\"two\"",
            "\"one\"",
        ],
    );
    let one = format!(r#""volumes":[{}],"#, volume("one"));
    check(
        r#""volume_driver":"old","#,
        &one,
        "",
        &["docker_volume.driver", "\"one\"", "\"old\""],
    );
    let parameter = r#""parameters":[{"key":"volume-driver","value":"two"}],"#;
    check(
        parameter,
        &one,
        "",
        &["container.docker.parameters[0]", "volume-driver", "two"],
    );
}

#[test]
fn dx29_bad_input_ports_outside_the_resources() {
    let ports = r#""resources":[{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":10000,"end":10009}]}}],"#;
    let mapping = |mapping: &str| format!(r#""network":"BRIDGE","port_mappings":[{mapping}],"#);
    let field = "container.docker.port_mappings[0]";
    let cases = [
        (
            r#"{"host_port":10010,"container_port":80}"#,
            vec![field, "host_port", "10010"],
        ),
        (
            r#"{"host_port":0,"container_port":80}"#,
            vec![field, "host_port", "\"0\""],
        ),
        (
            r#"{"host_port":75536,"container_port":80}"#,
            vec![field, "host_port", "75536"],
        ),
        (
            r#"{"host_port":10000,"container_port":0}"#,
            vec![field, "container_port", "\"0\""],
        ),
        (
            r#"{"host_port":10000,"container_port":80,"protocol":"icmp"}"#,
            vec![field, "protocol", "icmp"],
        ),
    ];
    for (text, texts) in cases {
        check(&mapping(text), "", ports, &texts);
    }
    check(
        &mapping(r#"{"host_port":10000,"container_port":80}"#),
        "",
        "",
        &[field, "10000"],
    );
}

#[test]
fn bad_input_ranges_that_are_none_and_a_mapping_that_is_there_twice() {
    let ports = |begin: &str, end: &str| {
        format!(
            r#""resources":[{{"name":"ports","type":"RANGES","ranges":{{"range":[{{"begin":1,"end":9}},{{"begin":{begin},"end":{end}}}]}}}}],"#
        )
    };
    for (begin, end) in [("9", "1"), ("0", "18446744073709551615"), ("1", "65536")] {
        let shown = format!("{begin}-{end}");
        let texts = ["resources[ports].ranges.range[1]", &*shown];
        check("", "", &ports(begin, end), &texts);
    }
    let twice = r#""network":"BRIDGE","port_mappings":[{"host_port":2,"container_port":80},{"host_port":2,"container_port":80}],"#;
    let field = "container.docker.port_mappings[1]";
    check(twice, "", &ports("1", "2"), &[field, "2 to 80", "twice"]);
}

#[test]
fn row_port_mappings_are_refused_on_the_hosts_network_and_on_none() {
    let ports = r#""resources":[{"name":"ports","type":"RANGES","ranges":{"range":[{"begin":10000,"end":10009}]}}],"#;
    for network in ["HOST", "NONE"] {
        let docker = format!(
            r#""network":"{network}","port_mappings":[{{"host_port":10000,"container_port":80}}],"#
        );
        check(
            &docker,
            "",
            ports,
            &["port_mappings[0]", "10000:80", &network.to_lowercase()],
        );
    }
    let replaced = r#""network":"BRIDGE","port_mappings":[{"host_port":10000,"container_port":80}],
        "parameters":[{"key":"net","value":"host"}],"#;
    check(replaced, "", ports, &["port_mappings[0]", "host"]);
    // As flags of docker's, also beside each other.
    for network in ["host", "none", "container:abc"] {
        for (key, value) in [("publish", "80:80"), ("publish-all", "true")] {
            let docker = format!(
                r#""parameters":[{{"key":"{key}","value":"{value}"}},{{"key":"net","value":"{network}"}}],"#
            );
            check(&docker, "", "", &["publish", network, "no ports"]);
        }
    }
}

#[test]
fn row_hostname_is_refused_on_the_hosts_network() {
    check(
        "",
        r#""hostname":"h","#,
        "",
        &["container.hostname", "\"h\""],
    );
}

#[test]
fn row_network_user_needs_one_network_with_a_name() {
    let user = r#""network":"USER","#;
    check(user, "", "", &["container.network_infos", "\"0\""]);
    check(
        user,
        r#""network_infos":[{"name":"a"},{"name":"b"}],"#,
        "",
        &["container.network_infos", "\"2\""],
    );
    check(
        user,
        r#""network_infos":[{}],"#,
        "",
        &["network_infos[0].name is missing"],
    );
    for name in ["host", "bridge", "none", "default", "container:x"] {
        let infos = format!(r#""network_infos":[{{"name":"{name}"}}],"#);
        check(user, &infos, "", &["network_infos[0].name", name]);
    }
    let mut unknown = task("", "", "");
    unknown
        .container
        .as_mut()
        .unwrap()
        .docker
        .as_mut()
        .unwrap()
        .network = Some(9);
    refuse(&context(), &unknown, &["container.docker.network", "9"]);
}

#[test]
fn row_ignored_members_of_a_network_are_refused() {
    let cases = [
        (
            r#"{"name":"n","groups":["g"]}"#,
            vec!["network_infos[0].groups", "\"g\""],
        ),
        (
            r#"{"name":"n","labels":{"labels":[{"key":"k","value":"v"}]}}"#,
            vec!["network_infos[0].labels", "\"k\""],
        ),
        (
            r#"{"name":"n","port_mappings":[{"host_port":1,"container_port":2}]}"#,
            vec!["network_infos[0].port_mappings", "1:2"],
        ),
        (
            r#"{"name":"n","ip_addresses":[{"ip_address":"x"}]}"#,
            vec!["network_infos[0].ip_addresses", "\"x\""],
        ),
        (
            r#"{"name":"n","ip_addresses":[{"protocol":"IPv6","ip_address":"10.0.0.1"}]}"#,
            vec!["ip_addresses", "10.0.0.1", "protocol"],
        ),
        (
            r#"{"name":"n","ip_addresses":[{"ip_address":"10.0.0.1"},{"ip_address":"10.0.0.2"}]}"#,
            vec!["ip_addresses", "10.0.0.2", "10.0.0.1"],
        ),
    ];
    for (info, texts) in cases {
        check(
            r#""network":"USER","#,
            &format!(r#""network_infos":[{info}],"#),
            "",
            &texts,
        );
    }
    check(
        "",
        r#""network_infos":[{"name":"n"}],"#,
        "",
        &["network_infos[0].name", "\"n\"", "USER"],
    );
    let address = r#""network_infos":[{"ip_addresses":[{"ip_address":"10.0.0.1"}]}],"#;
    check(
        r#""network":"BRIDGE","#,
        address,
        "",
        &["ip_addresses", "10.0.0.1", "user network"],
    );
}

#[test]
fn dx29_row_command_shell_true_needs_a_value_and_takes_no_arguments() {
    check("", "", r#""command":{},"#, &["command.value is missing"]);
    check(
        "",
        "",
        r#""command":{"value":""},"#,
        &["command.value is missing"],
    );
    check(
        "",
        "",
        r#""command":{"value":"x","arguments":["y"]},"#,
        &["command.arguments", "shell"],
    );
    check(
        "",
        "",
        r#""command":{"value":"a\u0000b"},"#,
        &["command, word 1", "NUL"],
    );
    check(
        "",
        "",
        r#""command":{"shell":false,"user":""},"#,
        &["command.user"],
    );
}

#[test]
fn bad_input_uris_and_persistent_volumes_without_an_agent() {
    let alone = TaskContext {
        prepared_by_agent: false,
        ..context()
    };
    let uris = task(
        "",
        "",
        r#""command":{"shell":false,"uris":[{"value":"http://x/y.tgz"}]},"#,
    );
    refuse(&alone, &uris, &["command.uris", "http://x/y.tgz"]);
    map_task(&uris, &context()).unwrap();
    let mut disk = with_resources(&[("disk", 64.0)], &[]);
    disk.resources[0].disk = Some(longshore_mesos_api::v1::resource::DiskInfo {
        persistence: Some(longshore_mesos_api::v1::resource::disk_info::Persistence {
            id: "vol".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    });
    refuse(&alone, &disk, &["resources[disk]", "\"vol\""]);
    map_task(&disk, &context()).unwrap();
}

#[test]
fn bad_input_huge_environment() {
    let mut one = task("", "", "");
    let variable = |name: String, size: usize| longshore_mesos_api::v1::environment::Variable {
        name,
        value: Some("v".repeat(size)),
        ..Default::default()
    };
    let set = |task: &mut TaskInfo, variables| {
        task.command.as_mut().unwrap().environment =
            Some(longshore_mesos_api::v1::Environment { variables });
    };
    set(&mut one, vec![variable("BIG".to_owned(), MAX_ARGUMENT - 5)]);
    map_task(&one, &context()).unwrap();
    set(&mut one, vec![variable("BIG".to_owned(), MAX_ARGUMENT - 4)]);
    refuse(
        &context(),
        &one,
        &["command.environment", "\"BIG\"", "131073 bytes"],
    );
    set(
        &mut one,
        (0..20).map(|n| variable(format!("N{n}"), 60_000)).collect(),
    );
    refuse(
        &context(),
        &one,
        &["command.environment", "22 variables", "1048576"],
    );
}

#[test]
fn bad_input_variables_that_cannot_be_set() {
    let by_reference = r#""command":{"shell":false,"environment":{"variables":[{"name":"S","type":"SECRET",
        "secret":{"type":"REFERENCE","reference":{"name":"r"}}}]}},"#;
    check(
        "",
        "",
        by_reference,
        &["command.environment", "\"S\"", "no secret resolver"],
    );
    let name = r#""command":{"shell":false,"environment":{"variables":[{"name":"A=B","value":"hunter2"}]}},"#;
    check("", "", name, &["command.environment", "A=B"]);
}

#[test]
fn bad_input_a_name_parameter() {
    let parameter =
        r#""parameters":[{"key":"label","value":"a=b"},{"key":"name","value":"mine"}],"#;
    check(
        parameter,
        "",
        "",
        &[
            "container.docker.parameters[1]",
            "\"name\"",
            "executor names the container",
        ],
    );
}

#[test]
fn bad_input_parameters() {
    let cases = [
        ("no-such-flag", "x", "no flag of `docker run`"),
        ("rm", "true", "exit status"),
        ("restart", "always", "one life"),
        ("detach", "true", "attached"),
        ("health-cmd", "x", "health_check"),
        ("env-file", "/etc/shadow", "not read"),
        ("memory", "lots", "lots"),
        ("network", "", "needs a value"),
    ];
    for (key, value, expected) in cases {
        let docker = format!(r#""parameters":[{{"key":"{key}","value":"{value}"}}],"#);
        check(
            &docker,
            "",
            "",
            &["container.docker.parameters[0]", key, expected],
        );
    }
    let twice = r#""parameters":[{"key":"net","value":"a"},{"key":"network","value":"b"}],"#;
    check(
        twice,
        "",
        "",
        &["container.docker.parameters[1]", "network", "twice"],
    );
    let secret = r#""parameters":[{"key":"mount","value":"type=volume,target=x,volume-opt=password=hunter2"}],"#;
    let error = map_task(&task(secret, "", ""), &context()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}

#[test]
fn bad_input_gpus_and_resources_that_cannot_be_served() {
    let refused = |resources: &[(&str, f64)], limits: &[(&str, f64)], texts: &[&str]| {
        refuse(&context(), &with_resources(resources, limits), texts);
    };
    refused(&[("gpus", 1.0)], &[], &["resources[gpus]", "\"1\""]);
    refused(&[("bandwidth", 5.0)], &[], &["resources[bandwidth]"]);
    refused(&[("cpus", -1.0)], &[], &["resources[cpus]", "-1"]);
    refused(&[("cpus", f64::NAN)], &[], &["resources[cpus]", "NaN"]);
    refused(&[("mem", f64::INFINITY)], &[], &["resources[mem]", "inf"]);
    refused(&[("mem", 1e30)], &[], &["resources[mem]"]);
    refused(&[], &[("disk", 1.0)], &["limits", "disk"]);
    refused(&[], &[("mem", -5.0)], &["limits[mem]", "-5"]);
    refused(
        &[("mem", 64.0)],
        &[("mem", 32.0)],
        &["limits[mem]", "32", "64"],
    );
    refused(
        &[("cpus", 2.0)],
        &[("cpus", 1.0)],
        &["limits[cpus]", "1", "2"],
    );
    let mut untyped = with_resources(&[("cpus", 1.0)], &[]);
    untyped.resources[0].r#type = value::Type::Ranges.into();
    refuse(&context(), &untyped, &["resources[cpus]", "SCALAR"]);
    let ports = with_resources(&[("ports", 1.0)], &[]);
    refuse(&context(), &ports, &["resources[ports]", "RANGES"]);
}

#[test]
fn row_ignored_linux_info_that_cannot_be_served_is_refused() {
    let with = |linux: &str, texts: &[&str]| {
        check("", &format!(r#""linux_info":{{{linux}}},"#), "", texts);
    };
    with(
        r#""seccomp":{"profile_name":"p"}"#,
        &["seccomp.profile_name", "\"p\""],
    );
    with(r#""shm_size":64"#, &["shm_size", "64", "PRIVATE"]);
    with(
        r#""bounding_capabilities":{"capabilities":["CHOWN"]},"effective_capabilities":{"capabilities":["KILL"]}"#,
        &[
            "effective_capabilities",
            "CAP_KILL",
            "bounding_capabilities",
        ],
    );
    with(
        r#""bounding_capabilities":{"capabilities":["UNKNOWN"]}"#,
        &["bounding_capabilities", "\"0\""],
    );
}

#[test]
fn row_ignored_rlimit_info_that_cannot_be_served_is_refused() {
    let with = |limit: &str, texts: &[&str]| {
        check(
            "",
            &format!(r#""rlimit_info":{{"rlimits":[{limit}]}},"#),
            "",
            texts,
        );
    };
    with(
        r#"{"type":"RLMT_AS","soft":1,"hard":1}"#,
        &["rlimits[0]", "RLMT_AS"],
    );
    with(
        r#"{"type":"RLMT_NOFILE","soft":2,"hard":1}"#,
        &["rlimits[0]", "nofile"],
    );
    with(
        r#"{"type":"RLMT_NOFILE","soft":2}"#,
        &["rlimits[0]", "nofile"],
    );
    with(r#"{"type":"UNKNOWN"}"#, &["rlimits[0]", "\"0\""]);
    with(
        r#"{"type":"RLMT_CORE"},{"type":"RLMT_CORE"}"#,
        &["rlimits[1]", "core", "twice"],
    );
}

proptest::proptest! {
    /// Whatever the numbers are: an error or a container, and no panic.
    #[test]
    fn no_number_panics_anything(
        request in proptest::num::f64::ANY,
        limit in proptest::num::f64::ANY,
        host in proptest::num::u64::ANY,
    ) {
        let context = TaskContext { host_memory: host, enable_cfs: true, ..context() };
        for name in ["cpus", "mem", "disk", "gpus"] {
            let limits: &[(&str, f64)] = if name == "disk" { &[] } else { &[(name, limit)] };
            if let Ok(mapped) = map_task(&with_resources(&[(name, request)], limits), &context) {
                let score = mapped.container.oom_score_adj.unwrap_or_default();
                proptest::prop_assert!((0..=1000).contains(&score));
                proptest::prop_assert!(mapped.container.resources.memory.is_none_or(|memory| memory >= 32 * MIB));
            }
        }
    }
}
