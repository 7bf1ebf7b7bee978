//! `longshore doctor`: what it finds on a machine that is made up, and of a daemon.

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::{Signal, kill};

use crate::support::{Daemon, Done, Home};

/// Which checks have found something.
fn checks(done: &Done) -> Vec<String> {
    let document = done.json();
    assert_eq!(document["version"], 1);
    let findings = document["findings"].as_array().unwrap();
    let word = |finding: &serde_json::Value| finding["check"].as_str().unwrap().to_owned();
    findings.iter().map(word).collect()
}

#[test]
fn faults_of_another_machine_are_found_below_its_root() {
    let home = Home::new();
    let root = home.join("root");
    let at = |path: &str| {
        let path = root.join(path.trim_start_matches('/'));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    std::fs::write(at("/proc/mounts"), "cgroup2 /cg cgroup2 rw 0 0\n").unwrap();
    std::fs::write(at("/cg/cgroup.controllers"), "cpu memory\n").unwrap();
    let run = |flags: &[&str]| {
        let mut args = vec![
            "doctor",
            "--state-dir",
            "/s",
            "--runtime-dir",
            "/r",
            "--root",
        ];
        args.push(root.to_str().unwrap());
        args.extend(flags);
        home.run(args)
    };
    assert_eq!(run(&[]).exits(0).stdout, "nothing found; no daemon runs\n");
    // A warning does not fail.
    std::fs::write(at("/cg/cgroup.controllers"), "io\n").unwrap();
    assert_eq!(checks(&run(&["--json"]).exits(0)), ["cgroups"]);
    std::fs::create_dir(at("/s")).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(at("/s"), open).unwrap();
    assert_eq!(
        checks(&run(&["--json"]).exits(3)),
        ["directories", "cgroups"]
    );
    let text = run(&[]).exits(3).stdout;
    assert!(
        text.starts_with("problem: directories: state_dir /s has mode 0777"),
        "{text}"
    );
    assert!(text.contains("\n    chmod 0700 /s\n"), "{text}");
}

#[test]
fn a_daemon_that_was_killed_has_left_its_socket() {
    let daemon = Daemon::start(Home::new(), "");
    let found = |done: Done| checks(&done).contains(&"sockets".to_owned());
    let ask = || daemon.home.run(["doctor", "--json"]);
    assert!(!found(ask()));
    kill(daemon.pid(), Signal::SIGKILL).unwrap();
    crate::support::eventually("the socket is found", || found(ask()).then_some(()));
}

#[test]
fn a_configuration_that_is_not_valid_is_told_first() {
    let home = Home::new();
    let config = home.write("c.toml", "nonsense = 1\n");
    let done = home
        .run(["doctor", "-c", config.to_str().unwrap()])
        .exits(78);
    assert!(done.stderr.contains("c.toml:1"), "{done:#?}");
}
