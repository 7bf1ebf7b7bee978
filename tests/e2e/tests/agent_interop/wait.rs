use longshore_agent_client::Waited;

use crate::raw::request;
use crate::target::{Target, exited, launch_held, run_to_end, settle, sleep};

pub(crate) async fn exit_statuses_are_raw_wait_statuses(t: &mut Target) {
    for (command, status) in [
        ("exit 0", 0),
        ("exit 3", 768),
        ("kill -TERM $$", 15),
        ("kill -KILL $$", 9),
    ] {
        let id = t.id("status");
        let exit = run_to_end(t, &id, command).await;
        assert_eq!(exit.exit_status, Some(status), "{command}");
    }
}

pub(crate) async fn every_waiter_gets_the_exit(t: &mut Target) {
    let (client, id) = (t.client(), t.id("waiters"));
    let gate = launch_held(t, &id, "exit 5").await;
    let (a, b, c, ()) = tokio::join!(
        client.wait_container(&id),
        client.wait_container(&id),
        client.wait_container(&id),
        async {
            settle(t).await;
            std::fs::write(&gate, "").unwrap();
        }
    );
    for waited in [a, b, c] {
        assert_eq!(exited(waited.unwrap()).exit_status, Some(1280));
    }
}

pub(crate) async fn an_unknown_container_is_unknown(t: &mut Target) {
    let (client, id) = (t.client(), t.id("unknown"));
    assert_eq!(client.wait_container(&id).await.unwrap(), Waited::Unknown);
    let json = format!(
        r#"{{"type":"WAIT_CONTAINER","wait_container":{{"container_id":{{"value":"{}"}}}}}}"#,
        id.value
    );
    let answer = t.post(&json).await;
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.text(),
        format!("Container {} cannot be found", id.value)
    );
}

pub(crate) async fn aa12_a_late_wait_finds_the_status_only_within_its_retention(t: &mut Target) {
    let id = t.id("late");
    let exit = run_to_end(t, &id, "exit 7").await;
    for _ in 0..3 {
        let late = t.client().wait_container(&id).await.unwrap();
        if t.is_real() {
            assert_eq!(late, Waited::Unknown);
        } else {
            assert_eq!(exited(late), exit);
        }
    }
}

pub(crate) async fn nothing_is_sent_before_the_end(t: &mut Target) {
    let (client, id) = (t.client(), t.id("silent"));
    client.launch_container(sleep(&id)).await.unwrap();
    let wait = format!(
        r#"{{"type":"WAIT_CONTAINER","wait_container":{{"container_id":{{"value":"{}"}}}}}}"#,
        id.value
    );
    let mut connection = t.raw().connect().await;
    let headers = [("Content-Type", "application/json")];
    connection
        .write(&request("POST", "/api/v1", &headers, wait.as_bytes()))
        .await;
    // What a busy agent has time to answer meanwhile, it answers.
    for _ in 0..20 {
        client.get_health().await.unwrap();
        assert_eq!(connection.came_already(), 0);
    }
    client.kill_container(&id, None).await.unwrap();
    let answer = connection.read_answer().await;
    assert_eq!(answer.status, 200);
    let expected = r#"{"type":"WAIT_CONTAINER","wait_container":{"exit_status":9"#;
    assert!(answer.text().starts_with(expected), "{}", answer.text());
}
