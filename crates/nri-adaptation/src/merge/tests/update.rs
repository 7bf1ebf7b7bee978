use longshore_nri_api::LinuxCpu;

use super::*;

type Set = fn(&mut LinuxResources, &str);

const KINDS: &[(&str, Set)] = &[
    ("cpu", set_cpu),
    ("memory", set_memory),
    ("classes", set_classes),
    ("hugepages", set_hugepages),
    ("unified", set_unified),
    ("pids", |resources, _| {
        resources.set_pids_limit(9);
    }),
];

fn creation(replies: &[(&str, ContainerUpdate)]) -> Result<Creation, MergeError> {
    let mut merge = CreateMerge::new(create_request(|c| c.id = "ctr1".into()), Compat::Correct);
    for (plugin, update) in replies {
        let update = vec![update.clone()];
        merge.add(
            plugin,
            CreateContainerResponse {
                update,
                ..Default::default()
            },
        )?;
    }
    Ok(merge.finish())
}

fn requested() -> UpdateContainerRequest {
    let mut resources = LinuxResources::default();
    resources
        .set_cpu_shares(999_u64)
        .set_cpu_quota(888)
        .set_cpu_period(777_u64);
    resources
        .set_cpu_realtime_runtime(666)
        .set_cpu_realtime_period(555_u64);
    resources.set_cpuset_cpus("444").set_cpuset_mems("333");
    resources
        .set_memory_limit(9999)
        .set_memory_reservation(8888)
        .set_memory_swap(7777);
    resources
        .set_memory_kernel(6666)
        .set_memory_kernel_tcp(5555);
    resources.set_memory_swappiness(444_u64);
    resources
        .set_memory_disable_oom_killer(false)
        .set_memory_use_hierarchy(false);
    let container = create_request(|_| {}).container;
    UpdateContainerRequest {
        pod: None,
        container,
        linux_resources: Some(resources),
    }
}

fn change(replies: &[(&str, ContainerUpdate)]) -> Result<Change, MergeError> {
    let mut merge = ChangeMerge::update(requested(), Compat::Correct);
    for (plugin, update) in replies {
        let update = vec![update.clone()];
        merge.add(
            plugin,
            UpdateContainerResponse {
                update,
                ..Default::default()
            },
        )?;
    }
    Ok(merge.finish())
}

#[test]
fn rows_102_to_106_and_108_to_116_an_update_of_another_container_comes_out_with_its_id() {
    for (kind, set) in KINDS {
        let update = update_of("ctr0", *set, FOO);
        let created = creation(&[(FOO, update.clone())]).unwrap();
        assert_eq!(created.updates, [update], "{kind}");
        assert_eq!(created.adjustment.strip(), None, "{kind}");
    }
}

#[test]
fn rows_107_to_115_two_updates_of_the_same_conflict() {
    for (kind, set) in KINDS {
        let replies = [BAR, FOO].map(|plugin| (plugin, update_of("ctr0", *set, plugin)));
        let refused = creation(&replies);
        assert!(
            matches!(refused, Err(MergeError::Conflict(_))),
            "{kind}: {refused:?}"
        );
    }
}

#[test]
fn rows_117_to_131_an_update_of_the_requested_container_is_laid_over_the_request() {
    for (kind, set) in KINDS {
        let mut expected = requested().linux_resources.unwrap();
        set(&mut expected, FOO);
        let changed = change(&[(FOO, update_of("ctr0", *set, FOO))]).unwrap();
        assert_eq!(changed.requested, expected, "{kind}");
        assert_eq!(changed.updates, [], "{kind}");
        let replies = [BAR, FOO].map(|plugin| (plugin, update_of("ctr0", *set, plugin)));
        assert!(
            matches!(change(&replies), Err(MergeError::Conflict(_))),
            "{kind}"
        );
    }
}

#[test]
fn an_update_without_resources_does_not_lose_the_request() {
    let changed = change(&[(FOO, ContainerUpdate::new("ctr0"))]).unwrap();
    assert_eq!(changed.requested, requested().linux_resources.unwrap());
}

#[test]
fn row_267_an_update_of_pids_of_another_container_carries_them() {
    let changed = change(&[(
        FOO,
        update_of(
            "other",
            |r, _| {
                r.set_pids_limit(5);
            },
            FOO,
        ),
    )])
    .unwrap();
    assert_eq!(
        changed.updates[0]
            .clone()
            .resources_mut()
            .pids
            .map(|pids| pids.limit),
        Some(5)
    );
}

#[test]
fn row_268_pids_of_the_request_belong_to_no_plugin() {
    let mut request = requested();
    request
        .linux_resources
        .get_or_insert_default()
        .set_pids_limit(3);
    let mut merge = ChangeMerge::update(request, Compat::Correct);
    for (plugin, set) in [(BAR, set_cpu as Set), (FOO, set_memory)] {
        let update = vec![update_of("ctr0", set, plugin)];
        merge
            .add(
                plugin,
                UpdateContainerResponse {
                    update,
                    ..Default::default()
                },
            )
            .unwrap();
    }
    assert_eq!(
        merge.finish().requested.pids.map(|pids| pids.limit),
        Some(3)
    );
}

#[test]
fn row_270_an_ignored_contribution_leaves_neither_values_nor_claims() {
    let shares = update_of(
        "x",
        |r, _| {
            r.set_cpu_shares(1_u64);
        },
        BAR,
    );
    let mut both = update_of(
        "x",
        |r, _| {
            r.set_memory_limit(2).set_cpu_shares(2_u64);
        },
        FOO,
    );
    both.set_ignore_failure();
    let memory = update_of(
        "x",
        |r, _| {
            r.set_memory_limit(3);
        },
        "20-baz",
    );
    let changed = change(&[(BAR, shares), (FOO, both.clone()), ("20-baz", memory)]).unwrap();
    let resources = changed.updates[0].clone().resources_mut().clone();
    assert_eq!(
        resources.cpu,
        Some(LinuxCpu {
            shares: Some(1.into()),
            ..Default::default()
        })
    );
    assert_eq!(
        resources.memory.unwrap().limit,
        Some(3.into()),
        "the claim was released"
    );
    assert!(!changed.updates[0].ignore_failure, "all must allow it");
    let mut conflicting = both.clone();
    conflicting.resources_mut().set_cpu_quota(4);
    let changed = change(&[(BAR, both), (FOO, conflicting)]).unwrap();
    assert!(changed.updates[0].ignore_failure);
    assert_eq!(
        changed.updates[0]
            .clone()
            .resources_mut()
            .clone()
            .cpu
            .unwrap()
            .quota,
        None
    );
}

#[test]
fn row_271_an_update_of_the_container_in_creation_is_an_error_even_when_it_may_fail() {
    let mut update = ContainerUpdate::new("ctr1");
    update.set_ignore_failure();
    let refused = creation(&[(FOO, update)]);
    assert!(
        matches!(refused, Err(MergeError::UpdateDuringCreation { .. })),
        "{refused:?}"
    );
}

#[test]
fn stopping_treats_every_container_alike_and_evictions_keep_their_plugin() {
    let mut merge = ChangeMerge::stop(Compat::Correct);
    let update = vec![update_of("ctr0", set_cpu, FOO)];
    merge
        .add_stop(
            FOO,
            StopContainerResponse {
                update: update.clone(),
            },
        )
        .unwrap();
    assert_eq!(merge.finish().updates, update);
    let mut merge = ChangeMerge::update(requested(), Compat::Correct);
    let evict = vec![ContainerEviction::new("other", "noisy")];
    let reply = UpdateContainerResponse {
        evict: evict.clone(),
        ..Default::default()
    };
    merge.add(FOO, reply).unwrap();
    let eviction = Eviction {
        plugin: FOO.into(),
        eviction: evict[0].clone(),
    };
    assert_eq!(merge.finish().evictions, [eviction]);
}
