//! Rows AA1 to AA13 of the digest of Mesos' tests (AA9, the header matrix, is in `http/forms.rs` and `codes.rs`).

use longshore_agent_client::{Killed, Launched, Waited};
use longshore_mesos_api::v1::agent::call::{LaunchContainer, LaunchNestedContainer};
use longshore_mesos_api::v1::command_info::Uri;

use super::target::{Target, id, run, shell};
use super::{on_both_agents, on_the_embedded_agent};

on_both_agents! {
    aa1_a_nested_container_is_launched_waited_for_and_killed_by_both_names_and_codecs,
    aa2_containers_live_through_a_restart_of_the_agent,
    aa3_a_nested_container_that_is_not_there_is_unknown,
    aa4_a_launch_that_cannot_fetch_is_400_and_leaves_nothing,
    aa6_each_of_two_levels_ends_with_its_own_status,
    aa8_containers_are_listed_as_the_flags_say,
    aa11_a_handler_of_sigterm_decides_the_status,
}

on_the_embedded_agent! {
    aa12_a_late_wait_still_gets_the_status,
    aa13_a_top_level_container_can_be_removed_with_its_sandbox,
}

async fn aa1_a_nested_container_is_launched_waited_for_and_killed_by_both_names_and_codecs(
    target: &Target,
) {
    let sleep = || run("/bin/sleep", &["1000"]);
    assert_eq!(target.launch(&id("p"), sleep()).await, Launched::New);
    assert_eq!(target.launch(&id("p.mid"), sleep()).await, Launched::New);
    for (client, name) in [(&target.client, "protobuf"), (&target.json, "json")] {
        for parent in ["p", "p.mid"] {
            let child = id(&format!("{parent}.{name}"));
            let launch = LaunchContainer {
                container_id: child.clone(),
                command: Some(sleep()),
                ..LaunchContainer::default()
            };
            assert_eq!(
                client.launch_container(launch).await.unwrap(),
                Launched::New
            );
            let (waited, killed) = tokio::join!(
                client.wait_container(&child),
                client.kill_container(&child, None)
            );
            assert_eq!(killed.unwrap(), Killed::Signalled);
            let Waited::Exited(wait) = waited.unwrap() else {
                panic!("{parent}.{name} was lost")
            };
            assert_eq!(wait.exit_status(), 9);

            let twin = id(&format!("{parent}.{name}-twin"));
            let launch = LaunchNestedContainer {
                container_id: twin.clone(),
                command: Some(sleep()),
                ..LaunchNestedContainer::default()
            };
            assert_eq!(
                client.launch_nested_container(launch).await.unwrap(),
                Launched::New
            );
            let (waited, killed) = tokio::join!(
                client.wait_nested_container(&twin),
                client.kill_nested_container(&twin, None)
            );
            assert_eq!(killed.unwrap(), Killed::Signalled);
            let Waited::Exited(wait) = waited.unwrap() else {
                panic!("the twin was lost")
            };
            assert_eq!(wait.exit_status(), 9);
            client.remove_nested_container(&twin).await.unwrap();
            assert_eq!(
                client.wait_nested_container(&twin).await.unwrap(),
                Waited::Unknown
            );
        }
    }
}

async fn aa2_containers_live_through_a_restart_of_the_agent(target: &Target) {
    target.launch(&id("p"), run("/bin/sleep", &["1000"])).await;
    target
        .launch(&id("p.n"), run("/bin/sleep", &["1000"]))
        .await;
    target.restart().await;
    let listed = target.list(true, true).await;
    assert_eq!(listed.len(), 2, "{listed:?}");
    for container in ["p.n", "p"] {
        let container = id(container);
        let (waited, killed) = tokio::join!(target.wait(&container), target.kill(&container, None));
        assert_eq!(waited, Some(9), "{container:?}");
        // A Mesos agent that has just recovered may answer 404 to a kill that works.
        assert!(
            killed == Killed::Signalled || target.is_mesos(),
            "{container:?}"
        );
    }
}

async fn aa3_a_nested_container_that_is_not_there_is_unknown(target: &Target) {
    target.launch(&id("p"), run("/bin/sleep", &["1000"])).await;
    assert_eq!(target.wait(&id("p.none")).await, None);
    assert_eq!(target.kill(&id("p.none"), None).await, Killed::Unknown);
    target.client.remove_container(&id("p.none")).await.unwrap();
    assert_eq!(target.wait(&id("nobody.none")).await, None);
    let unknown_root = target
        .client
        .remove_container(&id("nobody.none"))
        .await
        .unwrap_err();
    assert_eq!(unknown_root.status(), Some(500));
}

async fn aa4_a_launch_that_cannot_fetch_is_400_and_leaves_nothing(target: &Target) {
    target.launch(&id("p"), run("/bin/sleep", &["1000"])).await;
    let mut command = run("/bin/true", &[]);
    let uri = Uri {
        value: "file:///nowhere/at/all".to_owned(),
        ..Uri::default()
    };
    command.uris = vec![uri];
    let launch = LaunchContainer {
        container_id: id("p.n"),
        command: Some(command),
        ..LaunchContainer::default()
    };
    let refused = target.client.launch_container(launch).await.unwrap_err();
    assert_eq!(refused.status(), Some(400), "{refused}");
    if !target.is_mesos() {
        // A Mesos agent answers 200 with status 9 for a moment.
        assert_eq!(target.wait(&id("p.n")).await, None);
        assert_eq!(target.list(true, false).await.len(), 0);
    }
}

async fn aa6_each_of_two_levels_ends_with_its_own_status(target: &Target) {
    let ends_when = |file: &str, code: i32| {
        let file = target.dir().join(file);
        shell(&format!(
            "while [ ! -e {} ]; do sleep 0.02; done; exit {code}",
            file.display()
        ))
    };
    assert_eq!(
        target.launch(&id("p"), ends_when("p", 6)).await,
        Launched::New
    );
    assert_eq!(
        target.launch(&id("p.mid"), ends_when("mid", 5)).await,
        Launched::New
    );
    let leaf = id("p.mid.leaf");
    assert_eq!(
        target.launch(&leaf, run("/bin/sleep", &["1000"])).await,
        Launched::New
    );
    let (status, killed) = tokio::join!(target.wait(&leaf), target.kill(&leaf, None));
    assert_eq!((status, killed), (Some(9), Killed::Signalled));
    for (container, file, code) in [("p.mid", "mid", 5), ("p", "p", 6)] {
        let container = id(container);
        let end = async { std::fs::write(target.dir().join(file), "").unwrap() };
        let (status, ()) = tokio::join!(target.wait(&container), end);
        assert_eq!(status, Some(code << 8), "{container:?}");
    }
}

async fn aa8_containers_are_listed_as_the_flags_say(target: &Target) {
    let launch = LaunchContainer {
        container_id: id("p"),
        command: Some(run("/bin/sleep", &["1000"])),
        resources: vec![scalar("cpus", 0.1), scalar("mem", 32.0)],
        ..LaunchContainer::default()
    };
    target.client.launch_container(launch).await.unwrap();
    target
        .launch(&id("p.n"), run("/bin/sleep", &["1000"]))
        .await;
    assert_eq!(target.list(false, false).await.len(), 0);
    assert_eq!(target.list(false, true).await.len(), 1);
    assert_eq!(target.list(true, false).await.len(), 1);
    let listed = target.list(true, true).await;
    assert_eq!(listed.len(), 2);
    for container in &listed {
        let status = container.container_status.as_ref().unwrap();
        assert!(status.executor_pid() > 1, "{container:?}");
        assert!(container.resource_statistics.is_some());
    }
    let parent = listed
        .iter()
        .find(|container| container.container_id == id("p"))
        .unwrap();
    let statistics = parent.resource_statistics.as_ref().unwrap();
    assert_eq!(statistics.mem_limit_bytes(), 32 << 20);
    assert!(
        listed
            .iter()
            .any(|container| container.container_id == id("p.n"))
    );
}

fn scalar(name: &str, value: f64) -> longshore_mesos_api::v1::Resource {
    longshore_mesos_api::v1::Resource {
        name: name.to_owned(),
        r#type: longshore_mesos_api::v1::value::Type::Scalar.into(),
        scalar: Some(longshore_mesos_api::v1::value::Scalar { value }),
        ..Default::default()
    }
}

async fn aa11_a_handler_of_sigterm_decides_the_status(target: &Target) {
    let ready = target.dir().join("ready");
    let line = format!(
        "trap 'exit 7' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    target.launch(&id("c"), shell(&line)).await;
    target.file_appears(&ready).await;
    let container = id("c");
    let (status, killed) = tokio::join!(target.wait(&container), target.kill(&container, Some(15)));
    assert_eq!((status, killed), (Some(7 << 8), Killed::Signalled));
}

async fn aa12_a_late_wait_still_gets_the_status(target: &Target) {
    target.launch(&id("c"), shell("exit 3")).await;
    for _ in 0..3 {
        assert_eq!(target.wait(&id("c")).await, Some(3 << 8));
    }
    assert_eq!(target.kill(&id("c"), None).await, Killed::Unknown);
    assert_eq!(
        target.launch(&id("c"), shell("exit 4")).await,
        Launched::New
    );
    assert_eq!(target.wait(&id("c")).await, Some(4 << 8));
}

async fn aa13_a_top_level_container_can_be_removed_with_its_sandbox(target: &Target) {
    target.launch(&id("c"), shell("echo hello")).await;
    assert_eq!(target.wait(&id("c")).await, Some(0));
    let sandbox = target.sandbox("c");
    assert_eq!(std::fs::read(sandbox.join("stdout")).unwrap(), b"hello\n");
    target.client.remove_container(&id("c")).await.unwrap();
    assert!(!sandbox.exists());
    assert_eq!(target.wait(&id("c")).await, None);
}
