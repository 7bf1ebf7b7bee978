//! Between the OCI spec of a container and the container as plugins see it.

use longshore_nri_api::{
    Container, ContainerAdjustment, KeyValue, LinuxContainer, LinuxContainerAdjustment,
};
use longshore_nri_oci::oci_spec::runtime::Spec;
use longshore_nri_oci::{Adjuster, ApplyError};
use serde_json::{Map, Value, json};

use crate::{SimulateError, case};

/// What plugins are shown of a spec, as containerd shows it. Identity and labels are not in a spec.
pub(crate) fn seen(spec: &Spec) -> Result<Container, SimulateError> {
    let spec = serde_json::to_value(spec).map_err(|error| SimulateError::Malformed {
        origin: "the OCI spec".to_owned(),
        why: error.to_string(),
    })?;
    let process = &spec["process"];
    let linux = &spec["linux"];
    let mut container = json!({
        "args": list(&process["args"]),
        "env": list(&process["env"]),
        "mounts": pick_all(&spec["mounts"], &[("destination", "destination"), ("type", "type"), ("source", "source"), ("options", "options")]),
        "rlimits": pick_all(&process["rlimits"], &[("type", "type"), ("hard", "hard"), ("soft", "soft")]),
        "linux": {
            "namespaces": pick_all(&linux["namespaces"], &[("type", "type"), ("path", "path")]),
            "sysctl": object(&linux["sysctl"]),
            "resources": resources(&linux["resources"]),
        },
    });
    if let Some(path) = linux["cgroupsPath"].as_str() {
        container["linux"]["cgroups_path"] = path.into();
    }
    if let Some(score) = process["oomScoreAdj"].as_i64() {
        container["linux"]["oom_score_adj"] = json!({ "value": score });
    }
    let user = &process["user"];
    container["user"] = pick(
        user,
        &[
            ("uid", "uid"),
            ("gid", "gid"),
            ("additionalGids", "additional_gids"),
        ],
    );
    let mut seen: Container = case::message(&container, "the OCI spec")?;
    seen.annotations = serde_json::from_value(object(&spec["annotations"])).unwrap_or_default();
    Ok(seen)
}

fn resources(given: &Value) -> Value {
    let mut made = Map::new();
    let memory = wrapped(
        &given["memory"],
        &[
            ("limit", "limit"),
            ("reservation", "reservation"),
            ("swap", "swap"),
            ("kernel", "kernel"),
            ("kernelTCP", "kernel_tcp"),
            ("swappiness", "swappiness"),
            ("disableOOMKiller", "disable_oom_killer"),
            ("useHierarchy", "use_hierarchy"),
        ],
    );
    let mut cpu = wrapped(
        &given["cpu"],
        &[
            ("shares", "shares"),
            ("quota", "quota"),
            ("period", "period"),
            ("realtimeRuntime", "realtime_runtime"),
            ("realtimePeriod", "realtime_period"),
        ],
    );
    for name in ["cpus", "mems"] {
        if let Some(set) = given["cpu"][name].as_str() {
            cpu.insert(name.to_owned(), set.into());
        }
    }
    made.insert("memory".to_owned(), memory.into());
    made.insert("cpu".to_owned(), cpu.into());
    if let Some(limit) = given["pids"]["limit"].as_i64() {
        made.insert("pids".to_owned(), json!({ "limit": limit }));
    }
    made.insert("unified".to_owned(), object(&given["unified"]));
    let huge = pick_all(
        &given["hugepageLimits"],
        &[("pageSize", "page_size"), ("limit", "limit")],
    );
    made.insert("hugepage_limits".to_owned(), huge);
    Value::Object(made)
}

fn list(value: &Value) -> Value {
    value.as_array().cloned().unwrap_or_default().into()
}

fn object(value: &Value) -> Value {
    value.as_object().cloned().unwrap_or_default().into()
}

/// The named members that there are, under their other names.
fn pick(value: &Value, names: &[(&str, &str)]) -> Value {
    let present = names.iter().filter_map(|(theirs, ours)| {
        let member = value.get(theirs).filter(|member| !member.is_null())?;
        Some(((*ours).to_owned(), member.clone()))
    });
    Value::Object(present.collect())
}

fn pick_all(value: &Value, names: &[(&str, &str)]) -> Value {
    let entries = value.as_array().into_iter().flatten();
    entries.map(|entry| pick(entry, names)).collect()
}

/// As [`pick`], each in an optional wrapper.
fn wrapped(value: &Value, names: &[(&str, &str)]) -> Map<String, Value> {
    let present = names.iter().filter_map(|(theirs, ours)| {
        let member = value.get(theirs).filter(|member| !member.is_null())?;
        Some(((*ours).to_owned(), json!({ "value": member })))
    });
    present.collect()
}

/// The spec of a container that is only described: `base` with what the container says.
pub(crate) fn of(container: &Container, base: Spec) -> Result<Spec, ApplyError> {
    let mut spec = base;
    let linux = container.linux.clone().unwrap_or_default();
    let env = container.env.iter().map(|entry| {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        KeyValue {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    });
    let set = ContainerAdjustment {
        annotations: container.annotations.clone(),
        mounts: container.mounts.clone(),
        env: env.collect(),
        hooks: container.hooks.clone(),
        linux: Some(adjustment_of(linux)),
        rlimits: container.rlimits.clone(),
        args: container.args.clone(),
        ..ContainerAdjustment::default()
    };
    adjuster().apply(&mut spec, &set)?;
    Ok(spec)
}

fn adjustment_of(linux: LinuxContainer) -> LinuxContainerAdjustment {
    LinuxContainerAdjustment {
        devices: linux.devices,
        resources: linux.resources,
        cgroups_path: linux.cgroups_path,
        oom_score_adj: linux.oom_score_adj,
        io_priority: linux.io_priority,
        seccomp_policy: linux.seccomp_policy,
        namespaces: linux.namespaces,
        sysctl: linux.sysctl,
        net_devices: linux.net_devices,
        scheduler: linux.scheduler,
        rdt: linux.rdt,
        ..LinuxContainerAdjustment::default()
    }
}

/// A spec that says nothing: no mounts, variables or arguments that the container does not have.
pub(crate) fn empty() -> Spec {
    let bare = json!({"ociVersion": "1.2.0", "process": {"cwd": "/", "user": {"uid": 0, "gid": 0}}, "linux": {}});
    serde_json::from_value(bare).unwrap_or_default()
}

/// How adjustments are applied here: classes and CDI devices are the business of a real node.
pub(crate) fn adjuster() -> Adjuster {
    Adjuster::default().ignoring_unsupported()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_of_a_spec_gives_that_spec_again() {
        let mut container = Container {
            args: vec!["sleep".into(), "1".into()],
            env: vec!["PATH=/bin".into()],
            ..Container::default()
        };
        container.annotations.insert("a".into(), "b".into());
        let mut set = ContainerAdjustment::default();
        set.resources_mut()
            .set_memory_limit(1 << 20)
            .set_cpu_shares(7_u64)
            .set_pids_limit(9);
        set.set_oom_score_adj(3);
        let linux = set.linux.unwrap();
        container.linux = Some(LinuxContainer {
            resources: linux.resources,
            oom_score_adj: linux.oom_score_adj,
            cgroups_path: "/a/b".into(),
            ..LinuxContainer::default()
        });
        let spec = of(&container, empty()).unwrap();
        let seen = seen(&spec).unwrap();
        assert_eq!(
            (&seen.args, &seen.annotations),
            (&container.args, &container.annotations)
        );
        assert!(seen.env.contains(&"PATH=/bin".to_owned()), "{:?}", seen.env);
        let (linux, wanted) = (seen.linux.clone().unwrap(), container.linux.unwrap());
        assert_eq!(linux.cgroups_path, wanted.cgroups_path);
        assert_eq!(linux.oom_score_adj, wanted.oom_score_adj);
        let (made, wanted) = (linux.resources.unwrap(), wanted.resources.unwrap());
        assert_eq!(made.memory.unwrap().limit, wanted.memory.unwrap().limit);
        assert_eq!(
            (made.cpu.unwrap().shares, made.pids),
            (wanted.cpu.unwrap().shares, wanted.pids)
        );
        assert_eq!(of(&seen, spec.clone()).unwrap(), spec);
    }
}
