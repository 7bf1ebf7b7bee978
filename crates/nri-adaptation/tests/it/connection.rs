//! Connecting, registering, Configure: rows 16 to 24 and 132 to 137.

use std::marker::PhantomData;
use std::time::Duration;

use longshore_nri_adaptation::{
    ApplyUpdates, ChangeCause, NodeState, PluginKind, PluginPolicy, PluginState, RuntimeError,
    Snapshot, Timeouts, socket::SocketOptions,
};
use longshore_nri_api::{
    ConfigureRequest, ContainerEviction, ContainerUpdate, EventMask, SynchronizeRequest,
    UpdateContainersRequest,
};
use longshore_ttrpc::{CallError, CloseReason, Code};
use tokio::net::UnixStream;

use crate::events::life;
use crate::fake::{Fake, Node, adaptation, builder, container, defaults, pod, soon};

fn rdt_update(id: &str) -> UpdateContainersRequest {
    let mut update = ContainerUpdate::new(id);
    update.resources_mut().set_rdt_class("test");
    UpdateContainersRequest {
        update: vec![update],
        evict: Vec::new(),
    }
}

#[tokio::test]
async fn rows_016_017_it_starts_and_an_external_plugin_connects() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let adaptation = builder()
        .socket(SocketOptions::new(&socket))
        .start(Node::with(1, 1))
        .await
        .unwrap();
    let stream = UnixStream::connect(&socket).await.unwrap();
    let plugin = Fake::new("00-test").over(stream);
    plugin.register().await.unwrap();
    soon(adaptation.active("00-test")).await;
    let [status] = &adaptation.plugins()[..] else {
        panic!("there is one plugin")
    };
    assert_eq!(status.kind, Some(PluginKind::External));
    assert_eq!(status.pid, Some(std::process::id()));
    assert_eq!(status.state, PluginState::Active);
    assert_eq!(status.nri_version, "v0.12.0");
    adaptation.shutdown().await;
    assert!(!socket.exists(), "the socket goes with the adaptation");
}

#[tokio::test]
async fn row_018_without_a_socket_nothing_listens() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let _adaptation = builder().start(Node::default()).await.unwrap();
    assert!(UnixStream::connect(&socket).await.is_err());
}

/// Knows what runs, and cannot change it.
struct Half;

impl Snapshot for Half {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        Ok(NodeState::default())
    }
}

struct Probe<T>(PhantomData<T>);

trait Refused {
    const ACCEPTED: bool = false;
}

impl<T> Refused for T {}

impl<T: Snapshot + ApplyUpdates> Probe<T> {
    const ACCEPTED: bool = true;
}

#[test]
fn row_020_a_runtime_that_cannot_apply_updates_is_not_accepted() {
    // That nothing can be built with it is the example of `Builder::start` that must not compile.
    let accepted = [Probe::<Node>::ACCEPTED, Probe::<Half>::ACCEPTED];
    assert_eq!(accepted, [true, false]);
    let _ = (Half, Probe::<Half>(PhantomData).0);
}

#[tokio::test]
async fn row_021_a_name_with_every_allowed_character_registers() {
    let adaptation = adaptation().await;
    let plugin = Fake::new("05-abcd-0123+EFGH_4567.ijkl")
        .join(&adaptation)
        .await;
    assert_eq!(plugin.methods(), ["Configure", "Synchronize"]);
}

#[tokio::test]
async fn rows_021_022_a_bad_name_or_index_is_answered_like_go_and_the_connection_closed() {
    let adaptation = adaptation().await;
    for (index, name, text) in [
        ("10", "foo,bar", "invalid plugin name: "),
        ("10", "", "invalid plugin name: "),
        ("1", "foo", "invalid plugin index: "),
        ("abc", "foo", "invalid plugin index: "),
    ] {
        let plugin = Fake::new("00-unused").attach(&adaptation);
        let Err(CallError::Remote(status)) = plugin.register_as(index, name).await else {
            panic!("it is refused")
        };
        assert_eq!(status.code, Code::Unknown);
        assert!(status.message.starts_with(text), "{status}");
        assert!(matches!(plugin.closed().await, CloseReason::PeerClosed));
    }
    assert!(adaptation.plugins().is_empty());
}

#[tokio::test]
async fn row_023_a_plugin_is_told_of_every_pod_and_container() {
    let adaptation = builder().start(Node::with(2, 2)).await.unwrap();
    let plugin = Fake::new("00-test").join(&adaptation).await;
    assert_eq!(plugin.methods(), ["Configure", "Synchronize"]);
    let expected = SynchronizeRequest {
        pods: vec![pod(0), pod(1)],
        containers: vec![container(0), container(1)],
        more: false,
    };
    assert_eq!(
        plugin.requests::<SynchronizeRequest>("Synchronize"),
        [expected]
    );
}

#[tokio::test]
async fn row_024_without_a_snapshot_the_plugin_is_closed() {
    let node = Node::with(2, 2);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let first = Fake::new("00-test").join(&adaptation).await;
    node.break_snapshots("no state today");
    let second = Fake::new("10-bar").attach(&adaptation);
    second.register().await.unwrap();
    second.closed().await;
    assert!(first.is_open());
    let [active, closed] = &adaptation.plugins()[..] else {
        panic!("{:?}", adaptation.plugins());
    };
    assert_eq!(active.state, PluginState::Active);
    let last_error = closed.last_error.as_deref().unwrap();
    assert!(last_error.contains("no state today"), "{last_error}");
}

#[tokio::test]
async fn rows_132_276_updates_before_registration_are_refused_and_apply_nothing() {
    let node = Node::with(1, 1);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let plugin = Fake::new("00-test").attach(&adaptation);
    let Err(CallError::Remote(status)) = plugin.update(&rdt_update("ctr0")).await else {
        panic!("it is refused")
    };
    assert_eq!(status.code, Code::FailedPrecondition);
    assert!(node.applied().is_empty());
    plugin.register().await.unwrap();
    soon(adaptation.active("test")).await;
}

#[tokio::test]
async fn row_133_updates_that_nobody_asked_for_reach_the_runtime_with_the_plugins_name() {
    let node = Node::with(1, 1);
    let adaptation = builder().start(node.clone()).await.unwrap();
    let plugin = Fake::new("00-test").join(&adaptation).await;
    life(&adaptation, 0).await;
    let mut request = rdt_update("ctr0");
    request
        .evict
        .push(ContainerEviction::new("ctr0", "it is too loud"));
    let answer = plugin.update(&request).await.unwrap();
    assert!(answer.failed.is_empty());
    let [applied] = &node.applied()[..] else {
        panic!("it was applied once")
    };
    assert_eq!(applied.plugin.to_string(), "00-test");
    assert_eq!(applied.cause, ChangeCause::Unsolicited);
    assert_eq!(applied.updates, request.update);
    assert_eq!(applied.evictions, request.evict);
}

#[tokio::test]
async fn row_134_updates_that_fail_are_returned() {
    let adaptation = builder().start(Node::with(1, 1)).await.unwrap();
    let plugin = Fake::new("00-test").join(&adaptation).await;
    let request = rdt_update("nobody");
    let answer = plugin.update(&request).await.unwrap();
    assert_eq!(answer.failed, request.update);
}

#[tokio::test]
async fn row_135_a_plugin_is_told_the_default_timeouts() {
    let adaptation = defaults().start(Node::with(2, 2)).await.unwrap();
    let plugin = Fake::new("00-test").join(&adaptation).await;
    let [configure] = &plugin.requests::<ConfigureRequest>("Configure")[..] else {
        panic!("it is configured once")
    };
    assert_eq!(configure.registration_timeout, 5000);
    assert_eq!(configure.request_timeout, 2000);
    assert_eq!(configure.runtime_name, "test-runtime");
    assert_eq!(configure.runtime_version, "1.2.3");
    assert_eq!(configure.config, "");
}

#[tokio::test]
async fn row_136_a_plugin_is_told_changed_timeouts_and_its_own() {
    let timeouts = Timeouts {
        registration: Duration::from_millis(5005),
        request: Duration::from_millis(2007),
    };
    let mut own = PluginPolicy::default();
    own.request_timeout = Some(Duration::from_millis(7001));
    let adaptation = builder()
        .timeouts(timeouts)
        .policy("slow", own)
        .start(Node::default())
        .await
        .unwrap();
    for (name, expected) in [("00-test", 2007), ("10-slow", 7001)] {
        let plugin = Fake::new(name).join(&adaptation).await;
        let configure = plugin.requests::<ConfigureRequest>("Configure");
        assert_eq!(configure[0].registration_timeout, 5005);
        assert_eq!(configure[0].request_timeout, expected);
    }
}

#[tokio::test]
async fn row_137_a_plugin_is_told_the_version_of_the_protocol() {
    let adaptation = builder()
        .nri_version("v9.8.7")
        .start(Node::default())
        .await
        .unwrap();
    let plugin = Fake::new("00-test").join(&adaptation).await;
    assert_eq!(
        plugin.requests::<ConfigureRequest>("Configure")[0].nri_version,
        "v9.8.7"
    );
}

#[tokio::test]
async fn row_274_unknown_events_are_dropped_and_the_plugin_stays() {
    let adaptation = adaptation().await;
    let _plugin = Fake::new("00-test")
        .bits(0x4000 | 1)
        .join(&adaptation)
        .await;
    assert_eq!(adaptation.plugins()[0].events, EventMask::from_bits(1));
}

#[tokio::test]
async fn row_275_no_events_are_all_events_with_validation() {
    let adaptation = adaptation().await;
    let _plugin = Fake::new("00-test").bits(0).join(&adaptation).await;
    assert_eq!(adaptation.plugins()[0].events, EventMask::ALL);
}
