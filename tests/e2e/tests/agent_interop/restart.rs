//! The agent is killed and started again on the same directories.

use longshore_agent_client::{Killed, Launched, Show};

use crate::proxy::Proxy;
use crate::target::{Target, exited, launch_held, nested, settle, sleep};

pub(crate) async fn aa2_a_nested_container_is_known_after_a_restart_of_the_agent(t: &mut Target) {
    let (client, parent) = (t.client(), t.id("parent"));
    let child = nested(&parent, "child");
    client.launch_container(sleep(&parent)).await.unwrap();
    client.launch_container(sleep(&child)).await.unwrap();
    t.restart().await;
    let client = t.client();
    let (waited, killed) = tokio::join!(
        client.wait_container(&child),
        client.kill_container(&child, None)
    );
    assert_eq!(killed.unwrap(), Killed::Signalled);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
}

pub(crate) async fn a_running_container_is_recovered(t: &mut Target) {
    let (client, id) = (t.client(), t.id("recovered"));
    client.launch_container(sleep(&id)).await.unwrap();
    let pid_of =
        |containers: Vec<longshore_mesos_api::v1::agent::response::get_containers::Container>| {
            let found = containers.into_iter().find(|c| c.container_id == id);
            found
                .and_then(|c| c.container_status)
                .and_then(|s| s.executor_pid)
        };
    let before = pid_of(client.get_containers(Show::ALL).await.unwrap());
    assert!(before.is_some());
    t.restart().await;
    let client = t.client();
    assert_eq!(
        pid_of(client.get_containers(Show::ALL).await.unwrap()),
        before
    );
    let again = client.launch_container(sleep(&id)).await.unwrap();
    assert_eq!(again, Launched::AlreadyPresent);
    let (waited, _) = tokio::join!(client.wait_container(&id), client.kill_container(&id, None));
    assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
}

pub(crate) async fn a_wait_survives_the_restart(t: &mut Target) {
    let id = t.id("waited");
    let gate = launch_held(t, &id, "exit 8").await;
    let mut proxy = Proxy::start(t.raw(), t.path("proxy"));
    let client = t.client_at(proxy.endpoint());
    let restart = async {
        proxy.until_open(1).await;
        settle(t).await;
        t.restart().await;
        // The WAIT comes again by itself; the container ends only then.
        proxy.until_open(1).await;
        settle(t).await;
        proxy.until_open(1).await;
        std::fs::write(&gate, "").unwrap();
    };
    let (waited, ()) = tokio::join!(client.wait_container(&id), restart);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(8 << 8));
}

pub(crate) async fn a_nested_container_that_ended_meanwhile_has_its_status(t: &mut Target) {
    let (client, parent) = (t.client(), t.id("parent"));
    client.launch_container(sleep(&parent)).await.unwrap();
    let child = nested(&parent, "child");
    let gate = launch_held(t, &child, "exit 2").await;
    // The command looks every 20 ms; a restart takes longer, and if not, WAIT waits.
    std::fs::write(&gate, "").unwrap();
    t.restart().await;
    let exit = exited(t.client().wait_container(&child).await.unwrap());
    assert_eq!(exit.exit_status, Some(2 << 8));
}
