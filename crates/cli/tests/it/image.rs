//! A plugin that ships as an image, on a real Docker: kept running like any other.

use std::os::unix::fs::symlink;
use std::process::Command;

use longshore_testkit::peers::{self, TEST_IMAGE};
use nix::sys::signal::{Signal, kill};

use crate::support::{Daemon, Home, LONGSHORE, eventually};

/// The bundled driver in the test image, which lacks its libraries: those of the host are mounted.
pub(crate) fn config(home: &Home, engine: &str) -> String {
    let program = home.program.canonicalize().unwrap();
    let beside = program.parent().unwrap();
    let volumes = home.join("volumes");
    let library = |name: &str| std::fs::canonicalize(name).unwrap_or_else(|_| "/usr".into());
    let (lib, lib64) = (library("/lib"), library("/lib64"));
    format!(
        "[tasks]\nengine = {engine:?}\n\n\
         [plugins.disks]\ntype = \"test.disks\"\nkill_grace = \"2s\"\n\n\
         [[plugins.disks.containers]]\nservices = [\"controller\", \"node\"]\nimage = {TEST_IMAGE:?}\n\
         command = [{program:?}, \"csi\", \"hostpath\", \"--state-dir\", \"/volumes\", \"--csi\", \"v1\"]\n\
         volumes = [\n\
         \x20 {{ host = {beside:?}, container = {beside:?}, mode = \"ro\" }},\n\
         \x20 {{ host = {lib:?}, container = \"/lib\", mode = \"ro\" }},\n\
         \x20 {{ host = {lib64:?}, container = \"/lib64\", mode = \"ro\" }},\n\
         \x20 {{ host = {volumes:?}, container = \"/volumes\", mode = \"rw\" }},\n\
         ]\n"
    )
}

/// The ids of this home's containers in the engine.
fn in_engine(home: &Home, engine: &str) -> Vec<String> {
    let docker = home.join("docker");
    if !docker.exists() {
        symlink(LONGSHORE, &docker).unwrap();
    }
    let records = home.join("s/agent/images");
    let label = format!("label=dev.longshore.root={}", records.display());
    let listed = Command::new(docker)
        .args(["-H", engine, "ps", "-a", "-q", "--filter", &label])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let text = String::from_utf8(listed.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_plugin_in_an_image_survives_its_own_death_and_the_daemons() {
    let (Some(socket), Some(())) = (peers::docker(), peers::root()) else {
        return;
    };
    let engine = format!("unix://{}", socket.display());
    let home = Home::new();
    let config = config(&home, &engine);
    let mut daemon = Daemon::start(home, &config);
    let uri = daemon.endpoint("disks");
    assert!(uri.starts_with("unix://"), "{uri}");
    let probed = daemon.run(["csi", "probe", &uri]).exits(0);
    assert!(probed.stdout.contains("v1"), "{probed:?}");
    assert_eq!(in_engine(&daemon.home, &engine).len(), 1);

    let killed = daemon.plugin_pid("disks");
    kill(killed, Signal::SIGKILL).unwrap();
    let next = eventually("another one runs", || {
        let plugin = daemon.plugin("disks");
        let pid = plugin["containers"][0]["pid"].as_i64()?;
        (pid != i64::from(killed.as_raw()) && plugin["state"] == "ready").then_some(pid)
    });
    assert_eq!(daemon.endpoint("disks"), uri);

    daemon.crash();
    daemon.start_again();
    assert_eq!(daemon.endpoint("disks"), uri);
    assert_eq!(
        i64::from(daemon.plugin_pid("disks").as_raw()),
        next,
        "it was taken over"
    );
    assert_eq!(in_engine(&daemon.home, &engine).len(), 1);

    daemon.run(["csi", "stop", "disks"]).exits(0);
    eventually("its container is gone", || {
        in_engine(&daemon.home, &engine).is_empty().then_some(())
    });
    assert_eq!(daemon.terminate(), 0);
}
