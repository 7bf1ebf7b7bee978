//! What the agent of the other tests cannot be started with: executors that prove who they are.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use longshore_agent_client::fake::{FakeExecutorApi, ReceivedCall};
use longshore_mesos_api::v1::executor::{Event, call, event};
use longshore_testkit::peers;

use crate::bed::EXECUTOR;
use crate::scheduler::SOON;

const TOKEN: &str = "header.claims.signature";

async fn subscribe_of(agent: &mut FakeExecutorApi) -> ReceivedCall {
    let subscribe = async {
        loop {
            let received = agent.next_call().await.expect("the agent lives");
            if received.call.r#type() == call::Type::Subscribe {
                return received;
            }
        }
    };
    let subscribe = tokio::time::timeout(SOON, subscribe).await;
    subscribe.expect("the executor subscribes")
}

/// Its watchdog, by the last words of its command line.
fn watchdog_of(executor: &Child) -> PathBuf {
    let wanted = executor.id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found = entries.map(|entry| entry.path()).filter(|process| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.contains(&&b"watchdog"[..]) && words.contains(&wanted.as_bytes())
    });
    found.next().expect("it has a watchdog")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_shows_its_token_at_a_port_and_at_a_domain_socket_and_nowhere_else() {
    // Elsewhere its records lie below a directory that this test does not know.
    let Some(()) = peers::root() else { return };
    let dir = tempfile::tempdir().unwrap();
    let by_port = FakeExecutorApi::start().await.unwrap();
    let by_socket = FakeExecutorApi::start_on(&dir.path().join("agent.sock")).unwrap();
    for mut agent in [by_port, by_socket] {
        let mut executor = Command::new(EXECUTOR)
            .arg("--docker_socket=/nonexistent/docker.sock")
            .env_clear()
            .envs(agent.environment(true))
            .env("MESOS_EXECUTOR_AUTHENTICATION_TOKEN", TOKEN)
            .env("MESOS_DIRECTORY", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let subscribe = subscribe_of(&mut agent).await;
        let expected = format!("Bearer {TOKEN}");
        assert_eq!(subscribe.authorization.as_deref(), Some(&*expected));
        let watchdog = watchdog_of(&executor);
        let environment = std::fs::read(watchdog.join("environ")).unwrap();
        assert!(environment.is_empty());
        // Once more, after the stream has ended; it may be opened a moment after the call has arrived.
        let again = loop {
            agent.end_stream();
            let moment = std::time::Duration::from_millis(50);
            if let Ok(again) = tokio::time::timeout(moment, subscribe_of(&mut agent)).await {
                break again;
            }
        };
        assert_eq!(again.authorization, subscribe.authorization);
        let shutdown = async {
            let shutdown = Event {
                r#type: Some(event::Type::Shutdown.into()),
                ..Event::default()
            };
            while !agent.send(&shutdown) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            while executor.try_wait().unwrap().is_none() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let ended = tokio::time::timeout(SOON, shutdown).await;
        ended.expect("the executor ends");
        let output = executor.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains("signature"));
    }
}
