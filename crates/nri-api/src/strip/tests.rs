use super::*;
use crate::{
    Hook, Hooks, IoPrioClass, LinuxCpu, LinuxDevice, LinuxIoPriority, LinuxMemory,
    LinuxMemoryPolicy, LinuxNamespace, LinuxPids, LinuxRdt, LinuxScheduler, LinuxSeccomp,
    LinuxSyscall, Mount,
};

fn adjust(change: impl FnOnce(&mut ContainerAdjustment)) -> ContainerAdjustment {
    let mut adjustment = ContainerAdjustment::default();
    change(&mut adjustment);
    adjustment
}

fn linux(change: impl FnOnce(&mut LinuxContainerAdjustment)) -> ContainerAdjustment {
    adjust(|adjustment| change(adjustment.linux_mut()))
}

/// Each field alone, with something in it.
fn full() -> Vec<(&'static str, ContainerAdjustment)> {
    let hook = Hook {
        path: "/bin/hook".into(),
        ..Hook::default()
    };
    vec![
        (
            "annotations",
            adjust(|a| {
                a.add_annotation("k", "");
            }),
        ),
        (
            "removed annotations",
            adjust(|a| {
                a.remove_annotation("k");
            }),
        ),
        (
            "mounts",
            adjust(|a| {
                a.add_mount(Mount::default());
            }),
        ),
        (
            "env",
            adjust(|a| {
                a.add_env("", "");
            }),
        ),
        (
            "args",
            adjust(|a| {
                a.set_args([""]);
            }),
        ),
        (
            "hooks",
            adjust(|a| {
                a.add_hooks(Hooks {
                    poststop: vec![hook],
                    ..Hooks::default()
                });
            }),
        ),
        (
            "rlimits",
            adjust(|a| {
                a.add_rlimit("nofile", 0, 0);
            }),
        ),
        (
            "CDI devices",
            adjust(|a| {
                a.add_cdi_device("v/c=d");
            }),
        ),
        (
            "linux devices",
            adjust(|a| {
                a.add_device(LinuxDevice::default());
            }),
        ),
        (
            "zero memory limit",
            adjust(|a| {
                a.resources_mut().set_memory_limit(0);
            }),
        ),
        (
            "zero shares",
            adjust(|a| {
                a.resources_mut().set_cpu_shares(0_u64);
            }),
        ),
        (
            "cpuset",
            adjust(|a| {
                a.resources_mut().set_cpuset_mems("0");
            }),
        ),
        (
            "pids",
            adjust(|a| {
                a.resources_mut().set_pids_limit(0);
            }),
        ),
        (
            "empty class",
            adjust(|a| {
                a.resources_mut().set_rdt_class("");
            }),
        ),
        (
            "hugepages",
            adjust(|a| {
                a.resources_mut().add_hugepage_limit("2MB", 0);
            }),
        ),
        (
            "unified",
            adjust(|a| {
                a.resources_mut().set_unified("", "");
            }),
        ),
        (
            "cgroups path",
            adjust(|a| {
                a.set_cgroups_path("/c");
            }),
        ),
        (
            "OOM score",
            adjust(|a| {
                a.set_oom_score_adj(0);
            }),
        ),
        (
            "I/O priority",
            adjust(|a| {
                a.set_io_priority(IoPrioClass::IoprioClassRt, 0);
            }),
        ),
        (
            "seccomp policy",
            adjust(|a| {
                let syscalls = vec![LinuxSyscall::default()];
                a.set_seccomp_policy(LinuxSeccomp {
                    syscalls,
                    ..LinuxSeccomp::default()
                });
            }),
        ),
        (
            "namespaces",
            adjust(|a| {
                a.remove_namespace("network");
            }),
        ),
        (
            "sysctl",
            adjust(|a| {
                a.set_sysctl("k", "");
            }),
        ),
        (
            "net devices",
            adjust(|a| {
                a.remove_net_device("eth0");
            }),
        ),
        (
            "scheduler",
            adjust(|a| {
                a.set_scheduler(LinuxScheduler {
                    nice: 1,
                    ..Default::default()
                });
            }),
        ),
        (
            "RDT",
            adjust(|a| {
                a.remove_rdt();
            }),
        ),
        (
            "RDT schemata",
            adjust(|a| {
                a.set_rdt_schemata(Vec::<String>::new());
            }),
        ),
        (
            "memory policy",
            adjust(|a| {
                a.set_memory_policy(LinuxMemoryPolicy {
                    nodes: "0".into(),
                    ..Default::default()
                });
            }),
        ),
    ]
}

#[test]
fn rows_165_to_180_what_has_content_stays() {
    for (field, adjustment) in full() {
        assert_eq!(adjustment.clone().strip(), Some(adjustment), "{field}");
    }
}

#[test]
fn rows_181_to_196_what_is_empty_goes() {
    let empty = [
        ("adjustment", ContainerAdjustment::default()),
        ("hooks", adjust(|a| a.hooks = Some(Hooks::default()))),
        ("linux", linux(|_| {})),
        (
            "resources",
            adjust(|a| {
                a.resources_mut();
            }),
        ),
        (
            "memory",
            adjust(|a| a.resources_mut().memory = Some(LinuxMemory::default())),
        ),
        (
            "cpu",
            adjust(|a| a.resources_mut().cpu = Some(LinuxCpu::default())),
        ),
        (
            "I/O priority",
            linux(|l| l.io_priority = Some(LinuxIoPriority::default())),
        ),
        (
            "seccomp policy",
            linux(|l| l.seccomp_policy = Some(LinuxSeccomp::default())),
        ),
        (
            "scheduler",
            linux(|l| l.scheduler = Some(LinuxScheduler::default())),
        ),
        ("RDT", linux(|l| l.rdt = Some(LinuxRdt::default()))),
        (
            "memory policy",
            linux(|l| l.memory_policy = Some(LinuxMemoryPolicy::default())),
        ),
    ];
    for (field, adjustment) in empty {
        assert_eq!(adjustment.strip(), None, "{field}");
    }
}

#[test]
fn an_update_keeps_its_id_and_loses_empty_resources() {
    let mut update = ContainerUpdate::new("ctr0");
    update.resources_mut().memory = Some(LinuxMemory::default());
    assert_eq!(update.strip(), Some(ContainerUpdate::new("ctr0")));
    let mut update = ContainerUpdate::new("ctr0");
    update.resources_mut().pids = Some(LinuxPids::default());
    assert_eq!(
        update.clone().strip(),
        Some(update),
        "pids have no wrapper: present is content"
    );
}

#[test]
fn removal_markers_are_what_the_builders_write() {
    let adjustment = adjust(|a| {
        a.remove_annotation("a")
            .remove_mount("/m")
            .remove_env("E")
            .remove_device("/dev/d");
        a.remove_net_device("eth0")
            .remove_sysctl("s")
            .remove_namespace("ipc");
        a.update_args(["x"]);
    });
    let linux = adjustment.linux.clone().unwrap();
    assert!(adjustment.annotations.contains_key("-a"));
    assert_eq!(adjustment.mounts[0].destination, "-/m");
    assert_eq!(adjustment.env[0].key, "-E");
    assert_eq!(adjustment.args, ["", "x"]);
    assert_eq!(linux.devices[0].path, "-/dev/d");
    assert!(linux.net_devices.contains_key("-eth0") && linux.sysctl.contains_key("-s"));
    assert_eq!(
        linux.namespaces,
        [LinuxNamespace {
            r#type: "-ipc".into(),
            path: String::new()
        }]
    );
}
