use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use super::*;

fn rig() -> (tempfile::TempDir, SocketDir) {
    let root = tempfile::tempdir().unwrap();
    let runtime = RuntimeDir::new(root.path().join("run"));
    let dir = SocketDir::new(&runtime, "ab12cd34", Owner::of(None).unwrap());
    (root, dir)
}

#[test]
fn prepares_a_private_directory_without_a_stale_socket() {
    let (_root, dir) = rig();
    dir.prepare().unwrap();
    let meta = fs::symlink_metadata(dir.path()).unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o700);
    let stale = UnixListener::bind(dir.socket()).unwrap();
    drop(stale);
    dir.prepare().unwrap();
    assert!(!dir.socket().exists());
    assert!(dir.check().unwrap());
    fs::write(dir.path().join("lock"), "").unwrap();
    dir.remove().unwrap();
    assert!(!dir.path().exists() && !dir.check().unwrap());
}

#[test]
fn pa4_a_path_that_is_too_long_is_refused_with_nothing_left_behind() {
    let root = tempfile::tempdir().unwrap();
    let runtime = RuntimeDir::new(root.path().join("r".repeat(100)));
    let dir = SocketDir::new(&runtime, "ab12cd34", Owner::of(None).unwrap());
    for _ in 0..2 {
        assert!(matches!(dir.prepare(), Err(SocketError::Path(_))));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_planted_link_is_never_followed() {
    let (root, dir) = rig();
    dir.prepare().unwrap();
    // In the place of the socket: the link goes, what it points to stays.
    let precious = root.path().join("precious");
    fs::write(&precious, "data").unwrap();
    symlink(&precious, dir.socket()).unwrap();
    dir.prepare().unwrap();
    assert!(fs::symlink_metadata(dir.socket()).is_err());
    symlink(&precious, dir.socket()).unwrap();
    dir.remove_socket().unwrap();
    assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
    // In the place of the directory: refused, and nothing is deleted.
    let elsewhere = root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("csi.sock"), "data").unwrap();
    fs::remove_dir(dir.path()).unwrap();
    symlink(&elsewhere, dir.path()).unwrap();
    for result in [
        dir.prepare(),
        dir.remove_socket(),
        dir.remove(),
        dir.check().map(|_| ()),
    ] {
        assert!(
            matches!(result, Err(SocketError::Planted { .. })),
            "{result:?}"
        );
    }
    assert!(elsewhere.join("csi.sock").exists());
}

#[test]
fn a_directory_with_another_mode_is_refused() {
    let (_root, dir) = rig();
    dir.prepare().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let error = dir.prepare().unwrap_err().to_string();
    assert!(error.contains("with mode 755, expected"), "{error}");
    // A parent that others can write to is no safe place either.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let parent = dir.path().parent().unwrap().to_owned();
    fs::set_permissions(&parent, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(dir.check(), Err(SocketError::Planted { .. })));
}

#[test]
fn the_directory_belongs_to_the_containers_user() {
    let (root, _) = rig();
    let runtime = RuntimeDir::new(root.path().join("run"));
    let owner = Owner {
        uid: Uid::from_raw(65_534),
        gid: None,
    };
    let dir = SocketDir::new(&runtime, "ab12cd34", owner);
    if !geteuid().is_root() {
        assert!(dir.prepare().is_err(), "only root can hand it over");
        return;
    }
    dir.prepare().unwrap();
    assert_eq!(fs::symlink_metadata(dir.path()).unwrap().uid(), 65_534);
    dir.prepare().unwrap();
    // For another user it is somebody else's.
    let other = SocketDir::new(&runtime, "ab12cd34", Owner::of(None).unwrap());
    assert!(matches!(other.prepare(), Err(SocketError::Planted { .. })));
    dir.remove().unwrap();
}

#[test]
fn an_unknown_user_is_named() {
    let error = Owner::of(Some("no-such-user")).unwrap_err().to_string();
    assert!(error.contains("no-such-user"), "{error}");
    assert_eq!(Owner::of(Some("65534")).unwrap().uid, Uid::from_raw(65_534));
}
