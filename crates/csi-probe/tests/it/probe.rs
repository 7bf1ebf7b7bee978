//! Finding a plugin's version, and what odd plugins get.

use longshore_csi_probe::{ApiVersion, ProbeError, ProbeOptions, Waiting, probe};
use longshore_testkit::csi::{Behaviour, Listen, Speak};
use tokio::{
    sync::watch,
    time::{Duration, Instant},
};
use tonic::Code;

use crate::{Bed, PATIENCE, SHORT, within};

fn expecting(version: ApiVersion) -> ProbeOptions {
    ProbeOptions {
        expect: Some(version),
        ..within(PATIENCE)
    }
}

#[tokio::test]
async fn sm17_v1_is_asked_first_and_alone_when_it_answers() {
    for behaviour in [Behaviour::v1(), Behaviour::both()] {
        let bed = Bed::new();
        let plugin = bed.plugin(behaviour);
        let probed = probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
        assert_eq!((probed.version, probed.ready), (ApiVersion::V1, Some(true)));
        assert_eq!(plugin.seen().calls, ["v1 Probe"]);
        assert_eq!(plugin.seen().connections, 1);
    }
}

#[tokio::test]
async fn sm17_v0_is_asked_after_unimplemented_on_the_same_connection() {
    let bed = Bed::new();
    let plugin = bed.plugin(Behaviour::v0());
    let probed = probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
    assert_eq!((probed.version, probed.ready), (ApiVersion::V0, Some(true)));
    assert_eq!(plugin.seen().calls, ["v0 Probe"]);
    assert_eq!(plugin.seen().connections, 1);
}

#[tokio::test]
async fn sm17_an_absent_ready_counts_as_ready() {
    let bed = Bed::new();
    let _plugin = bed.plugin(Behaviour::v0_2());
    let probed = probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
    assert_eq!((probed.version, probed.ready), (ApiVersion::V0, None));
}

#[tokio::test]
async fn sm17_neither_version_is_an_error_at_once() {
    let bed = Bed::new();
    let _plugin = bed.plugin(Behaviour::none());
    match probe(&bed.endpoint(), &within(PATIENCE)).await {
        Err(error @ ProbeError::UnknownVersion { .. }) => {
            assert!(
                error.to_string().contains("neither CSI v1 nor v0"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn sm17_another_status_is_an_error_at_once_and_v0_is_not_asked() {
    let bed = Bed::new();
    let status = Some(Code::FailedPrecondition as i32);
    let plugin = bed.plugin(Behaviour {
        status,
        ..Behaviour::both()
    });
    match probe(&bed.endpoint(), &within(PATIENCE)).await {
        Err(error @ ProbeError::Rpc { .. }) => {
            let line = error.to_string();
            assert!(
                line.contains("Probe (v1)") && line.contains("FailedPrecondition: scripted"),
                "{line}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(plugin.seen().calls, ["v1 Probe"]);
}

#[tokio::test]
async fn sm17_another_version_than_expected_is_an_error_of_its_own() {
    for (behaviour, expected, found) in [
        (Behaviour::v0(), ApiVersion::V1, ApiVersion::V0),
        (Behaviour::v1(), ApiVersion::V0, ApiVersion::V1),
    ] {
        let bed = Bed::new();
        let _plugin = bed.plugin(behaviour);
        match probe(&bed.endpoint(), &expecting(expected)).await {
            Err(ProbeError::VersionChanged {
                expected: e,
                found: f,
                ..
            }) => {
                assert_eq!((e, f), (expected, found));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn sm17_an_expected_version_is_the_only_one_asked() {
    let bed = Bed::new();
    let plugin = bed.plugin(Behaviour::both());
    let probed = probe(&bed.endpoint(), &expecting(ApiVersion::V0))
        .await
        .unwrap();
    assert_eq!(probed.version, ApiVersion::V0);
    assert_eq!(plugin.seen().calls, ["v0 Probe"]);
}

#[tokio::test]
async fn sm18_a_plugin_that_never_listens_ends_at_the_deadline() {
    for listen in [Listen::Never, Listen::Elsewhere("elsewhere.sock".into())] {
        let bed = Bed::new();
        let listen = match listen {
            Listen::Elsewhere(name) => Listen::Elsewhere(bed.dir.path().join(name)),
            other => other,
        };
        let _plugin = bed.plugin(Behaviour {
            listen,
            ..Behaviour::v1()
        });
        let started = Instant::now();
        match probe(&bed.endpoint(), &within(SHORT)).await {
            Err(ProbeError::TimedOut {
                waiting: Waiting::Socket,
                ..
            }) => {}
            other => panic!("{other:?}"),
        }
        assert!(started.elapsed() >= SHORT);
    }
}

#[tokio::test]
async fn not_ready_and_unavailable_are_asked_again() {
    let bed = Bed::new();
    let plugin = bed.plugin(Behaviour {
        unavailable: 2,
        not_ready: 2,
        ..Behaviour::v1()
    });
    let (progress, mut said) = watch::channel(None);
    let options = ProbeOptions {
        progress: Some(progress),
        ..within(PATIENCE)
    };
    let endpoint = bed.endpoint();
    let probing = tokio::spawn(async move { probe(&endpoint, &options).await });
    let mut reasons = Vec::new();
    while said.changed().await.is_ok() {
        reasons.push(said.borrow_and_update().clone());
    }
    probing.await.unwrap().unwrap();
    assert_eq!(plugin.seen().probes, 5);
    assert!(reasons.contains(&Some(Waiting::Ready)), "{reasons:?}");
    assert!(
        reasons.contains(&Some(Waiting::Unavailable {
            message: "starting".into()
        })),
        "{reasons:?}"
    );
    assert_eq!(reasons.last(), Some(&None));
}

#[tokio::test]
async fn never_ready_and_always_unavailable_end_at_the_deadline() {
    for (behaviour, text) in [
        (
            Behaviour {
                not_ready: u32::MAX,
                ..Behaviour::v0()
            },
            "says that it is not ready",
        ),
        (
            Behaviour {
                unavailable: u32::MAX,
                ..Behaviour::v1()
            },
            "answers UNAVAILABLE: starting",
        ),
    ] {
        let bed = Bed::new();
        let _plugin = bed.plugin(behaviour);
        match probe(&bed.endpoint(), &within(SHORT)).await {
            Err(error @ ProbeError::TimedOut { .. }) => {
                assert!(error.to_string().contains(text), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_is_dialled_afresh_until_the_deadline() {
    let bed = Bed::new();
    let plugin = bed.plugin(Behaviour {
        hang_after: Some(0),
        ..Behaviour::v1()
    });
    let options = ProbeOptions {
        attempt_timeout: Duration::from_millis(50),
        ..within(SHORT)
    };
    match probe(&bed.endpoint(), &options).await {
        Err(
            error @ ProbeError::TimedOut {
                waiting: Waiting::Answer,
                ..
            },
        ) => {
            assert!(error.to_string().contains("does not answer"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(plugin.seen().connections >= 2);
    // And once it answers again, it is found.
    plugin.change(|behaviour| behaviour.hang_after = None);
    probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_never_read_ends_at_the_deadline() {
    let bed = Bed::new();
    let _plugin = bed.plugin(Behaviour {
        speak: Speak::Nothing,
        ..Behaviour::v1()
    });
    match probe(&bed.endpoint(), &within(SHORT)).await {
        Err(ProbeError::TimedOut {
            waiting: Waiting::Answer,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_connection_that_is_closed_is_tried_again_until_the_deadline() {
    let bed = Bed::new();
    let _plugin = bed.plugin(Behaviour {
        speak: Speak::Close,
        ..Behaviour::v1()
    });
    match probe(&bed.endpoint(), &within(SHORT)).await {
        Err(
            error @ ProbeError::TimedOut {
                waiting: Waiting::Disconnected { .. },
                ..
            },
        ) => {
            assert!(error.to_string().contains("ends the connection"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_no_grpc_is_named_at_once() {
    for speak in [Speak::Garbage, Speak::Http1] {
        let bed = Bed::new();
        let _plugin = bed.plugin(Behaviour {
            speak,
            ..Behaviour::v1()
        });
        match probe(&bed.endpoint(), &within(PATIENCE)).await {
            Err(error @ ProbeError::NotGrpc { .. }) => {
                assert!(error.to_string().contains("does not speak gRPC"), "{error}");
                assert!(!error.to_string().contains('\n'));
            }
            other => panic!("{speak:?}: {other:?}"),
        }
    }
}
