//! A plugin that comes to the socket by itself.

use std::time::Duration;

use longshore_nri_simulate::{Play, Plugins, SimulateError, run};
use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox};
use longshore_nri_stub::{Stub, plugin};

use crate::{built_in, problems};

struct Marker;

#[plugin]
impl Marker {
    async fn create_container(&self, _: PodSandbox, _: Container) -> ContainerAdjustment {
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_env("MARKED", "yes");
        adjustment
    }
}

#[tokio::test]
async fn a_plugin_that_connects_again_survives_a_restart_of_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let plugins = Plugins::Listen(socket.clone());
    let mut play = Play::new(built_in("restart"), plugins).unwrap();
    play.wait = Duration::from_secs(60);
    let stub = Stub::builder().name("marker").index("10").socket(&socket);
    tokio::select! {
        report = run(&play) => {
            let report = report.unwrap();
            assert!(report.ok(), "{:?}", problems(&report));
            assert_eq!(report.plugins[0].name, "10-marker");
        }
        ended = stub.run(Marker) => panic!("{ended:?}"),
    }
}

#[tokio::test]
async fn nobody_comes() {
    let dir = tempfile::tempdir().unwrap();
    let plugins = Plugins::Listen(dir.path().join("nri.sock"));
    let mut play = Play::new(built_in("restart"), plugins).unwrap();
    play.wait = Duration::from_millis(100);
    let error = run(&play).await.unwrap_err();
    assert!(matches!(error, SimulateError::NobodyCame { .. }), "{error}");
    assert!(error.to_string().ends_with("within 100ms"), "{error}");
}

#[tokio::test]
async fn a_socket_that_cannot_be_made_says_why() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let plugins = Plugins::Listen(dir.path().join("file/nri.sock"));
    let play = Play::new(built_in("restart"), plugins).unwrap();
    let error = chain(&run(&play).await.unwrap_err());
    assert!(
        error.contains("no socket for plugins: cannot use"),
        "{error}"
    );
    assert!(error.contains("os error"), "{error}");
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}
