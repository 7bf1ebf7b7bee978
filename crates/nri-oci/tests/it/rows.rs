//! Rows 228 to 245: each is a change of the spec S.

use longshore_nri_api::{
    LinuxContainerAdjustment, LinuxSeccomp, LinuxSyscall, Mount, OptionalUInt32,
};
use serde_json::{Value, json};

use super::{check, check_on};

fn cpu(patch: &Value) -> Value {
    json!({"linux": {"resources": {"cpu": patch}}})
}

#[test]
fn row_228_an_empty_adjustment_changes_nothing() {
    check(
        |it| it.linux = Some(LinuxContainerAdjustment::default()),
        json!({}),
    );
    check(|it| _ = it.resources_mut(), json!({}));
    check(|_| (), json!({}));
}

#[test]
fn row_229_args() {
    let args = ["arg0", "arg1", "arg2"];
    check(
        |it| _ = it.set_args(args),
        json!({"process": {"args": args}}),
    );
}

#[test]
fn row_230_an_rlimit_is_appended() {
    let core = json!({"type": "RLIMIT_CORE", "hard": 9, "soft": 8});
    check_on(
        &json!({"process": {"rlimits": [core]}}),
        |it| _ = it.add_rlimit("nofile", 456, 123),
        json!({"process": {"rlimits": [core, {"type": "RLIMIT_NOFILE", "hard": 456, "soft": 123}]}}),
    );
}

#[test]
fn row_231_a_memory_limit_limits_swap_too() {
    check(
        |it| _ = it.resources_mut().set_memory_limit(11111),
        json!({"linux": {"resources": {"memory": {"limit": 11111, "swap": 11111}}}}),
    );
}

#[test]
fn row_232_oom_score_adj_is_set() {
    check(
        |it| _ = it.set_oom_score_adj(123),
        json!({"process": {"oomScoreAdj": 123}}),
    );
}

#[test]
fn row_233_oom_score_adj_stays_unset() {
    check(|it| _ = it.linux_mut(), json!({}));
}

#[test]
fn row_234_an_existing_oom_score_adj_stays() {
    check_on(
        &json!({"process": {"oomScoreAdj": 123}}),
        |it| _ = it.linux_mut(),
        json!({"process": {"oomScoreAdj": 123}}),
    );
}

#[test]
fn row_235_cpu_shares_alone() {
    check(
        |it| _ = it.resources_mut().set_cpu_shares(11111_u64),
        cpu(&json!({"shares": 11111})),
    );
}

#[test]
fn row_236_cpu_quota_alone() {
    check(
        |it| _ = it.resources_mut().set_cpu_quota(11111),
        cpu(&json!({"quota": 11111})),
    );
}

#[test]
fn row_237_cpu_period_alone() {
    check(
        |it| _ = it.resources_mut().set_cpu_period(11111_u64),
        cpu(&json!({"period": 11111})),
    );
}

#[test]
fn row_238_cpuset_cpus_alone() {
    check(
        |it| it.resources_mut().cpu.get_or_insert_default().cpus = "5,6".into(),
        cpu(&json!({"cpus": "5,6"})),
    );
}

#[test]
fn row_239_cpuset_mems_alone() {
    check(
        |it| it.resources_mut().cpu.get_or_insert_default().mems = "5,6".into(),
        cpu(&json!({"mems": "5,6"})),
    );
}

#[test]
fn row_240_pids_limit() {
    check(
        |it| _ = it.resources_mut().set_pids_limit(123),
        json!({"linux": {"resources": {"pids": {"limit": 123}}}}),
    );
}

#[test]
fn row_241_mounts_are_sorted_parents_first() {
    let mount = |destination: &str| Mount {
        destination: destination.into(),
        ..Mount::default()
    };
    check(
        |it| {
            for destination in ["/a/b/c/d/e", "/a/b/c", "/a/b", "/a"] {
                it.add_mount(mount(destination));
            }
        },
        json!({"mounts": [
            {"destination": "/a"}, {"destination": "/a/b"},
            {"destination": "/a/b/c"}, {"destination": "/a/b/c/d/e"},
        ]}),
    );
}

#[test]
fn row_242_seccomp() {
    check(
        |it| {
            it.set_seccomp_policy(LinuxSeccomp {
                default_action: "SCMP_ACT_ALLOW".into(),
                default_errno: Some(OptionalUInt32 { value: 38 }),
                listener_path: "/run/listener.sock".into(),
                syscalls: vec![LinuxSyscall {
                    names: vec!["sched_getaffinity".into()],
                    action: "SCMP_ACT_NOTIFY".into(),
                    ..LinuxSyscall::default()
                }],
                ..LinuxSeccomp::default()
            });
        },
        json!({"linux": {"seccomp": {
            "defaultAction": "SCMP_ACT_ALLOW",
            "defaultErrnoRet": 38,
            "listenerPath": "/run/listener.sock",
            "syscalls": [{"names": ["sched_getaffinity"], "action": "SCMP_ACT_NOTIFY"}],
        }}}),
    );
}

#[test]
fn row_243_sysctl() {
    check_on(
        &json!({"linux": {"sysctl": {"kernel.shm_rmid_forced": "1", "net.core.somaxconn": "1"}}}),
        |it| {
            it.set_sysctl("net.core.somaxconn", "256")
                .remove_sysctl("kernel.shm_rmid_forced");
        },
        json!({"linux": {"sysctl": {"kernel.shm_rmid_forced": null, "net.core.somaxconn": "256"}}}),
    );
}

#[test]
fn row_244_rdt() {
    let schemata = ["L2:0=ff", "L3:0=f"];
    check(
        |it| {
            it.set_rdt_clos_id("foo")
                .set_rdt_schemata(schemata)
                .set_rdt_enable_monitoring(true);
        },
        json!({"linux": {"intelRdt": {
            "closID": "foo", "schemata": schemata, "enableMonitoring": true,
        }}}),
    );
}

#[test]
fn row_245_remove_rdt() {
    let bar = json!({"linux": {"intelRdt": {"closID": "bar", "schemata": ["L3:0=f"]}}});
    check_on(
        &bar,
        |it| _ = it.remove_rdt(),
        json!({"linux": {"intelRdt": null}}),
    );
    check_on(
        &bar,
        |it| _ = it.remove_rdt().set_rdt_clos_id("foo"),
        json!({"linux": {"intelRdt": {"closID": "foo", "schemata": null}}}),
    );
}
