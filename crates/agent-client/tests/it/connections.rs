//! How connections are shared.

use longshore_agent_client::fake::Failpoint;
use longshore_agent_client::{AgentClient, AgentClientConfig, Show};
use longshore_mesos_api::v1::agent::call::Type;

use crate::helpers::{Proxy, fixture, id, launch, soon};

#[tokio::test]
async fn short_calls_share_one_connection() {
    let fixture = fixture();
    let client = fixture.agent.client();
    for _ in 0..20 {
        client.get_health().await.unwrap();
        client.get_containers(Show::ALL).await.unwrap();
        // An error leaves it usable too.
        assert!(client.kill_container(&id("c"), Some(99)).await.is_ok());
    }
    assert_eq!(fixture.agent.connections(), 1);
    client.launch_container(launch(id("c"))).await.unwrap();
    assert_eq!(fixture.agent.connections(), 2);
    client.clone().get_health().await.unwrap();
    assert_eq!(fixture.agent.connections(), 2);
}

#[tokio::test]
async fn an_idle_connection_that_the_agent_closed_is_replaced_without_a_failure() {
    let mut fixture = fixture();
    // Nothing is tried again: that it works all the same is not a retry.
    let client = fixture.client_with(|config| {
        config.retry = longshore_agent_client::RetryPolicy::never();
    });
    fixture.agent.put(launch(id("c")));
    fixture.agent.ignore_term("c");
    for _ in 0..20 {
        client.get_health().await.unwrap();
        fixture.agent.restart().unwrap();
        client.get_health().await.unwrap();
        fixture.agent.restart().unwrap();
        client.kill_container(&id("c"), Some(15)).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_in_the_middle_of_an_answer_is_not_used_again() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture
        .agent
        .fail(Type::GetHealth, 1, Failpoint::Announce(1 << 40));
    client.get_health().await.unwrap_err();
    assert!(client.get_health().await.unwrap());
    assert_eq!(fixture.agent.connections(), 2);
}

#[tokio::test]
async fn a_burst_of_calls_is_served_over_few_connections() {
    let fixture = fixture();
    let client = fixture.agent.client();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        calls.spawn(async move { client.get_health().await.unwrap() });
    }
    let all = soon(calls.join_all()).await;
    assert!(all.into_iter().all(|healthy| healthy));
}

#[tokio::test]
async fn every_call_works_over_tcp() {
    let fixture = fixture();
    let proxy = Proxy::start(fixture.agent.socket(), None).await;
    for path in ["", "/", "/api/v1", "/slave(1)/api/v1"] {
        let endpoint = format!("http://{}{path}", proxy.address).parse().unwrap();
        let client = AgentClient::new(AgentClientConfig::new(endpoint)).unwrap();
        assert!(soon(client.get_health()).await.unwrap());
        assert!(soon(client.get_health()).await.unwrap());
    }
}

#[tokio::test]
async fn the_future_of_a_call_is_small() {
    let fixture = fixture();
    let client = fixture.agent.client();
    let c = id("c");
    let sizes = [
        size_of_val(&client.get_health()),
        size_of_val(&client.get_containers(Show::ALL)),
        size_of_val(&client.launch_container(launch(c.clone()))),
        size_of_val(&client.wait_container(&c)),
        size_of_val(&client.kill_container(&c, None)),
        size_of_val(&client.remove_container(&c)),
    ];
    assert!(sizes.iter().all(|size| *size <= 4096), "{sizes:?}");
}
