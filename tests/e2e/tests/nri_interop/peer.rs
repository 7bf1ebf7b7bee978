//! The Go programs, started.

use std::path::{Path, PathBuf};

use longshore_testkit::lines::LinePeer;
use longshore_testkit::{interop, peers};
use serde_json::{Value, json};

/// Builds one of the Go programs; `None` is a named skip.
pub(crate) async fn program(name: &'static str) -> Option<PathBuf> {
    let go = peers::go()?;
    let built = tokio::task::spawn_blocking(move || interop::program(&go, name)).await;
    Some(built.unwrap())
}

/// A plugin on the Go stub that connects to `socket`; has not registered yet.
pub(crate) fn plugin(program: &Path, socket: &Path, id: &str, spec: &Value) -> LinePeer {
    let (index, name) = id.split_once('-').unwrap();
    let (socket, spec) = (socket.to_str().unwrap(), spec.to_string());
    let arguments = [
        "-socket", socket, "-index", index, "-name", name, "-spec", &spec,
    ];
    LinePeer::start(program, arguments)
}

/// A runtime on the Go adaptation that listens on `socket`.
pub(crate) async fn runtime(program: &Path, socket: &Path, more: &[&str]) -> LinePeer {
    let arguments = [&["-socket", socket.to_str().unwrap()], more].concat();
    let mut runtime = LinePeer::start(program, arguments);
    runtime.event("started").await;
    runtime
}

/// Waits until the runtime has so many plugins.
pub(crate) async fn until_plugins(runtime: &mut LinePeer, count: usize) {
    runtime.done(&json!({"op": "wait", "plugins": count})).await;
}

/// As [`until_plugins`], of a runtime that notices what is gone with its next request.
pub(crate) async fn until_plugins_after(runtime: &mut LinePeer, count: usize) {
    for _ in 0..600 {
        let event = json!({"op": "StopPodSandbox", "pod": {"id": "none"}});
        runtime.done(&event).await;
        let counted = runtime.ask(&json!({"op": "count"})).await;
        if counted["plugins"] == count {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("not {count} plugins; {}", runtime.story());
}
