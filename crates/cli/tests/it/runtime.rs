//! A runtime directory that somebody removes, under a running daemon and after one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Daemon, Home, eventually, hostpath};

/// Quick looks and retries, so that a plugin that is lost is soon seen to be.
const QUICK: &str = "[csi]\nliveness = { interval = \"500ms\", timeout = \"500ms\", failure_threshold = 2 }\n\
                     restart = { initial = \"100ms\", max = \"1s\", start_limit_burst = 0 }\n\n";

fn start() -> Daemon {
    start_with(QUICK)
}

fn start_with(settings: &str) -> Daemon {
    let home = Home::new();
    let config = settings.to_owned() + &hostpath(&home, "disks", "v1");
    let daemon = Daemon::start(home, &config);
    daemon.endpoint("disks");
    daemon
}

/// The processes of the driver.
fn drivers(home: &Home) -> Vec<Pid> {
    let found = home.processes().into_iter();
    let drivers = found.filter(|(_, line)| line.contains("csi hostpath"));
    drivers.map(|(pid, _)| pid).collect()
}

/// The plugin answers, is another process than `before`, and no process of it is left over.
fn is_back(daemon: &Daemon, before: Pid) {
    eventually("the plugin is back", || {
        let status = daemon.run(["status", "disks", "--json"]);
        if status.code != 0 {
            return None;
        }
        let plugin = status.json()["plugins"][0].clone();
        let pid = plugin["containers"][0]["pid"].as_i64()?;
        (plugin["state"] == "ready" && pid != i64::from(before.as_raw())).then_some(())
    });
    eventually("there is one process of it", || {
        (drivers(&daemon.home) == [daemon.plugin_pid("disks")]).then_some(())
    });
    let uri = daemon.endpoint("disks");
    daemon.run(["csi", "probe", &uri]).exits(0);
    let status = daemon.run(["status", "--json"]).exits(0).json();
    assert_eq!(status["strays"], serde_json::json!([]));
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn an_agent_socket_that_was_removed_is_bound_again() {
    let mut daemon = start();
    let before = daemon.plugin_pid("disks");
    std::fs::remove_file(daemon.home.join("r/agent/agent.sock")).unwrap();
    kill(before, Signal::SIGKILL).unwrap();
    is_back(&daemon, before);
    assert_eq!(daemon.terminate(), 0);
    assert!(!daemon.home.join("r/agent/agent.sock").exists());
}

#[test]
fn a_runtime_directory_that_was_removed_under_a_daemon_is_made_again() {
    let mut daemon = start();
    let runtime = daemon.home.join("r");
    let dirs = ["", "control", "agent", "agent/containers", "csi"];
    let modes = || dirs.map(|dir| mode(&runtime.join(dir)));
    let expected = modes();
    let before = daemon.plugin_pid("disks");
    std::fs::remove_dir_all(&runtime).unwrap();
    is_back(&daemon, before);
    assert_eq!(modes(), expected);
    // Its locks hold again.
    let config = daemon.home.join("longshore.toml");
    let mut other = daemon.home.command(["daemon", "-c"]);
    other
        .arg(config)
        .env("LONGSHORE_STATE_DIR", daemon.home.join("s2"));
    let other = other.output().unwrap();
    let error = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(
        !other.status.success() && error.contains("locked by"),
        "{error}"
    );
    // What runs now is the next daemon's, too.
    let pid = daemon.plugin_pid("disks");
    daemon.crash();
    daemon.start_again();
    daemon.endpoint("disks");
    assert_eq!(daemon.plugin_pid("disks"), pid);
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
}

#[test]
fn a_runtime_directory_that_cannot_be_had_again_ends_the_daemon_and_no_plugin() {
    // Its liveness takes longer to tell than the daemon to give up.
    let mut daemon = start_with("");
    let pid = daemon.plugin_pid("disks");
    std::fs::remove_dir_all(daemon.home.join("r")).unwrap();
    std::fs::write(daemon.home.join("r"), "").unwrap();
    assert_eq!(daemon.wait(), 1);
    let log = daemon.log();
    let error = log.lines().rfind(|line| line.starts_with("error: "));
    let named = |error: &str| {
        error.contains("is not a directory")
            && error.contains(daemon.home.join("r").to_str().unwrap())
    };
    assert!(error.is_some_and(named), "{log}");
    kill(pid, None).expect("the plugin lives on");
    std::fs::remove_file(daemon.home.join("r")).unwrap();
    daemon.start_again();
    is_back(&daemon, pid);
}

#[test]
fn a_runtime_directory_that_was_lost_with_its_daemon_leaves_no_plugin_twice() {
    let mut daemon = start();
    let before = daemon.plugin_pid("disks");
    daemon.crash();
    std::fs::remove_dir_all(daemon.home.join("r")).unwrap();
    kill(before, None).expect("the plugin lives on");
    daemon.start_again();
    is_back(&daemon, before);
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
}
