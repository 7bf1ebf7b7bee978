use longshore_engine::MountKind;
use longshore_engine::spec::{NetworkMode, Propagation, Protocol};

use super::*;

fn set(flags: &[(&str, &str)]) -> ContainerSpec {
    let mut spec = ContainerSpec::new("busybox");
    for (name, value) in flags {
        apply(&mut spec, FlagTarget::Task, name, value)
            .unwrap_or_else(|problem| panic!("{problem}"));
    }
    spec
}

fn refuse(name: &str, value: &str) -> String {
    let mut spec = ContainerSpec::new("busybox");
    let before = spec.clone();
    let problem = apply(&mut spec, FlagTarget::Task, name, value).unwrap_err();
    assert_eq!(spec, before, "{name} {value}: half applied");
    problem.to_string()
}

#[test]
fn a_name_is_for_a_command_line_alone() {
    let mut spec = ContainerSpec::new("busybox");
    apply(&mut spec, FlagTarget::CommandLine, "name", "x").unwrap();
    assert_eq!(spec.name.as_deref(), Some("x"));
    assert!(refuse("name", "x").contains("--name"));
}

#[test]
fn sizes_are_dockers() {
    let cases = [
        ("512", Some(512)),
        ("512b", Some(512)),
        ("64k", Some(64 << 10)),
        ("32M", Some(32 << 20)),
        ("1.5g", Some(3 << 29)),
        ("2GB", Some(2 << 30)),
        ("2GiB", Some(2 << 30)),
        ("1t", Some(1 << 40)),
        ("", None),
        ("g", None),
        ("-1", None),
        ("1.g", None),
        ("1e3", None),
        ("99999999999p", None),
    ];
    for (text, expected) in cases {
        assert_eq!(bytes(text), expected, "{text}");
    }
}

#[test]
fn ports_are_dockers() {
    let shown = |text: &str| -> Result<Vec<String>, &'static str> {
        let one = |binding: longshore_engine::spec::PortBinding| {
            let ip = binding
                .host_ip
                .map_or_else(|| "*".to_owned(), |ip| ip.to_string());
            let host = binding
                .host_port
                .map_or_else(|| "any".to_owned(), |port| port.to_string());
            format!(
                "{ip} {host} {} {}",
                binding.container_port, binding.protocol
            )
        };
        Ok(port(text)?.into_iter().map(one).collect())
    };
    let cases = [
        ("80", vec!["* any 80 tcp"]),
        ("8080:80", vec!["* 8080 80 tcp"]),
        ("8080:80/UDP", vec!["* 8080 80 udp"]),
        ("127.0.0.1:8080:80", vec!["127.0.0.1 8080 80 tcp"]),
        ("127.0.0.1::80", vec!["127.0.0.1 any 80 tcp"]),
        ("[::1]:8080:80", vec!["::1 8080 80 tcp"]),
        ("8080-8081:80-81", vec!["* 8080 80 tcp", "* 8081 81 tcp"]),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(text).unwrap(), expected, "{text}");
    }
    for text in [
        "",
        "0",
        "x",
        "80:",
        "70000:80",
        "8080-8081:80",
        "81-80",
        "80/icmp",
        "a:1:2",
        "1:2:3:4",
    ] {
        assert!(port(text).is_err(), "{text}");
    }
}

#[test]
fn volumes_are_dockers() {
    let spec = set(&[
        ("volume", "/srv:/a:ro,rslave"),
        ("volume", "vol:/b:nocopy"),
        ("volume", "/c"),
        (
            "mount",
            "type=bind,src=/srv,dst=/d,readonly,bind-propagation=rshared",
        ),
        (
            "mount",
            "source=vol,target=/e,volume-driver=x,volume-opt=o=a=b",
        ),
        (
            "mount",
            "type=tmpfs,destination=/f,tmpfs-size=1m,tmpfs-mode=1770",
        ),
    ]);
    let targets: Vec<_> = spec
        .mounts
        .iter()
        .map(|mount| (mount.target.as_str(), mount.read_only))
        .collect();
    let expected = [
        ("/a", true),
        ("/b", false),
        ("/c", false),
        ("/d", true),
        ("/e", false),
        ("/f", false),
    ];
    assert_eq!(targets, expected);
    let kinds: Vec<_> = spec.mounts.iter().map(|mount| &mount.kind).collect();
    assert!(
        matches!(
            kinds[0],
            MountKind::Bind {
                create_source: true,
                propagation: Some(Propagation::RSlave),
                ..
            }
        ),
        "{kinds:?}"
    );
    assert!(
        matches!(kinds[1], MountKind::Volume { no_copy: true, .. }),
        "{kinds:?}"
    );
    assert!(
        matches!(kinds[2], MountKind::Volume { name: None, .. }),
        "{kinds:?}"
    );
    assert!(
        matches!(
            kinds[3],
            MountKind::Bind {
                create_source: false,
                propagation: Some(Propagation::RShared),
                ..
            }
        ),
        "{kinds:?}"
    );
    let MountKind::Volume {
        driver,
        driver_options,
        ..
    } = kinds[4]
    else {
        panic!("{kinds:?}");
    };
    assert_eq!(
        (driver.as_deref(), driver_options["o"].as_str()),
        (Some("x"), "a=b")
    );
    assert_eq!(
        *kinds[5],
        MountKind::Tmpfs {
            size: Some(1 << 20),
            mode: Some(0o1770)
        }
    );
    for (name, value) in [
        ("volume", "a:b"),
        ("volume", "/a:b"),
        ("volume", "./a:/b"),
        ("volume", "/a:/b:xx"),
        ("volume", "vol:/b:z"),
        ("volume", "/a:/b:ro:x"),
        ("mount", "type=bind,target=/x"),
        ("mount", "type=bind,source=rel,target=/x"),
        ("mount", "type=npipe,source=/a,target=/x"),
        ("mount", "source=vol"),
        ("mount", "source=vol,target=/x,bind-propagation=shared"),
        ("mount", "source=vol,target=/x,target=/y"),
        ("mount", "type=tmpfs,target=/x,volume-opt=a=b"),
    ] {
        let problem = refuse(name, value);
        assert!(problem.contains(&format!("--{name}")), "{problem}");
    }
}

#[test]
fn every_kind_of_value_is_read_and_refused() {
    let spec = set(&[
        ("cpus", "1.5"),
        ("ulimit", "nofile=1024:2048"),
        ("ulimit", "nofile=1"),
        ("gpus", "all"),
        ("network", "container:x"),
        ("expose", "80-81/udp"),
        ("label", "a"),
        ("privileged", ""),
        ("read-only", "false"),
        ("log-driver", "json-file"),
        ("log-opt", "max-size=1m"),
        ("pid", "host"),
        ("ipc", "container:y"),
        ("stop-timeout", "3"),
        ("sysctl", "net.core.somaxconn=1"),
        ("memory-swap", "-1"),
    ]);
    assert_eq!(spec.resources.nano_cpus, Some(1_500_000_000));
    let limits: Vec<_> = spec
        .resources
        .ulimits
        .iter()
        .map(|it| (it.soft, it.hard))
        .collect();
    assert_eq!(limits, [(1, 1)], "the later one");
    assert_eq!(spec.resources.device_requests[0].count, Some(-1));
    assert_eq!(spec.network, NetworkMode::Container("x".to_owned()));
    assert_eq!(
        spec.exposed_ports,
        [(80, Protocol::Udp), (81, Protocol::Udp)]
    );
    assert_eq!(spec.labels["a"], "");
    assert!(spec.privileged && !spec.read_only_root);
    assert_eq!(
        spec.log
            .as_ref()
            .map(|log| log.options["max-size"].as_str()),
        Some("1m")
    );
    assert_eq!(spec.ipc_mode.as_deref(), Some("container:y"));
    assert_eq!(spec.resources.memory_swap, Some(-1));
    for (name, value) in [
        ("cpus", "-1"),
        ("cpus", "0"),
        ("cpus", "1e3"),
        ("ulimit", "nofile"),
        ("ulimit", "nofile=3:2"),
        ("ulimit", "nofile=-2"),
        ("gpus", "0"),
        ("gpus", "device="),
        ("network", "a:b"),
        ("network", "name=x,ip=1"),
        ("expose", "80-79"),
        ("privileged", "maybe"),
        ("pid", "private"),
        ("pid", "container:"),
        ("uts", "container:x"),
        ("workdir", "rel"),
        ("dns", "example"),
        ("add-host", "x"),
        ("oom-score-adj", "1001"),
        ("memory-swappiness", "101"),
        ("blkio-weight", "9"),
        ("device", "fuse"),
        ("device", "/dev/fuse:x"),
        ("security-opt", "seccomp=/etc/profile.json"),
        ("tmpfs", "rel"),
        ("stop-timeout", "-1"),
        ("user", ""),
        ("user", "a\0b"),
    ] {
        let problem = refuse(name, value);
        assert!(problem.contains(&format!("--{name}")), "{problem}");
    }
}

#[test]
fn a_cpu_flag_takes_the_place_of_a_quota_and_the_other_way_round() {
    let spec = set(&[("cpu-quota", "1000"), ("cpus", "2")]);
    assert_eq!(
        (spec.resources.cpu_quota, spec.resources.nano_cpus),
        (None, Some(2_000_000_000))
    );
    let spec = set(&[("cpus", "2"), ("cpu-quota", "1000")]);
    assert_eq!(
        (spec.resources.cpu_quota, spec.resources.nano_cpus),
        (Some(1000), None)
    );
}

#[test]
fn secrets_are_not_in_what_is_refused() {
    for (name, value) in [
        ("env", "=hunter2"),
        ("log-opt", "=hunter2"),
        ("label", "=hunter2"),
        ("storage-opt", "=hunter2"),
        ("mount", "volume-opt=password=hunter2,target=rel"),
    ] {
        let problem = refuse(name, value);
        assert!(!problem.contains("hunter2"), "{problem}");
    }
    // Without a name there is nothing but the value.
    assert!(!refuse("env", "HUNTER").contains('\n'));
}

proptest::proptest! {
    #[test]
    fn no_value_panics_anything(value in ".{0,40}") {
        let mut spec = ContainerSpec::new("busybox");
        for name in ["volume", "mount", "device", "publish", "expose", "memory", "cpus", "ulimit", "gpus", "network",
            "add-host", "env", "security-opt", "pid", "tmpfs", value.as_str()] {
            drop(apply(&mut spec, FlagTarget::Task, name, &value));
        }
    }
}
