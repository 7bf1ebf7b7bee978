//! The binary under the name `docker`.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::support::{Done, LONGSHORE};

#[test]
fn linked_as_docker_it_answers_as_docker_does() {
    let dir = tempfile::tempdir().unwrap();
    let docker = dir.path().join("docker");
    symlink(LONGSHORE, &docker).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&docker);
        command
            .args(["-H", "unix:///nonexistent/docker.sock"])
            .args(arguments);
        Done::from(command.output().unwrap())
    };
    let version = run(&["--version"]).exits(0);
    assert!(version.stdout.starts_with("Docker version "), "{version:?}");
    let refused = run(&["build", "."]).exits(1);
    assert!(refused.stderr.contains("build"), "{refused:?}");
    let away = run(&["run", "image"]).exits(125);
    assert!(away.stderr.contains("/nonexistent/docker.sock"), "{away:?}");
}
