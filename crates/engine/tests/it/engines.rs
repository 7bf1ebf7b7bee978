//! Real engines: the private one of the tests, and those of other releases.

use longshore_testkit::peers::{self, import_test_image};

use crate::scenario::{self, Bench};

#[tokio::test]
async fn the_scenarios_on_docker() {
    let Some(socket) = peers::docker() else {
        return;
    };
    scenario::all(&Bench::new(&socket, "docker").await).await;
}

/// Starts an engine of another release, for the scenarios.
async fn on(release: &str, engine: &str) {
    // Paths below /tmp mean the same within an engine.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let Some(running) = peers::Engine::start(dir.path(), release, engine).await else {
        return;
    };
    let socket = running.socket().to_path_buf();
    let import = tokio::task::spawn_blocking(move || import_test_image(&socket));
    import.await.unwrap().unwrap();
    let bench = Bench::new(running.socket(), &format!("{release}-{engine}")).await;
    scenario::all(&bench).await;
}

#[tokio::test]
async fn the_scenarios_on_docker_26() {
    on("trixie", "docker").await;
}

#[tokio::test]
async fn the_scenarios_on_docker_28() {
    on("sid", "docker").await;
}

#[tokio::test]
async fn the_scenarios_on_podman() {
    on("sid", "podman").await;
}
