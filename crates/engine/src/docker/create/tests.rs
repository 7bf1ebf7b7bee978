// long: a table with a row for each field.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::spec::{
    Device, LogDriver, Mount, MountKind, NetworkMode, PortBinding, Propagation, Protocol, Ulimit,
};

const OLD: ApiVersion = ApiVersion::OLDEST;
const NEW: ApiVersion = ApiVersion::NEWEST;

fn built(change: impl FnOnce(&mut ContainerSpec), api: ApiVersion) -> Result<Value, EngineError> {
    let mut spec = ContainerSpec::new("i");
    change(&mut spec);
    body(&spec, api)
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn a_default_spec_leaves_all_to_the_image_and_the_engine_but_the_restart_policy() {
    let body = built(|_| {}, OLD).unwrap();
    let expected = json!({"Image": "i", "HostConfig": {"RestartPolicy": {"Name": "no"}}});
    assert_eq!(body, expected);
}

/// Each field of the spec, and where it goes.
#[test]
fn every_field_goes_where_its_comment_says() {
    type Change = fn(&mut ContainerSpec);
    let table: &[(Change, &str, Value)] = &[
        (
            |s| s.entrypoint = Some(strings(&["a", "b"])),
            "/Entrypoint",
            json!(["a", "b"]),
        ),
        (|s| s.entrypoint = Some(vec![]), "/Entrypoint", json!([""])),
        (|s| s.cmd = Some(strings(&["a b"])), "/Cmd", json!(["a b"])),
        (|s| s.cmd = Some(vec![]), "/Cmd", Value::Null),
        (
            |s| {
                s.env = vec![
                    EnvVar::new("A", "1"),
                    EnvVar::new("B", "x=y"),
                    EnvVar::new("A", "2"),
                ];
            },
            "/Env",
            json!(["B=x=y", "A=2"]),
        ),
        (
            |s| s.unset_env = strings(&["OF_IMAGE"]),
            "/Env",
            json!(["OF_IMAGE"]),
        ),
        (|s| s.labels = pairs(&[("a", "b")]), "/Labels/a", json!("b")),
        (|s| s.user = Some("1:2".into()), "/User", json!("1:2")),
        (
            |s| s.group_add = strings(&["3"]),
            "/HostConfig/GroupAdd",
            json!(["3"]),
        ),
        (
            |s| s.working_dir = Some("/w".into()),
            "/WorkingDir",
            json!("/w"),
        ),
        (|s| s.hostname = Some("h".into()), "/Hostname", json!("h")),
        (
            |s| s.domain_name = Some("d".into()),
            "/Domainname",
            json!("d"),
        ),
        (|s| s.tty = true, "/Tty", json!(true)),
        (|s| s.open_stdin = true, "/OpenStdin", json!(true)),
        (
            |s| s.stop_signal = Some("SIGINT".into()),
            "/StopSignal",
            json!("SIGINT"),
        ),
        (
            |s| s.stop_timeout = Some(Duration::from_millis(900)),
            "/StopTimeout",
            json!(1),
        ),
        (
            |s| s.no_healthcheck = true,
            "/Healthcheck/Test",
            json!(["NONE"]),
        ),
        (
            |s| s.volume_driver = Some("d".into()),
            "/HostConfig/VolumeDriver",
            json!("d"),
        ),
        (
            |s| s.volumes_from = strings(&["c:ro"]),
            "/HostConfig/VolumesFrom",
            json!(["c:ro"]),
        ),
        (
            |s| s.tmpfs = pairs(&[("/t", "size=1m")]),
            "/HostConfig/Tmpfs",
            json!({"/t": "size=1m"}),
        ),
        (|s| s.shm_size = Some(7), "/HostConfig/ShmSize", json!(7)),
        (
            |s| s.read_only_root = true,
            "/HostConfig/ReadonlyRootfs",
            json!(true),
        ),
        (
            |s| s.storage_options = pairs(&[("size", "1G")]),
            "/HostConfig/StorageOpt/size",
            json!("1G"),
        ),
        (
            |s| s.network = NetworkMode::Host,
            "/HostConfig/NetworkMode",
            json!("host"),
        ),
        (
            |s| s.network = NetworkMode::None,
            "/HostConfig/NetworkMode",
            json!("none"),
        ),
        (
            |s| s.network = NetworkMode::Bridge,
            "/HostConfig/NetworkMode",
            json!("bridge"),
        ),
        (
            |s| s.network = NetworkMode::Named("n.x".into()),
            "/HostConfig/NetworkMode",
            json!("n.x"),
        ),
        (
            |s| s.network = NetworkMode::Container("c".into()),
            "/HostConfig/NetworkMode",
            json!("container:c"),
        ),
        (
            |s| s.dns = strings(&["1.1.1.1"]),
            "/HostConfig/Dns",
            json!(["1.1.1.1"]),
        ),
        (
            |s| s.dns_search = strings(&["x"]),
            "/HostConfig/DnsSearch",
            json!(["x"]),
        ),
        (
            |s| s.dns_options = strings(&["ndots:1"]),
            "/HostConfig/DnsOptions",
            json!(["ndots:1"]),
        ),
        (
            |s| s.extra_hosts = strings(&["a:1.1.1.1"]),
            "/HostConfig/ExtraHosts",
            json!(["a:1.1.1.1"]),
        ),
        (
            |s| s.exposed_ports = vec![(9, Protocol::Udp)],
            "/ExposedPorts",
            json!({"9/udp": {}}),
        ),
        (
            |s| s.publish_all_ports = true,
            "/HostConfig/PublishAllPorts",
            json!(true),
        ),
        (
            |s| s.oom_score_adj = Some(-5),
            "/HostConfig/OomScoreAdj",
            json!(-5),
        ),
        (|s| s.init = Some(false), "/HostConfig/Init", json!(false)),
        (
            |s| s.runtime = Some("crun".into()),
            "/HostConfig/Runtime",
            json!("crun"),
        ),
        (
            |s| s.cgroup_parent = Some("/p".into()),
            "/HostConfig/CgroupParent",
            json!("/p"),
        ),
        (
            |s| s.privileged = true,
            "/HostConfig/Privileged",
            json!(true),
        ),
        (
            |s| s.cap_add = strings(&["NET_ADMIN"]),
            "/HostConfig/CapAdd",
            json!(["NET_ADMIN"]),
        ),
        (
            |s| s.cap_drop = strings(&["ALL"]),
            "/HostConfig/CapDrop",
            json!(["ALL"]),
        ),
        (
            |s| s.security_options = strings(&["no-new-privileges"]),
            "/HostConfig/SecurityOpt",
            json!(["no-new-privileges"]),
        ),
        (
            |s| s.sysctls = pairs(&[("net.x", "1")]),
            "/HostConfig/Sysctls",
            json!({"net.x": "1"}),
        ),
        (
            |s| s.pid_mode = Some("host".into()),
            "/HostConfig/PidMode",
            json!("host"),
        ),
        (
            |s| s.ipc_mode = Some("none".into()),
            "/HostConfig/IpcMode",
            json!("none"),
        ),
        (
            |s| s.uts_mode = Some("host".into()),
            "/HostConfig/UTSMode",
            json!("host"),
        ),
        (
            |s| s.userns_mode = Some("host".into()),
            "/HostConfig/UsernsMode",
            json!("host"),
        ),
        (
            |s| s.cgroupns_mode = Some("private".into()),
            "/HostConfig/CgroupnsMode",
            json!("private"),
        ),
        (
            |s| s.masked_paths = Some(vec![]),
            "/HostConfig/MaskedPaths",
            json!([]),
        ),
        (
            |s| s.read_only_paths = Some(strings(&["/x"])),
            "/HostConfig/ReadonlyPaths",
            json!(["/x"]),
        ),
        (
            |s| {
                s.log = Some(LogDriver {
                    driver: "local".into(),
                    options: pairs(&[("max-size", "1m")]),
                });
            },
            "/HostConfig/LogConfig",
            json!({"Type": "local", "Config": {"max-size": "1m"}}),
        ),
        (
            |s| s.auto_remove = true,
            "/HostConfig/AutoRemove",
            json!(true),
        ),
        (
            |s| s.annotations = pairs(&[("a", "b")]),
            "/HostConfig/Annotations",
            json!({"a": "b"}),
        ),
        (
            |s| s.resources.cpu_shares = Some(2),
            "/HostConfig/CpuShares",
            json!(2),
        ),
        (
            |s| s.resources.cpu_period = Some(100_000),
            "/HostConfig/CpuPeriod",
            json!(100_000),
        ),
        (
            |s| s.resources.cpu_quota = Some(-1),
            "/HostConfig/CpuQuota",
            json!(-1),
        ),
        (
            |s| s.resources.nano_cpus = Some(5),
            "/HostConfig/NanoCpus",
            json!(5),
        ),
        (
            |s| s.resources.cpu_realtime_period = Some(5),
            "/HostConfig/CpuRealtimePeriod",
            json!(5),
        ),
        (
            |s| s.resources.cpu_realtime_runtime = Some(5),
            "/HostConfig/CpuRealtimeRuntime",
            json!(5),
        ),
        (
            |s| s.resources.cpuset_cpus = Some("0-1".into()),
            "/HostConfig/CpusetCpus",
            json!("0-1"),
        ),
        (
            |s| s.resources.cpuset_mems = Some("0".into()),
            "/HostConfig/CpusetMems",
            json!("0"),
        ),
        (
            |s| s.resources.memory = Some(1 << 40),
            "/HostConfig/Memory",
            json!(1_099_511_627_776_u64),
        ),
        (
            |s| s.resources.memory_reservation = Some(3),
            "/HostConfig/MemoryReservation",
            json!(3),
        ),
        (
            |s| s.resources.memory_swap = Some(-1),
            "/HostConfig/MemorySwap",
            json!(-1),
        ),
        (
            |s| s.resources.memory_swappiness = Some(9),
            "/HostConfig/MemorySwappiness",
            json!(9),
        ),
        (
            |s| s.resources.oom_kill_disable = Some(true),
            "/HostConfig/OomKillDisable",
            json!(true),
        ),
        (
            |s| s.resources.pids_limit = Some(10),
            "/HostConfig/PidsLimit",
            json!(10),
        ),
        (
            |s| s.resources.blkio_weight = Some(10),
            "/HostConfig/BlkioWeight",
            json!(10),
        ),
        (
            |s| {
                s.resources.ulimits = vec![Ulimit {
                    name: "nofile".into(),
                    soft: 1,
                    hard: -1,
                }];
            },
            "/HostConfig/Ulimits",
            json!([{"Name": "nofile", "Soft": 1, "Hard": -1}]),
        ),
        (
            |s| {
                s.resources.devices = vec![Device {
                    path_on_host: "/dev/a".into(),
                    path_in_container: "/dev/b".into(),
                    permissions: "rw".into(),
                }];
            },
            "/HostConfig/Devices",
            json!([{"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "rw"}]),
        ),
        (
            |s| s.resources.device_cgroup_rules = strings(&["c 1:3 r"]),
            "/HostConfig/DeviceCgroupRules",
            json!(["c 1:3 r"]),
        ),
        (
            |s| {
                s.resources.device_requests = vec![DeviceRequest {
                    count: Some(-1),
                    capabilities: vec![strings(&["gpu"])],
                    ..DeviceRequest::default()
                }];
            },
            "/HostConfig/DeviceRequests",
            json!([{"Count": -1, "Capabilities": [["gpu"]]}]),
        ),
        (
            |s| {
                s.extra_host_config.insert("X".into(), json!(1));
            },
            "/HostConfig/X",
            json!(1),
        ),
        (
            |s| {
                s.extra_config.insert("X".into(), json!(1));
            },
            "/X",
            json!(1),
        ),
    ];
    for (change, pointer, expected) in table {
        let body = built(change, NEW).unwrap();
        let found = body.pointer(pointer).unwrap_or(&Value::Null);
        assert_eq!(found, expected, "{pointer} in {body}");
    }
}

#[test]
fn ports_are_bound_and_exposed() {
    let port = |host_ip: Option<&str>, host_port| PortBinding {
        container_port: 80,
        protocol: Protocol::Tcp,
        host_ip: host_ip.map(|ip| ip.parse().unwrap()),
        host_port,
    };
    let ports = vec![port(None, None), port(Some("::1"), Some(8080))];
    let body = built(|spec| spec.ports = ports, OLD).unwrap();
    let expected =
        json!({"80/tcp": [{"HostIp": "", "HostPort": ""}, {"HostIp": "::1", "HostPort": "8080"}]});
    assert_eq!(body["HostConfig"]["PortBindings"], expected);
    assert_eq!(body["ExposedPorts"], json!({"80/tcp": {}}));
}

#[test]
fn a_place_in_a_network_is_that_of_the_network_mode() {
    let change = |spec: &mut ContainerSpec| {
        spec.network = NetworkMode::Named("n".into());
        spec.endpoint = NetworkEndpoint {
            aliases: strings(&["a"]),
            ipv4_address: Some("10.0.0.2".into()),
            mac_address: Some("02:00:00:00:00:01".into()),
            ..NetworkEndpoint::default()
        };
    };
    let new = built(change, NEW).unwrap();
    let expected = json!({"n": {"Aliases": ["a"], "MacAddress": "02:00:00:00:00:01", "IPAMConfig": {"IPv4Address": "10.0.0.2"}}});
    assert_eq!(new["NetworkingConfig"]["EndpointsConfig"], expected);
    assert_eq!(new.get("MacAddress"), None);
    let old = built(change, OLD).unwrap();
    assert_eq!(old["MacAddress"], json!("02:00:00:00:00:01"));
}

fn mounted(mount: Mount, api: ApiVersion) -> Result<(Value, Value), EngineError> {
    let body = built(|spec| spec.mounts = vec![mount], api)?;
    let host = &body["HostConfig"];
    Ok((host["Binds"].clone(), host["Mounts"].clone()))
}

fn bind(source: &str, create_source: bool, non_recursive: bool, relabel: Option<bool>) -> Mount {
    Mount {
        target: "/t".into(),
        read_only: true,
        kind: MountKind::Bind {
            source: source.into(),
            create_source,
            propagation: Some(Propagation::RShared),
            non_recursive,
            relabel,
        },
    }
}

#[test]
fn a_bind_takes_the_form_that_can_say_it() {
    let (binds, mounts) = mounted(bind("/s", true, false, None), OLD).unwrap();
    assert_eq!((binds, mounts), (json!(["/s:/t:ro,rshared"]), Value::Null));
    let (binds, _) = mounted(bind("/s", false, false, Some(true)), OLD).unwrap();
    assert_eq!(binds, json!(["/s:/t:ro,rshared,z"]));
    let (binds, mounts) = mounted(bind("/s", false, true, None), OLD).unwrap();
    let options = json!({"Propagation": "rshared", "NonRecursive": true});
    let expected = json!([{"Type": "bind", "Source": "/s", "Target": "/t", "ReadOnly": true, "BindOptions": options}]);
    assert_eq!((binds, mounts), (Value::Null, expected));
    // A colon ends a path of the short form.
    let (binds, mounts) = mounted(bind("/s:1", true, false, None), NEW).unwrap();
    assert_eq!(
        (binds, &mounts[0]["BindOptions"]["CreateMountpoint"]),
        (Value::Null, &json!(true))
    );
    let error = mounted(bind("/s:1", true, false, None), OLD).unwrap_err();
    assert!(
        matches!(error, EngineError::Unsupported { needed: "1.42", .. }),
        "{error}"
    );
    let error = mounted(bind("/s:1", true, false, Some(false)), NEW).unwrap_err();
    assert!(matches!(error, EngineError::InvalidSpec { .. }), "{error}");
}

#[test]
fn volumes_tmpfs_and_images() {
    let volume = |driver: Option<&str>, options: &[(&str, &str)], subpath: Option<&str>| Mount {
        target: "/t".into(),
        read_only: false,
        kind: MountKind::Volume {
            name: Some("v".into()),
            driver: driver.map(str::to_owned),
            driver_options: pairs(options),
            labels: pairs(&[]),
            no_copy: false,
            subpath: subpath.map(str::to_owned),
        },
    };
    let of = |mount, api| mounted(mount, api).map(|(_, mounts)| mounts[0].clone());
    let plain = json!({"Type": "volume", "Source": "v", "Target": "/t"});
    assert_eq!(of(volume(None, &[], None), OLD).unwrap(), plain);
    let driven = of(volume(Some("nfs"), &[("o", "x")], None), OLD).unwrap();
    let config = json!({"Name": "nfs", "Options": {"o": "x"}});
    assert_eq!(driven["VolumeOptions"]["DriverConfig"], config);
    assert!(of(volume(None, &[], Some("a")), OLD).is_err());
    assert_eq!(
        of(volume(None, &[], Some("a")), NEW).unwrap()["VolumeOptions"]["Subpath"],
        json!("a")
    );
    // The driver of the spec is that of each volume without one of its own.
    let body = built(
        |spec| {
            spec.volume_driver = Some("d".into());
            spec.mounts = vec![volume(None, &[], None), volume(Some("e"), &[], None)];
        },
        OLD,
    );
    let mounts = body.unwrap()["HostConfig"]["Mounts"].clone();
    let name = |at: usize| mounts[at]["VolumeOptions"]["DriverConfig"]["Name"].clone();
    assert_eq!((name(0), name(1)), (json!("d"), json!("e")));

    let mount = |kind| Mount {
        target: "/t".into(),
        read_only: false,
        kind,
    };
    let tmpfs = of(
        mount(MountKind::Tmpfs {
            size: Some(4096),
            mode: Some(0o700),
        }),
        OLD,
    )
    .unwrap();
    assert_eq!(
        tmpfs["TmpfsOptions"],
        json!({"SizeBytes": 4096, "Mode": 0o700})
    );
    let image = || {
        mount(MountKind::Image {
            source: "i".into(),
            subpath: None,
        })
    };
    assert!(of(image(), OLD).is_err());
    assert_eq!(of(image(), NEW).unwrap()["Source"], json!("i"));
}

#[test]
fn what_no_engine_could_take_is_refused_with_field_and_value() {
    type Change = fn(&mut ContainerSpec);
    let table: &[(Change, &str)] = &[
        (|s| s.image.clear(), "Image"),
        (|s| s.image = "a\0b".into(), "Image"),
        (|s| s.name = Some("a/b".into()), "name"),
        (|s| s.name = Some("-a".into()), "name"),
        (|s| s.name = Some("a".into()), "name"),
        (|s| s.cmd = Some(strings(&["a\0"])), "Cmd"),
        (|s| s.entrypoint = Some(strings(&["a\0"])), "Entrypoint"),
        (|s| s.env = vec![EnvVar::new("", "x")], "Env"),
        (|s| s.env = vec![EnvVar::new("A=B", "x")], "Env"),
        (|s| s.env = vec![EnvVar::new("A", "x\0")], "Env"),
        (|s| s.unset_env = vec!["A=B".to_owned()], "Env"),
        (|s| s.labels = pairs(&[("", "x")]), "Labels"),
        (|s| s.working_dir = Some("w".into()), "WorkingDir"),
        (|s| s.tmpfs = pairs(&[("t", "")]), "HostConfig.Tmpfs"),
        (
            |s| s.mounts = vec![Mount::bind("s", "/t")],
            "HostConfig.Mounts.Source",
        ),
        (
            |s| s.mounts = vec![Mount::bind("/s", "t")],
            "HostConfig.Mounts.Target",
        ),
        (
            |s| s.mounts = vec![Mount::volume("/v", "/t")],
            "HostConfig.Mounts.Source",
        ),
        (|s| s.oom_score_adj = Some(1001), "HostConfig.OomScoreAdj"),
        (|s| s.exposed_ports = vec![(1, Protocol::Tcp)], ""),
        (
            |s| {
                s.ports = vec![PortBinding {
                    container_port: 0,
                    protocol: Protocol::Tcp,
                    host_ip: None,
                    host_port: None,
                }];
            },
            "HostConfig.PortBindings",
        ),
        (
            |s| {
                s.resources.devices = vec![Device {
                    path_on_host: "/a".into(),
                    path_in_container: "/a".into(),
                    permissions: "x".into(),
                }];
            },
            "HostConfig.Devices.CgroupPermissions",
        ),
        (
            |s| {
                s.resources.devices = vec![Device {
                    path_on_host: "a".into(),
                    path_in_container: "/a".into(),
                    permissions: "r".into(),
                }];
            },
            "HostConfig.Devices.PathOnHost",
        ),
        (
            |s| {
                s.resources.ulimits = vec![Ulimit {
                    name: "n".into(),
                    soft: -1,
                    hard: 1,
                }];
            },
            "HostConfig.Ulimits",
        ),
        (
            |s| {
                s.privileged = true;
                s.extra_host_config
                    .insert("Privileged".into(), json!(false));
            },
            "HostConfig",
        ),
        (
            |s| {
                s.extra_host_config
                    .insert("RestartPolicy".into(), json!({}));
            },
            "HostConfig",
        ),
        (
            |s| {
                s.extra_config.insert("Image".into(), json!("x"));
            },
            "Config",
        ),
    ];
    for (change, expected) in table {
        match built(change, NEW) {
            Ok(_) => assert_eq!(*expected, ""),
            Err(EngineError::InvalidSpec { field, .. }) => assert_eq!(field, *expected),
            Err(other) => panic!("{other}"),
        }
    }
    let error = built(|spec| spec.annotations = pairs(&[("a", "b")]), OLD).unwrap_err();
    assert_eq!(
        error.to_string(),
        "HostConfig.Annotations needs API 1.43, the engine speaks 1.41"
    );
    let secret = built(|spec| spec.env = vec![EnvVar::new("A", "hunter2\0")], NEW).unwrap_err();
    assert!(
        !format!("{secret} {secret:?}").contains("hunter2"),
        "{secret}"
    );
}

#[test]
fn an_update_takes_limits_alone() {
    let limits = Resources {
        cpu_shares: Some(4),
        memory: Some(8),
        ..Resources::default()
    };
    assert_eq!(
        update_body(&limits).unwrap(),
        json!({"CpuShares": 4, "Memory": 8})
    );
    let more = Resources {
        oom_kill_disable: Some(true),
        ..Resources::default()
    };
    assert!(update_body(&more).is_err());
}

#[test]
fn a_grace_is_rounded_up() {
    for (millis, seconds) in [(0, 0), (1, 1), (900, 1), (1000, 1), (1001, 2)] {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
    }
}
