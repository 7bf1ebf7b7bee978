//! csi-sanity of kubernetes-csi/csi-test against the v1 mode.

use std::process::Command;

use longshore_csi_hostpath::{Mode, PublishBy};
use longshore_testkit::{interop, peers};

use crate::Rig;

async fn sanity(by: PublishBy) {
    let Some(go) = peers::go() else { return };
    let mut rig = Rig::new(Mode::V1, by);
    rig.start().await;
    let (endpoint, dir) = (rig.options.endpoint.to_string(), rig.make_dir("sanity"));
    let run = tokio::task::spawn_blocking(move || {
        Command::new(interop::program(&go, "csi-sanity"))
            .args(["-endpoint", &endpoint, "-dir", &dir, "-ginkgo.no-color"])
            .output()
            .unwrap()
    });
    let output = run.await.unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{report}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // "Ran 47 of 92 Specs": it is not green because it skipped all.
    let ran = report
        .split("Ran ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    assert!(
        ran.and_then(|n| n.parse::<u32>().ok()) > Some(30),
        "{report}"
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn csi_sanity_is_green_with_bind_mounts() {
    if peers::root().is_some() {
        sanity(PublishBy::BindMount).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csi_sanity_is_green_with_links() {
    sanity(PublishBy::SymbolicLink).await;
}
