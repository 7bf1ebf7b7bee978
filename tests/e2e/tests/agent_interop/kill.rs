use longshore_agent_client::{Killed, Show};

use crate::target::{Target, appears, exited, settle, shell, sleep};

pub(crate) async fn the_default_signal_is_kill_and_does_not_wait(t: &mut Target) {
    let (client, id) = (t.client(), t.id("kill"));
    let wait_for = id.clone();
    let waiter = client.clone();
    client.launch_container(sleep(&id)).await.unwrap();
    let wait = tokio::spawn(async move { waiter.wait_container(&wait_for).await.unwrap() });
    settle(t).await;
    assert_eq!(
        client.kill_container(&id, None).await.unwrap(),
        Killed::Signalled
    );
    // A real agent forgets the status if the WAIT came after the end; here it came before.
    let exit = exited(wait.await.unwrap());
    assert_eq!(exit.exit_status, Some(9));
}

pub(crate) async fn right_after_the_launch_it_works_too(t: &mut Target) {
    for _ in 0..10 {
        let (client, id) = (t.client(), t.id("quick"));
        client.launch_container(sleep(&id)).await.unwrap();
        let (waited, killed) = tokio::join!(
            client.wait_container(&id),
            client.kill_container(&id, Some(9))
        );
        assert_eq!(killed.unwrap(), Killed::Signalled);
        assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
    }
}

pub(crate) async fn aa11_a_handler_of_sigterm_decides_the_exit_status(t: &mut Target) {
    let (client, id, ready) = (t.client(), t.id("trap"), t.path("ready"));
    let command = format!(
        "trap 'exit 7' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    client.launch_container(shell(&id, &command)).await.unwrap();
    appears(&ready).await;
    let (waited, killed) = tokio::join!(
        client.wait_container(&id),
        client.kill_container(&id, Some(15))
    );
    assert_eq!(killed.unwrap(), Killed::Signalled);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(7 << 8));
}

pub(crate) async fn a_process_that_ignores_sigterm_lives_on(t: &mut Target) {
    let (client, id, ready) = (t.client(), t.id("stubborn"), t.path("ready"));
    let command = format!("trap '' TERM; touch {}; exec sleep 1000", ready.display());
    client.launch_container(shell(&id, &command)).await.unwrap();
    appears(&ready).await;
    assert_eq!(
        client.kill_container(&id, Some(15)).await.unwrap(),
        Killed::Signalled
    );
    let listed = client.get_containers(Show::ALL).await.unwrap();
    assert!(listed.iter().any(|c| c.container_id == id));
    let (waited, killed) = tokio::join!(
        client.wait_container(&id),
        client.kill_container(&id, Some(9))
    );
    assert_eq!(killed.unwrap(), Killed::Signalled);
    assert_eq!(exited(waited.unwrap()).exit_status, Some(9));
}

pub(crate) async fn signal_0_does_nothing_and_an_invalid_one_is_a_500(t: &mut Target) {
    let (client, id) = (t.client(), t.id("signals"));
    client.launch_container(sleep(&id)).await.unwrap();
    assert_eq!(
        client.kill_container(&id, Some(0)).await.unwrap(),
        Killed::Signalled
    );
    for signal in [99, -1] {
        let error = client.kill_container(&id, Some(signal)).await.unwrap_err();
        assert_eq!(error.status(), Some(500));
        assert!(error.to_string().contains("Invalid argument"), "{error}");
    }
    let listed = client.get_containers(Show::ALL).await.unwrap();
    assert!(listed.iter().any(|c| c.container_id == id));
}

pub(crate) async fn an_unknown_container_is_a_404_with_that_text(t: &mut Target) {
    let (client, id) = (t.client(), t.id("nobody"));
    assert_eq!(
        client.kill_container(&id, None).await.unwrap(),
        Killed::Unknown
    );
    let answer = t
        .post(&format!(
            r#"{{"type":"KILL_CONTAINER","kill_container":{{"container_id":{{"value":"{}"}},"signal":"9"}}}}"#,
            id.value
        ))
        .await;
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.text(),
        format!(
            "Container '{}' cannot be found (or is already killed)",
            id.value
        )
    );
}

pub(crate) async fn a_child_in_a_session_of_its_own_ends_with_the_container(t: &mut Target) {
    let (client, id, out) = (t.client(), t.id("setsid"), t.path("pid"));
    let command = format!(
        "setsid sleep 1000 & echo $! > {0}.part; mv {0}.part {0}; wait",
        out.display()
    );
    client.launch_container(shell(&id, &command)).await.unwrap();
    appears(&out).await;
    let pid = std::fs::read_to_string(&out).unwrap();
    let stat = format!("/proc/{}/stat", pid.trim());
    assert!(std::path::Path::new(&stat).exists());
    let (waited, _) = tokio::join!(
        client.wait_container(&id),
        client.kill_container(&id, Some(9))
    );
    exited(waited.unwrap());
    // A zombie has ended; who reaps it is not the agent's to say.
    let gone = tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    gone.await.expect("the child has ended");
}
