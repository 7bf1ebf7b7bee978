//! Synchronization in one message and in many.

use std::sync::{Arc, Mutex};

use longshore_nri_stub::api::{Container, ContainerUpdate, PodSandbox, SynchronizeRequest};
use longshore_nri_stub::{Ended, HandlerError, StubError, plugin};
use tempfile::tempdir;

use crate::runtime::{
    FakeRuntime, active, builder, code, listen, next, stream_pair, today, within,
};

type Seen = Arc<Mutex<Vec<(Vec<String>, Vec<usize>)>>>;

/// Remembers the names of pods and the sizes of containers.
struct Keeper(Seen);

#[plugin]
impl Keeper {
    async fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, HandlerError> {
        if pods.iter().any(|pod| pod.name == "refuse") {
            return Err("refused".into());
        }
        let names = pods.into_iter().map(|pod| pod.name).collect();
        let sizes = containers.iter().map(|it| it.status_message.len());
        self.0.lock().unwrap().push((names, sizes.collect()));
        Ok(vec![ContainerUpdate {
            container_id: "first".into(),
            ..ContainerUpdate::default()
        }])
    }

    async fn run_pod_sandbox(&self, _: PodSandbox) {}
}

fn pod(name: &str) -> PodSandbox {
    PodSandbox {
        name: name.into(),
        ..PodSandbox::default()
    }
}

fn container(size: usize) -> Container {
    Container {
        status_message: "x".repeat(size),
        ..Container::default()
    }
}

fn chunk(pods: &[&str], sizes: &[usize], more: bool) -> SynchronizeRequest {
    SynchronizeRequest {
        pods: pods.iter().map(|name| pod(name)).collect(),
        containers: sizes.iter().map(|size| container(*size)).collect(),
        more,
    }
}

#[tokio::test(start_paused = true)]
async fn row_272_chunks_are_gathered_and_handed_over_whole() {
    let seen = Seen::default();
    let (_stub, _session, runtime) = active(Keeper(Arc::clone(&seen))).await;
    let size = 600_000;
    for (pods, containers) in [(&["a", "b"][..], 4), (&[], 6), (&[], 6)] {
        let request = chunk(pods, &vec![size; containers], true);
        let reply = runtime.synchronize(&request).await.unwrap();
        assert!(reply.more && reply.update.is_empty());
        assert!(seen.lock().unwrap().is_empty(), "not before the last");
    }
    let last = chunk(&[], &[size; 4], false);
    let reply = runtime.synchronize(&last).await.unwrap();
    assert!(!reply.more);
    assert_eq!(reply.update[0].container_id, "first");
    let expected = (vec!["a".to_owned(), "b".to_owned()], vec![size; 20]);
    assert_eq!(*seen.lock().unwrap(), [expected]);

    // And again from nothing.
    runtime
        .synchronize(&chunk(&["c"], &[1], false))
        .await
        .unwrap();
    let expected = (vec!["c".to_owned()], vec![1]);
    assert_eq!(seen.lock().unwrap()[1..], [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_without_the_handler_echoes_more() {
    struct Plain;
    #[plugin]
    impl Plain {
        async fn run_pod_sandbox(&self, _: PodSandbox) {}
    }
    let (_stub, _session, runtime) = active(Plain).await;
    for more in [true, true, false] {
        let reply = runtime
            .synchronize(&chunk(&["a"], &[1], more))
            .await
            .unwrap();
        assert_eq!((reply.more, reply.update.len()), (more, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_synchronization_over_the_limit_is_refused_and_not_kept() {
    let seen = Seen::default();
    let (near, far) = stream_pair();
    let stub = builder().connection(near).sync_limits(8 << 20, 10);
    let stub = stub.build(Keeper(Arc::clone(&seen))).unwrap();
    let mut runtime = FakeRuntime::on(far);
    let (session, _) = tokio::join!(stub.start(), runtime.accept());
    let _session = session.unwrap();
    // Too many objects, then too many bytes.
    for (sizes, chunks) in [(vec![1; 4], 2), (vec![3_000_000], 2)] {
        for _ in 0..chunks {
            let reply = runtime.synchronize(&chunk(&[], &sizes, true)).await;
            assert!(reply.unwrap().more);
        }
        let request = chunk(&[], &sizes, true);
        assert_eq!(code(runtime.synchronize(&request).await), 8);
        let request = chunk(&["tail"], &[], false);
        assert_eq!(
            code(runtime.synchronize(&request).await),
            8,
            "no handler sees a part"
        );
    }
    runtime
        .synchronize(&chunk(&["a"], &[1], false))
        .await
        .unwrap();
    assert_eq!(*seen.lock().unwrap(), [(vec!["a".to_owned()], vec![1])]);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_handler_is_told() {
    let (_stub, _session, runtime) = active(Keeper(Seen::default())).await;
    let refused = runtime.synchronize(&chunk(&["refuse"], &[], false)).await;
    assert_eq!(code(refused), 2);
}

#[tokio::test]
async fn half_a_synchronization_does_not_outlive_its_connection() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    let listener = listen(&path);
    let seen = Seen::default();
    let stub = builder()
        .socket(&path)
        .build(Keeper(Arc::clone(&seen)))
        .unwrap();
    let half = async {
        let mut runtime = next(&listener).await;
        runtime.accept().await;
        let reply = runtime.synchronize(&chunk(&["old"], &[7], true)).await;
        assert!(reply.unwrap().more);
    };
    let first = async {
        let session = stub.start().await?;
        session.wait().await
    };
    let (ended, ()) = within(async { tokio::join!(first, half) }).await;
    assert!(matches!(ended, Err(StubError::Closed { .. })), "{ended:?}");
    let handle = stub.handle();
    let whole = async {
        let mut runtime = next(&listener).await;
        runtime.registration().await;
        runtime.configure(&today()).await.unwrap();
        runtime
            .synchronize(&chunk(&["new"], &[1], false))
            .await
            .unwrap();
        handle.stop();
    };
    let (ended, ()) = within(async { tokio::join!(stub.run(), whole) }).await;
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert_eq!(*seen.lock().unwrap(), [(vec!["new".to_owned()], vec![1])]);
}
