//! What holds for every adjustment.

use std::collections::BTreeMap;

use longshore_nri_api::{
    ContainerAdjustment, Hook, Hooks, HugepageLimit, KeyValue, LinuxContainerAdjustment,
    LinuxDevice, LinuxDeviceCgroup, LinuxMemory, LinuxNamespace, LinuxNetDevice, LinuxPids,
    LinuxResources, LinuxScheduler, LinuxSeccomp, Mount, PosixRlimit,
};
use longshore_nri_oci::oci_spec::runtime::Spec;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::{apply, base, spec};

/// Keys that meet each other, marked and not; with `wild` ones that no spec can hold.
fn key(wild: bool) -> BoxedStrategy<String> {
    let tame = "-?[abc]";
    if wild {
        prop_oneof![9 => tame, 1 => ".{0,4}"].boxed()
    } else {
        tame.boxed()
    }
}

fn path(wild: bool) -> BoxedStrategy<String> {
    let tame = "-?/[abc](/[abc])?/?";
    if wild {
        prop_oneof![9 => tame, 1 => ".{0,4}"].boxed()
    } else {
        tame.boxed()
    }
}

fn name(names: &'static [&'static str], wild: bool) -> BoxedStrategy<String> {
    let tame = proptest::sample::select(names).prop_map(str::to_owned);
    if wild {
        prop_oneof![9 => tame, 1 => ".{0,4}".prop_map(String::from)].boxed()
    } else {
        tame.boxed()
    }
}

fn strings(wild: bool) -> BoxedStrategy<BTreeMap<String, String>> {
    btree_map(key(wild), "[xy]{0,2}", 0..5).boxed()
}

fn resources(wild: bool) -> impl Strategy<Value = LinuxResources> {
    let limit = if wild {
        any::<i64>().boxed()
    } else {
        (-1_i64..9).boxed()
    };
    let rule = (
        any::<bool>(),
        name(&["", "a", "b", "c"], wild),
        0_i64..2,
        "[rwm]{0,2}",
    );
    (
        option::of(limit.clone()),
        vec((name(&["2MB", "1GB"], wild), 0_u64..9), 0..3),
        vec(rule, 0..4),
        option::of(limit),
    )
        .prop_map(|(memory, pages, rules, pids)| LinuxResources {
            memory: memory.map(|limit| LinuxMemory {
                limit: Some(limit.into()),
                ..LinuxMemory::default()
            }),
            hugepage_limits: pages
                .into_iter()
                .map(|(page_size, limit)| HugepageLimit { page_size, limit })
                .collect(),
            devices: rules
                .into_iter()
                .map(|(allow, r#type, major, access)| LinuxDeviceCgroup {
                    allow,
                    r#type,
                    major: Some(major.into()),
                    minor: None,
                    access,
                })
                .collect(),
            pids: pids.map(|limit| LinuxPids { limit }),
            ..LinuxResources::default()
        })
}

fn linux(wild: bool) -> impl Strategy<Value = LinuxContainerAdjustment> {
    let device = (path(wild), name(&["b", "c", "p"], wild), 0_i64..3);
    let kinds = &["pid", "-pid", "network", "-network", "ipc"];
    let number = if wild {
        any::<i32>().boxed()
    } else {
        (0_i32..3).boxed()
    };
    (
        vec(device, 0..5),
        option::of(resources(wild)),
        vec((name(kinds, wild), "/?"), 0..4),
        strings(wild),
        btree_map(key(wild), "[xy]{0,2}", 0..4),
        option::of(number),
        option::of(name(&["SCMP_ACT_ALLOW", "SCMP_ACT_LOG"], wild)),
    )
        .prop_map(
            |(devices, resources, namespaces, sysctl, net, policy, action)| {
                LinuxContainerAdjustment {
                    devices: devices
                        .into_iter()
                        .map(|(path, r#type, minor)| LinuxDevice {
                            path,
                            r#type,
                            minor,
                            ..LinuxDevice::default()
                        })
                        .collect(),
                    resources,
                    namespaces: namespaces
                        .into_iter()
                        .map(|(r#type, path)| LinuxNamespace { r#type, path })
                        .collect(),
                    sysctl,
                    net_devices: net
                        .into_iter()
                        .map(|(host, name)| (host, LinuxNetDevice { name }))
                        .collect(),
                    scheduler: policy.map(|policy| LinuxScheduler {
                        policy,
                        ..LinuxScheduler::default()
                    }),
                    seccomp_policy: action.map(|default_action| LinuxSeccomp {
                        default_action,
                        ..LinuxSeccomp::default()
                    }),
                    ..LinuxContainerAdjustment::default()
                }
            },
        )
}

fn adjustment(wild: bool) -> impl Strategy<Value = ContainerAdjustment> {
    let limits = name(&["nofile", "RLIMIT_NOFILE", "core"], wild);
    (
        strings(wild),
        vec(path(wild), 0..5),
        vec((key(wild), "[xy]{0,2}"), 0..6),
        vec("[ab]{0,1}", 0..3),
        option::of(path(wild)),
        option::of(linux(wild)),
        vec((limits, 5_u64..9), 0..3),
    )
        .prop_map(|(annotations, mounts, env, args, hook, linux, rlimits)| {
            ContainerAdjustment {
                annotations,
                mounts: mounts
                    .into_iter()
                    .map(|destination| Mount {
                        destination,
                        ..Mount::default()
                    })
                    .collect(),
                env: env
                    .into_iter()
                    .map(|(key, value)| KeyValue { key, value })
                    .collect(),
                args,
                hooks: hook.map(|path| Hooks {
                    poststop: vec![Hook {
                        path,
                        ..Hook::default()
                    }],
                    ..Hooks::default()
                }),
                linux,
                rlimits: rlimits
                    .into_iter()
                    .map(|(r#type, hard)| PosixRlimit {
                        r#type,
                        hard,
                        soft: 5,
                    })
                    .collect(),
                ..ContainerAdjustment::default()
            }
        })
}

/// What is removed and not added again, and is yet in the spec.
fn left_over(spec: &Spec, adjustment: &ContainerAdjustment) -> Vec<String> {
    let trim = |path: &str| path.trim_end_matches('/').to_owned();
    let gone = |keys: Vec<String>| -> Vec<String> {
        let added: Vec<_> = keys.iter().filter(|key| !key.starts_with('-')).collect();
        keys.iter()
            .filter_map(|key| key.strip_prefix('-'))
            .filter(|key| !added.iter().any(|added| added == key))
            .map(str::to_owned)
            .collect()
    };
    let none = LinuxContainerAdjustment::default();
    let wanted = adjustment.linux.as_ref().unwrap_or(&none);
    let linux = spec.linux().clone().unwrap_or_default();
    let process = spec.process().clone().unwrap_or_default();
    let has = |key: &String, keys: Vec<String>| keys.contains(key).then(|| key.clone());
    let mut left = Vec::new();
    let map_keys = |map: &Option<std::collections::HashMap<String, String>>| {
        map.iter()
            .flat_map(|map| map.keys().cloned())
            .collect::<Vec<_>>()
    };
    for key in gone(adjustment.annotations.keys().cloned().collect()) {
        left.extend(has(&key, map_keys(spec.annotations())));
    }
    for key in gone(wanted.sysctl.keys().cloned().collect()) {
        left.extend(has(&key, map_keys(linux.sysctl())));
    }
    for key in gone(wanted.net_devices.keys().cloned().collect()) {
        let keys = linux
            .net_devices()
            .iter()
            .flat_map(|map| map.keys().cloned());
        left.extend(has(&key, keys.collect()));
    }
    for key in gone(adjustment.env.iter().map(|env| env.key.clone()).collect()) {
        let names = process.env().iter().flatten();
        let names = names.map(|env| env.split('=').next().unwrap_or_default().to_owned());
        left.extend(has(&key, names.collect()));
    }
    for key in gone(
        adjustment
            .mounts
            .iter()
            .map(|mount| trim(&mount.destination))
            .collect(),
    ) {
        let all = spec.mounts().iter().flatten();
        let all = all.map(|mount| trim(mount.destination().to_str().unwrap_or_default()));
        left.extend(has(&key, all.collect()));
    }
    for key in gone(
        wanted
            .devices
            .iter()
            .map(|device| trim(&device.path))
            .collect(),
    ) {
        let all = linux.devices().iter().flatten();
        let all = all.map(|device| trim(device.path().to_str().unwrap_or_default()));
        left.extend(has(&key, all.collect()));
    }
    for key in gone(
        wanted
            .namespaces
            .iter()
            .map(|it| it.r#type.clone())
            .collect(),
    ) {
        let all = linux.namespaces().iter().flatten();
        let all = all.map(|it| {
            serde_json::to_value(it.typ())
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        });
        left.extend(has(&key, all.collect()));
    }
    left
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once_and_removals_leave_nothing(
        first in adjustment(false),
        second in adjustment(false),
    ) {
        let mut got = spec(&base());
        // The first one fills the spec with keys for the second one to remove; paths with a
        // marker are no paths of hooks.
        let mut first = first;
        first.hooks = None;
        let mut second = second;
        second.hooks = None;
        apply(&mut got, &first).unwrap();
        apply(&mut got, &second).unwrap();
        prop_assert_eq!(left_over(&got, &second), Vec::<String>::new());
        let once = got.clone();
        apply(&mut got, &second).unwrap();
        prop_assert_eq!(got, once);
    }

    #[test]
    fn nothing_panics_and_an_error_changes_nothing(adjustment in adjustment(true)) {
        for mut got in [spec(&base()), spec(&serde_json::json!({"ociVersion": "1.2.0"}))] {
            let before = got.clone();
            match apply(&mut got, &adjustment) {
                Ok(()) => prop_assert_eq!(left_over(&got, &adjustment), Vec::<String>::new()),
                Err(_) => prop_assert_eq!(got, before),
            }
        }
    }
}
