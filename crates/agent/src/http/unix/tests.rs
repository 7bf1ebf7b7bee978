use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;

use super::*;

fn private_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

#[test]
fn the_socket_has_mode_0600_in_a_directory_made_with_0700() {
    let dir = private_dir();
    let path = dir.path().join("run").join("agent.sock");
    let bound = bind(&path, None).unwrap();
    let socket = fs::symlink_metadata(&path).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!(socket.mode() & 0o7777, 0o600);
    assert_eq!(
        fs::metadata(dir.path().join("run")).unwrap().mode() & 0o7777,
        0o700
    );
    UnixStream::connect(&path).unwrap();
    drop(bound.file);
    assert!(!path.exists());
}

#[test]
fn the_socket_file_of_a_dead_server_is_replaced() {
    let dir = private_dir();
    let path = dir.path().join("agent.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let bound = bind(&path, None).unwrap();
    UnixStream::connect(&path).unwrap();
    drop(bound);
}

#[test]
fn a_live_server_is_not_replaced() {
    let dir = private_dir();
    let path = dir.path().join("agent.sock");
    let first = bind(&path, None).unwrap();
    let inode = fs::metadata(&path).unwrap().ino();
    assert!(matches!(
        bind(&path, None),
        Err(HttpError::SocketInUse { .. })
    ));
    assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    drop(first);
}

#[test]
fn what_was_planted_at_the_path_is_refused_and_left_alone() {
    let dir = private_dir();
    let target = dir.path().join("target");
    fs::write(&target, "mine").unwrap();
    let path = dir.path().join("agent.sock");
    symlink(&target, &path).unwrap();
    let error = bind(&path, None).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    fs::remove_file(&path).unwrap();
    symlink(dir.path().join("nowhere"), &path).unwrap();
    assert!(matches!(
        bind(&path, None),
        Err(HttpError::NotASocket { .. })
    ));
    fs::remove_file(&path).unwrap();
    fs::write(&path, "a file").unwrap();
    assert!(matches!(
        bind(&path, None),
        Err(HttpError::NotASocket {
            kind: "regular file",
            ..
        })
    ));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(
        bind(&path, None),
        Err(HttpError::NotASocket {
            kind: "directory",
            ..
        })
    ));
    assert_eq!(fs::read(&target).unwrap(), b"mine");
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let dir = private_dir();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    for mode in [0o755, 0o711, 0o770, 0o701] {
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        let error = bind(&open.join("agent.sock"), None).unwrap_err();
        assert!(
            error.to_string().contains(&format!("mode {mode:04o}")),
            "{error}"
        );
    }
    let link = dir.path().join("link");
    symlink(dir.path(), &link).unwrap();
    let error = bind(&link.join("agent.sock"), None).unwrap_err();
    assert!(error.to_string().contains("is a link"), "{error}");
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !geteuid().is_root() {
        // Only root can make one; without it this user's view of `/` (uid 0) is refused the same way.
        let error = bind(Path::new("/agent.sock"), None).unwrap_err();
        assert!(
            matches!(error, HttpError::SocketDirectoryOpen { .. }),
            "{error}"
        );
        return;
    }
    let dir = private_dir();
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
    let error = bind(&theirs.join("agent.sock"), None).unwrap_err();
    assert!(error.to_string().contains("uid 65534"), "{error}");
}

#[test]
fn a_path_that_cannot_be_bound_is_refused_with_nothing_left_behind() {
    let dir = private_dir();
    let long = dir.path().join("d").join("x".repeat(120));
    assert!(matches!(
        bind(&long, None),
        Err(HttpError::SocketPath { .. })
    ));
    assert!(!dir.path().join("d").exists());
    assert!(matches!(
        bind(Path::new("agent.sock"), None),
        Err(HttpError::SocketPath { .. })
    ));
    assert!(matches!(
        bind(Path::new("/"), None),
        Err(HttpError::SocketPath { .. })
    ));
}

#[test]
fn a_locked_directory_is_said_to_be_one_where_somebody_starts() {
    let dir = private_dir();
    let handle = fs::File::open(dir.path()).unwrap();
    let lock = Flock::lock(handle, FlockArg::LockExclusive).unwrap();
    let path = dir.path().join("agent.sock");
    assert!(matches!(
        bind(&path, None),
        Err(HttpError::SocketStarting { .. })
    ));
    drop(lock);
    bind(&path, None).unwrap();
}

#[test]
fn only_the_own_file_is_removed() {
    let dir = private_dir();
    let path = dir.path().join("agent.sock");
    let first = bind(&path, None).unwrap();
    fs::remove_file(&path).unwrap();
    let second = bind(&path, None).unwrap();
    drop(first.file);
    assert!(path.exists());
    drop(second);
}

#[test]
fn root_and_the_own_user_are_welcome() {
    assert!(peer_is_welcome(0));
    assert!(peer_is_welcome(geteuid().as_raw()));
    assert!(!peer_is_welcome(65_533));
}
