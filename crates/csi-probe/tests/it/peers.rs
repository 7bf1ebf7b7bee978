//! Plugins that are not written in Rust: C-core's gRPC (Python) and grpc-go.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use longshore_csi_api::v1::{self, controller_client::ControllerClient};
use longshore_csi_probe::{ApiVersion, Links, LivenessEvent, LivenessPolicy, probe, watch};
use longshore_testkit::{interop, peers};
use tokio::time::timeout;

use crate::{Bed, PATIENCE, patient, within};

/// A plugin's process; killed at the end of the test.
struct Plugin(Child);

impl Plugin {
    fn start(command: &mut Command) -> Self {
        Self(
            command
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // It may have ended already.
        drop((self.0.kill(), self.0.wait()));
    }
}

fn python_script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/interop/python")
        .join(name)
}

#[tokio::test]
async fn a_c_core_server_is_probed_described_and_watched() {
    let Some(python) = peers::python_grpc() else {
        return;
    };
    for (version, text) in [(ApiVersion::V1, "v1"), (ApiVersion::V0, "v0")] {
        let bed = Bed::new();
        let endpoint = bed.endpoint();
        let mut plugin = Plugin::start(
            Command::new(&python)
                .arg(python_script("csi_server.py"))
                .args([&endpoint.to_string(), text]),
        );
        let probed = probe(&endpoint, &within(PATIENCE)).await.unwrap();
        assert_eq!((probed.version, probed.ready), (version, Some(true)));
        let details = probed.describe(patient()).await.unwrap();
        assert_eq!(details.name, "python.csi.example.com");
        assert_eq!(details.node.unwrap().id, "python-node");
        assert!(
            details
                .controller_capabilities
                .unwrap()
                .contains("CREATE_DELETE_VOLUME")
        );
        let mut liveness = watch(endpoint, version, policy(), Links::Follow, probed.socket);
        assert_eq!(
            timeout(PATIENCE, liveness.next()).await.unwrap(),
            LivenessEvent::Healthy
        );
        plugin.kill();
        let event = timeout(PATIENCE, liveness.next()).await.unwrap();
        assert!(matches!(event, LivenessEvent::Failed { .. }), "{event:?}");
    }
}

#[tokio::test]
async fn a_c_core_client_is_served_by_a_tonic_plugin() {
    let Some(python) = peers::python_grpc() else {
        return;
    };
    let bed = Bed::new();
    let _plugin = bed.plugin(longshore_testkit::csi::Behaviour::v1());
    let endpoint = bed.endpoint();
    probe(&endpoint, &within(PATIENCE)).await.unwrap();
    let output = tokio::task::spawn_blocking(move || {
        Command::new(python)
            .arg(python_script("csi_client.py"))
            .args([&endpoint.to_string(), "v1"])
            .output()
            .unwrap()
    });
    let output = output.await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.stdout, b"fake.csi.longshore\n");
}

#[tokio::test]
async fn a_go_driver_survives_a_kill_with_its_volumes() {
    let Some(go) = peers::go() else { return };
    let program = tokio::task::spawn_blocking(move || interop::program(&go, "csi-driver-dir"));
    let program = program.await.unwrap();
    let bed = Bed::new();
    let endpoint = bed.endpoint();
    let start = || {
        Plugin::start(
            Command::new(&program)
                .arg("-state")
                .arg(bed.dir.path().join("state"))
                .args(["-node", "go-node"])
                .env("CSI_ENDPOINT", endpoint.to_string()),
        )
    };
    let mut plugin = start();
    let probed = probe(&endpoint, &within(PATIENCE)).await.unwrap();
    let details = probed.describe(patient()).await.unwrap();
    assert_eq!(
        (probed.version, details.name.as_str()),
        (ApiVersion::V1, "dir.csi.example.com")
    );
    assert_eq!(details.node.unwrap().id, "go-node");
    let request = v1::CreateVolumeRequest {
        name: "kept".to_owned(),
        volume_capabilities: vec![v1::VolumeCapability::default()],
        ..Default::default()
    };
    let mut controller = ControllerClient::new(probed.channel.clone());
    let made = controller
        .create_volume(request)
        .await
        .unwrap()
        .into_inner()
        .volume
        .unwrap();

    let mut liveness = watch(
        endpoint.clone(),
        ApiVersion::V1,
        policy(),
        Links::Refuse,
        probed.socket,
    );
    assert_eq!(
        timeout(PATIENCE, liveness.next()).await.unwrap(),
        LivenessEvent::Healthy
    );
    plugin.kill();
    let event = timeout(PATIENCE, liveness.next()).await.unwrap();
    assert!(
        matches!(event, LivenessEvent::Failed { failures: 1, .. }),
        "{event:?}"
    );

    let _again = start();
    let mut recovered = false;
    while !recovered {
        let event = timeout(PATIENCE, liveness.next()).await.unwrap();
        recovered = matches!(event, LivenessEvent::Recovered { .. });
    }
    let probed = probe(&endpoint, &within(PATIENCE)).await.unwrap();
    let request = v1::ValidateVolumeCapabilitiesRequest {
        volume_id: made.volume_id,
        volume_capabilities: vec![v1::VolumeCapability::default()],
        ..Default::default()
    };
    let mut controller = ControllerClient::new(probed.channel);
    let answer = controller
        .validate_volume_capabilities(request)
        .await
        .unwrap();
    assert!(answer.into_inner().confirmed.is_some());
}

fn policy() -> LivenessPolicy {
    LivenessPolicy {
        interval: Duration::from_millis(20),
        ..LivenessPolicy::default()
    }
}
