use longshore_agent_client::Show;
use longshore_mesos_api::v1::ContainerId;

use crate::target::{Target, nested, run_to_end, sleep};

async fn listed(t: &Target, nested: bool, standalone: bool) -> Vec<ContainerId> {
    let show = Show { nested, standalone };
    let containers = t.client().get_containers(show).await.unwrap();
    let mut ids: Vec<_> = containers.into_iter().map(|c| c.container_id).collect();
    ids.sort_by_key(|id| id.parent.is_some());
    ids
}

pub(crate) async fn aa8_containers_are_listed_as_the_flags_say(t: &mut Target) {
    let (client, parent) = (t.client(), t.id("parent"));
    let child = nested(&parent, "child");
    client.launch_container(sleep(&parent)).await.unwrap();
    client.launch_container(sleep(&child)).await.unwrap();
    assert_eq!(listed(t, false, false).await, []);
    assert_eq!(listed(t, false, true).await, vec![parent.clone()]);
    assert_eq!(listed(t, true, false).await, vec![child.clone()]);
    assert_eq!(listed(t, true, true).await, [parent, child]);

    for container in client.get_containers(Show::ALL).await.unwrap() {
        let status = container.container_status.expect("a status");
        assert_eq!(status.container_id, Some(container.container_id));
        let pid = status.executor_pid.expect("a pid");
        assert!(std::path::Path::new(&format!("/proc/{pid}")).exists());
        let statistics = container.resource_statistics.expect("statistics");
        assert!(statistics.timestamp > 1_500_000_000.0);
    }
}

pub(crate) async fn an_empty_list_is_no_error(t: &mut Target) {
    assert_eq!(listed(t, true, true).await, []);
    let answer = t.post(r#"{"type":"GET_CONTAINERS"}"#).await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.text().starts_with(r#"{"type":"GET_CONTAINERS""#),
        "{}",
        answer.text()
    );
}

pub(crate) async fn ended_containers_are_not_listed(t: &mut Target) {
    let (client, parent) = (t.client(), t.id("parent"));
    let child = nested(&parent, "child");
    let ended = t.id("ended");
    run_to_end(t, &ended, "true").await;
    client.launch_container(sleep(&parent)).await.unwrap();
    client.launch_container(sleep(&child)).await.unwrap();
    client.kill_container(&child, None).await.unwrap();
    client.wait_container(&child).await.unwrap();
    assert_eq!(listed(t, true, true).await, [parent]);
}
