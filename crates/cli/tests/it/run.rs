//! `csi run`: one driver, no configuration, no daemon.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Home, LONGSHORE};

#[test]
fn a_driver_runs_until_it_is_interrupted_and_nothing_is_left() {
    let home = Home::new();
    let volumes = home.join("volumes");
    let mut child = home
        .command([
            "csi",
            "run",
            "--name",
            "mine",
            "--",
            LONGSHORE,
            "csi",
            "hostpath",
            "--state-dir",
        ])
        .arg(&volumes)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let ready = lines
        .find(|line| line.starts_with("longshore: mine is ready: "))
        .unwrap();
    let endpoint = ready
        .split_whitespace()
        .find(|word| word.starts_with("unix://"))
        .unwrap();
    home.run(["csi", "probe", endpoint]).exits(0);
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let rest: Vec<_> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?}");
    home.assert_no_processes();
    let left: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert!(left.iter().all(|name| name == "volumes"), "{left:?}");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let done = Home::new()
        .run(["csi", "run", "--", "./no-such-driver"])
        .exits(1);
    assert!(
        done.stderr.contains("no-such-driver") && done.stderr.contains("hint: "),
        "{done:#?}"
    );
    Home::new().run(["csi", "run"]).exits(2);
}

#[test]
fn of_a_run_that_is_killed_no_process_is_left() {
    let home = Home::new();
    let volumes = home.join("volumes");
    let mut command = home.command(["csi", "run", "--", LONGSHORE, "csi", "hostpath"]);
    command.arg("--state-dir").arg(&volumes);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = lines
        .map(Result::unwrap)
        .any(|line| line.starts_with("longshore: run is ready: "));
    assert!(ready && home.processes().len() > 1);
    child.kill().unwrap();
    child.wait().unwrap();
    home.assert_no_processes();
}
