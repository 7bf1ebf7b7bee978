//! The bytes of the records: a shim of one release is read by the supervisor of the next.

use std::fmt::Debug;
use std::path::Path;

use longshore_checkpoint::testing::check_golden;

use super::*;

/// Every version of a record that was ever written is in `tests/golden/`.
fn golden<R: Record + PartialEq + Debug>(sample: &R) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(R::KIND);
    check_golden(dir, sample, 1, "0.1.0").unwrap();
}

#[test]
fn a_container_record_has_the_bytes_of_its_golden_file() {
    let cgroup = PathBuf::from("/sys/fs/cgroup/longshore/containers/a");
    golden(&ContainerRecord {
        id: vec!["a".to_owned(), "b".to_owned()],
        boot_id: "6f1d5f1e-3c5b-4d0a-9f0e-0123456789ab".to_owned(),
        launched_ms: 1_790_000_000_123,
        facts: Facts {
            cpus: Some(0.5),
            cpus_limit: None,
            mem_bytes: Some(64 << 20),
            mem_limit_bytes: Some(64 << 20),
            unenforced: vec!["disk".to_owned()],
        },
        spec: Spec {
            sandbox_base: "/var/lib/longshore/agent".into(),
            sandbox: "containers/a/containers/b".into(),
            program: Program::Exec {
                file: "plugin".to_owned(),
                arguments: vec!["plugin".to_owned(), "-v".to_owned()],
            },
            environment: vec![("CSI_ENDPOINT".to_owned(), "unix:///s".to_owned())],
            user: Some(User {
                uid: 65534,
                gid: 65534,
                groups: vec![100],
            }),
            rlimits: vec![Rlimit {
                resource: 7,
                soft: 1024,
                hard: u64::MAX,
            }],
            oom_score_adj: -500,
            mounts: Mounts {
                namespace: true,
                list: vec![MountSpec {
                    source: "/srv".into(),
                    target: "data".into(),
                    read_only: true,
                    shared: false,
                }],
            },
            cgroups: Cgroups {
                container: vec![cgroup.clone()],
                shims: vec!["/sys/fs/cgroup/longshore/shims".into()],
                memory: Some(MemoryWatch {
                    dir: cgroup,
                    v2: true,
                    limit_bytes: 64 << 20,
                }),
            },
            logs: Logs {
                max_bytes: 2 << 20,
                keep: 3,
            },
        },
    });
}

#[test]
fn a_pid_record_has_the_bytes_of_its_golden_file() {
    let process = |pid, start| ProcessId { pid, start };
    golden(&PidRecord {
        shim: process(300, 123_456),
        init: process(301, 123_460),
    });
}

#[test]
fn an_exit_record_has_the_bytes_of_its_golden_file() {
    golden(&ExitRecord {
        status: Some(9),
        reason: Some(Reason::MemoryLimit {
            limit_bytes: 64 << 20,
        }),
        message: Some("out of memory".to_owned()),
        ended_ms: 1_790_000_000_123,
    });
}

#[test]
fn an_agent_id_record_has_the_bytes_of_its_golden_file() {
    golden(&AgentIdRecord {
        id: "longshore-0123456789abcdef".to_owned(),
    });
}
