//! What is tried again: the table of `RetryPolicy`, against an agent.

use std::time::Duration;

use longshore_agent_client::fake::Failpoint;
use longshore_agent_client::{AgentError, Killed, Launched, RetryPolicy};
use longshore_mesos_api::v1::agent::call::Type;

use crate::helpers::{chain, fixture, id, launch, soon};

#[tokio::test(start_paused = true)]
async fn an_agent_that_refuses_is_tried_until_the_deadline() {
    let mut fixture = fixture();
    fixture.agent.stop();
    let client = fixture.agent.client();
    let begun = tokio::time::Instant::now();
    let error = client.get_health().await.unwrap_err();
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert!(matches!(error, AgentError::Timeout { .. }), "{error:?}");
    let chain = chain(&error);
    assert!(
        chain.contains("GET_HEALTH not answered within 10s"),
        "{chain}"
    );
    assert!(chain.contains("cannot connect to unix://"), "{chain}");
    assert!(chain.contains("No such file"), "{chain}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_comes_up_later_is_found() {
    let mut fixture = fixture();
    fixture.agent.stop();
    let client = fixture.agent.client();
    let later = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        fixture.agent.restart().unwrap();
    };
    let (launched, ()) = tokio::join!(client.launch_container(launch(id("c"))), later);
    assert_eq!(launched.unwrap(), Launched::New);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_hangs_runs_into_the_deadline_of_the_call() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    for (kind, deadline) in [
        (Type::GetVersion, 10),
        (Type::KillContainer, 10),
        (Type::RemoveContainer, 40),
        (Type::LaunchContainer, 60),
    ] {
        fixture.agent.fail(kind, 1, Failpoint::Hang);
        let begun = tokio::time::Instant::now();
        let error = match kind {
            Type::GetVersion => client.get_version().await.err(),
            Type::KillContainer => client.kill_container(&id("c"), None).await.err(),
            Type::RemoveContainer => client.remove_container(&id("c")).await.err(),
            _ => client.launch_container(launch(id("d"))).await.err(),
        };
        let error = error.unwrap();
        assert!(
            matches!(error, AgentError::Timeout { source: None, .. }),
            "{error:?}"
        );
        assert!(error.is_retryable());
        assert!(
            begun.elapsed().as_secs() <= deadline,
            "{kind:?} {:?}",
            begun.elapsed()
        );
    }
    // A hung connection is not used again.
    assert!(client.get_health().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_503_then_a_200_is_a_success() {
    let fixture = fixture();
    let client = fixture.agent.client();
    for nth in 1..=5 {
        fixture.agent.fail_any(
            nth,
            Failpoint::status(503, "Agent has not finished recovery"),
        );
    }
    let launched = client.launch_container(launch(id("c"))).await.unwrap();
    assert_eq!(launched, Launched::New);
    assert_eq!(fixture.agent.count(Type::LaunchContainer), 6);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_recovers_for_ever_is_named_with_its_answer() {
    let fixture = fixture();
    fixture.agent.set_recovering(true);
    let error = fixture.agent.client().get_health().await.unwrap_err();
    assert!(chain(&error).contains("answered 503: Agent has not finished recovery"));
}

#[tokio::test(start_paused = true)]
async fn the_404_of_a_starting_agent_is_not_taken_for_an_unknown_container() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    for kind in [Type::KillContainer, Type::WaitContainer] {
        for _ in 0..3 {
            fixture
                .agent
                .fail(kind, 1, Failpoint::status(404, "404 Not Found."));
        }
    }
    let killed = client.kill_container(&id("c"), None).await.unwrap();
    assert_eq!(killed, Killed::Signalled);
    let waited = client.wait_container(&id("c")).await.unwrap();
    assert!(matches!(waited, longshore_agent_client::Waited::Exited(_)));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_path_is_an_error_after_a_while_even_for_wait() {
    let fixture = fixture();
    let client = fixture.agent.client();
    for _ in 0..10_000 {
        fixture
            .agent
            .fail_any(1, Failpoint::status(404, "404 Not Found."));
    }
    let begun = tokio::time::Instant::now();
    let error = client.wait_container(&id("c")).await.unwrap_err();
    assert_eq!(error.status(), Some(404));
    assert!(
        (5..9).contains(&begun.elapsed().as_secs()),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_cut_in_mid_answer_is_tried_again_for_calls_that_may_be_repeated() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    for failpoint in [
        Failpoint::Close,
        Failpoint::CloseAfter,
        Failpoint::CutAfter(10),
        Failpoint::CutAfter(100),
    ] {
        fixture.agent.fail(Type::GetVersion, 1, failpoint.clone());
        client.get_version().await.unwrap();
        fixture.agent.fail(Type::KillContainer, 1, failpoint);
        client.kill_container(&id("c"), Some(15)).await.unwrap();
    }
    assert_eq!(fixture.agent.count(Type::GetVersion), 8);
}

#[tokio::test]
async fn a_signal_that_would_count_twice_is_sent_once() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture.agent.put(launch(id("c")));
    fixture.agent.ignore_term("c");
    assert!(client.get_health().await.unwrap());
    for failpoint in [Failpoint::CloseAfter, Failpoint::CutAfter(5)] {
        let before = fixture.agent.count(Type::KillContainer);
        fixture.agent.fail(Type::KillContainer, 1, failpoint);
        let error = client.kill_container(&id("c"), Some(10)).await.unwrap_err();
        assert!(matches!(error, AgentError::Closed { .. }), "{error:?}");
        assert_eq!(error.container(), Some("c"));
        assert_eq!(fixture.agent.count(Type::KillContainer), before + 1);
    }
}

#[tokio::test]
async fn a_launch_whose_fate_is_unknown_is_left_to_the_caller() {
    let fixture = fixture();
    let client = fixture.agent.client();
    fixture
        .agent
        .fail(Type::LaunchContainer, 1, Failpoint::CloseAfter);
    let error = client.launch_container(launch(id("c"))).await.unwrap_err();
    assert!(matches!(error, AgentError::Closed { .. }), "{error:?}");
    assert!(error.is_retryable());
    assert_eq!(fixture.agent.count(Type::LaunchContainer), 1);
    // The caller's repetition finds it there.
    let again = client.launch_container(launch(id("c"))).await.unwrap();
    assert_eq!(again, Launched::AlreadyPresent);
    assert_eq!(fixture.agent.launches("c"), 1);
}

#[tokio::test]
async fn a_caller_may_choose_to_repeat_a_launch() {
    let fixture = fixture();
    let client = fixture.client_with(|config| config.retry.relaunch = true);
    fixture
        .agent
        .fail(Type::LaunchContainer, 1, Failpoint::CloseAfter);
    let launched = client.launch_container(launch(id("c"))).await.unwrap();
    assert_eq!(launched, Launched::AlreadyPresent);
    assert_eq!(fixture.agent.launches("c"), 1);
}

#[tokio::test]
async fn without_a_policy_nothing_is_tried_again() {
    let mut fixture = fixture();
    let client = fixture.client_with(|config| config.retry = RetryPolicy::never());
    for failpoint in [
        Failpoint::status(503, ""),
        Failpoint::status(404, "404 Not Found."),
        Failpoint::Close,
        Failpoint::CutAfter(20),
    ] {
        // A client without an idle connection, whose end would not be a failure.
        let client = fixture.client_with(|config| config.retry = RetryPolicy::never());
        let before = fixture.agent.count(Type::GetHealth);
        fixture.agent.fail(Type::GetHealth, 1, failpoint);
        assert!(client.get_health().await.unwrap_err().is_retryable());
        assert_eq!(fixture.agent.count(Type::GetHealth), before + 1);
    }
    fixture.agent.stop();
    let error = soon(client.get_health()).await.unwrap_err();
    assert!(matches!(error, AgentError::Connect { .. }), "{error:?}");
}
