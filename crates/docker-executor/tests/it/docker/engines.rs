//! The core of a task's life on the engines of other releases: the same scenarios.

use std::pin::Pin;

use longshore_testkit::peers::import_test_image;

use super::*;

type Scenario = fn(Bed) -> Pin<Box<dyn Future<Output = ()>>>;

macro_rules! scenarios {
    ($($scenario:path),+ $(,)?) => {
        [$((stringify!($scenario), (|bed| Box::pin($scenario(bed))) as Scenario)),+]
    };
}

/// A registry that cannot be reached is asked again until the patience of a launch is over.
const fn impatient(options: &mut ExecutorOptions) {
    options.patience = Duration::from_secs(20);
}

/// Starts an engine, and plays all scenarios on it.
async fn on(release: &str, engine: &str) {
    // Paths below /tmp mean the same within an engine.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let Some(running) = peers::Engine::start(dir.path(), release, engine).await else {
        return;
    };
    let socket = running.socket().to_path_buf();
    let import = tokio::task::spawn_blocking(move || import_test_image(&socket));
    import.await.unwrap().unwrap();
    for (name, scenario) in scenarios![
        described,
        killed,
        killed_with_0,
        stubborn,
        output,
        output_over_restarts,
        commands,
        ends,
        out_of_time,
        no_image,
        behind::behind_our_back,
        behind::while_we_were_down,
        health::environment,
        health::hangs,
    ] {
        #[expect(clippy::print_stderr, reason = "of one that fails the name is shown")]
        {
            eprintln!("{release} {engine}: {name}");
        }
        scenario(Bed::at(running.socket(), impatient)).await;
    }
}

#[tokio::test]
async fn tasks_on_docker_26() {
    on("trixie", "docker").await;
}

#[tokio::test]
async fn tasks_on_docker_28() {
    on("sid", "docker").await;
}

#[tokio::test]
async fn tasks_on_podman() {
    on("sid", "podman").await;
}

#[tokio::test]
async fn an_image_that_nobody_has_is_told_as_that() {
    if let Some(bed) = Bed::with(impatient) {
        no_image(bed).await;
    }
}

async fn no_image(bed: Bed) {
    // Nobody listens at this registry.
    let text = r#""container":{"type":"DOCKER","docker":{"image":"127.0.0.1:1/none:1","network":"NONE"}},"#;
    let task = bed.executor.launch(Launch {
        framework: "f".to_owned(),
        ..Launch::new(bed::task("t", text))
    });
    let last = bed.end(&task).await;
    let told = word(&last);
    assert!(
        ["FAILED pull-failed", "FAILED image-missing"].contains(&told.as_str()),
        "{last:?}"
    );
    assert_eq!(last.reason(), Reason::ContainerLaunchFailed);
    assert!(last.message().contains("127.0.0.1:1/none"), "{last:?}");
}
