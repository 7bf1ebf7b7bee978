use longshore_agent_client::{Killed, Launched, Waited};
use longshore_mesos_api::v1::ContainerId;
use longshore_mesos_api::v1::agent::call::LaunchNestedContainer;

use crate::target::{Target, appears, exited, nested, shell, sleep};

/// A running parent.
async fn parent(t: &mut Target) -> ContainerId {
    let id = t.id("parent");
    t.client().launch_container(sleep(&id)).await.unwrap();
    id
}

pub(crate) async fn aa1_a_nested_container_is_waited_for_and_killed(t: &mut Target) {
    let parent = parent(t).await;
    let (client, child) = (t.client(), nested(&parent, "child"));
    assert_eq!(
        client.launch_container(sleep(&child)).await.unwrap(),
        Launched::New
    );
    let again = client.launch_container(sleep(&child)).await.unwrap();
    assert_eq!(again, Launched::AlreadyPresent);
    let (waited, killed) = tokio::join!(
        client.wait_container(&child),
        client.kill_container(&child, None)
    );
    assert_eq!(killed.unwrap(), Killed::Signalled);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
}

pub(crate) async fn aa3_a_nested_container_that_never_was_is_not_found(t: &mut Target) {
    let parent = parent(t).await;
    let (client, child) = (t.client(), nested(&parent, "nobody"));
    assert_eq!(
        client.wait_container(&child).await.unwrap(),
        Waited::Unknown
    );
    assert_eq!(
        client.kill_container(&child, None).await.unwrap(),
        Killed::Unknown
    );
    assert_eq!(
        client.wait_nested_container(&child).await.unwrap(),
        Waited::Unknown
    );
    assert_eq!(
        client.kill_nested_container(&child, None).await.unwrap(),
        Killed::Unknown
    );
    client.remove_nested_container(&child).await.unwrap();
}

pub(crate) async fn aa6_two_levels_of_nesting_each_have_their_own_status(t: &mut Target) {
    let root = parent(t).await;
    let (client, ready) = (t.client(), t.path("ready"));
    let middle = nested(&root, "middle");
    let leaf = nested(&middle, "leaf");
    let command = format!(
        "trap 'exit 4' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    client
        .launch_container(shell(&middle, &command))
        .await
        .unwrap();
    appears(&ready).await;
    client.launch_container(sleep(&leaf)).await.unwrap();
    let (waited, killed) = tokio::join!(
        client.wait_container(&leaf),
        client.kill_container(&leaf, Some(9))
    );
    assert_eq!(killed.unwrap(), Killed::Signalled);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
    let (waited, killed) = tokio::join!(
        client.wait_container(&middle),
        client.kill_container(&middle, Some(15))
    );
    assert_eq!(killed.unwrap(), Killed::Signalled);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(4 << 8));
    let (waited, _) = tokio::join!(
        client.wait_container(&root),
        client.kill_container(&root, None)
    );
    assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
}

pub(crate) async fn the_deprecated_twins_do_the_same(t: &mut Target) {
    let parent = parent(t).await;
    let (client, child) = (t.client(), nested(&parent, "twin"));
    let launch = || LaunchNestedContainer {
        container_id: child.clone(),
        command: sleep(&child).command,
        ..LaunchNestedContainer::default()
    };
    let launched = client.launch_nested_container(launch()).await.unwrap();
    assert_eq!(launched, Launched::New);
    let again = client.launch_nested_container(launch()).await.unwrap();
    assert_eq!(again, Launched::AlreadyPresent);
    let (waited, killed) = tokio::join!(
        client.wait_nested_container(&child),
        client.kill_nested_container(&child, Some(9))
    );
    assert_eq!(killed.unwrap(), Killed::Signalled);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
    client.remove_nested_container(&child).await.unwrap();
    assert_eq!(
        client.wait_nested_container(&child).await.unwrap(),
        Waited::Unknown
    );
}

pub(crate) async fn the_parent_must_exist(t: &mut Target) {
    let (client, nobody) = (t.client(), t.id("nobody"));
    let error = client
        .launch_container(sleep(&nested(&nobody, "orphan")))
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(400));
    let text = format!("Parent container {} does not exist", nobody.value);
    assert!(error.to_string().contains(&text), "{error}");
}

pub(crate) async fn a_nested_status_is_kept_until_it_is_removed(t: &mut Target) {
    let parent = parent(t).await;
    let (client, child) = (t.client(), nested(&parent, "kept"));
    client
        .launch_container(shell(&child, "exit 6"))
        .await
        .unwrap();
    for _ in 0..3 {
        let exit = exited(client.wait_container(&child).await.unwrap());
        assert_eq!(exit.exit_status, Some(6 << 8));
    }
    client.remove_container(&child).await.unwrap();
    assert_eq!(
        client.wait_container(&child).await.unwrap(),
        Waited::Unknown
    );
}

pub(crate) async fn a_nested_container_can_be_launched_anew(t: &mut Target) {
    let parent = parent(t).await;
    let (client, child) = (t.client(), nested(&parent, "anew"));
    for status in [1, 2] {
        let command = format!("exit {status}");
        let launched = client
            .launch_container(shell(&child, &command))
            .await
            .unwrap();
        assert_eq!(launched, Launched::New);
        let exit = exited(client.wait_container(&child).await.unwrap());
        assert_eq!(exit.exit_status, Some(status << 8));
    }
}

pub(crate) async fn the_end_of_a_parent_ends_what_is_nested_in_it(t: &mut Target) {
    let parent = parent(t).await;
    let (client, child) = (t.client(), nested(&parent, "child"));
    client.launch_container(sleep(&child)).await.unwrap();
    let (of_parent, of_child, _) = tokio::join!(
        client.wait_container(&parent),
        client.wait_container(&child),
        client.kill_container(&parent, None)
    );
    assert_eq!(exited(of_parent.unwrap()).exit_status, Some(9));
    assert_eq!(exited(of_child.unwrap()).exit_status, Some(9));
    assert_eq!(
        client.wait_container(&child).await.unwrap(),
        Waited::Unknown
    );
}
