//! The state root and the runtime directory.

use std::path::Path;

use longshore_paths::{ContainerId, RuntimeDir, StateRoot};
use proptest::prelude::*;

use crate::container;

#[test]
fn the_state_root_has_a_place_for_everything() {
    let root = StateRoot::new("/s");
    let nested = ContainerId::nested(&container("a"), "b").unwrap();
    for (found, expected) in [
        (root.csi().path().to_owned(), "/s/csi"),
        (root.lock_file(), "/s/lock"),
        (root.instance_file(), "/s/instance"),
        (root.history_dir(), "/s/history"),
        (root.agent_dir(), "/s/agent"),
        (root.sandbox(&container("a")), "/s/agent/containers/a"),
        (root.sandbox(&nested), "/s/agent/containers/a/containers/b"),
    ] {
        assert_eq!(found, Path::new(expected));
    }
    assert_eq!(root.path(), Path::new("/s"));
}

#[test]
fn the_runtime_directory_has_a_place_for_everything() {
    let dir = RuntimeDir::new("/r");
    let nested = ContainerId::nested(&container("a"), "b").unwrap();
    for (found, expected) in [
        (dir.control_dir(), "/r/control"),
        (dir.control_socket(), "/r/control/control.sock"),
        (dir.agent_dir(), "/r/agent"),
        (dir.agent_socket(), "/r/agent/agent.sock"),
        (dir.agent_containers_dir(), "/r/agent/containers"),
        (
            dir.container_run_dir(&container("a")),
            "/r/agent/containers/a/run",
        ),
        (
            dir.container_run_dir(&nested),
            "/r/agent/containers/a/containers/b/run",
        ),
        (dir.csi_socket_dir("abc"), "/r/csi/abc"),
        (dir.csi_socket("abc"), "/r/csi/abc/csi.sock"),
    ] {
        assert_eq!(found, Path::new(expected));
    }
    assert_eq!(dir.path(), Path::new("/r"));
}

#[test]
fn what_is_no_run_directory_is_refused() {
    let dir = RuntimeDir::new("/r");
    for (path, expected) in [
        ("/s/agent/containers/a/run", "is not below /r/agent"),
        ("/r/agent/containers/a", "does not have the form"),
        ("/r/agent/run", "does not have the form"),
        ("/r/agent/containers/a/run/x", "does not have the form"),
        ("/r/agent/containers/a/b/run", "does not have the form"),
        ("/r/agent/containers/../run", "does not have the form"),
        (
            "/r/agent/containers/a b/run",
            "the container id \"a b\" contains ' '",
        ),
    ] {
        let error = dir
            .parse_container_run_dir(Path::new(path))
            .unwrap_err()
            .to_string();
        assert!(error.contains(path) && error.contains(expected), "{error}");
    }
}

proptest! {
    /// `run` and `containers` are container ids like any other.
    #[test]
    fn run_directories_come_back(values in proptest::collection::vec("run|containers|[a-z]{1,5}", 1..6)) {
        let dir = RuntimeDir::new("/r");
        let id: ContainerId = values.join(".").parse().unwrap();
        prop_assert_eq!(dir.parse_container_run_dir(&dir.container_run_dir(&id)).unwrap(), id);
    }
}
