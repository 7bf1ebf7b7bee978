//! A driver that is not ours and not in Rust, supervised by the real binary.

use std::fs;

use longshore_testkit::{interop, peers};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::daemon::Daemon;

/// The pid of the only container, once its plugin is ready.
fn pid(status: &Value) -> Result<i64, String> {
    let plugin = &status["plugins"][0];
    let pid = plugin["containers"][0]["pid"].as_i64();
    match pid {
        Some(pid) if plugin["state"] == "ready" => Ok(pid),
        _ => Err(plugin.to_string()),
    }
}

/// Runs a verb to its end, and gives what it printed.
fn run(daemon: &Daemon, args: &[&str]) -> String {
    let output = daemon.run(args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_go_driver_is_killed_and_brought_back_with_its_volume() {
    let Some(go) = peers::go() else { return };
    let driver = tokio::task::spawn_blocking(move || interop::program(&go, "csi-driver-dir"));
    let driver = driver.await.unwrap();
    let mut daemon = Daemon::new();
    let (volumes, target) = (daemon.root().join("volumes"), daemon.root().join("target"));
    daemon.configure(&format!(
        "[plugins.go]\ntype = \"test.go\"\n[[plugins.go.containers]]\n\
         services = [\"controller\", \"node\"]\ncommand = [{driver:?}, \"-state\", {volumes:?}]\n"
    ));
    daemon.start();
    let status = daemon.until("ready", |status| pid(status).map(drop)).await;
    let before = pid(&status).unwrap();
    let uri = run(&daemon, &["csi", "endpoint", "go"]);
    let target = target.to_str().unwrap();
    let volume = run(&daemon, &["csi", "volume", "create", "go", "kept"]);
    run(
        &daemon,
        &["csi", "volume", "publish", "go", &volume, target],
    );
    fs::write(format!("{target}/file"), "kept").unwrap();

    kill(Pid::from_raw(before.try_into().unwrap()), Signal::SIGKILL).unwrap();
    let another = |status: &Value| match pid(status)? {
        pid if pid == before => Err("the old process".to_owned()),
        _ => Ok(()),
    };
    daemon.until("another process is ready", another).await;
    assert_eq!(run(&daemon, &["csi", "endpoint", "go"]), uri);
    let read = fs::read_to_string(format!("{target}/file")).unwrap();
    run(
        &daemon,
        &["csi", "volume", "unpublish", "go", &volume, target],
    );
    run(&daemon, &["csi", "volume", "delete", "go", &volume]);
    assert_eq!(read, "kept");
    run(&daemon, &["csi", "stop", "go"]);
}
