use longshore_nri_api::{
    Hook, Hooks, IoPrioClass, LinuxDevice, LinuxMemoryPolicy, LinuxNamespace, LinuxScheduler,
    LinuxSchedulerFlag, LinuxSchedulerPolicy, LinuxSeccomp, LinuxSyscall, Mount, MpolFlag,
    MpolMode, PosixRlimit,
};

use super::*;

fn mount(destination: &str, source: &str) -> Mount {
    let options = vec!["bind".to_owned()];
    Mount {
        destination: destination.into(),
        r#type: "bind".into(),
        source: source.into(),
        options,
    }
}

fn device(plugin: &str) -> LinuxDevice {
    let minor = 100 + plugin[..2].parse::<i64>().unwrap();
    LinuxDevice {
        path: "/dev/test".into(),
        r#type: "c".into(),
        major: 313,
        minor,
        ..Default::default()
    }
}

fn hooks(plugin: &str) -> Hooks {
    let hook = Hook {
        path: format!("/bin/{plugin}"),
        ..Hook::default()
    };
    Hooks {
        prestart: vec![hook],
        ..Hooks::default()
    }
}

fn seccomp() -> LinuxSeccomp {
    let names = vec!["sched_getaffinity".to_owned()];
    let rule = LinuxSyscall {
        names,
        action: "SCMP_ACT_NOTIFY".into(),
        ..Default::default()
    };
    LinuxSeccomp {
        default_action: "SCMP_ACT_ALLOW".into(),
        listener_path: "/run/meshuggah-rocks.sock".into(),
        syscalls: vec![rule],
        ..Default::default()
    }
}

fn scheduler() -> LinuxScheduler {
    LinuxScheduler {
        policy: LinuxSchedulerPolicy::SchedFifo.into(),
        priority: 10,
        flags: vec![LinuxSchedulerFlag::SchedFlagResetOnFork.into()],
        ..Default::default()
    }
}

fn memory_policy() -> LinuxMemoryPolicy {
    LinuxMemoryPolicy {
        mode: MpolMode::MpolInterleave.into(),
        nodes: "0,1".into(),
        flags: vec![MpolFlag::MpolFStaticNodes.into()],
    }
}

/// Every kind of adjustment of one plugin.
const ADJUSTMENTS: &[(&str, Adjust)] = &[
    ("row_47_annotation", |a, plugin| {
        a.add_annotation("key", plugin);
    }),
    ("row_48_mount", |a, plugin| {
        a.add_mount(mount("/mnt/test", &format!("/dev/{plugin}")));
    }),
    ("row_50_environment", |a, plugin| {
        a.add_env("key", plugin);
    }),
    ("row_51_arguments", |a, _| {
        a.set_args(["echo", "updated", "argument", "list"]);
    }),
    ("row_52_hooks", |a, plugin| {
        a.add_hooks(hooks(plugin));
    }),
    ("row_53_devices", |a, plugin| {
        a.add_device(device(plugin));
    }),
    ("row_54_namespace", |a, _| {
        a.add_or_replace_namespace(LinuxNamespace {
            r#type: "cgroup".into(),
            path: "/".into(),
        });
    }),
    ("row_55_rlimits", |a, _| {
        a.add_rlimit("nofile", 456, 123);
    }),
    ("row_56_cdi_devices", |a, _| {
        a.add_cdi_device("vendor0.com/dev=dev0");
    }),
    ("row_57_io_priority", |a, _| {
        a.set_io_priority(IoPrioClass::IoprioClassRt, 5);
    }),
    ("row_58_net_devices", |a, _| {
        a.add_net_device("hostIf", "containerIf");
    }),
    ("row_59_scheduler", |a, _| {
        a.set_scheduler(scheduler());
    }),
    ("row_60_sysctl", |a, _| {
        a.set_sysctl("net.core.somaxconn", "256");
    }),
    ("row_61_memory_policy", |a, _| {
        a.set_memory_policy(memory_policy());
    }),
    ("row_62_cpu", |a, plugin| set_cpu(a.resources_mut(), plugin)),
    ("row_63_memory", |a, plugin| {
        set_memory(a.resources_mut(), plugin);
    }),
    ("row_64_classes", |a, plugin| {
        set_classes(a.resources_mut(), plugin);
    }),
    ("row_65_hugepages", |a, plugin| {
        set_hugepages(a.resources_mut(), plugin);
    }),
    ("row_66_unified", |a, plugin| {
        set_unified(a.resources_mut(), plugin);
    }),
    ("row_67_cgroups_path", |a, plugin| {
        a.set_cgroups_path(format!("/{plugin}"));
    }),
    ("row_68_seccomp", |a, _| {
        a.set_seccomp_policy(seccomp());
    }),
    ("row_69_rdt", |a, _| {
        a.set_rdt_clos_id("test")
            .set_rdt_schemata(["L3:0=ff", "MB:0=50"]);
        a.set_rdt_enable_monitoring(true);
    }),
    ("oom_score", |a, _| {
        a.set_oom_score_adj(-5);
    }),
    ("pids", |a, _| {
        a.resources_mut().set_pids_limit(7);
    }),
];

#[test]
fn rows_47_to_69_one_adjustment_comes_out_as_it_went_in() {
    for (row, adjust) in ADJUSTMENTS {
        let mut expected = ContainerAdjustment::default();
        adjust(&mut expected, BAR);
        let merged = merge(create_request(|_| {}), &[(BAR, *adjust)]);
        assert_eq!(merged, Ok(expected.strip().unwrap()), "{row}");
    }
}

#[test]
fn row_49_a_mount_of_the_request_is_removed() {
    let request = create_request(|c| c.mounts.push(mount("/remove/test/destination", "/r")));
    let merged = merge(
        request,
        &[(BAR, |a, _| {
            a.remove_mount("/remove/test/destination");
        })],
    )
    .unwrap();
    let destinations: Vec<&str> = merged
        .mounts
        .iter()
        .map(|m| m.destination.as_str())
        .collect();
    assert_eq!(destinations, ["-/remove/test/destination"]);
}

#[test]
fn rows_70_to_86_two_plugins_that_set_the_same_conflict_hooks_alone_do_not() {
    for (row, adjust) in ADJUSTMENTS {
        let merged = merge(create_request(|_| {}), &[(BAR, *adjust), (FOO, *adjust)]);
        match (*row, merged) {
            ("row_52_hooks", Ok(merged)) => {
                let paths: Vec<String> = merged
                    .hooks
                    .unwrap()
                    .prestart
                    .into_iter()
                    .map(|hook| hook.path)
                    .collect();
                assert_eq!(paths, ["/bin/00-bar", "/bin/10-foo"], "row 78");
            }
            (_, Err(MergeError::Conflict(conflict))) => {
                assert_eq!(
                    (conflict.owner.as_str(), conflict.claimant.as_str()),
                    (BAR, FOO)
                );
            }
            (_, other) => panic!("{row}: {other:?}"),
        }
    }
}

#[test]
fn rows_71_to_83_removing_and_adding_replaces_whatever_the_order_in_the_reply() {
    type Pair = (Adjust, Adjust, fn(&ContainerAdjustment) -> Vec<String>);
    let table: &[(&str, Pair)] = &[
        (
            "row_71_annotation",
            (
                |a, plugin| {
                    a.add_annotation("key", plugin);
                },
                |a, plugin| {
                    a.add_annotation("key", plugin).remove_annotation("key");
                },
                |a| {
                    a.annotations
                        .iter()
                        .map(|(k, v)| format!("{k}={v}"))
                        .collect()
                },
            ),
        ),
        (
            "row_73_mount",
            (
                |a, plugin| {
                    a.add_mount(mount("/mnt/test", plugin));
                },
                |a, plugin| {
                    a.add_mount(mount("/mnt/test", plugin))
                        .remove_mount("/mnt/test");
                },
                |a| {
                    a.mounts
                        .iter()
                        .map(|m| format!("{}={}", m.destination, m.source))
                        .collect()
                },
            ),
        ),
        (
            "row_75_environment",
            (
                |a, plugin| {
                    a.add_env("key", plugin);
                },
                |a, plugin| {
                    a.remove_env("key").add_env("key", plugin);
                },
                |a| {
                    a.env
                        .iter()
                        .map(|e| format!("{}={}", e.key, e.value))
                        .collect()
                },
            ),
        ),
        (
            "row_80_devices",
            (
                |a, plugin| {
                    a.add_device(device(plugin));
                },
                |a, plugin| {
                    a.remove_device("/dev/test").add_device(device(plugin));
                },
                |a| {
                    a.linux
                        .iter()
                        .flat_map(|l| &l.devices)
                        .map(|d| format!("{}={}", d.path, d.minor))
                        .collect()
                },
            ),
        ),
        (
            "row_83_sysctl",
            (
                |a, plugin| {
                    a.set_sysctl("k", plugin);
                },
                |a, plugin| {
                    a.remove_sysctl("k").set_sysctl("k", plugin);
                },
                |a| {
                    a.linux
                        .iter()
                        .flat_map(|l| &l.sysctl)
                        .map(|(k, v)| format!("{k}={v}"))
                        .collect()
                },
            ),
        ),
        (
            "namespace",
            (
                |a, _| {
                    a.add_or_replace_namespace(LinuxNamespace {
                        r#type: "ipc".into(),
                        path: "/a".into(),
                    });
                },
                |a, _| {
                    a.remove_namespace("ipc");
                    a.add_or_replace_namespace(LinuxNamespace {
                        r#type: "ipc".into(),
                        path: "/b".into(),
                    });
                },
                |a| {
                    a.linux
                        .iter()
                        .flat_map(|l| &l.namespaces)
                        .map(|n| format!("{}={}", n.r#type, n.path))
                        .collect()
                },
            ),
        ),
    ];
    let expected = [
        "key=10-foo",
        "/mnt/test=10-foo",
        "key=10-foo",
        "/dev/test=110",
        "k=10-foo",
        "ipc=/b",
    ];
    for ((row, (first, second, list)), expected) in table.iter().zip(expected) {
        let merged = merge(create_request(|_| {}), &[(BAR, *first), (FOO, *second)]).unwrap();
        assert_eq!(list(&merged), [expected], "{row}");
    }
}

#[test]
fn row_77_updated_arguments_replace_those_the_plugin_saw() {
    let mut merge = CreateMerge::new(create_request(|_| {}), Compat::Correct);
    merge
        .add(
            BAR,
            adjusted(
                |a, _| {
                    a.set_args(["echo", "updated"]);
                },
                BAR,
            ),
        )
        .unwrap();
    let mut args = merge.request().container.as_ref().unwrap().args.clone();
    assert_eq!(args, ["echo", "updated"], "foo sees what bar set");
    args.push("twice...".into());
    let mut adjustment = ContainerAdjustment::default();
    adjustment.update_args(args);
    let reply = CreateContainerResponse {
        adjust: Some(adjustment),
        ..Default::default()
    };
    merge.add(FOO, reply).unwrap();
    assert_eq!(
        merge.finish().adjustment.args,
        ["echo", "updated", "twice..."]
    );
}

#[test]
fn row_263_a_plugin_that_sets_a_key_twice_conflicts_with_itself() {
    let merged = merge(
        create_request(|_| {}),
        &[(BAR, |a, _| {
            a.add_env("A", "1").add_env("A", "2");
        })],
    );
    assert!(
        matches!(&merged, Err(MergeError::Conflict(c)) if c.owner == BAR && c.claimant == BAR),
        "{merged:?}"
    );
}

#[test]
fn row_264_a_variable_of_the_request_is_removed_for_the_runtime_and_for_later_plugins() {
    let request = create_request(|c| c.env = vec!["A=1".into(), "AB=2".into()]);
    let mut merge = CreateMerge::new(request, Compat::Correct);
    merge
        .add(
            BAR,
            adjusted(
                |a, _| {
                    a.remove_env("A");
                },
                BAR,
            ),
        )
        .unwrap();
    assert_eq!(merge.request().container.as_ref().unwrap().env, ["AB=2"]);
    let env = merge.finish().adjustment.env;
    assert_eq!(env.len(), 1);
    assert_eq!(env[0].key, "-A");
}

#[test]
fn row_265_a_device_of_the_request_is_removed() {
    let merged = merge(
        create_request(|_| {}),
        &[(BAR, |a, _| {
            a.remove_device("/dev/test");
        })],
    );
    assert_eq!(merged.unwrap().linux.unwrap().devices[0].path, "-/dev/test");
}

#[test]
fn row_266_who_sets_after_a_removal_wins() {
    let remove: Adjust = |a, _| {
        a.remove_annotation("k").remove_sysctl("k").remove_env("k");
    };
    let set: Adjust = |a, plugin| {
        a.add_annotation("k", plugin)
            .set_sysctl("k", plugin)
            .add_env("k", plugin);
    };
    let merged = merge(create_request(|_| {}), &[(BAR, remove), (FOO, set)]).unwrap();
    assert_eq!(
        merged.annotations.into_iter().collect::<Vec<_>>(),
        [("k".into(), FOO.into())]
    );
    let sysctl = merged.linux.unwrap().sysctl;
    assert_eq!(
        sysctl.into_iter().collect::<Vec<_>>(),
        [("k".into(), FOO.into())]
    );
    let env: Vec<&str> = merged.env.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(
        env,
        ["-k", "k"],
        "the original goes, then the new one comes"
    );
}

#[test]
fn rdt_removed_and_set_wipes_what_was_there() {
    let merged = merge(
        create_request(|_| {}),
        &[
            (BAR, |a, _| {
                a.set_rdt_schemata(["L3:0=f"]);
            }),
            (FOO, |a, _| {
                a.remove_rdt().set_rdt_clos_id("new");
            }),
        ],
    );
    let rdt = merged.unwrap().linux.unwrap().rdt.unwrap();
    assert!(
        rdt.remove && rdt.schemata.is_none() && rdt.clos_id.is_some(),
        "{rdt:?}"
    );
}

#[test]
fn an_rlimit_shown_to_later_plugins_replaces_the_one_of_the_request() {
    let rlimit = |hard| PosixRlimit {
        r#type: "nofile".into(),
        hard,
        soft: 1,
    };
    let request = create_request(|c| c.rlimits = vec![rlimit(5)]);
    let mut merge = CreateMerge::new(request, Compat::Correct);
    merge
        .add(
            BAR,
            adjusted(
                |a, _| {
                    a.add_rlimit("nofile", 9, 1);
                },
                BAR,
            ),
        )
        .unwrap();
    assert_eq!(
        merge.request().container.as_ref().unwrap().rlimits,
        [rlimit(9)]
    );
}

#[test]
fn values_that_no_container_can_have_are_refused_by_plugin_and_field() {
    let table: &[(&str, Adjust)] = &[
        ("env", |a, _| {
            a.add_env("A\0", "");
        }),
        ("env", |a, _| {
            a.add_env("", "x");
        }),
        ("env", |a, _| {
            a.add_env("A=B", "x");
        }),
        ("env", |a, _| {
            a.add_env("-", "");
        }),
        ("annotations", |a, _| {
            a.add_annotation("k", "\0");
        }),
        ("mounts", |a, _| {
            a.add_mount(mount("/a/../../etc", "/"));
        }),
        ("mounts", |a, _| {
            a.add_mount(mount("relative", "/"));
        }),
        ("mounts", |a, _| {
            a.remove_mount("relative");
        }),
        ("devices", |a, _| {
            a.remove_device("/dev/../x");
        }),
        ("cgroups path", |a, _| {
            a.set_cgroups_path("/a/../../b");
        }),
        ("unified", |a, _| {
            a.resources_mut().set_unified("../cgroup.procs", "1");
        }),
        ("sysctl", |a, _| {
            a.set_sysctl("../../etc", "1");
        }),
        ("hooks", |a, _| {
            a.add_hooks(Hooks {
                poststop: vec![Hook::default()],
                ..Default::default()
            });
        }),
    ];
    for (field, adjust) in table {
        match merge(create_request(|_| {}), &[(FOO, *adjust)]) {
            Err(MergeError::BadValue {
                plugin,
                field: found,
                ..
            }) => {
                assert_eq!((plugin.as_str(), found), (FOO, *field));
            }
            other => panic!("{field}: {other:?}"),
        }
    }
    let many: Adjust = |a, _| {
        a.set_args(std::iter::repeat_n("x", 1_000_000));
    };
    let refused = merge(create_request(|_| {}), &[(FOO, many)]);
    assert!(matches!(
        refused,
        Err(MergeError::TooMany {
            field: "args",
            count: 1_000_000,
            ..
        })
    ));
}
