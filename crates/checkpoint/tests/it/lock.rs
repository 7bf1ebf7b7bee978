//! One writer a root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use longshore_checkpoint::{CheckpointError, RootLock};

#[test]
fn a_second_holder_is_refused_and_told_who_holds_it() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state/lock");
    let lock = RootLock::acquire(&path).unwrap();
    let error = RootLock::acquire(&path).unwrap_err();
    let expected = format!(
        "{} is locked by process {}: stop it first, or use another state directory",
        path.display(),
        std::process::id()
    );
    assert_eq!(error.to_string(), expected);
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!((lock.path(), mode), (path.as_path(), 0o600));
    drop(lock);
    let lock = RootLock::acquire(&path).unwrap();
    assert!(lock.is_in_place());
    fs::remove_file(&path).unwrap();
    assert!(!lock.is_in_place());
}

#[test]
fn a_holder_that_wrote_no_id_is_another_process() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    let _lock = RootLock::acquire(&path).unwrap();
    fs::write(&path, "not a number, and rather long").unwrap();
    let error = RootLock::acquire(&path).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Locked { holder: None, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("is locked by another process: "));
}

#[test]
fn a_stale_file_without_holder_is_no_lock() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lock");
    fs::write(&path, "4194304999\n").unwrap();
    let lock = RootLock::acquire(&path).unwrap();
    assert_eq!(
        fs::read_to_string(lock.path()).unwrap(),
        format!("{}\n", std::process::id())
    );
}

#[test]
fn a_planted_link_or_directory_is_no_lock_file() {
    let root = tempfile::tempdir().unwrap();
    let victim = root.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, root.path().join("link")).unwrap();
    fs::create_dir(root.path().join("dir")).unwrap();
    for name in ["link", "dir"] {
        let error = RootLock::acquire(root.path().join(name)).unwrap_err();
        assert!(matches!(error, CheckpointError::NotAFile { .. }), "{error}");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
