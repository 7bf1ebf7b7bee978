// long: one table of every field, for both kinds of container.
//! Every field of an adjustment, for both kinds of container: what becomes of it, or who is refused.

use longshore_engine::spec::Propagation;
use longshore_engine::{ContainerSpec, Mount, MountKind, NetworkMode};
use longshore_nri_api::{
    ContainerAdjustment, Hook, Hooks, LinuxDevice, LinuxIoPriority, LinuxMemoryPolicy,
    LinuxNamespace, LinuxRdt, LinuxScheduler, LinuxSeccomp, LinuxSyscall, Mount as NriMount,
    OwningPlugins,
};
use longshore_task_spec::hooks::ProcessDraft;

use super::*;
use crate::{HostDevices, Node, NodeKind};

/// A host with one device, at two places.
#[derive(Debug)]
struct OneDevice;

impl HostDevices for OneDevice {
    fn at(&self, path: &str) -> Option<Node> {
        ["/dev/thing", "/dev/dir/thing"]
            .contains(&path)
            .then_some(Node {
                kind: NodeKind::Char,
                major: 240,
                minor: 7,
                mode: 0o660,
                uid: 0,
                gid: 6,
            })
    }

    fn find(&self, kind: NodeKind, major: i64, minor: i64) -> Option<String> {
        ((kind, major, minor) == (NodeKind::Char, 240, 7)).then(|| "/dev/dir/thing".to_owned())
    }
}

type Change = fn(&mut ContainerAdjustment);

fn adjustment(change: Change) -> ContainerAdjustment {
    let mut adjustment = ContainerAdjustment::default();
    change(&mut adjustment);
    adjustment
}

/// With something of everything that can be removed or replaced.
fn spec() -> ContainerSpec {
    let mut spec = ContainerSpec::new("busybox");
    spec.env = vec![EnvVar::new("KEPT", "1"), EnvVar::new("OLD", "1")];
    spec.cmd = Some(vec!["true".to_owned()]);
    spec.mounts = vec![Mount::bind("/a", "/old"), Mount::bind("/b", "/kept")];
    spec.tmpfs = [("/tmpfs".to_owned(), String::new())].into();
    spec.labels = [("label".to_owned(), "1".to_owned())].into();
    spec.annotations = [("old".to_owned(), "1".to_owned())].into();
    spec.sysctls = [("net.old".to_owned(), "1".to_owned())].into();
    spec.security_options = vec![
        "no-new-privileges".to_owned(),
        "seccomp=unconfined".to_owned(),
    ];
    spec
}

fn on_engine(change: Change) -> Result<ContainerSpec, String> {
    let judge = Judge::of_plugin("10-a");
    engine(spec(), &adjustment(change), &judge, &OneDevice).map_err(|refusal| refusal.to_string())
}

fn draft() -> ProcessDraft {
    ProcessDraft {
        argv: vec!["/driver".to_owned()],
        env: vec![EnvVar::new("KEPT", "1"), EnvVar::new("OLD", "1")],
        mounts: vec![Mount::bind("/a", "/old")],
        ..ProcessDraft::default()
    }
}

fn on_process(change: Change) -> Result<ProcessDraft, String> {
    let judge = Judge::of_plugin("10-a");
    process(draft(), &adjustment(change), &judge, &OneDevice).map_err(|refusal| refusal.to_string())
}

fn bind(target: &str, options: &[&str]) -> NriMount {
    NriMount {
        destination: target.to_owned(),
        r#type: "bind".to_owned(),
        source: "/src".to_owned(),
        options: options.iter().map(|it| (*it).to_owned()).collect(),
    }
}

fn thing(path: &str) -> LinuxDevice {
    LinuxDevice {
        path: path.to_owned(),
        r#type: "c".to_owned(),
        major: 240,
        minor: 7,
        ..LinuxDevice::default()
    }
}

fn namespace(kind: &str, path: &str) -> LinuxNamespace {
    LinuxNamespace {
        r#type: kind.to_owned(),
        path: path.to_owned(),
    }
}

#[test]
fn an_engine_gets_what_it_has_words_for() {
    type Check = fn(&ContainerSpec) -> bool;
    let cases: &[(&str, Change, Check)] = &[
        (
            "annotations",
            |it| {
                it.add_annotation("new", "2").remove_annotation("old");
            },
            |spec| spec.annotations == [("new".to_owned(), "2".to_owned())].into(),
        ),
        (
            "annotations: a label replaced",
            |it| {
                it.remove_annotation("label").add_annotation("label", "2");
            },
            |spec| spec.annotations["label"] == "2" && spec.labels["label"] == "1",
        ),
        (
            "mounts",
            |it| {
                it.remove_mount("/old").remove_mount("/tmpfs");
                it.add_mount(bind("/kept", &["rbind", "ro", "rslave"]));
            },
            |spec| {
                let kind = MountKind::Bind {
                    source: "/src".to_owned(),
                    create_source: false,
                    propagation: Some(Propagation::RSlave),
                    non_recursive: false,
                    relabel: None,
                };
                let mount = Mount {
                    target: "/kept".to_owned(),
                    read_only: true,
                    kind,
                };
                spec.mounts == [mount] && spec.tmpfs.is_empty()
            },
        ),
        (
            "mounts: tmpfs",
            |it| {
                it.add_mount(NriMount {
                    destination: "/old".to_owned(),
                    r#type: "tmpfs".to_owned(),
                    options: vec!["size=1m".to_owned(), "nosuid".to_owned()],
                    ..NriMount::default()
                });
            },
            |spec| spec.tmpfs["/old"] == "size=1m,nosuid" && spec.mounts.len() == 1,
        ),
        (
            "env",
            |it| {
                it.add_env("NEW", "2")
                    .add_env("KEPT", "3")
                    .remove_env("OLD")
                    .remove_env("OF_IMAGE");
            },
            |spec| {
                let shown: Vec<_> = spec
                    .env
                    .iter()
                    .map(|it| format!("{}={}", it.name, it.value))
                    .collect();
                shown == ["NEW=2", "KEPT=3"] && spec.unset_env == ["OLD", "OF_IMAGE"]
            },
        ),
        (
            "env: removed and set again",
            |it| {
                it.remove_env("OLD").add_env("OLD", "2");
            },
            |spec| {
                spec.env
                    .iter()
                    .any(|it| it.name == "OLD" && it.value == "2")
                    && spec.unset_env.is_empty()
            },
        ),
        (
            "args",
            |it| {
                it.set_args(["/bin/a", "b"]);
            },
            |spec| {
                spec.entrypoint.as_deref() == Some(&["/bin/a".to_owned(), "b".to_owned()])
                    && spec.cmd.is_none()
            },
        ),
        (
            "hooks: none",
            |it| it.hooks = Some(Hooks::default()),
            |spec| *spec == self::spec(),
        ),
        (
            "rlimits",
            |it| {
                it.add_rlimit("RLIMIT_NOFILE", u64::MAX, 5);
            },
            |spec| {
                spec.resources.ulimits
                    == [Ulimit {
                        name: "nofile".to_owned(),
                        soft: 5,
                        hard: -1,
                    }]
            },
        ),
        (
            "CDI",
            |it| {
                it.add_cdi_device("v.com/gpu=0")
                    .add_cdi_device("v.com/gpu=1");
            },
            |spec| {
                let requests = &spec.resources.device_requests;
                requests.len() == 1 && requests[0].device_ids == ["v.com/gpu=0", "v.com/gpu=1"]
            },
        ),
        (
            "devices",
            |it| {
                it.add_device(thing("/dev/mine"));
            },
            |spec| {
                let device = &spec.resources.devices[0];
                device.path_on_host == "/dev/dir/thing"
                    && device.path_in_container == "/dev/mine"
                    && device.permissions == "rw"
            },
        ),
        (
            "devices: where it is",
            |it| {
                let device = LinuxDevice {
                    file_mode: Some(0o660_u32.into()),
                    ..thing("/dev/thing")
                };
                it.add_device(device).remove_device("/dev/other");
            },
            |spec| spec.resources.devices[0].path_on_host == "/dev/thing",
        ),
        (
            "resources",
            |it| {
                it.resources_mut()
                    .set_memory_limit(1 << 20)
                    .set_cpu_shares(7_u64);
            },
            |spec| spec.resources.memory == Some(1 << 20) && spec.resources.cpu_shares == Some(7),
        ),
        (
            "cgroups_path",
            |it| it.linux_mut().cgroups_path = "/a/b".to_owned(),
            |spec| spec.cgroup_parent.as_deref() == Some("/a/b"),
        ),
        (
            "cgroups_path of systemd",
            |it| it.linux_mut().cgroups_path = "a.slice:p:n".to_owned(),
            |spec| spec.cgroup_parent.as_deref() == Some("a.slice"),
        ),
        (
            "oom_score_adj",
            |it| {
                it.set_oom_score_adj(-9);
            },
            |spec| spec.oom_score_adj == Some(-9),
        ),
        (
            "seccomp_policy",
            |it| {
                it.linux_mut().seccomp_policy = Some(LinuxSeccomp {
                    default_action: "SCMP_ACT_ALLOW".to_owned(),
                    default_errno: Some(5_u32.into()),
                    syscalls: vec![LinuxSyscall {
                        names: vec!["chmod".to_owned()],
                        action: "SCMP_ACT_ERRNO".to_owned(),
                        errno_ret: Some(1_u32.into()),
                        ..LinuxSyscall::default()
                    }],
                    ..LinuxSeccomp::default()
                });
            },
            |spec| {
                let wanted = r#"seccomp={"defaultAction":"SCMP_ACT_ALLOW","defaultErrnoRet":5,"syscalls":[{"action":"SCMP_ACT_ERRNO","errnoRet":1,"names":["chmod"]}]}"#;
                spec.security_options == ["no-new-privileges", wanted]
            },
        ),
        (
            "namespaces: the host's",
            |it| {
                for kind in ["network", "pid", "ipc", "uts", "user", "cgroup"] {
                    it.remove_namespace(kind);
                }
            },
            |spec| {
                let modes = [
                    &spec.pid_mode,
                    &spec.ipc_mode,
                    &spec.uts_mode,
                    &spec.userns_mode,
                    &spec.cgroupns_mode,
                ];
                spec.network == NetworkMode::Host
                    && modes.iter().all(|mode| mode.as_deref() == Some("host"))
            },
        ),
        (
            "namespaces: own ones",
            |it| {
                for kind in ["network", "pid", "ipc", "uts", "cgroup", "mount"] {
                    it.remove_namespace(kind)
                        .add_or_replace_namespace(namespace(kind, ""));
                }
            },
            |spec| {
                spec.network == NetworkMode::None
                    && spec.pid_mode.is_none()
                    && spec.ipc_mode.as_deref() == Some("private")
            },
        ),
        (
            "sysctl",
            |it| {
                let sysctl = &mut it.linux_mut().sysctl;
                sysctl.insert("-net.old".to_owned(), String::new());
                sysctl.insert("net.new".to_owned(), "2".to_owned());
            },
            |spec| spec.sysctls == [("net.new".to_owned(), "2".to_owned())].into(),
        ),
        (
            "net_devices: removed",
            |it| {
                it.remove_net_device("eth9");
            },
            |spec| *spec == self::spec(),
        ),
        (
            "rdt: removed",
            |it| {
                it.linux_mut().rdt = Some(LinuxRdt {
                    remove: true,
                    ..LinuxRdt::default()
                });
            },
            |spec| *spec == self::spec(),
        ),
    ];
    for (name, change, check) in cases {
        let spec = on_engine(*change).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        assert!(
            check(&spec),
            "{name}: {spec:?} {:?} {:?}",
            spec.tmpfs,
            spec.security_options
        );
    }
}

/// What an engine cannot do, and what a process cannot have; the word "same" for what both refuse.
#[test]
fn what_cannot_be_done_is_refused_with_plugin_and_field() {
    let refused_by_both: &[(&str, Change)] = &[
        ("hooks \"/bin/hook\"", |it| {
            let hook = Hook {
                path: "/bin/hook".to_owned(),
                ..Hook::default()
            };
            it.add_hooks(Hooks {
                poststop: vec![hook],
                ..Hooks::default()
            });
        }),
        ("rlimits \"RLIMIT_WRONG\"", |it| {
            it.add_rlimit("RLIMIT_WRONG", 1, 1);
        }),
        ("rlimits \"RLIMIT_CPU\"", |it| {
            it.add_rlimit("RLIMIT_CPU", 1, 2);
        }),
        ("rlimits \"RLIMIT_AS\"", |it| {
            it.add_rlimit("RLIMIT_AS", u64::MAX - 1, 2);
        }),
        ("mounts \"/x\"", |it| {
            it.add_mount(bind("/x", &["rbind", "nosuid"]));
        }),
        ("mounts \"/y\"", |it| {
            it.add_mount(NriMount {
                r#type: "overlay".to_owned(),
                ..bind("/y", &[])
            });
        }),
        ("mounts \"/z\"", |it| {
            it.add_mount(NriMount {
                r#type: String::new(),
                ..bind("/z", &["ro"])
            });
        }),
        ("linux.oom_score_adj \"1001\"", |it| {
            it.set_oom_score_adj(1001);
        }),
        ("linux.io_priority", |it| {
            it.linux_mut().io_priority = Some(LinuxIoPriority::default());
        }),
        ("linux.namespaces \"network\"", |it| {
            it.add_or_replace_namespace(namespace("network", "/proc/1/ns/net"));
        }),
        ("linux.namespaces \"time\"", |it| {
            it.add_or_replace_namespace(namespace("time", ""));
        }),
        ("linux.net_devices \"eth0\"", |it| {
            it.add_net_device("eth0", "n0");
        }),
        ("linux.scheduler", |it| {
            it.linux_mut().scheduler = Some(LinuxScheduler::default());
        }),
        ("linux.rdt.clos_id", |it| {
            it.linux_mut().rdt = Some(LinuxRdt {
                clos_id: Some("a".into()),
                ..LinuxRdt::default()
            });
        }),
        ("linux.rdt.schemata", |it| {
            it.linux_mut().rdt = Some(LinuxRdt {
                schemata: Some(vec!["a".to_owned()].into()),
                ..LinuxRdt::default()
            });
        }),
        ("linux.rdt.enable_monitoring", |it| {
            it.linux_mut().rdt = Some(LinuxRdt {
                enable_monitoring: Some(false.into()),
                ..LinuxRdt::default()
            });
        }),
        ("linux.memory_policy", |it| {
            it.linux_mut().memory_policy = Some(LinuxMemoryPolicy::default());
        }),
        ("linux.resources.unified \"cpu.idle\"", |it| {
            it.resources_mut()
                .unified
                .insert("cpu.idle".to_owned(), "1".to_owned());
        }),
        ("linux.devices \"/dev/none\"", |it| {
            it.add_device(LinuxDevice {
                minor: 8,
                ..thing("/dev/none")
            });
        }),
    ];
    let refused_by_engines: &[(&str, Change)] = &[
        ("rlimits \"RLIMIT_AS\"", |it| {
            it.add_rlimit("RLIMIT_AS", 2, 1);
        }),
        ("annotations \"-label\"", |it| {
            it.remove_annotation("label");
        }),
        ("mounts \"/proc\"", |it| {
            it.add_mount(bind("/proc", &["rbind"]));
        }),
        ("mounts \"-/sys\"", |it| {
            it.remove_mount("/sys");
        }),
        ("linux.namespaces \"-mount\"", |it| {
            it.remove_namespace("mount");
        }),
        ("linux.devices \"/dev/thing\"", |it| {
            it.add_device(LinuxDevice {
                gid: Some(0_u32.into()),
                ..thing("/dev/thing")
            });
        }),
        ("linux.devices \"/dev/p\"", |it| {
            it.add_device(LinuxDevice {
                r#type: "p".to_owned(),
                ..thing("/dev/p")
            });
        }),
    ];
    let refused_by_processes: &[(&str, Change)] = &[
        ("annotations \"a\"", |it| {
            it.add_annotation("a", "b");
        }),
        ("mounts \"/x\"", |it| {
            it.add_mount(bind("/x", &["rslave"]));
        }),
        ("CDI_devices \"v.com/gpu=0\"", |it| {
            it.add_cdi_device("v.com/gpu=0");
        }),
        ("linux.cgroups_path \"/a\"", |it| {
            it.linux_mut().cgroups_path = "/a".to_owned();
        }),
        ("linux.seccomp_policy", |it| {
            it.linux_mut().seccomp_policy = Some(LinuxSeccomp::default());
        }),
        ("linux.namespaces \"pid\"", |it| {
            it.add_or_replace_namespace(namespace("pid", ""));
        }),
        ("linux.sysctl \"a.b\"", |it| {
            it.linux_mut()
                .sysctl
                .insert("a.b".to_owned(), "1".to_owned());
        }),
        ("linux.devices \"-/dev/thing\"", |it| {
            it.remove_device("/dev/thing");
        }),
        ("linux.resources.cpu.cpus", |it| {
            it.resources_mut().cpu.get_or_insert_default().cpus = "0".to_owned();
        }),
        ("linux.resources.cpu.mems", |it| {
            it.resources_mut().cpu.get_or_insert_default().mems = "0".to_owned();
        }),
        ("linux.resources.pids", |it| {
            it.resources_mut().pids = Some(longshore_nri_api::LinuxPids { limit: 5 });
        }),
        ("linux.resources.memory.swap", |it| {
            let memory = it.resources_mut().memory.get_or_insert_default();
            (memory.limit, memory.swap) = (Some(5_i64.into()), Some(5_i64.into()));
        }),
    ];
    let both = refused_by_both.iter();
    for (field, change) in both.clone().chain(refused_by_engines) {
        let text = on_engine(*change).map(|_| ()).expect_err(field);
        assert!(
            text.starts_with(&format!("plugin \"10-a\" set {field}, which")),
            "{text}"
        );
    }
    for (field, change) in both.chain(refused_by_processes) {
        let text = on_process(*change).map(|_| ()).expect_err(field);
        assert!(
            text.starts_with(&format!("plugin \"10-a\" set {field}, which")),
            "{text}"
        );
    }
}

#[test]
fn a_process_gets_what_a_process_can_have() {
    let after = on_process(|it| {
        it.set_args(["/other"])
            .add_env("NEW", "2")
            .remove_env("OLD");
        it.add_rlimit("nofile", 7, 6).set_oom_score_adj(3);
        it.remove_mount("/old")
            .add_mount(bind("/m", &["bind", "shared"]));
        it.add_device(thing("/dev/thing"))
            .remove_namespace("network");
        it.resources_mut().set_memory_limit(1 << 20);
        it.resources_mut().cpu.get_or_insert_default().quota = Some(50_000_i64.into());
    })
    .unwrap();
    assert_eq!(after.argv, ["/other"]);
    let names: Vec<_> = after.env.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["KEPT", "NEW"]);
    assert_eq!((after.rlimits[0].soft, after.rlimits[0].hard), (6, 7));
    assert_eq!(after.oom_score_adj, Some(3));
    assert_eq!(after.resources.memory, Some(1 << 20));
    assert_eq!(after.resources.memory_swap, None, "not limited here");
    assert_eq!(after.resources.cpu_quota, Some(50_000));
    let [mount] = after.mounts.as_slice() else {
        panic!("{:?}", after.mounts)
    };
    assert!(matches!(
        &mount.kind,
        MountKind::Bind {
            propagation: Some(Propagation::RShared),
            ..
        }
    ));
}

#[test]
fn the_owner_of_a_field_is_the_one_that_is_named() {
    let mut owners = OwningPlugins::default();
    owners.claim("c", Field::Env, Some("A"), "10-a").unwrap();
    owners.claim("c", Field::IoPriority, None, "20-b").unwrap();
    let adjustment = adjustment(|it| it.linux_mut().io_priority = Some(LinuxIoPriority::default()));
    let judge = Judge::of_chain(&owners, "c");
    let refused = engine(spec(), &adjustment, &judge, &OneDevice)
        .map(|_| ())
        .unwrap_err();
    assert_eq!(refused.plugin, r#"plugin "20-b""#);
}

#[test]
fn nothing_wanted_changes_nothing() {
    assert_eq!(on_engine(|_| {}).as_ref(), Ok(&spec()));
    assert_eq!(on_process(|_| {}).as_ref(), Ok(&draft()));
    // As the adaptation begins a reply: all parts there, and empty.
    let empty: Change = |it| {
        it.hooks = Some(Hooks::default());
        it.resources_mut().memory.get_or_insert_default();
        it.resources_mut().cpu.get_or_insert_default();
        it.linux_mut().rdt = Some(LinuxRdt::default());
    };
    assert_eq!(on_engine(empty).as_ref(), Ok(&spec()));
    assert_eq!(on_process(empty).as_ref(), Ok(&draft()));
}
