//! The unit of systemd, and what the daemon tells the service manager: systemd is not needed, its socket is a fake.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::Home;

fn unit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/longshore.service")
}

#[test]
fn the_unit_says_what_a_node_needs() {
    let text = std::fs::read_to_string(unit()).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for line in [
        "Type=notify",
        "ExecReload=/bin/kill -HUP $MAINPID",
        "WatchdogSec=60s",
        "KillMode=process",
        "OOMPolicy=continue",
        "TasksMax=infinity",
        "LimitNOFILE=65536",
        "RuntimeDirectory=longshore",
        "RuntimeDirectoryMode=0711",
        "RuntimeDirectoryPreserve=yes",
        "RestartPreventExitStatus=78",
    ] {
        assert!(lines.contains(&line), "{line}");
    }
    let engine = |key: &str| {
        let mut values = lines.iter().filter_map(|line| line.strip_prefix(key));
        values.any(|value| value.split(' ').any(|unit| unit == "docker.service"))
    };
    assert!(engine("After=") && engine("Wants="));
    assert!(!engine("Requires=") && !engine("BindsTo="));
    // Each of these gives the daemon mounts of its own (systemd.exec(5)).
    for key in [
        "Private",
        "Protect",
        "ReadOnly",
        "ReadWrite",
        "Inaccessible",
        "Bind",
        "RootDirectory",
        "MountFlags",
        "DynamicUser",
    ] {
        assert!(!lines.iter().any(|line| line.starts_with(key)), "{key}");
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let Some(program) = longshore_testkit::peers::systemd_analyze() else {
        return;
    };
    let verify = |unit: &Path| {
        Command::new(&program)
            .args(["verify", "--man=no"])
            .arg(unit)
            .output()
    };
    let home = Home::new();
    let daemon = home.command(["daemon"]).get_program().to_owned();
    let text = std::fs::read_to_string(unit()).unwrap();
    let text = text.replace("/usr/bin/longshore", daemon.to_str().unwrap());
    let good = home.write("longshore.service", &text);
    let done = verify(&good).unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    let of_ours = |said: &str| said.lines().any(|line| line.contains("longshore.service"));
    assert!(!of_ours(&said), "{said}");
    // It would say so.
    let bad = home.write(
        "longshore.service",
        text.replace("OOMPolicy=continue", "OOMPolicy=never"),
    );
    let said = verify(&bad).unwrap().stderr;
    assert!(of_ours(&String::from_utf8_lossy(&said)));
}

/// What arrives until one is `last`.
fn told(socket: &UnixDatagram, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut buffer = [0; 256];
    loop {
        let length = socket
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{error}: {all:?}"));
        let text = String::from_utf8_lossy(&buffer[..length]).trim().to_owned();
        let done = text == last;
        all.push(text);
        if done {
            return all;
        }
    }
}

#[test]
fn the_service_manager_is_told_of_the_start_the_end_and_every_moment_between() {
    let home = Home::new();
    let socket = UnixDatagram::bind(home.join("notify")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let config = home.write("c.toml", "");
    let mut command = home.command(["daemon", "-c", config.to_str().unwrap()]);
    let mut daemon = command
        .env("NOTIFY_SOCKET", home.join("notify"))
        .env("WATCHDOG_USEC", "300000")
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    told(&socket, "READY=1");
    for _ in 0..3 {
        assert_eq!(told(&socket, "WATCHDOG=1"), ["WATCHDOG=1"]);
    }
    let pid = Pid::from_raw(i32::try_from(daemon.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let before = told(&socket, "STOPPING=1");
    assert!(
        before[..before.len() - 1]
            .iter()
            .all(|it| it == "WATCHDOG=1"),
        "{before:?}"
    );
    assert!(daemon.wait().unwrap().success());
}
