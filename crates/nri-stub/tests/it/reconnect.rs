//! Runtimes that are not there, go away, and come back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_nri_stub::api::{Container, PodSandbox, SynchronizeRequest};
use longshore_nri_stub::{Backoff, Ended, Phase, StubError, plugin};
use tempfile::tempdir;
use tokio::time::Instant;

use crate::runtime::{builder, listen, next, pair, within};

#[derive(Default, Clone)]
struct Counter(Arc<AtomicUsize>);

#[plugin]
impl Counter {
    async fn synchronize(&self, pods: Vec<PodSandbox>, _: Vec<Container>) {
        self.0.fetch_add(pods.len(), Ordering::SeqCst);
    }

    async fn run_pod_sandbox(&self, _: PodSandbox) {}
}

fn quick() -> Backoff {
    let (initial, max) = (Duration::from_millis(5), Duration::from_millis(20));
    Backoff::new(initial, max, 0.5).unwrap()
}

#[tokio::test]
async fn row_279_a_stub_whose_first_start_failed_starts_again() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    let stub = builder().socket(&path).build(Counter::default()).unwrap();
    let failed = stub.start().await.unwrap_err();
    assert!(matches!(failed, StubError::Connect { .. }), "{failed}");
    assert!(failed.to_string().contains("nri.sock"), "{failed}");

    let listener = listen(&path);
    // A runtime that hangs up is a failure as well.
    let hangs_up = async { drop(next(&listener).await) };
    let (failed, ()) = within(async { tokio::join!(stub.start(), hangs_up) }).await;
    assert!(failed.is_err());

    let serves = async {
        let mut runtime = next(&listener).await;
        runtime.accept().await;
        runtime
    };
    let (session, _runtime) = within(async { tokio::join!(stub.start(), serves) }).await;
    assert!(session.is_ok(), "{session:?}");
    assert_eq!(stub.handle().status().connections, 1);
}

#[tokio::test]
async fn row_280_a_runtime_that_restarts_finds_the_plugin_registered_and_synchronized_again() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    let lost = Arc::new(AtomicUsize::new(0));
    let plugin = Counter::default();
    let synchronized = Arc::clone(&plugin.0);
    let losses = Arc::clone(&lost);
    let stub = builder().socket(&path).reconnect(quick());
    let stub = stub.on_close(move |_| {
        losses.fetch_add(1, Ordering::SeqCst);
    });
    let stub = stub.build(plugin).unwrap();
    let handle = stub.handle();
    let restarts = async {
        for life in 1..=3 {
            let listener = listen(&path);
            let mut runtime = next(&listener).await;
            let (registration, _) = runtime.accept().await;
            assert_eq!(registration.plugin_name, "test");
            let pods = vec![PodSandbox::default(); life];
            let all = SynchronizeRequest {
                pods,
                ..SynchronizeRequest::default()
            };
            runtime.synchronize(&all).await.unwrap();
            drop((runtime, listener));
            std::fs::remove_file(&path).unwrap();
        }
        let mut status = handle.watch();
        let lost_again = status.wait_for(|status| matches!(status.phase, Phase::Waiting(_)));
        let connections = within(lost_again).await.unwrap().connections;
        assert_eq!(connections, 3);
        handle.stop();
    };
    let (ended, ()) = within(async { tokio::join!(stub.run(), restarts) }).await;
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert_eq!(synchronized.load(Ordering::SeqCst), 1 + 2 + 3);
    assert_eq!(lost.load(Ordering::SeqCst), 3);
    assert!(handle.status().last_error.is_some());
}

#[tokio::test(start_paused = true)]
async fn attempts_grow_apart_up_to_the_longest_delay() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("no.sock");
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8), 0.0).unwrap();
    let stub = builder()
        .socket(&path)
        .reconnect(backoff)
        .build(Counter::default())
        .unwrap();
    let handle = stub.handle();
    let delays = Arc::new(Mutex::new(Vec::new()));
    let mut status = handle.watch();
    let watched = async {
        while delays.lock().unwrap().len() < 6 {
            status.changed().await.unwrap();
            let phase = status.borrow_and_update().phase;
            if let Phase::Waiting(delay) = phase {
                delays.lock().unwrap().push(delay.as_secs());
            }
        }
        handle.stop();
    };
    let began = Instant::now();
    let (ended, ()) = tokio::join!(stub.run(), watched);
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert_eq!(*delays.lock().unwrap(), [1, 2, 4, 8, 8, 8]);
    assert_eq!(
        began.elapsed().as_secs(),
        1 + 2 + 4 + 8 + 8,
        "the last is cut short"
    );
}

#[tokio::test]
async fn a_run_that_shall_not_reconnect_ends_with_the_first_failure() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    let stub = builder().socket(&path).no_reconnect();
    let stub = stub.build(Counter::default()).unwrap();
    let ended = within(stub.run()).await;
    assert!(matches!(ended, Err(StubError::Connect { .. })), "{ended:?}");
    let listener = listen(&path);
    let serves = async { next(&listener).await.accept().await };
    let (ended, _) = within(async { tokio::join!(stub.run(), serves) }).await;
    assert!(matches!(ended, Err(StubError::Closed { .. })), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_is_handled_and_ends_the_run() {
    for closes in [true, false] {
        let plugin = Counter::default();
        let (stub, mut runtime) = pair(plugin);
        let serves = async {
            runtime.accept().await;
            let empty = longshore_nri_stub::api::Empty {};
            let reply: Result<longshore_nri_stub::api::Empty, _> =
                runtime.call("Shutdown", &empty).await;
            assert!(reply.is_ok(), "{reply:?}");
            if closes {
                runtime.client.close("bye");
            }
            runtime.client.closed().await
        };
        let began = Instant::now();
        let (ended, _) = tokio::join!(stub.run(), serves);
        assert_eq!(ended.unwrap(), Ended::Shutdown);
        assert!(
            began.elapsed() <= Duration::from_secs(1),
            "also when it does not close"
        );
    }
}

#[tokio::test]
async fn a_plugin_that_was_shut_down_comes_back_to_the_next_runtime() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    let listener = listen(&path);
    let stub = builder()
        .socket(&path)
        .reconnect(quick())
        .build(Counter::default())
        .unwrap();
    let handle = stub.handle();
    let serves = async {
        for _ in 0..2 {
            let mut runtime = next(&listener).await;
            runtime.accept().await;
            let empty = longshore_nri_stub::api::Empty {};
            let reply: longshore_nri_stub::api::Empty =
                runtime.call("Shutdown", &empty).await.unwrap();
            assert_eq!(reply, empty);
        }
        handle.stop();
    };
    let (ended, ()) = within(async { tokio::join!(stub.run(), serves) }).await;
    assert_eq!(ended.unwrap(), Ended::Stopped);
}
