//! PA4: socket paths fit, or are refused before anything is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longshore_paths::{
    ContainerId, InstanceId, PathsError, RuntimeDir, SUN_PATH_MAX, check_socket_path, short_id,
};
use proptest::prelude::*;

use crate::container;

fn instance(value: u64) -> InstanceId {
    InstanceId::from_bytes(value.to_be_bytes())
}

#[test]
fn pa4_a_socket_path_over_107_bytes_is_refused_each_time() {
    let short = short_id(&instance(1), &container("c"));
    let dir = RuntimeDir::new(format!("/{}", "d".repeat(99)));
    let socket = dir.csi_socket(&short);
    assert!(socket.as_os_str().len() > SUN_PATH_MAX);
    let expected = format!(
        "the socket path {} is 130 bytes long, at most 107 fit: choose a shorter runtime_dir",
        socket.display()
    );
    for _ in 0..2 {
        assert_eq!(
            check_socket_path(&socket).unwrap_err().to_string(),
            expected
        );
    }
    assert!(!dir.path().exists());
}

#[test]
fn pa4_the_border_is_107_bytes_and_the_kernel_agrees() {
    let root = tempfile::tempdir().unwrap();
    let padding = SUN_PATH_MAX - root.path().as_os_str().len() - 1;
    let fits = root.path().join("s".repeat(padding));
    check_socket_path(&fits).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&fits).unwrap());
    let long = root.path().join("s".repeat(padding + 1));
    check_socket_path(&long).unwrap_err();
    std::os::unix::net::UnixListener::bind(&long).unwrap_err();
    let error = check_socket_path(Path::new("/a\0b")).unwrap_err();
    assert!(matches!(error, PathsError::SocketPathNul { .. }), "{error}");
}

#[test]
fn short_ids_stay_the_same_in_every_release() {
    let id = container("longshore-0123456789abcdef-csi-org-example-nfs--NODE_SERVICE");
    assert_eq!(short_id(&instance(0x0123_4567_89AB_CDEF), &id), SHORT);
}

const SHORT: &str = "pq7hc3q7b5zvyvqx";

#[test]
fn short_ids_differ_by_instance_and_by_container() {
    let mut seen = BTreeSet::new();
    for nth in 0..40u64 {
        for value in 0..40 {
            let short = short_id(&instance(nth), &container(&format!("c{value}")));
            assert!(short.len() == 16 && short.bytes().all(|b| b.is_ascii_alphanumeric()));
            seen.insert(short);
        }
    }
    assert_eq!(seen.len(), 1600);
}

proptest! {
    /// With the default runtime directories a plugin's socket always fits, whatever its ids.
    #[test]
    fn pa4_sockets_fit_below_the_default_runtime_directories(value in "[a-z]{1,242}", uid: u32) {
        let id = ContainerId::new(value).unwrap();
        for dir in [PathBuf::from("/run/longshore"), format!("/run/user/{uid}/longshore").into()] {
            check_socket_path(&RuntimeDir::new(dir).csi_socket(&short_id(&instance(7), &id))).unwrap();
        }
    }
}
