use longshore_agent_client::{AgentError, Waited};

use crate::target::{Target, nested, run_to_end, shell, sleep};

pub(crate) async fn a_running_nested_container_is_not_removed(t: &mut Target) {
    let (client, parent) = (t.client(), t.id("parent"));
    let child = nested(&parent, "child");
    client.launch_container(sleep(&parent)).await.unwrap();
    client.launch_container(sleep(&child)).await.unwrap();
    let error = client.remove_container(&child).await.unwrap_err();
    assert_eq!(error.status(), Some(500));
    assert!(
        error.to_string().contains("has not terminated yet"),
        "{error}"
    );
}

pub(crate) async fn an_ended_nested_container_is_removed_as_often_as_asked(t: &mut Target) {
    let (client, parent) = (t.client(), t.id("parent"));
    let child = nested(&parent, "child");
    client.launch_container(sleep(&parent)).await.unwrap();
    client
        .launch_container(shell(&child, "true"))
        .await
        .unwrap();
    client.wait_container(&child).await.unwrap();
    for _ in 0..3 {
        client.remove_container(&child).await.unwrap();
    }
    client
        .remove_container(&nested(&parent, "never"))
        .await
        .unwrap();
}

pub(crate) async fn an_unknown_root_is_a_500(t: &mut Target) {
    let (client, nobody) = (t.client(), t.id("nobody"));
    let error = client
        .remove_container(&nested(&nobody, "child"))
        .await
        .unwrap_err();
    assert_eq!(error.status(), Some(500));
    assert!(
        error.to_string().contains("Unknown root container"),
        "{error}"
    );
}

pub(crate) async fn aa13_a_top_level_container_is_removed_with_its_sandbox(t: &mut Target) {
    let (client, id) = (t.client(), t.id("removed"));
    client.launch_container(sleep(&id)).await.unwrap();
    let error = client.remove_container(&id).await.unwrap_err();
    assert_eq!(error.status(), Some(500));
    assert!(t.sandbox(&id).is_dir());
    client.kill_container(&id, None).await.unwrap();
    client.wait_container(&id).await.unwrap();
    assert!(t.sandbox(&id).is_dir());
    client.remove_container(&id).await.unwrap();
    assert!(!t.sandbox(&id).exists());
    assert_eq!(client.wait_container(&id).await.unwrap(), Waited::Unknown);
}

pub(crate) async fn a_top_level_container_is_not_removed_from_a_mesos_agent(t: &mut Target) {
    let id = t.id("spared");
    run_to_end(t, &id, "true").await;
    let client = t.client();
    let error = client.remove_container(&id).await.unwrap_err();
    assert!(
        matches!(error, AgentError::RemoveRefused { .. }),
        "{error:?}"
    );
    assert!(client.get_health().await.unwrap());
}
