//! Faults that are planted, each found by its check, and none where there is none.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use longshore_doctor::{EngineFacts, Severity, Space, View, examine};

/// A machine made of files, with a node on it that is well.
struct Machine {
    dir: tempfile::TempDir,
    view: View,
    _control: Option<UnixListener>,
}

const STATE: &str = "/var/lib/longshore";
const RUNTIME: &str = "/run/longshore";

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let view = View {
            root: dir.path().to_owned(),
            state_dir: STATE.into(),
            runtime_dir: RUNTIME.into(),
            uid: nix::unistd::geteuid().as_raw(),
            daemon_answers: true,
            engine: EngineFacts::There {
                address: "unix:///run/docker.sock".to_owned(),
                own_nri: None,
            },
            space: Some(ROOM),
            clock_synchronized: Some(true),
        };
        let mut machine = Self {
            dir,
            view,
            _control: None,
        };
        machine.write(
            "/proc/self/mounts",
            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        );
        machine.write(
            "/sys/fs/cgroup/cgroup.controllers",
            "cpuset cpu io memory pids\n",
        );
        machine.write(
            "/usr/lib/tmpfiles.d/tmp.conf",
            "q /tmp 1777 root root 10d\n",
        );
        machine.write(&format!("{STATE}/csi/t/n/containers/c/container.info"), "x");
        for (path, mode) in [(STATE, 0o700), (RUNTIME, 0o700)] {
            fs::create_dir_all(machine.at(path)).unwrap();
            machine.mode(path, mode);
        }
        fs::create_dir_all(machine.at("/run/longshore/control")).unwrap();
        let socket = machine.at("/run/longshore/control/control.sock");
        machine._control = Some(UnixListener::bind(&socket).unwrap());
        fs::set_permissions(&socket, Permissions::from_mode(0o600)).unwrap();
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), Permissions::from_mode(mode)).unwrap();
    }

    /// Which checks found something, and how bad.
    fn found(&self) -> Vec<(&'static str, Severity)> {
        let found = examine(&self.view);
        for finding in &found {
            assert!(!finding.what.is_empty() && !finding.advice.is_empty());
            assert!(!finding.what.ends_with('.'), "a fragment: {finding:?}");
        }
        found.iter().map(|it| (it.check, it.severity)).collect()
    }
}

const ROOM: Space = Space {
    free_bytes: 10 << 30,
    total_bytes: 20 << 30,
    free_inodes: 500_000,
    total_inodes: 1_000_000,
};

/// What is planted, and which check finds it.
type Fault = (&'static str, Severity, fn(&mut Machine));

const FAULTS: &[Fault] = &[
    ("directories", Severity::Problem, |it| it.mode(STATE, 0o755)),
    ("directories", Severity::Problem, |it| {
        it.mode(RUNTIME, 0o777);
    }),
    ("directories", Severity::Problem, |it| it.view.uid += 1),
    ("sockets", Severity::Problem, |it| {
        it.view.daemon_answers = false;
    }),
    ("sockets", Severity::Problem, |it| {
        it.mode("/run/longshore/control/control.sock", 0o666);
    }),
    ("sockets", Severity::Problem, |it| {
        let socket = it.at("/run/longshore/control/control.sock");
        fs::remove_file(&socket).unwrap();
        symlink("/etc/passwd", socket).unwrap();
    }),
    ("records", Severity::Warning, |it| {
        it.write(
            "/var/lib/longshore/csi/t/n/containers/c/container.info.corrupt-1",
            "torn",
        );
    }),
    ("space", Severity::Problem, |it| {
        it.view.space = Some(Space {
            free_bytes: 1 << 20,
            ..ROOM
        });
    }),
    ("space", Severity::Warning, |it| {
        it.view.space = Some(Space {
            free_bytes: 512 << 20,
            ..ROOM
        });
    }),
    ("space", Severity::Problem, |it| {
        it.view.space = Some(Space {
            free_inodes: 3,
            ..ROOM
        });
    }),
    ("cleaners", Severity::Problem, |it| {
        it.write(
            "/etc/tmpfiles.d/site.conf",
            "# ours\ne /run/long* - - - 1d\n",
        );
    }),
    ("cleaners", Severity::Problem, |it| {
        it.write(
            "/usr/lib/tmpfiles.d/site.conf",
            "d /var/lib 0755 root root 30d -\n",
        );
    }),
    ("cgroups", Severity::Warning, |it| {
        it.write("/sys/fs/cgroup/cgroup.controllers", "cpuset io pids\n");
    }),
    ("engine", Severity::Problem, |it| {
        it.view.engine = EngineFacts::Away {
            address: "unix:///run/docker.sock".to_owned(),
            wanted: true,
            reason: "no such file".to_owned(),
        };
    }),
    ("engine", Severity::Warning, |it| {
        it.view.engine = EngineFacts::There {
            address: "unix:///run/docker.sock".to_owned(),
            own_nri: Some("enabled".to_owned()),
        };
    }),
    ("clock", Severity::Warning, |it| {
        it.view.clock_synchronized = Some(false);
    }),
    ("clock", Severity::Warning, |it| {
        let record = it.at("/var/lib/longshore/csi/t/n/containers/c/container.info");
        let ahead = SystemTime::now() + Duration::from_secs(86_400);
        let file = fs::File::options().write(true).open(record).unwrap();
        file.set_modified(ahead).unwrap();
    }),
    ("selinux", Severity::Warning, |it| {
        it.write("/sys/fs/selinux/enforce", "1");
        fs::create_dir_all(it.at("/run/longshore/csi")).unwrap();
    }),
];

#[test]
fn a_node_that_is_well_has_no_findings() {
    assert_eq!(Machine::new().found(), []);
}

#[test]
fn a_machine_without_a_node_has_no_findings() {
    let machine = Machine::new();
    for dir in [STATE, RUNTIME] {
        fs::remove_dir_all(machine.at(dir)).unwrap();
    }
    assert_eq!(machine.found(), []);
}

#[test]
fn each_fault_is_found_by_its_check_alone() {
    for (nth, (check, severity, plant)) in FAULTS.iter().enumerate() {
        let mut machine = Machine::new();
        plant(&mut machine);
        let mut found = machine.found();
        if machine.view.uid != nix::unistd::geteuid().as_raw() {
            // Both directories and the socket belong to somebody else.
            found.dedup();
            found.retain(|(check, _)| *check != "sockets");
        }
        assert_eq!(found, [(*check, *severity)], "fault {nth}");
    }
}

#[test]
fn many_faults_at_once_are_all_found() {
    let mut machine = Machine::new();
    for nth in [0, 1, 3, 6, 7, 10, 12, 13, 16, 17] {
        (FAULTS[nth].2)(&mut machine);
    }
    let checks: Vec<_> = machine
        .found()
        .into_iter()
        .map(|(check, _)| check)
        .collect();
    let expected = [
        "directories",
        "directories",
        "sockets",
        "records",
        "space",
        "cleaners",
        "cgroups",
        "engine",
        "clock",
        "selinux",
    ];
    assert_eq!(checks, expected);
}

#[test]
fn what_is_spared_or_hidden_is_not_cleaned() {
    let rules: &[(&str, &str, &str)] = &[
        // Spared.
        (
            "/etc/tmpfiles.d/a.conf",
            "e /run - - - 1d\nx /run/longshore\n",
            "",
        ),
        (
            "/etc/tmpfiles.d/a.conf",
            "e /run - - - 1d\n",
            "x /run/longshore",
        ),
        // Without an age, of somewhere else, no rule.
        ("/etc/tmpfiles.d/a.conf", "d /run 0755 root root -\n", ""),
        ("/etc/tmpfiles.d/a.conf", "e /run/other - - - 1d\n", ""),
        (
            "/etc/tmpfiles.d/a.conf",
            "r! /run/longshore\n#e /run - - - 1d\n",
            "",
        ),
        ("/etc/tmpfiles.d/a.txt", "e /run - - - 1d\n", ""),
    ];
    for (path, text, other) in rules {
        let machine = Machine::new();
        machine.write(path, text);
        machine.write("/usr/lib/tmpfiles.d/z.conf", other);
        assert_eq!(machine.found(), [], "{text:?}");
    }
    // A file of the administrator's hides the vendor's of the same name.
    let machine = Machine::new();
    machine.write("/usr/lib/tmpfiles.d/a.conf", "e /run - - - 1d\n");
    assert_eq!(machine.found().len(), 1);
    machine.write("/etc/tmpfiles.d/a.conf", "");
    assert_eq!(machine.found(), []);
}

#[test]
fn many_records_are_counted_and_nothing_is_changed() {
    let machine = Machine::new();
    for nth in 0..30 {
        machine.write(&format!("{STATE}/x.corrupt-{nth}"), "");
    }
    machine.write(&format!("{STATE}/csi/t/n/mounts/v/y.corrupt-1"), "");
    let before = tree(machine.dir.path());
    let found = examine(&machine.view);
    assert_eq!(found.len(), 11);
    assert!(found[10].what.starts_with("20 more"), "{found:?}");
    assert_eq!(tree(machine.dir.path()), before);
}

fn tree(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        if meta.is_dir() {
            all.extend(tree(&path));
        }
        all.push((path, meta.len()));
    }
    all.sort();
    all
}
