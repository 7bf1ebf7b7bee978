//! Namespaces: one of its own, or the host's. An engine joins none by its path.

use longshore_engine::{ContainerSpec, NetworkMode};
use longshore_nri_api::{Field, LinuxNamespace, removed_key};

use crate::refusal::at;
use crate::{Judge, Refusal};

pub(super) fn engine(
    spec: &mut ContainerSpec,
    wanted: &[LinuxNamespace],
    judge: &Judge<'_>,
) -> Result<(), Refusal> {
    let removed = wanted.iter().filter_map(|it| removed_key(&it.r#type));
    let added = |kind: &str| wanted.iter().any(|it| it.r#type == kind);
    let refuse = |key: &str, why: &str| {
        let place = at("linux.namespaces", Field::Namespace);
        Err(judge.refuse(place, key, why))
    };
    let host = || Some("host".to_owned());
    for kind in removed.filter(|kind| !added(kind)) {
        match kind {
            "network" => spec.network = NetworkMode::Host,
            "pid" => spec.pid_mode = host(),
            "ipc" => spec.ipc_mode = host(),
            "uts" => spec.uts_mode = host(),
            "user" => spec.userns_mode = host(),
            "cgroup" => spec.cgroupns_mode = host(),
            other => {
                let why = "an engine shares the host's network, pid, ipc, uts, user and cgroup namespaces alone";
                return refuse(&format!("-{other}"), why);
            }
        }
    }
    for LinuxNamespace { r#type, path } in wanted {
        if removed_key(r#type).is_some() {
            continue;
        }
        if !path.is_empty() {
            let why =
                "an engine joins no namespace by its path; leave the path out for one of its own";
            return refuse(r#type, why);
        }
        match r#type.as_str() {
            // A loopback and nothing else, as a new one has.
            "network" => spec.network = NetworkMode::None,
            "pid" => spec.pid_mode = None,
            "ipc" => spec.ipc_mode = Some("private".to_owned()),
            "uts" => spec.uts_mode = None,
            "cgroup" => spec.cgroupns_mode = Some("private".to_owned()),
            // It has one of its own in any case.
            "mount" => {}
            other => {
                let why = "an engine gives a container network, pid, ipc, uts, cgroup and mount namespaces of its own";
                return refuse(other, why);
            }
        }
    }
    Ok(())
}
