//! What the rows leave out: every other member, its repairs of Go's behaviour, and refusals.

use longshore_nri_api::{
    Hook, Hooks, HugepageLimit, IoPrioClass, LinuxDevice, LinuxDeviceCgroup, LinuxIoPriority,
    LinuxMemory, LinuxMemoryPolicy, LinuxNamespace, LinuxScheduler, LinuxSchedulerPolicy,
    LinuxSeccomp, Mount, MpolFlag, MpolMode, OptionalFileMode,
};
use serde_json::json;

use super::{check, check_on, refused};

#[test]
fn a_key_that_is_removed_and_added_is_there_with_the_new_value() {
    check_on(
        &json!({"annotations": {"k": "old", "gone": "x"}}),
        |it| {
            it.add_annotation("k", "new")
                .remove_annotation("k")
                .remove_annotation("gone");
        },
        json!({"annotations": {"k": "new", "gone": null}}),
    );
}

#[test]
fn env_keeps_its_order_and_entries_without_a_value() {
    check_on(
        &json!({"process": {"env": ["A=1", "BARE", "B=2", "A=3", "C=4", "GONE", "GONE=1"]}}),
        |it| {
            it.add_env("NEW", "n")
                .add_env("A", "a=b")
                .remove_env("C")
                .remove_env("GONE")
                .remove_env("A");
        },
        json!({"process": {"env": ["A=a=b", "BARE", "B=2", "NEW=n"]}}),
    );
}

#[test]
fn args_lose_the_marker_and_an_empty_list_changes_nothing() {
    check(
        |it| _ = it.update_args(["x"]),
        json!({"process": {"args": ["x"]}}),
    );
    check(|it| _ = it.update_args([""; 0]), json!({}));
}

#[test]
fn hooks_are_appended_list_by_list() {
    let hook = |path: &str| Hook {
        path: path.into(),
        args: vec!["a".into()],
        timeout: Some(5.into()),
        ..Hook::default()
    };
    check_on(
        &json!({"hooks": {"poststop": [{"path": "/old"}]}}),
        |it| {
            it.add_hooks(Hooks {
                prestart: vec![hook("/1")],
                create_runtime: vec![hook("/2")],
                create_container: vec![hook("/3")],
                start_container: vec![hook("/4")],
                poststart: vec![hook("/5")],
                poststop: vec![hook("/6")],
            });
        },
        json!({"hooks": {
            "prestart": [{"path": "/1", "args": ["a"], "timeout": 5}],
            "createRuntime": [{"path": "/2", "args": ["a"], "timeout": 5}],
            "createContainer": [{"path": "/3", "args": ["a"], "timeout": 5}],
            "startContainer": [{"path": "/4", "args": ["a"], "timeout": 5}],
            "poststart": [{"path": "/5", "args": ["a"], "timeout": 5}],
            "poststop": [{"path": "/old"}, {"path": "/6", "args": ["a"], "timeout": 5}],
        }}),
    );
}

fn device(path: &str, kind: &str, mode: Option<u32>) -> LinuxDevice {
    LinuxDevice {
        path: path.into(),
        r#type: kind.into(),
        major: 1,
        minor: 3,
        file_mode: mode.map(OptionalFileMode::from),
        ..LinuxDevice::default()
    }
}

#[test]
fn a_device_replaces_its_path_and_is_allowed_as_its_mode_says() {
    let rule = |kind, access| json!({"allow": true, "type": kind, "major": 1, "minor": 3, "access": access});
    for (kind, mode, access) in [
        ("c", None, Some("rw")),
        ("b", None, Some("rwm")),
        ("c", Some(0o444), Some("r")),
        ("b", Some(0o200), Some("wm")),
        ("c", Some(0), None),
        ("p", None, None),
    ] {
        let deny = json!({"allow": false, "access": "rwm"});
        let rules: Vec<_> = [Some(deny.clone()), access.map(|access| rule(kind, access))]
            .into_iter()
            .flatten()
            .collect();
        let mut node = json!({"path": "/dev/x", "type": kind, "major": 1, "minor": 3});
        if let Some(mode) = mode {
            node["fileMode"] = mode.into();
        }
        check_on(
            &json!({"linux": {
                "devices": [{"path": "/dev/x", "type": "c", "major": 9, "minor": 9},
                            {"path": "/dev/gone", "type": "c", "major": 9, "minor": 9}],
                "resources": {"devices": [deny]},
            }}),
            |it| {
                it.add_device(device("/dev//x", kind, mode))
                    .remove_device("/dev/x")
                    .remove_device("/dev/gone");
            },
            json!({"linux": {"devices": [node], "resources": {"devices": rules}}}),
        );
    }
}

#[test]
fn namespaces_are_replaced_in_place_added_and_removed() {
    let namespace = |kind: &str, path: &str| LinuxNamespace {
        r#type: kind.into(),
        path: path.into(),
    };
    check_on(
        &json!({"linux": {"namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "ipc"}]}}),
        |it| {
            it.add_or_replace_namespace(namespace("network", "/run/ns"))
                .remove_namespace("network")
                .remove_namespace("pid")
                .add_or_replace_namespace(namespace("cgroup", ""));
        },
        json!({"linux": {"namespaces":
            [{"type": "network", "path": "/run/ns"}, {"type": "ipc"}, {"type": "cgroup"}]}}),
    );
}

#[test]
fn the_rest_of_the_linux_part_is_set() {
    check_on(
        &json!({"linux": {"netDevices": {"eth9": {"name": "gone"}}}}),
        |it| {
            it.set_cgroups_path("/pods/c")
                .set_io_priority(IoPrioClass::IoprioClassRt, 5)
                .add_net_device("eth1", "net0")
                .remove_net_device("eth9")
                .set_memory_policy(LinuxMemoryPolicy {
                    mode: MpolMode::MpolInterleave.into(),
                    nodes: "0,1".into(),
                    flags: vec![MpolFlag::MpolFStaticNodes.into()],
                })
                .set_scheduler(LinuxScheduler {
                    policy: LinuxSchedulerPolicy::SchedFifo.into(),
                    priority: 10,
                    ..LinuxScheduler::default()
                });
        },
        json!({
            "process": {
                "ioPriority": {"class": "IOPRIO_CLASS_RT", "priority": 5},
                "scheduler": {"policy": "SCHED_FIFO", "priority": 10},
            },
            "linux": {
                "cgroupsPath": "/pods/c",
                "netDevices": {"eth1": {"name": "net0"}, "eth9": null},
                "memoryPolicy": {"mode": "MPOL_INTERLEAVE", "nodes": "0,1",
                                 "flags": ["MPOL_F_STATIC_NODES"]},
            },
        }),
    );
}

#[test]
fn none_takes_scheduler_and_io_priority_away() {
    check_on(
        &json!({"process": {"scheduler": {"policy": "SCHED_RR"},
                            "ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 1}}}),
        |it| {
            it.set_scheduler(LinuxScheduler::default())
                .set_io_priority(IoPrioClass::IoprioClassNone, 0);
        },
        json!({"process": {"scheduler": null, "ioPriority": null}}),
    );
}

#[test]
fn all_resources_are_applied_and_replace_those_of_their_kind() {
    check_on(
        &json!({"linux": {"resources": {
            "hugepageLimits": [{"pageSize": "2MB", "limit": 1}],
            "unified": {"memory.high": "1"},
        }}}),
        |it| {
            let resources = it.resources_mut();
            resources.memory = Some(LinuxMemory {
                limit: Some(1000.into()),
                reservation: Some(500.into()),
                swap: Some(2000.into()),
                kernel: Some(1.into()),
                kernel_tcp: Some(2.into()),
                swappiness: Some(3_u64.into()),
                disable_oom_killer: Some(true.into()),
                use_hierarchy: Some(false.into()),
            });
            let cpu = resources.cpu.get_or_insert_default();
            cpu.realtime_runtime = Some(4.into());
            cpu.realtime_period = Some(5_u64.into());
            for (page_size, limit) in [("2MB", 7), ("1GB", 8)] {
                resources.hugepage_limits.push(HugepageLimit {
                    page_size: page_size.into(),
                    limit,
                });
            }
            resources.unified.insert("memory.high".into(), "9".into());
            resources.devices.push(LinuxDeviceCgroup {
                allow: false,
                r#type: "a".into(),
                access: "rwm".into(),
                ..LinuxDeviceCgroup::default()
            });
            resources.set_pids_limit(-1);
        },
        json!({"linux": {"resources": {
            "memory": {"limit": 1000, "reservation": 500, "swap": 2000, "kernel": 1,
                       "kernelTCP": 2, "swappiness": 3, "disableOOMKiller": true,
                       "useHierarchy": false},
            "cpu": {"realtimeRuntime": 4, "realtimePeriod": 5},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 7}, {"pageSize": "1GB", "limit": 8}],
            "unified": {"memory.high": "9"},
            "devices": [{"allow": false, "type": "a", "access": "rwm"}],
            "pids": null,
        }}}),
    );
}

#[test]
fn an_rlimit_replaces_its_type_however_it_is_spelled() {
    for name in ["nofile", "NoFile", "RLIMIT_NOFILE", "rlimit_nofile"] {
        check_on(
            &json!({"process": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 9, "soft": 8}]}}),
            |it| _ = it.add_rlimit(name, 2, 1),
            json!({"process": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": 2, "soft": 1}]}}),
        );
    }
}

#[test]
fn a_mount_replaces_its_destination_in_any_order_of_the_list() {
    let mount = |destination: &str, source: &str| Mount {
        destination: destination.into(),
        source: source.into(),
        r#type: "bind".into(),
        options: vec!["ro".into()],
    };
    check_on(
        &json!({"mounts": [{"destination": "/sys/fs/cgroup"}, {"destination": "/gone/"},
                           {"destination": "/proc"}]}),
        |it| {
            it.add_mount(mount("/sys/fs/cgroup", "/new"))
                .remove_mount("/sys/fs/cgroup")
                .remove_mount("/gone");
        },
        json!({"mounts": [
            {"destination": "/proc"},
            {"destination": "/sys/fs/cgroup", "source": "/new", "type": "bind", "options": ["ro"]},
        ]}),
    );
}

#[test]
fn what_no_spec_can_hold_is_refused_by_field() {
    let mount = |destination: &str| Mount {
        destination: destination.into(),
        ..Mount::default()
    };
    let hook = |path: &str| Hooks {
        poststart: vec![Hook {
            path: path.into(),
            ..Hook::default()
        }],
        ..Hooks::default()
    };
    let seccomp = |action: &str| LinuxSeccomp {
        default_action: action.into(),
        ..LinuxSeccomp::default()
    };
    let cases = [
        (refused(|it| _ = it.add_annotation("", "x")), "annotations"),
        (refused(|it| _ = it.add_annotation("-", "")), "annotations"),
        (refused(|it| _ = it.add_env("A=B", "")), "env"),
        (refused(|it| _ = it.add_env("A", "\0")), "env"),
        (refused(|it| _ = it.set_args(["\0"])), "args"),
        (
            refused(|it| _ = it.add_hooks(hook("rel"))),
            "hooks.poststart",
        ),
        (refused(|it| _ = it.add_mount(mount("rel"))), "mounts"),
        (refused(|it| _ = it.add_mount(mount("/a/../b"))), "mounts"),
        (
            refused(|it| _ = it.add_device(device("/dev/x", "z", None))),
            "linux.devices",
        ),
        (
            refused(|it| _ = it.add_device(device("x", "c", None))),
            "linux.devices",
        ),
        (
            refused(|it| _ = it.set_oom_score_adj(1001)),
            "linux.oom_score_adj",
        ),
        (
            refused(|it| _ = it.set_io_priority(IoPrioClass::IoprioClassBe, 8)),
            "linux.io_priority",
        ),
        (
            refused(|it| {
                it.linux_mut().io_priority = Some(LinuxIoPriority {
                    class: 9,
                    priority: 0,
                });
            }),
            "linux.io_priority",
        ),
        (
            refused(|it| {
                _ = it.set_scheduler(LinuxScheduler {
                    policy: 77,
                    ..LinuxScheduler::default()
                });
            }),
            "linux.scheduler",
        ),
        (
            refused(|it| {
                _ = it.set_scheduler(LinuxScheduler {
                    policy: 1,
                    flags: vec![99],
                    ..LinuxScheduler::default()
                });
            }),
            "linux.scheduler.flags",
        ),
        (
            refused(|it| {
                _ = it.set_memory_policy(LinuxMemoryPolicy {
                    mode: 1,
                    flags: vec![9],
                    ..LinuxMemoryPolicy::default()
                });
            }),
            "linux.memory_policy.flags",
        ),
        (
            refused(|it| _ = it.set_seccomp_policy(seccomp("NO"))),
            "linux.seccomp_policy.default_action",
        ),
        (
            refused(|it| _ = it.remove_namespace("no")),
            "linux.namespaces",
        ),
        (
            refused(|it| _ = it.resources_mut().set_pids_limit(-2)),
            "linux.resources.pids",
        ),
        (
            refused(|it| {
                it.resources_mut().unified.insert("../x".into(), "1".into());
            }),
            "linux.resources.unified",
        ),
        (refused(|it| _ = it.add_rlimit("no", 1, 1)), "rlimits"),
        (refused(|it| _ = it.add_rlimit("nofile", 1, 2)), "rlimits"),
        (refused(|it| _ = it.add_cdi_device("v/c=d")), "CDI_devices"),
        (
            refused(|it| it.resources_mut().blockio_class = Some("gold".into())),
            "linux.resources.blockio_class",
        ),
        (
            refused(|it| it.resources_mut().rdt_class = Some("gold".into())),
            "linux.resources.rdt_class",
        ),
    ];
    for (error, field) in cases {
        let named = error.split([' ', ':']).next();
        assert_eq!(named, Some(field), "{error}");
    }
}
