//! The binary under the name of Mesos' docker executor.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::support::{Done, LONGSHORE};

fn executor(arguments: &[&str]) -> Done {
    let mut command = Command::new(LONGSHORE);
    // As through a link in the launcher directory.
    command
        .arg0("/launcher/mesos-docker-executor")
        .args(arguments)
        .env_clear();
    command.output().unwrap().into()
}

#[test]
fn by_its_name_alone_the_binary_is_the_executor() {
    let help = executor(&["--help", "--docker=/usr/bin/docker"]).exits(0);
    assert!(help.stdout.contains("--sandbox_directory"), "{help:?}");
    let lost = executor(&["--unheard_of=1"]).exits(1);
    assert!(lost.stderr.contains("MESOS_FRAMEWORK_ID"), "{lost:?}");
    assert!(lost.stderr.contains("--unheard_of is unknown"), "{lost:?}");
    let wrong = executor(&["--docker_socket=run/docker.sock"]).exits(1);
    assert!(
        wrong.stderr.contains("--docker_socket=run/docker.sock"),
        "{wrong:?}"
    );
}

#[test]
fn the_watchdog_is_for_executors_alone() {
    let called = Command::new(LONGSHORE).arg("watchdog").output().unwrap();
    let called = Done::from(called).exits(2);
    assert!(called.stderr.contains("executor alone"), "{called:?}");
}
