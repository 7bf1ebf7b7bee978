use longshore_agent_client::fake::{Failpoint, FakeAgent, Flavor};
use longshore_agent_client::{AgentError, Codec, FileRead, Killed, Launched, Show, Waited};
use longshore_mesos_api::v1::agent::call::{LaunchNestedContainer, Type};
use longshore_mesos_api::v1::agent::response::WaitContainer;
use longshore_mesos_api::v1::task_status::Reason;
use longshore_mesos_api::v1::{TaskState, agent};

use crate::helpers::{fixture, fixture_as, id, launch, nested_id, soon};

const CODECS: [Codec; 2] = [Codec::Protobuf, Codec::Json];

#[tokio::test]
async fn every_call_works_in_protobuf_and_in_json() {
    for codec in CODECS {
        let fixture = fixture();
        let client = fixture.codec(codec);
        assert!(client.get_health().await.unwrap());
        let version = client.get_version().await.unwrap();
        assert!(longshore_agent_client::is_longshore(&version));
        let agent = client.get_agent().await.unwrap().agent_info.unwrap();
        assert_eq!(agent.id.unwrap().value, "fake-agent");
        assert_eq!(client.get_containers(Show::ALL).await.unwrap(), []);

        let c1 = id("c1");
        let launched = client.launch_container(launch(c1.clone())).await.unwrap();
        assert_eq!(launched, Launched::New);
        let again = client.launch_container(launch(c1.clone())).await.unwrap();
        assert_eq!(again, Launched::AlreadyPresent);
        assert_eq!(fixture.agent.launched("c1"), Some(launch(c1.clone())));

        let signalled = client.kill_container(&c1, Some(0)).await.unwrap();
        assert_eq!(signalled, Killed::Signalled);
        let wait = client.wait_container(&c1);
        let kill = client.kill_container(&c1, Some(15));
        let (waited, killed) = soon(async { tokio::join!(wait, kill) }).await;
        assert_eq!(killed.unwrap(), Killed::Signalled);
        let Waited::Exited(exit) = waited.unwrap() else {
            panic!("the container is known");
        };
        assert_eq!(exit.exit_status, Some(15));
        assert_eq!(
            client.kill_container(&c1, None).await.unwrap(),
            Killed::Unknown
        );
        client.remove_container(&c1).await.unwrap();
        assert_eq!(client.wait_container(&c1).await.unwrap(), Waited::Unknown);
    }
}

#[tokio::test]
async fn nested_containers_work_by_both_families_of_calls() {
    for codec in CODECS {
        let fixture = fixture();
        let client = fixture.codec(codec);
        let orphan = client.launch_container(launch(nested_id("p", "n"))).await;
        let error = orphan.unwrap_err();
        assert_eq!(error.status(), Some(400));
        assert_eq!(error.container(), Some("p.n"));

        client.launch_container(launch(id("p"))).await.unwrap();
        let n = nested_id("p", "n");
        client.launch_container(launch(n.clone())).await.unwrap();
        client.kill_nested_container(&n, None).await.unwrap();
        let Waited::Exited(exit) = client.wait_nested_container(&n).await.unwrap() else {
            panic!("a nested exit status is kept");
        };
        assert_eq!(exit.exit_status, Some(9));
        client.remove_nested_container(&n).await.unwrap();

        let twin = LaunchNestedContainer {
            container_id: n.clone(),
            ..LaunchNestedContainer::default()
        };
        assert_eq!(
            client.launch_nested_container(twin).await.unwrap(),
            Launched::New
        );
        client.kill_container(&id("p"), None).await.unwrap();
        let Waited::Exited(exit) = client.wait_container(&n).await.unwrap() else {
            panic!("it ended with its parent");
        };
        assert_eq!(exit.exit_status, Some(9));
    }
}

#[tokio::test]
async fn a_nested_call_needs_a_parent_and_is_not_sent_without() {
    let fixture = fixture();
    let client = fixture.agent.client();
    let top = id("top");
    let refused = [
        client.wait_nested_container(&top).await.err(),
        client.kill_nested_container(&top, None).await.err(),
        client.remove_nested_container(&top).await.err(),
        client
            .launch_nested_container(LaunchNestedContainer {
                container_id: top.clone(),
                ..LaunchNestedContainer::default()
            })
            .await
            .err(),
    ];
    for error in refused {
        assert!(
            matches!(error, Some(AgentError::NotNested { .. })),
            "{error:?}"
        );
    }
    assert_eq!(fixture.agent.log(), []);
}

#[tokio::test]
async fn an_exit_carries_state_reason_and_message() {
    let fixture = fixture();
    let client = fixture.codec(Codec::Json);
    fixture.agent.put(launch(id("c")));
    let exit = WaitContainer {
        exit_status: Some(9),
        state: Some(TaskState::TaskFailed.into()),
        reason: Some(Reason::ContainerLimitationMemory.into()),
        message: Some("Memory limit exceeded: Requested: 32MB\n\nMEMORY STATISTICS".into()),
        ..WaitContainer::default()
    };
    assert!(fixture.agent.exit_with("c", &exit));
    let waited = client.wait_container(&id("c")).await.unwrap();
    assert_eq!(waited, Waited::Exited(exit));
}

#[tokio::test]
async fn a_mesos_agents_nested_entries_get_their_parent() {
    let fixture = fixture_as(Flavor::Mesos);
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c1")));
    fixture.agent.put(launch(nested_id("c1", "n4")));
    let ids = |containers: Vec<agent::response::get_containers::Container>| {
        containers
            .into_iter()
            .map(|container| container.container_id)
            .collect::<Vec<_>>()
    };
    let all = client.get_containers(Show::ALL).await.unwrap();
    assert_eq!(ids(all), [id("c1"), nested_id("c1", "n4")]);
    let standalone = Show {
        standalone: true,
        ..Show::default()
    };
    let top = client.get_containers(standalone).await.unwrap();
    assert_eq!(ids(top), [id("c1")]);
    let none = client.get_containers(Show::default()).await.unwrap();
    assert_eq!(ids(none), []);
}

#[tokio::test]
async fn a_container_that_is_being_destroyed_is_listed_without_a_pid() {
    let fixture = fixture();
    fixture.agent.put(launch(id("c")));
    fixture.agent.set_destroying("c");
    let listed = fixture
        .agent
        .client()
        .get_containers(Show::ALL)
        .await
        .unwrap();
    let status = listed[0].container_status.as_ref().unwrap();
    assert_eq!(status.executor_pid, None);
}

#[tokio::test]
async fn aa13_a_top_level_container_is_not_removed_from_an_agent_that_would_abort() {
    let fixture = fixture_as(Flavor::Mesos);
    let client = fixture.agent.client();
    let error = client.remove_container(&id("c1")).await.unwrap_err();
    assert!(
        matches!(&error, AgentError::RemoveRefused { container, version }
            if container == "c1" && version == "1.11.0"),
        "{error:?}"
    );
    assert!(error.to_string().contains("remove_top_level"), "{error}");
    assert_eq!(fixture.agent.count(Type::RemoveContainer), 0);
    // Nested ones are safe.
    fixture.agent.put(launch(id("p")));
    client.remove_container(&nested_id("p", "n")).await.unwrap();
    assert_eq!(fixture.agent.count(Type::RemoveContainer), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_insist_on_removing_and_sees_the_agent_abort() {
    let fixture = fixture_as(Flavor::Mesos);
    let client = fixture.client_with(|config| config.remove_top_level = true);
    let error = soon(client.remove_container(&id("c1"))).await;
    let error = error.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    assert_eq!(fixture.agent.count(Type::GetVersion), 0);
    assert_eq!(fixture.agent.count(Type::RemoveContainer), 1);
}

#[tokio::test]
async fn killing_what_is_just_ending_is_no_error() {
    let fixture = fixture();
    fixture.agent.put(launch(id("c")));
    fixture.agent.fail(
        Type::KillContainer,
        1,
        Failpoint::status(500, "Unable to send signal to container: No such process"),
    );
    let client = fixture.agent.client();
    let killed = client.kill_container(&id("c"), Some(9)).await.unwrap();
    assert_eq!(killed, Killed::Unknown);
    let error = client.kill_container(&id("c"), Some(99)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "KILL_CONTAINER of container c answered 500: Unable to send signal to container: \
         Invalid argument"
    );
}

#[tokio::test]
async fn a_404_that_is_not_about_the_container_is_an_error() {
    let fixture = fixture();
    let client = fixture.agent.client();
    let nginx = || Failpoint::status(404, "<html><h1>404 Not Found</h1>nginx</html>");
    fixture.agent.fail(Type::WaitContainer, 1, nginx());
    fixture.agent.fail(Type::KillContainer, 1, nginx());
    let waited = client.wait_container(&id("c")).await;
    assert_eq!(waited.unwrap_err().status(), Some(404));
    let killed = client.kill_container(&id("c"), None).await;
    assert_eq!(killed.unwrap_err().status(), Some(404));
}

#[tokio::test]
async fn an_answer_without_the_member_of_its_call_is_an_error() {
    let fixture = fixture();
    let client = fixture.agent.client();
    let empty = || Failpoint::body("application/json", b"{}");
    fixture.agent.fail(Type::GetAgent, 1, empty());
    fixture.agent.fail(Type::WaitContainer, 1, empty());
    let error = client.get_agent().await.unwrap_err();
    assert!(crate::helpers::chain(&error).contains("`get_agent` is missing"));
    // In particular it is no exit.
    let error = client.wait_container(&id("c")).await.unwrap_err();
    assert!(crate::helpers::chain(&error).contains("`wait_container` is missing"));
}

#[tokio::test]
async fn a_second_agent_cannot_take_a_socket_in_use() {
    let fixture = fixture();
    assert!(FakeAgent::start(fixture.dir.path().join("no/such/dir")).is_err());
}

#[tokio::test]
async fn output_is_read_in_pieces_by_the_path_of_its_container() {
    for codec in CODECS {
        let fixture = fixture();
        let client = fixture.codec(codec);
        fixture
            .agent
            .put_file("/containers/p/containers/n/stdout", &[7; 100_000]);
        let n = nested_id("p", "n");
        for (offset, length, expected) in [
            (0, 10, 10),
            (99_999, 10, 1),
            (0, u64::MAX, 65_536),
            (100_000, 10, 0),
            (u64::MAX, 10, 0),
        ] {
            let read = client.read_output(&n, "stdout", offset, length).await;
            let FileRead::Read(read) = read.unwrap() else {
                panic!("the file is there");
            };
            assert_eq!((read.size, read.data.len()), (100_000, expected));
        }
        let read = client.read_output(&id("p"), "stdout", 0, 1).await;
        assert_eq!(read.unwrap(), FileRead::Unknown);
    }
    let mesos = fixture_as(Flavor::Mesos);
    mesos.agent.put_file("/containers/c/stdout", b"hello");
    let client = mesos.codec(Codec::Protobuf);
    let read = client.read_output(&id("c"), "stdout", 0, 1).await;
    assert_eq!(read.unwrap(), FileRead::Unknown);
}
