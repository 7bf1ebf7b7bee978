//! One volume's life by `csi volume`, against the bundled driver in both versions.

use std::os::unix::fs::PermissionsExt as _;

use crate::probe::driver;
use crate::support::{Daemon, Home, hostpath};

#[test]
fn a_volume_lives_through_its_verbs_in_v0_and_v1() {
    let home = Home::new();
    for csi in ["v0", "v1"] {
        let (mut child, endpoint) = driver(&home, csi);
        let volume = |verb: &str, args: &[&str]| {
            let mut line = vec!["csi", "volume", verb, &endpoint];
            line.extend(args);
            home.run(line)
        };
        let created = volume("create", &["scratch", "--size", "1MiB", "--json"])
            .exits(0)
            .json();
        let id = created["volume"]["id"].as_str().unwrap().to_owned();
        assert!(!id.is_empty());
        // The same name is the same volume.
        assert_eq!(
            volume("create", &["scratch", "--size", "1MiB"])
                .exits(0)
                .stdout
                .trim(),
            id
        );
        let listed = volume("list", &["--json"]).exits(0).json();
        assert_eq!(listed["volumes"][0]["id"], id.as_str());
        assert!(volume("list", &[]).exits(0).stdout.contains(&id));

        let (staging, target) = (
            home.join(&format!("{csi}-staging")),
            home.join(&format!("{csi}-target")),
        );
        std::fs::create_dir(&staging).unwrap();
        let (staging, target) = (staging.to_str().unwrap(), target.to_str().unwrap());
        volume("stage", &[&id, staging]).exits(0);
        volume("publish", &[&id, target, "--staging", staging]).exits(0);
        std::fs::write(format!("{target}/file"), "kept").unwrap();
        let stats = volume("stats", &[&id, target]);
        if csi == "v1" {
            assert!(stats.exits(0).stdout.contains("bytes"));
        } else {
            assert!(stats.exits(1).stderr.contains("NodeGetVolumeStats"));
        }
        volume("unpublish", &[&id, target]).exits(0);
        assert!(!std::path::Path::new(target).join("file").exists());
        volume("publish", &[&id, target, "--staging", staging]).exits(0);
        assert_eq!(
            std::fs::read_to_string(format!("{target}/file")).unwrap(),
            "kept"
        );
        volume("unpublish", &[&id, target]).exits(0);
        volume("unstage", &[&id, staging]).exits(0);
        volume("delete", &[&id]).exits(0);
        assert_eq!(volume("list", &[]).exits(0).stdout, "no volumes\n");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_refusal_of_the_driver_is_one_line_with_its_code() {
    let home = Home::new();
    let (mut child, endpoint) = driver(&home, "v1");
    let target = home.join("t");
    let publish = [
        "csi",
        "volume",
        "publish",
        &endpoint,
        "no-such-volume",
        target.to_str().unwrap(),
    ];
    let done = home.run(publish).exits(1);
    assert!(
        done.stderr
            .starts_with("error: NodePublishVolume was answered with "),
        "{done:#?}"
    );
    assert_eq!(done.stderr.lines().count(), 1, "{done:#?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn secrets_come_from_a_file_that_nobody_else_can_read_and_are_never_quoted() {
    let home = Home::new();
    let (mut child, endpoint) = driver(&home, "v1");
    let secrets = home.write("secrets", "user=admin\nhunter2\n");
    let create = |name: &str| {
        let file = secrets.to_str().unwrap();
        home.run([
            "csi",
            "volume",
            "create",
            &endpoint,
            name,
            "--secrets",
            file,
        ])
    };
    std::fs::set_permissions(&secrets, std::fs::Permissions::from_mode(0o644)).unwrap();
    let done = create("a").exits(1);
    assert!(
        done.stderr.contains("mode 0644") && done.stderr.contains("hint: chmod 600"),
        "{done:#?}"
    );
    std::fs::set_permissions(&secrets, std::fs::Permissions::from_mode(0o600)).unwrap();
    let done = create("a").exits(1);
    assert!(
        done.stderr.contains("secrets:2: not KEY=VALUE"),
        "{done:#?}"
    );
    assert!(!done.stderr.contains("hunter2"), "{done:#?}");
    home.write("secrets", "# comment\nuser=admin\n\nkey=a=b\n");
    create("a").exits(0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_volume_of_a_daemons_plugin_is_reached_by_its_name() {
    let home = Home::new();
    let config = hostpath(&home, "disks", "v1");
    let daemon = Daemon::start(home, &config);
    daemon.endpoint("disks");
    let id = daemon
        .run(["csi", "volume", "create", "disks", "scratch"])
        .exits(0)
        .stdout;
    assert!(
        daemon
            .run(["csi", "volume", "list", "disks"])
            .exits(0)
            .stdout
            .contains(id.trim())
    );
    daemon.run(["csi", "volume", "list", "nothing"]).exits(1);
}

#[test]
fn the_deadline_holds_for_finding_the_version_too() {
    let home = Home::new();
    let socket = home.join("mute.sock");
    // It takes connections and says nothing.
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let endpoint = format!("unix://{}", socket.display());
    let line = ["csi", "volume", "list", &endpoint, "--deadline", "200ms"];
    let done = home.run(line).exits(3);
    let none = home.run(["csi", "volume", "list", &endpoint, "--deadline", "0s"]);
    assert!(none.exits(2).stderr.contains("longer than 0s"));
    assert!(!done.stderr.contains("--wait"), "{}", done.stderr);
    // Without the deadline finding the version alone is given up after five seconds.
    let gave_up = done.stderr.contains("gave up after ") && !done.stderr.contains("after 5");
    assert!(gave_up, "{}", done.stderr);
}
