//! `csi hostpath` and `csi probe`, without a daemon.

use std::process::{Child, Stdio};

use crate::support::{Home, eventually};

/// The bundled driver on a bare socket.
pub(crate) fn driver(home: &Home, csi: &str) -> (Child, String) {
    let socket = home.join(&format!("{csi}.sock"));
    let endpoint = format!("unix://{}", socket.display());
    let volumes = home.join(&format!("volumes-{csi}"));
    let child = home
        .command([
            "csi",
            "hostpath",
            "--endpoint",
            &endpoint,
            "--csi",
            csi,
            "--node-id",
            "n1",
        ])
        .arg("--state-dir")
        .arg(volumes)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the driver listens", || socket.exists().then_some(()));
    (child, endpoint)
}

#[test]
fn a_driver_of_either_version_is_probed_by_its_endpoint() {
    let home = Home::new();
    for csi in ["v0", "v1"] {
        let (mut child, endpoint) = driver(&home, csi);
        let done = home
            .run(["csi", "probe", &endpoint, "--wait", "10s"])
            .exits(0);
        assert!(
            done.stdout
                .starts_with(&format!("{endpoint}  ready, CSI {csi}\n")),
            "{done:#?}"
        );
        let json = home
            .run(["csi", "probe", &endpoint, "--json"])
            .exits(0)
            .json();
        assert_eq!(json["api_version"], csi);
        assert_eq!(json["driver"]["node_id"], "n1");
        let bare = home.join(&format!("{csi}.sock"));
        home.run(["csi", "probe", bare.to_str().unwrap()]).exits(0);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn an_endpoint_where_nobody_listens_is_not_ready() {
    let home = Home::new();
    let endpoint = format!("unix://{}/none.sock", home.path().display());
    let done = home.run(["csi", "probe", &endpoint]).exits(3);
    assert!(
        done.stderr.contains("none.sock") && done.stderr.contains("hint: "),
        "{done:#?}"
    );
    let done = home
        .run(["csi", "probe", &endpoint, "--wait", "200ms"])
        .exits(3);
    assert!(done.stderr.contains("none.sock"), "{done:#?}");
}

#[test]
fn an_endpoint_with_two_slashes_is_answered_with_what_was_meant() {
    let done = Home::new()
        .run(["csi", "probe", "unix://csi/csi.sock"])
        .exits(1);
    assert!(done.stderr.contains("unix:///csi/csi.sock"), "{done:#?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:#?}");
}

#[test]
fn a_driver_without_an_endpoint_says_what_it_needs() {
    let done = Home::new().run(["csi", "hostpath"]).exits(2);
    assert!(done.stderr.contains("CSI_ENDPOINT"), "{done:#?}");
}
