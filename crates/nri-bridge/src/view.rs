//! Pods and containers as plugins see them.

use std::collections::BTreeMap;

use longshore_engine::spec::{Device, MountKind, Ulimit};
use longshore_engine::{ContainerSpec, EnvVar, Mount, NetworkMode, Resources};
use longshore_nri_api::security_profile::ProfileType;
use longshore_nri_api::{
    CdiDevice, Container, ContainerState, Image, LinuxContainer, LinuxDevice, LinuxNamespace,
    LinuxPodSandbox, Mount as NriMount, PodSandbox, PosixRlimit, SecurityProfile, User,
};
use longshore_task_spec::hooks::{Draft, HookContainer, ProcessDraft};

use crate::{HostDevices, NodeKind, resources};

/// The pod of one container: the same id, its labels also as annotations.
#[must_use]
pub fn pod_of(who: &HookContainer, namespace: &str, draft: &Draft) -> PodSandbox {
    let cgroup_parent = match draft {
        Draft::Engine(spec) => spec.cgroup_parent.clone().unwrap_or_default(),
        _ => String::new(),
    };
    let handler = match draft {
        Draft::Engine(spec) => spec.runtime.clone().unwrap_or_default(),
        _ => String::new(),
    };
    PodSandbox {
        id: who.id.clone(),
        name: who.pod.clone(),
        uid: who.id.clone(),
        namespace: namespace.to_owned(),
        labels: who.labels.clone(),
        annotations: who.labels.clone(),
        runtime_handler: handler,
        linux: Some(LinuxPodSandbox {
            cgroup_parent,
            ..LinuxPodSandbox::default()
        }),
        ..PodSandbox::default()
    }
}

/// The container, as it is about to be made.
#[must_use]
pub fn container_of(who: &HookContainer, draft: &Draft, devices: &dyn HostDevices) -> Container {
    let mut container = match draft {
        Draft::Engine(spec) => of_engine(spec, devices),
        Draft::Process(draft) => of_process(draft),
        // Nothing is known of another kind.
        _ => Container::default(),
    };
    who.id.clone_into(&mut container.id);
    who.id.clone_into(&mut container.pod_sandbox_id);
    who.name.clone_into(&mut container.name);
    container.labels.clone_from(&who.labels);
    let own = std::mem::take(&mut container.annotations);
    container.annotations.clone_from(&who.labels);
    container.annotations.extend(own);
    container.state = ContainerState::ContainerCreated.into();
    container
}

fn of_engine(spec: &ContainerSpec, devices: &dyn HostDevices) -> Container {
    let words = [&spec.entrypoint, &spec.cmd];
    let (cdi, linux_devices) = (cdi_devices(&spec.resources), &spec.resources.devices);
    Container {
        annotations: spec.annotations.clone(),
        args: words.into_iter().flatten().flatten().cloned().collect(),
        env: spec.env.iter().map(env).collect(),
        mounts: mounts(&spec.mounts, &spec.tmpfs),
        linux: Some(LinuxContainer {
            namespaces: namespaces(spec),
            devices: linux_devices.iter().map(|it| device(it, devices)).collect(),
            resources: Some(resources::to_nri(&spec.resources)),
            oom_score_adj: spec.oom_score_adj.map(|it| i64::from(it).into()),
            cgroups_path: spec.cgroup_parent.clone().unwrap_or_default(),
            seccomp_profile: Some(seccomp(spec)),
            sysctl: spec.sysctls.clone(),
            ..LinuxContainer::default()
        }),
        rlimits: spec.resources.ulimits.iter().map(rlimit).collect(),
        cdi_devices: cdi,
        user: spec
            .user
            .as_deref()
            .and_then(|text| user(text, &spec.group_add)),
        image: Some(Image {
            name: spec.image.clone(),
            ..Image::default()
        }),
        ..Container::default()
    }
}

fn of_process(draft: &ProcessDraft) -> Container {
    Container {
        args: draft.argv.clone(),
        env: draft.env.iter().map(env).collect(),
        mounts: mounts(&draft.mounts, &BTreeMap::new()),
        linux: Some(LinuxContainer {
            resources: Some(resources::to_nri(&draft.resources)),
            oom_score_adj: draft.oom_score_adj.map(|it| i64::from(it).into()),
            cgroups_path: draft.cgroup.clone().unwrap_or_default(),
            seccomp_profile: Some(SecurityProfile {
                profile_type: ProfileType::Unconfined.into(),
                ..SecurityProfile::default()
            }),
            ..LinuxContainer::default()
        }),
        rlimits: draft.rlimits.iter().map(rlimit).collect(),
        ..Container::default()
    }
}

fn env(variable: &EnvVar) -> String {
    format!("{}={}", variable.name, variable.value)
}

fn mounts(mounts: &[Mount], tmpfs: &BTreeMap<String, String>) -> Vec<NriMount> {
    let plain = tmpfs.iter().map(|(target, options)| NriMount {
        destination: target.clone(),
        r#type: "tmpfs".to_owned(),
        source: "tmpfs".to_owned(),
        options: options
            .split(',')
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect(),
    });
    mounts.iter().map(mount).chain(plain).collect()
}

/// Volumes and images have a source that is a name, and a type of their own.
fn mount(mount: &Mount) -> NriMount {
    let mut options = Vec::new();
    let (kind, source) = match &mount.kind {
        MountKind::Bind {
            source,
            propagation,
            non_recursive,
            ..
        } => {
            options.push(if *non_recursive { "bind" } else { "rbind" }.to_owned());
            options.extend(propagation.map(|it| it.as_str().to_owned()));
            ("bind", source.clone())
        }
        MountKind::Volume { name, .. } => ("volume", name.clone().unwrap_or_default()),
        MountKind::Tmpfs { size, mode } => {
            options.extend(size.map(|size| format!("size={size}")));
            options.extend(mode.map(|mode| format!("mode={mode:o}")));
            ("tmpfs", "tmpfs".to_owned())
        }
        MountKind::Image { source, .. } => ("image", source.clone()),
        _ => ("unknown", String::new()),
    };
    options.push(if mount.read_only { "ro" } else { "rw" }.to_owned());
    NriMount {
        destination: mount.target.clone(),
        r#type: kind.to_owned(),
        source,
        options,
    }
}

fn device(device: &Device, host: &dyn HostDevices) -> LinuxDevice {
    let node = host.at(&device.path_on_host);
    LinuxDevice {
        path: device.path_in_container.clone(),
        r#type: match node.map(|node| node.kind) {
            Some(NodeKind::Char) => "c".to_owned(),
            Some(NodeKind::Block) => "b".to_owned(),
            None => String::new(),
        },
        major: node.map_or(0, |node| node.major),
        minor: node.map_or(0, |node| node.minor),
        ..LinuxDevice::default()
    }
}

fn cdi_devices(resources: &Resources) -> Vec<CdiDevice> {
    let requests = resources.device_requests.iter();
    requests
        .filter(|request| request.driver.as_deref() == Some("cdi"))
        .flat_map(|request| &request.device_ids)
        .map(|name| CdiDevice { name: name.clone() })
        .collect()
}

/// Those that the container has of its own; one that it shares with the host is not there.
fn namespaces(spec: &ContainerSpec) -> Vec<LinuxNamespace> {
    let host = |mode: &Option<String>| mode.as_deref() == Some("host");
    let own = [
        ("pid", !host(&spec.pid_mode)),
        ("ipc", !host(&spec.ipc_mode)),
        ("uts", !host(&spec.uts_mode)),
        ("mount", true),
        ("network", spec.network != NetworkMode::Host),
    ];
    own.into_iter()
        .filter(|(_, own)| *own)
        .map(|(kind, _)| LinuxNamespace {
            r#type: kind.to_owned(),
            path: String::new(),
        })
        .collect()
}

fn seccomp(spec: &ContainerSpec) -> SecurityProfile {
    let option = spec.security_options.iter().rev().find_map(|option| {
        option
            .strip_prefix("seccomp=")
            .or_else(|| option.strip_prefix("seccomp:"))
    });
    let kind = match option {
        Some("unconfined") => ProfileType::Unconfined,
        None if spec.privileged => ProfileType::Unconfined,
        None | Some("builtin") => ProfileType::RuntimeDefault,
        Some(_) => ProfileType::Localhost,
    };
    SecurityProfile {
        profile_type: kind.into(),
        ..SecurityProfile::default()
    }
}

pub(crate) fn rlimit(limit: &Ulimit) -> PosixRlimit {
    // A limit of -1 is none.
    let number = |value: i64| u64::try_from(value).unwrap_or(u64::MAX);
    PosixRlimit {
        r#type: format!("RLIMIT_{}", limit.name.to_ascii_uppercase()),
        hard: number(limit.hard),
        soft: number(limit.soft),
    }
}

/// A user by numbers; of a name only the image knows the number.
fn user(text: &str, groups: &[String]) -> Option<User> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, "0"));
    Some(User {
        uid: uid.parse().ok()?,
        gid: gid.parse().ok()?,
        additional_gids: groups
            .iter()
            .filter_map(|group| group.parse().ok())
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemDevices;

    fn who() -> HookContainer {
        HookContainer {
            id: "k1".to_owned(),
            name: "task-1".to_owned(),
            pod: "web".to_owned(),
            labels: [("team".to_owned(), "a".to_owned())].into(),
        }
    }

    #[test]
    fn a_container_of_an_engine_is_shown_with_all_that_nri_has_words_for() {
        let spec = ContainerSpec {
            entrypoint: Some(vec!["/bin/sh".to_owned()]),
            cmd: Some(vec!["-c".to_owned(), "true".to_owned()]),
            env: vec![EnvVar::new("A", "1")],
            mounts: vec![Mount::bind("/a", "/b").read_only()],
            tmpfs: [("/t".to_owned(), "size=1m,mode=700".to_owned())].into(),
            user: Some("7:8".to_owned()),
            network: NetworkMode::Host,
            cgroup_parent: Some("/p".to_owned()),
            runtime: Some("runsc".to_owned()),
            annotations: [("team".to_owned(), "b".to_owned())].into(),
            resources: Resources {
                devices: vec![Device {
                    path_on_host: "/dev/null".to_owned(),
                    path_in_container: "/dev/n".to_owned(),
                    permissions: "rw".to_owned(),
                }],
                ulimits: vec![Ulimit {
                    name: "nofile".to_owned(),
                    soft: 5,
                    hard: -1,
                }],
                ..Resources::default()
            },
            ..ContainerSpec::new("busybox")
        };
        let draft = Draft::Engine(Box::new(spec));
        let pod = pod_of(&who(), "longshore", &draft);
        assert_eq!((&*pod.id, &*pod.uid, &*pod.name), ("k1", "k1", "web"));
        assert_eq!(
            (&*pod.namespace, &*pod.runtime_handler),
            ("longshore", "runsc")
        );
        assert_eq!(pod.annotations["team"], "a");
        let shown = container_of(&who(), &draft, &SystemDevices);
        assert_eq!((&*shown.id, &*shown.name), ("k1", "task-1"));
        assert_eq!(shown.pod_sandbox_id, pod.id);
        assert_eq!(
            shown.annotations["team"], "b",
            "its own annotation wins over a label"
        );
        assert_eq!(shown.args, ["/bin/sh", "-c", "true"]);
        assert_eq!(shown.env, ["A=1"]);
        assert_eq!(shown.mounts[0].options, ["rbind", "ro"]);
        assert_eq!(shown.mounts[1].options, ["size=1m", "mode=700"]);
        assert_eq!(shown.rlimits[0].r#type, "RLIMIT_NOFILE");
        assert_eq!(shown.rlimits[0].hard, u64::MAX);
        assert_eq!(shown.user.map(|user| (user.uid, user.gid)), Some((7, 8)));
        let linux = shown.linux.unwrap();
        assert_eq!((linux.devices[0].major, linux.devices[0].minor), (1, 3));
        assert!(!linux.namespaces.iter().any(|it| it.r#type == "network"));
        assert_eq!(linux.cgroups_path, "/p");
    }

    #[test]
    fn a_process_is_shown_as_it_is() {
        let draft = ProcessDraft {
            argv: vec!["/driver".to_owned()],
            oom_score_adj: Some(-5),
            ..ProcessDraft::default()
        };
        let draft = Draft::Process(Box::new(draft));
        let shown = container_of(&who(), &draft, &SystemDevices);
        assert_eq!(shown.args, ["/driver"]);
        let linux = shown.linux.unwrap();
        assert_eq!(linux.oom_score_adj.map(|it| it.value), Some(-5));
        assert_eq!(linux.namespaces, [], "those of the host");
    }
}
