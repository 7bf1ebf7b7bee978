use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

/// Trusts the own user from a directory on, as [`Judge::new`] does from `/`.
pub(in crate::launch) fn judge_below(anchor: &Path) -> Judge {
    Judge {
        owners: Some(vec![0, geteuid().as_raw()]),
        anchor: anchor.to_owned(),
    }
}

pub(in crate::launch) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory that only we can write, whatever the umask is.
fn root() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    for directory in ["a", "a/b", "c"] {
        fs::create_dir(path.join(directory)).unwrap();
        chmod(&path.join(directory), 0o755);
    }
    for file in ["a/b/plugin", "c/plugin"] {
        fs::write(path.join(file), "#!/bin/sh\n").unwrap();
        chmod(&path.join(file), 0o755);
    }
    (dir, path)
}

fn distrusted(judge: &Judge, path: &Path) -> Option<(PathBuf, Changer)> {
    match judge.look(path) {
        Ok(_) => None,
        Err(LaunchError::Untrusted { distrust, .. }) => Some((distrust.path, distrust.who)),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn files_and_every_directory_on_the_way_are_judged() {
    let (_dir, root) = root();
    let judge = judge_below(&root);
    let plugin = root.join("a/b/plugin");
    assert_eq!(distrusted(&judge, &plugin), None);
    for (changed, mode, good) in [
        ("a/b/plugin", 0o775, 0o755),
        ("a/b/plugin", 0o757, 0o755),
        ("a/b", 0o775, 0o755),
        ("a", 0o777, 0o755),
        ("a", 0o1777, 0o755),
    ] {
        chmod(&root.join(changed), mode);
        assert_eq!(
            distrusted(&judge, &plugin),
            Some((root.join(changed), Changer::Writers { mode })),
        );
        chmod(&root.join(changed), good);
    }
    chmod(&root.join("c"), 0o777);
    assert_eq!(distrusted(&judge, &plugin), None, "not on the way");
    assert_eq!(
        distrusted(&judge, &root.join("c/../a/b/plugin")),
        Some((root.join("c"), Changer::Writers { mode: 0o777 })),
        "on the way and back"
    );
}

#[test]
fn a_file_of_another_owner_is_not_used() {
    let (_dir, root) = root();
    let uid = geteuid().as_raw();
    let judge = Judge {
        owners: Some(vec![uid + 1]),
        anchor: root.clone(),
    };
    assert_eq!(
        distrusted(&judge, &root.join("a/b/plugin")),
        Some((root, Changer::Owner { uid }))
    );
}

#[test]
fn a_link_is_judged_by_its_target_and_the_way_to_it() {
    let (_dir, root) = root();
    let judge = judge_below(&root);
    for (link, target) in [
        ("a/absolute", root.join("c/plugin")),
        ("a/relative", PathBuf::from("../c/plugin")),
        ("a/twice", PathBuf::from("relative")),
        ("a/directory", root.join("c")),
    ] {
        symlink(&target, root.join(link)).unwrap();
    }
    let links = ["a/absolute", "a/relative", "a/twice", "a/directory/plugin"];
    let judged = |expected: Option<(PathBuf, Changer)>| {
        for link in links {
            assert_eq!(distrusted(&judge, &root.join(link)), expected, "{link}");
        }
    };
    judged(None);
    chmod(&root.join("c/plugin"), 0o777);
    judged(Some((
        root.join("c/plugin"),
        Changer::Writers { mode: 0o777 },
    )));
    chmod(&root.join("c"), 0o777);
    judged(Some((root.join("c"), Changer::Writers { mode: 0o777 })));
}

#[test]
fn links_in_a_circle_and_endless_paths_end() {
    let (_dir, root) = root();
    symlink("circle", root.join("a/circle")).unwrap();
    let long = root.join("a/..".repeat(2000).replace("..a", "../a"));
    for path in [root.join("a/circle"), long] {
        let error = judge_below(&root).look(&path).unwrap_err();
        assert!(matches!(error, LaunchError::Look { .. }), "{error}");
    }
}

#[test]
fn from_the_root_on_a_place_that_anybody_can_write_is_not_trusted() {
    let (_dir, root) = root();
    let judge = Judge::new(false);
    let top = root.join("a/b/plugin");
    // Where temporary files lie in a place of the own user, which is fine, there is nothing to see.
    let open = top
        .ancestors()
        .any(|path| fs::metadata(path).unwrap().mode() & 0o022 != 0);
    assert_eq!(distrusted(&judge, &top).is_some(), open);
    assert!(Judge::new(true).look(&top).is_ok());
}
