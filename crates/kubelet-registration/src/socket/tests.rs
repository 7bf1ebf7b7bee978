use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{UnixDatagram, UnixStream};

use super::*;

fn dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// The words of the refusal.
fn refused(path: &Path) -> String {
    Own::bind(path).unwrap_err().to_string()
}

#[test]
fn it_is_made_for_its_owner_alone_and_removed_again() {
    let dir = dir();
    let path = dir.path().join("d-reg.sock");
    let (own, listener) = Own::bind(&path).unwrap();
    let mode = fs::symlink_metadata(&path).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(own.is_there());
    UnixStream::connect(&path).unwrap();
    // While it answers, nobody takes it: not we either.
    assert!(refused(&path).contains("somebody else listens on"));
    own.remove();
    assert!(!path.exists());
    drop(listener);
}

#[test]
fn a_dead_socket_is_replaced() {
    let dir = dir();
    let path = dir.path().join("d-reg.sock");
    drop(UnixListener::bind(&path).unwrap());
    let (own, _listener) = Own::bind(&path).unwrap();
    assert!(own.is_there());
}

#[test]
fn what_is_no_dead_socket_is_left_alone() {
    let dir = dir();
    let elsewhere = dir.path().join("elsewhere");
    let named = |name: &str| dir.path().join(name);

    let _listener = UnixListener::bind(&elsewhere).unwrap();
    symlink(&elsewhere, named("link")).unwrap();
    symlink(named("nowhere"), named("dangling")).unwrap();
    fs::write(named("file"), "kept").unwrap();
    fs::create_dir(named("dir")).unwrap();
    let _datagram = UnixDatagram::bind(named("datagram")).unwrap();
    for (name, words) in [
        ("link", "is a symbolic link"),
        ("dangling", "is a symbolic link"),
        ("file", "is a file"),
        ("dir", "is a directory"),
        ("datagram", "somebody else listens"),
        ("elsewhere", "somebody else listens"),
    ] {
        let refused = refused(&named(name));
        assert!(refused.contains(words), "{name}: {refused}");
        assert!(fs::symlink_metadata(named(name)).is_ok(), "{name} is gone");
    }
    assert!(!named("nowhere").exists());
    assert_eq!(fs::read_to_string(named("file")).unwrap(), "kept");
}

#[test]
fn another_file_in_its_place_is_not_removed() {
    let dir = dir();
    let path = dir.path().join("d-reg.sock");
    let (own, _listener) = Own::bind(&path).unwrap();
    // Beside ours first, so that it is another inode for sure.
    let other = UnixListener::bind(dir.path().join("other")).unwrap();
    fs::remove_file(&path).unwrap();
    fs::hard_link(dir.path().join("other"), &path).unwrap();
    assert!(!own.is_there());
    own.remove();
    UnixStream::connect(&path).unwrap();
    drop(other);
}

#[test]
fn only_a_directory_that_others_cannot_write_will_do() {
    let dir = dir();
    let socket = |dir: &str| Path::new(dir).join("d-reg.sock");
    let missing = dir.path().join("missing/d-reg.sock");
    assert!(refused(&missing).contains("kubelet makes it"));
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    symlink(&real, dir.path().join("link")).unwrap();
    assert!(refused(&dir.path().join("link/d-reg.sock")).contains("a symbolic link"));
    for (mode, fine) in [
        (0o755, true),
        (0o700, true),
        (0o775, false),
        (0o1777, false),
    ] {
        fs::set_permissions(&real, fs::Permissions::from_mode(mode)).unwrap();
        match Own::bind(&socket(real.to_str().unwrap())) {
            Ok((own, _)) => {
                assert!(fine, "{mode:o}");
                own.remove();
            }
            Err(error) => {
                assert!(!fine, "{mode:o}: {error}");
                assert!(error.to_string().contains("may be written by others"));
            }
        }
    }
}
