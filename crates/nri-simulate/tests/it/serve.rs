//! A runtime on a socket, with the plugins that the stub has as examples.

use std::time::Duration;

use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_simulate::{Case, Outcome, Serving, Site, Step, StepReport};
use longshore_nri_stub::Stub;

#[path = "../../../nri-stub/examples/device_injector.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod device_injector;
#[path = "../../../nri-stub/examples/logger.rs"]
#[expect(dead_code, reason = "its main is not called")]
mod logger;

const WAIT: Duration = Duration::from_secs(60);

async fn perform(serving: &mut Serving, number: usize, text: &str) -> StepReport {
    let step = Step::parse(text, "a step", number).unwrap();
    serving.perform(number, &step, 1).await
}

#[tokio::test]
async fn example_plugins_come_go_and_come_again() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let site = Site::new(SocketOptions::new(&socket));
    let case =
        "pods: [{id: p0, annotations: {devices.noderesource.dev: '[{path: /dev/x, type: c}]'}}]";
    let case = Case::parse(case, "case").unwrap();
    let mut serving = Serving::start(case, site, WAIT).await.unwrap();
    assert!(serving.runtime().starts_with("longshore "));

    let injector = Stub::builder().index("10").name("injector").socket(&socket);
    let injector = tokio::spawn(injector.run(device_injector::Injector));
    let logger = Stub::builder().index("90").name("logger").socket(&socket);
    let logger = tokio::spawn(logger.run(logger::Logger::default()));
    for (number, plugin) in [(1, "injector"), (2, "90-logger")] {
        let text = format!("{{action: wait-for-plugin, plugin: {plugin}}}");
        let came = perform(&mut serving, number, &text).await;
        assert!(came.problems.is_empty(), "{came:?}");
    }
    let names: Vec<_> = serving
        .plugins()
        .into_iter()
        .map(|plugin| plugin.name)
        .collect();
    assert_eq!(names, ["10-injector", "90-logger"]);

    let create = "{event: CreateContainer, pod: p0, container: {id: c0, name: c0}}";
    let created = perform(&mut serving, 3, create).await;
    let Outcome::Created { adjustment, .. } = &created.outcome else {
        panic!("{created:?}");
    };
    let devices = adjustment.linux.clone().unwrap_or_default().devices;
    assert_eq!(devices[0].path, "/dev/x");

    logger.abort();
    let gone = perform(&mut serving, 4, "{action: wait-until-gone, plugin: logger}").await;
    assert!(gone.problems.is_empty(), "{gone:?}");
    // The other one connects again to the runtime that comes back.
    let before = serving.adaptation();
    perform(&mut serving, 5, "{action: restart-runtime}").await;
    assert!(before.has_changed().unwrap());
    let back = perform(
        &mut serving,
        6,
        "{action: wait-for-plugin, plugin: injector}",
    )
    .await;
    assert!(back.problems.is_empty(), "{back:?}");
    injector.abort();
    serving.close().await;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn steps_that_fail_say_why_and_the_runtime_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::new(SocketOptions::new(dir.path().join("nri.sock")));
    let mut serving = Serving::start(Case::default(), site, WAIT).await.unwrap();
    for (number, text, named) in [
        (
            1,
            "{action: wait-for-plugin, ms: 1}",
            "a plugin was not active within 1 ms",
        ),
        (
            2,
            "{action: remove-plugin, plugin: x}",
            "no plugin is named \"x\"",
        ),
        (
            3,
            "{action: kill-plugins}",
            "step 3 of the case: here plugins come and go",
        ),
        (
            4,
            "{event: StopContainer, container: c9}",
            "no container \"c9\" is known",
        ),
    ] {
        let report = perform(&mut serving, number, text).await;
        assert!(report.problems[0].contains(named), "{report:?}");
    }
    // What is expected to fail may.
    let expected = "{action: remove-plugin, plugin: x, expect: {error: no plugin}}";
    let report = perform(&mut serving, 5, expected).await;
    assert!(report.problems.is_empty(), "{report:?}");
    let report = perform(&mut serving, 6, "{event: RunPodSandbox, pod: {id: p}}").await;
    assert!(report.problems.is_empty(), "{report:?}");
    serving.close().await;
}
