//! WAIT, which has no deadline and never invents an exit.

use std::time::Duration;

use longshore_agent_client::fake::{Failpoint, Flavor};
use longshore_agent_client::{AgentClient, AgentClientConfig, Waited};
use longshore_mesos_api::v1::agent::call::Type;
use longshore_mesos_api::v1::agent::response::WaitContainer;

use crate::helpers::{Proxy, fixture, fixture_as, id, launch, soon};

fn exited(status: i32) -> Waited {
    Waited::Exited(WaitContainer {
        exit_status: Some(status),
        ..WaitContainer::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_as_long_as_the_container() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    let month = async {
        tokio::time::sleep(Duration::from_secs(30 * 24 * 3600)).await;
        fixture.agent.exit("c", 768);
    };
    let c = id("c");
    let (waited, ()) = tokio::join!(client.wait_container(&c), month);
    assert_eq!(waited.unwrap(), exited(768));
    assert_eq!(fixture.agent.count(Type::WaitContainer), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_survives_cut_connections_and_restarts_of_the_agent() {
    let mut fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    let agent = &mut fixture.agent;
    let script = async {
        for (round, down) in [0, 1, 60, 3600].into_iter().enumerate() {
            agent.wait_log(|log| log.len() > round).await;
            agent.stop();
            tokio::time::sleep(Duration::from_secs(down)).await;
            agent.restart().unwrap();
        }
        agent.wait_log(|log| log.len() > 4).await;
        agent.exit("c", 15);
    };
    let c = id("c");
    let (waited, ()) =
        soon_in_virtual_time(async { tokio::join!(client.wait_container(&c), script) }).await;
    assert_eq!(waited.unwrap(), exited(15));
    assert_eq!(fixture.agent.count(Type::WaitContainer), 5);
}

async fn soon_in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10_000_000), future)
        .await
        .expect("it never happened")
}

#[tokio::test(start_paused = true)]
async fn a_wait_outlives_a_recovering_agent() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    fixture.agent.set_recovering(true);
    let script = async {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        fixture.agent.set_recovering(false);
        fixture.agent.exit("c", 0);
    };
    let c = id("c");
    let (waited, ()) = tokio::join!(client.wait_container(&c), script);
    assert_eq!(waited.unwrap(), exited(0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_cut_at_any_byte_is_no_exit() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    fixture.agent.exit("c", 0);
    // The whole answer has about 100 bytes; the last cuts leave it whole.
    for bytes in 0..130 {
        fixture
            .agent
            .fail(Type::WaitContainer, 1, Failpoint::CutAfter(bytes));
        let waited = client.wait_container(&id("c")).await.unwrap();
        assert_eq!(waited, exited(0), "cut after {bytes} bytes");
    }
    assert!(fixture.agent.count(Type::WaitContainer) > 200);
}

#[tokio::test]
async fn a_status_that_a_mesos_agent_forgot_is_unknown_and_not_an_exit() {
    let fixture = fixture_as(Flavor::Mesos);
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    fixture.agent.exit("c", 256);
    assert_eq!(client.wait_container(&id("c")).await.unwrap(), exited(256));
    assert_eq!(
        client.wait_container(&id("c")).await.unwrap(),
        Waited::Unknown
    );
}

#[tokio::test]
async fn other_statuses_end_a_wait_with_an_error() {
    let fixture = fixture();
    let client = fixture.agent.client();
    for status in [400, 401, 403, 500] {
        fixture
            .agent
            .fail(Type::WaitContainer, 1, Failpoint::status(status, "no"));
        let error = soon(client.wait_container(&id("c"))).await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        assert_eq!(error.container(), Some("c"));
    }
}

#[tokio::test]
async fn many_waits_run_beside_short_calls() {
    let fixture = fixture();
    let client = fixture.agent.client();
    let mut waits = tokio::task::JoinSet::new();
    for number in 0..50 {
        let name = format!("c{number}");
        fixture.agent.put(launch(id(&name)));
        let client = client.clone();
        waits.spawn(async move { client.wait_container(&id(&name)).await.unwrap() });
    }
    soon(fixture.agent.wait_log(|log| log.len() == 50)).await;
    assert!(client.get_health().await.unwrap());
    for number in 0..50 {
        fixture.agent.exit(&format!("c{number}"), 0);
    }
    let all = soon(waits.join_all()).await;
    assert!(all.iter().all(|waited| *waited == exited(0)));
}

#[tokio::test]
async fn a_dropped_wait_closes_its_connection() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    {
        let c = id("c");
        let wait = client.wait_container(&c);
        tokio::select! {
            waited = wait => panic!("it runs: {waited:?}"),
            () = fixture.agent.wait_log(|log| log.len() == 1) => {}
        }
    }
    assert!(client.get_health().await.unwrap());
    assert_eq!(fixture.agent.running(), ["c"]);
}

#[tokio::test]
async fn a_wait_over_tcp_waits_again_when_it_is_cut() {
    let fixture = fixture();
    fixture.agent.put(launch(id("c")));
    let proxy = Proxy::start(fixture.agent.socket(), None).await;
    let endpoint = format!("http://{}/api/v1", proxy.address).parse().unwrap();
    let client = AgentClient::new(AgentClientConfig::new(endpoint)).unwrap();
    let script = async {
        for round in 1..4 {
            fixture.agent.wait_log(|log| log.len() == round).await;
            proxy.cut();
        }
        fixture.agent.wait_log(|log| log.len() == 4).await;
        fixture.agent.exit("c", 9);
    };
    let c = id("c");
    let (waited, ()) = soon(async { tokio::join!(client.wait_container(&c), script) }).await;
    assert_eq!(waited.unwrap(), exited(9));
}
