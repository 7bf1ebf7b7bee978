//! A CSI plugin registered with a kubelet in Go: k8s.io/kubelet's own API, dialled as kubelet dials.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use longshore_testkit::{interop, peers};
use serde_json::Value;

use crate::daemon::{Daemon, PATIENCE, longshore};

/// A running one; it ends with its standard input.
struct Kubelet {
    child: Child,
    input: ChildStdin,
    events: Receiver<Value>,
}

impl Kubelet {
    fn start(program: &Path, dir: &Path) -> Self {
        let mut child = Command::new(program)
            .arg("-dir")
            .arg(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap();
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let kubelet = Self {
            child,
            input,
            events,
        };
        kubelet.next("ready");
        kubelet
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// The next event that is none of a call that came too late or too early, which kubelet makes again.
    fn next(&self, kind: &str) -> Value {
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            let event = event.unwrap_or_else(|error| panic!("waiting for {kind}: {error}"));
            if event["event"] != "failed" {
                assert_eq!(event["event"], kind, "{event}");
                return event;
            }
            let error = event["error"].as_str().unwrap();
            assert!(!error.contains("PROTOCOL_ERROR"), "{event}");
        }
    }

    /// Until this event, whatever comes before it.
    fn until(&self, kind: &str) -> Value {
        loop {
            let event = self.events.recv_timeout(PATIENCE);
            let event = event.unwrap_or_else(|error| panic!("waiting for {kind}: {error}"));
            if event["event"] == kind {
                return event;
            }
        }
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn registration(status: &Value, state: &str) -> Result<(), String> {
    let kubelet = &status["plugins"][0]["kubelet"];
    if kubelet["state"] == state {
        return Ok(());
    }
    Err(status["plugins"].to_string())
}

/// A daemon with the bundled driver, registered in `dir` or not.
fn configure(daemon: &Daemon, dir: &Path, register: bool) {
    let (program, volumes) = (longshore(), daemon.root().join("volumes"));
    daemon.configure(&format!(
        "[kubelet]\nregister = {register}\nregistration_dir = {dir:?}\n\
         [plugins.disks]\ntype = \"test.disks\"\n[[plugins.disks.containers]]\n\
         services = [\"controller\", \"node\"]\n\
         command = [{program:?}, \"csi\", \"hostpath\", \"--state-dir\", {volumes:?}]\n"
    ));
}

fn run(daemon: &Daemon, args: &[&str]) {
    let output = daemon.run(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test]
async fn a_plugin_is_registered_with_a_go_kubelet_for_as_long_as_it_answers() {
    let Some(go) = peers::go() else { return };
    let program = tokio::task::spawn_blocking(move || interop::program(&go, "kubelet"));
    let program = program.await.unwrap();
    let mut daemon = Daemon::new();
    let dir = daemon.root().join("plugins_registry");
    configure(&daemon, &dir, true);
    daemon.start();
    // No kubelet has been here yet: the directory is missing.
    let status = daemon
        .until("blocked", |status| registration(status, "blocked"))
        .await;
    let reason = text(&status["plugins"][0]["kubelet"]["reason"]);
    assert!(reason.contains("kubelet makes it"), "{reason}");
    assert_eq!(status["ready"], false);

    let mut kubelet = Kubelet::start(&program, &dir);
    let event = kubelet.next("registered");
    let status = daemon
        .until("registered", |status| registration(status, "registered"))
        .await;
    assert_eq!(status["ready"], true);
    let plugin = &status["plugins"][0];
    let socket = PathBuf::from(text(&event["socket"]));
    assert_eq!(text(&event["type"]), "CSIPlugin");
    assert_eq!(event["name"], plugin["driver"]["name"]);
    assert_eq!(event["node"], plugin["driver"]["node_id"]);
    assert_eq!(event["versions"], serde_json::json!(["1.0.0"]));
    let endpoint = format!("unix://{}", text(&event["endpoint"]));
    assert_eq!(plugin["endpoints"][1]["uri"], endpoint.as_str());
    let expected = format!("{}-reg.sock", text(&event["name"]));
    assert_eq!(socket, dir.join(expected));
    let mode = fs::symlink_metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // Stopped: not registered any more. Started: registered anew.
    run(&daemon, &["csi", "stop", "disks"]);
    kubelet.next("gone");
    run(&daemon, &["csi", "start", "disks"]);
    kubelet.next("registered");

    // A kubelet that is started again finds it; one that begins from nothing makes it come again.
    drop(kubelet);
    kubelet = Kubelet::start(&program, &dir);
    kubelet.next("registered");
    drop(kubelet);
    remove(&dir);
    kubelet = Kubelet::start(&program, &dir);
    kubelet.next("registered");

    // Refused: in kubelet's words, and again and again until it is not.
    kubelet.say("refuse no such node");
    fs::remove_file(&socket).unwrap();
    kubelet.until("refused");
    let status = daemon
        .until("refused", |status| registration(status, "refused"))
        .await;
    let told = &status["plugins"][0]["kubelet"];
    assert_eq!(text(&told["reason"]), "no such node");
    let shown = daemon.run(&["status"]).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(
        shown.contains("disks: kubelet: "),
        "the registration is not shown:\n{shown}"
    );
    kubelet.say("accept");
    kubelet.until("registered");
    daemon
        .until("registered", |status| registration(status, "registered"))
        .await;

    // The daemon dies: the plugin lives, and so does its registration. The next one takes both up.
    daemon.kill();
    assert!(socket.exists());
    daemon.start();
    kubelet.until("registered");
    // Ended in peace, it leaves the plugin to kubelet as well.
    let ended = daemon.stop().await;
    assert!(ended.success(), "{ended}");
    assert!(socket.exists());
    daemon.start();
    kubelet.until("registered");

    // Not wanted any more: gone, while the plugin goes on.
    configure(&daemon, &dir, false);
    run(&daemon, &["reload"]);
    kubelet.until("gone");
    let status = daemon
        .until("ready without it", |status| {
            let plugin = &status["plugins"][0];
            if plugin["kubelet"].is_null() && plugin["state"] == "ready" {
                return Ok(());
            }
            Err(plugin.to_string())
        })
        .await;
    assert_eq!(status["ready"], true);

    // Not wanted any more while no daemon runs: the next one takes the socket away.
    configure(&daemon, &dir, true);
    run(&daemon, &["reload"]);
    kubelet.until("registered");
    assert!(daemon.stop().await.success());
    assert!(socket.exists());
    configure(&daemon, &dir, false);
    daemon.start();
    kubelet.until("gone");
    daemon.until("an answer", |_| Ok(())).await;
    run(&daemon, &["csi", "stop", "disks"]);
}

/// A socket may come again while its directory is being removed.
fn remove(dir: &Path) {
    let mut tries = 0..100;
    while let Err(error) = fs::remove_dir_all(dir) {
        assert!(tries.next().is_some(), "{error}");
    }
}
