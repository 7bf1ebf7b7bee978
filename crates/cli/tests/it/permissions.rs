//! What modes and owners forbid; as "nobody" when the tests run as root, who is not forbidden anything.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

use crate::support::{Daemon, Home};

#[test]
fn a_state_directory_that_cannot_be_made_is_named_with_its_key() {
    let home = Home::of_nobody().unwrap_or_else(Home::new);
    let locked = home.join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o555)).unwrap();
    let config = home.write("c.toml", format!("state_dir = {:?}\n", locked.join("s")));
    let mut command = home.command(["daemon", "-c", config.to_str().unwrap()]);
    let done: crate::support::Done = command
        .env_remove("LONGSHORE_STATE_DIR")
        .output()
        .unwrap()
        .into();
    let done = done.exits(1);
    let error = done
        .stderr
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap();
    assert!(
        error.contains("locked/s") && error.contains("state_dir"),
        "{error}"
    );
    assert!(error.contains("Permission denied"), "{error}");
}

#[test]
fn a_state_directory_that_others_can_write_to_is_refused() {
    let home = Home::new();
    let state = home.join("s");
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o770)).unwrap();
    let config = home.write("c.toml", "");
    let done = home
        .run(["daemon", "-c", config.to_str().unwrap()])
        .exits(1);
    assert!(
        done.stderr.contains("can be written by others (mode 0770)"),
        "{done:#?}"
    );
    assert_eq!(std::fs::read_dir(&state).unwrap().count(), 0);
}

#[test]
fn the_control_socket_is_for_root_and_the_daemons_user_alone() {
    let daemon = Daemon::start(Home::new(), "");
    let mode = |path: &str| {
        std::fs::metadata(daemon.home.join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(mode("r/control"), 0o700);
    assert_eq!(mode("r/control/control.sock"), 0o600);
    assert_eq!(mode("s"), 0o700);
    let Some(nobody) = Home::of_nobody() else {
        return;
    };
    // Even when the modes let them in, the peer's uid does not.
    for (path, mode) in [
        ("r", 0o755),
        ("r/control", 0o755),
        ("r/control/control.sock", 0o666),
    ] {
        let path = daemon.home.join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(daemon.home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = nobody.command(["status"]);
    let done: crate::support::Done = command
        .env("LONGSHORE_RUNTIME_DIR", daemon.home.join("r"))
        .output()
        .unwrap()
        .into();
    assert_eq!(done.code, 1, "{done:#?}");
    assert!(done.stderr.starts_with("error: "), "{done:#?}");
    assert_eq!(done.stdout, "");
}

/// A group that every Debian has, and `nobody` is not in.
const GROUP: (&str, &str) = ("games", "60");

#[test]
fn members_of_the_control_group_are_let_in_and_nobody_else() {
    let Some(nobody) = Home::of_nobody() else {
        return;
    };
    let known = nix::unistd::Group::from_name(GROUP.0).unwrap();
    assert_eq!(known.unwrap().gid.to_string(), GROUP.1);
    let daemon = Daemon::start(Home::new(), &format!("control_group = {:?}\n", GROUP.0));
    for (path, mode) in [("r/control", 0o750), ("r/control/control.sock", 0o660)] {
        let found = std::fs::metadata(daemon.home.join(path)).unwrap();
        assert_eq!(found.permissions().mode() & 0o7777, mode, "{path}");
        assert_eq!(
            (found.uid(), found.gid().to_string()),
            (0, GROUP.1.to_owned())
        );
    }
    std::fs::set_permissions(daemon.home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let status = |flags: &[&str]| -> crate::support::Done {
        let program = nobody.command(["status"]).get_program().to_owned();
        let mut command = nobody.command_of("setpriv", flags);
        command
            .uid(0)
            .gid(0)
            .arg("--reuid=65534")
            .arg(program)
            .arg("status")
            .env("LONGSHORE_RUNTIME_DIR", daemon.home.join("r"));
        command.output().unwrap().into()
    };
    let as_supplementary = format!("--groups={}", GROUP.1);
    let as_primary = format!("--regid={}", GROUP.1);
    for flags in [
        ["--regid=65534", &as_supplementary],
        [as_primary.as_str(), "--clear-groups"],
    ] {
        assert!(!status(&flags).exits(0).stdout.is_empty());
    }
    // Even when the modes let them in, others are not.
    for (path, mode) in [("r/control", 0o755), ("r/control/control.sock", 0o666)] {
        let path = daemon.home.join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let done = status(&["--regid=65534", "--clear-groups"]);
    assert_eq!((done.code, done.stdout.as_str()), (1, ""), "{done:#?}");
}

#[test]
fn a_control_group_that_is_not_there_is_named() {
    let home = Home::new();
    let config = home.write("c.toml", "control_group = \"no-such-group\"\n");
    let done = home
        .run(["config", "check", "-c", config.to_str().unwrap()])
        .exits(78);
    for part in ["c.toml:1", "control_group", "no-such-group", "groupadd"] {
        // Whoever is not root is told that it is for root.
        let told = done.stderr.contains(part) || !nix::unistd::geteuid().is_root();
        assert!(told, "{part}: {done:#?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let home = Home::of_nobody().unwrap_or_else(Home::new);
    let config = home.write("c.toml", "");
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o000)).unwrap();
    let done = home
        .run(["config", "check", "-c", config.to_str().unwrap()])
        .exits(78);
    assert!(
        done.stderr.contains("cannot read") && done.stderr.contains("c.toml"),
        "{done:#?}"
    );
}

#[test]
fn a_runtime_directory_too_long_for_a_socket_is_refused() {
    let home = Home::new();
    let long = home.join(&"r".repeat(100));
    let config = home.write("c.toml", "");
    let mut command = home.command(["daemon", "-c", config.to_str().unwrap()]);
    let done: crate::support::Done = command
        .env("LONGSHORE_RUNTIME_DIR", &long)
        .output()
        .unwrap()
        .into();
    let done = done.exits(78);
    assert!(
        done.stderr.contains("107") && done.stderr.contains("$LONGSHORE_RUNTIME_DIR"),
        "{done:#?}"
    );
    assert!(
        !long.exists() && !home.join("s").exists(),
        "nothing is made"
    );
}

#[test]
fn a_link_planted_where_the_control_socket_goes_is_refused() {
    let home = Home::new();
    let elsewhere = home.join("elsewhere");
    for dir in [&elsewhere, &home.join("r")] {
        std::fs::create_dir(dir).unwrap();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::symlink(&elsewhere, home.join("r/control")).unwrap();
    let config = home.write("c.toml", "");
    let done = home
        .run(["daemon", "-c", config.to_str().unwrap()])
        .exits(1);
    assert!(
        done.stderr.contains("r/control is a symbolic link"),
        "{done:#?}"
    );
    let found = std::fs::metadata(&elsewhere).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o755);
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}
