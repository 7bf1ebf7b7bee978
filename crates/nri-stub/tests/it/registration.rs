//! From the first connection to the subscription.

use std::time::Duration;

use longshore_nri_stub::api::{
    Container, ContainerAdjustment, ContainerUpdate, Event, EventMask, NRI_VERSION, PodSandbox,
};
use longshore_nri_stub::{
    CallError, Configuration, Ended, Environment, HandlerError, HandlerResult, Handlers, Phase,
    Plugin, Status, Stub, StubError, plugin,
};
use tokio::time::Instant;

use crate::runtime::{
    FakeRuntime, builder, code, containerd_1_7, pair, stream_pair, text, today, within,
};

/// Subscribes to what its configuration says.
struct Chooser;

#[plugin]
impl Chooser {
    async fn configure(&self, configuration: Configuration) -> Result<EventMask, HandlerError> {
        match configuration.config.as_str() {
            "" | "text" => Ok(EventMask::NONE),
            "panic" => panic!("as asked"),
            list => Ok(list.parse()?),
        }
    }

    async fn create_container(&self, _: PodSandbox, _: Container) -> ContainerAdjustment {
        ContainerAdjustment::default()
    }

    async fn stop_pod_sandbox(&self, _: PodSandbox) {}

    async fn update_pod_sandbox(
        &self,
        _: PodSandbox,
        _: longshore_nri_stub::api::LinuxResources,
        _: longshore_nri_stub::api::LinuxResources,
    ) {
    }
}

const CHOOSER: i32 = 0x080a;

/// Who it is by hand is forgotten where a runtime says who it is; the file name is asked last.
#[test]
fn a_plugin_that_is_started_by_hand_or_launched_has_the_identity_for_that() {
    let launched = Environment {
        index: Some("42".into()),
        name: Some("launched".into()),
        ..Environment::default()
    };
    let program = Environment {
        program: Some("/p/77-file".into()),
        ..Environment::default()
    };
    for (environment, expected) in [
        (launched, "42-launched"),
        (program, "10-by-hand"),
        (Environment::default(), "10-by-hand"),
    ] {
        let stub = Stub::builder()
            .environment(environment)
            .unless_launched("10", "by-hand");
        let stub = stub.build(Chooser);
        assert_eq!(stub.unwrap().handle().id().to_string(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_says_who_it_is_and_learns_who_asks() {
    let (stub, mut runtime) = pair(Chooser);
    let handle = stub.handle();
    assert_eq!(handle.runtime_nri_version(), "unknown");
    assert_eq!(handle.status().phase, Phase::Idle);
    let (session, (registration, events)) = tokio::join!(stub.start(), runtime.accept());
    let session = session.unwrap();
    assert_eq!(registration.plugin_name, "test");
    assert_eq!(registration.plugin_idx, "00");
    assert_eq!(registration.nri_version, NRI_VERSION);
    assert_eq!(events, CHOOSER);
    let status = handle.status();
    assert_eq!(status.phase, Phase::Active);
    assert_eq!(status.connections, 1);
    assert_eq!(status.runtime_name.as_deref(), Some("test-runtime"));
    assert_eq!(status.runtime_version.as_deref(), Some("1.2.3"));
    assert_eq!(session.handle().id().to_string(), "00-test");
}

#[tokio::test(start_paused = true)]
async fn row_135_timeouts_are_the_defaults_until_the_runtime_says_otherwise() {
    let (stub, mut runtime) = pair(Chooser);
    let handle = stub.handle();
    let default = (Duration::from_secs(5), Duration::from_secs(2));
    assert_eq!(
        (handle.registration_timeout(), handle.request_timeout()),
        default
    );
    let configured = async {
        runtime.registration().await;
        runtime.configure(&containerd_1_7()).await.unwrap()
    };
    let (session, _) = tokio::join!(stub.start(), configured);
    assert!(session.is_ok());
    let told = (handle.registration_timeout(), handle.request_timeout());
    assert_eq!(told, default, "zero keeps them");
}

#[tokio::test(start_paused = true)]
async fn row_136_changed_timeouts_are_reported_exactly() {
    let (stub, mut runtime) = pair(Chooser);
    let (session, _) = tokio::join!(stub.start(), runtime.accept());
    let handle = session.unwrap().handle();
    assert_eq!(handle.registration_timeout(), Duration::from_millis(5005));
    assert_eq!(handle.request_timeout(), Duration::from_millis(2007));
}

#[tokio::test(start_paused = true)]
async fn row_137_versions_are_exchanged() {
    let (stub, mut runtime) = pair(Chooser);
    let (session, (registration, _)) = tokio::join!(stub.start(), runtime.accept());
    let handle = session.unwrap().handle();
    assert_eq!(handle.runtime_nri_version(), "v9.8.7");
    assert_eq!(registration.nri_version, handle.nri_version());
}

#[tokio::test(start_paused = true)]
async fn row_250_configure_may_come_before_the_register_reply() {
    let (near, far) = stream_pair();
    let stub = builder().connection(near).build(Chooser).unwrap();
    let mut runtime = FakeRuntime::on(far).hold_registration();
    let served = async {
        runtime.registration().await;
        let events = runtime.configure(&today()).await.unwrap();
        runtime.answer_registration();
        events
    };
    let (session, events) = tokio::join!(stub.start(), served);
    assert!(session.is_ok(), "{session:?}");
    assert_eq!(events, CHOOSER);
}

#[tokio::test(start_paused = true)]
async fn row_251_a_register_reply_of_no_bytes_is_success() {
    // The fake answers with an empty message, which is a frame of length 0.
    let (stub, mut runtime) = pair(Chooser);
    let (session, _) = tokio::join!(stub.start(), runtime.accept());
    assert!(session.is_ok());
}

#[tokio::test(start_paused = true)]
async fn row_278_a_runtime_that_dies_after_the_register_reply_is_an_error_at_once() {
    let (stub, mut runtime) = pair(Chooser);
    let began = Instant::now();
    let dies = async move {
        runtime.registration().await;
        // The answer goes out before the end does.
        tokio::task::yield_now().await;
        drop(runtime);
    };
    let (session, ()) = tokio::join!(stub.start(), dies);
    assert!(
        matches!(session, Err(StubError::Closed { .. })),
        "{session:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(stub.handle().status().phase, Phase::Idle);
}

#[tokio::test(start_paused = true)]
async fn row_278_a_runtime_that_never_configures_is_an_error_within_the_timeout() {
    let (stub, mut runtime) = pair(Chooser);
    let began = Instant::now();
    let (session, _) = tokio::join!(stub.start(), runtime.registration());
    assert!(
        matches!(session, Err(StubError::NotConfigured { .. })),
        "{session:?}"
    );
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_never_answers_is_an_error_within_the_timeout() {
    let (near, far) = stream_pair();
    let patience = Duration::from_secs(9);
    let stub = builder().connection(near).registration_timeout(patience);
    let stub = stub.build(Chooser).unwrap();
    let _runtime = FakeRuntime::on(far).hold_registration();
    let began = Instant::now();
    let session = stub.start().await;
    assert!(
        matches!(
            session,
            Err(StubError::Register {
                source: CallError::Timeout(_)
            })
        ),
        "{session:?}"
    );
    assert_eq!(began.elapsed(), patience);
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_is_refused_says_why() {
    let (near, far) = stream_pair();
    let stub = builder().connection(near).build(Chooser).unwrap();
    let refusal = Status::new(longshore_nri_stub::Code::Unknown, "invalid plugin name");
    let _runtime = FakeRuntime::refusing(far, Some(refusal));
    let refused = stub.start().await.unwrap_err();
    assert!(text(&refused).contains("invalid plugin name"), "{refused}");
    let last = stub.handle().status().last_error;
    assert!(last.is_some_and(|last| last.contains("invalid plugin name")));
}

#[tokio::test(start_paused = true)]
async fn a_configuration_chooses_among_the_handlers() {
    for (config, expected) in [
        ("text", Some(CHOOSER)),
        ("CreateContainer", Some(0x0008)),
        ("StopPodSandbox,CreateContainer", Some(0x000a)),
        ("pod", None),
        ("nonsense", None),
        ("panic", None),
    ] {
        let (stub, mut runtime) = pair(Chooser);
        let served = async {
            runtime.registration().await;
            let request = longshore_nri_stub::api::ConfigureRequest {
                config: config.into(),
                ..today()
            };
            let events = runtime.configure(&request).await;
            if events.is_err() {
                runtime.client.close("refused");
            }
            events
        };
        let (session, events) = tokio::join!(stub.start(), served);
        match expected {
            Some(bits) => {
                assert_eq!(events.unwrap(), bits, "{config}");
                assert!(session.is_ok(), "{config}");
            }
            None => {
                let failed = session.unwrap_err();
                assert!(
                    matches!(failed, StubError::Configure { .. }),
                    "{config}: {failed}"
                );
                if config == "pod" {
                    assert!(text(&failed).contains("RunPodSandbox"), "{failed}");
                }
                assert!([2, 13].contains(&code(events)), "{config}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_runtime_is_not_asked_for_events_it_does_not_know() {
    let (stub, mut runtime) = pair(Chooser);
    let served = async {
        runtime.registration().await;
        runtime.configure(&containerd_1_7()).await.unwrap()
    };
    let (session, events) = tokio::join!(stub.start(), served);
    assert_eq!(events, 0x000a, "without UpdatePodSandbox");
    assert_eq!(session.unwrap().handle().runtime_nri_version(), "v0.6.1");
}

#[tokio::test(start_paused = true)]
async fn a_validator_does_not_register_with_a_runtime_that_cannot_validate() {
    let validator = Handlers::new().on_validate_container_adjustment(|_| async {});
    let (stub, mut runtime) = pair(validator);
    let served = async {
        runtime.registration().await;
        let events = runtime.configure(&containerd_1_7()).await;
        runtime.client.close("refused");
        events
    };
    let (session, events) = tokio::join!(stub.start(), served);
    assert_eq!(code(events), 2, "0 would mean every event");
    let failed = session.unwrap_err();
    assert!(
        text(&failed).contains("ValidateContainerAdjustment"),
        "{failed}"
    );
}

/// By hand, with a mask that promises more than there is.
struct Promises(EventMask);

impl Plugin for Promises {
    fn events(&self) -> EventMask {
        self.0
    }

    async fn run_pod_sandbox(&self, _pod: PodSandbox) -> HandlerResult<()> {
        Ok(())
    }
}

#[test]
fn a_mask_without_handlers_is_refused_at_start_with_the_names() {
    let refused = builder().build(Promises(EventMask::POD)).unwrap_err();
    let text = text(&refused);
    assert!(
        matches!(refused, StubError::MissingHandlers { .. }),
        "{text}"
    );
    assert!(text.contains("StopPodSandbox,RemovePodSandbox"), "{text}");
    assert!(
        builder()
            .build(Promises(EventMask::of(Event::RunPodSandbox)))
            .is_ok()
    );
    let nothing = builder().build(Promises(EventMask::NONE)).unwrap_err();
    assert!(matches!(nothing, StubError::NoHandlers), "{nothing}");
    let nothing = builder().build(Handlers::new().on_shutdown(|| async {}));
    assert!(matches!(nothing, Err(StubError::NoHandlers)), "{nothing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stub_is_started_once_and_a_given_connection_used_once() {
    let (stub, mut runtime) = pair(Chooser);
    let (session, _) = tokio::join!(stub.start(), runtime.accept());
    let again = stub.start().await;
    assert!(matches!(again, Err(StubError::AlreadyStarted)), "{again:?}");
    let run = stub.run().await;
    assert!(matches!(run, Err(StubError::AlreadyStarted)), "{run:?}");
    drop(session);
    let used = stub.start().await;
    assert!(matches!(used, Err(StubError::ConnectionUsed)), "{used:?}");
    let used = stub.run().await;
    assert!(
        matches!(used, Err(StubError::ConnectionUsed)),
        "not tried again: {used:?}"
    );
}

#[tokio::test]
async fn a_launched_plugin_takes_all_from_its_environment() {
    use std::os::fd::IntoRawFd;

    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    far.set_nonblocking(true).unwrap();
    let mut runtime = FakeRuntime::on(tokio::net::UnixStream::from_std(far).unwrap());
    let environment = Environment {
        name: Some("launched".into()),
        index: Some("42".into()),
        inherited_socket: Some(near.into_raw_fd().to_string()),
        socket: Some("/nowhere".into()),
        ..Environment::default()
    };
    let stub = Stub::builder().environment(environment).socket("/nowhere");
    let stub = stub.build(Chooser).unwrap();
    let serves = async {
        let (registration, _) = runtime.accept().await;
        drop(runtime);
        registration
    };
    let (ended, registration) = within(async { tokio::join!(stub.run(), serves) }).await;
    assert_eq!(registration.plugin_name, "launched");
    assert_eq!(registration.plugin_idx, "42");
    assert!(matches!(ended, Err(StubError::Closed { .. })), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_run_in_every_phase() {
    // While it registers.
    let (near, far) = stream_pair();
    let stub = builder().connection(near).build(Chooser).unwrap();
    let mut silent = FakeRuntime::on(far).hold_registration();
    let handle = stub.handle();
    let stops = async {
        silent.registration().await;
        handle.stop();
    };
    let (ended, ()) = tokio::join!(stub.run(), stops);
    assert_eq!(ended.unwrap(), Ended::Stopped);
    // While it is active.
    let (stub, mut runtime) = pair(Chooser);
    let handle = stub.handle();
    let stops = async {
        runtime.accept().await;
        handle.stop();
        runtime.client.closed().await
    };
    let (ended, reason) = tokio::join!(stub.run(), stops);
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert!(
        matches!(reason, longshore_nri_stub::CloseReason::PeerClosed),
        "{reason}"
    );
    // Between start and wait.
    let (stub, mut runtime) = pair(Chooser);
    let (session, _) = tokio::join!(stub.start(), runtime.accept());
    stub.handle().stop();
    assert_eq!(session.unwrap().wait().await.unwrap(), Ended::Stopped);
    // By a future of the program's own.
    let (stub, mut runtime) = pair(Chooser);
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let stops = async {
        runtime.accept().await;
        tell.send(()).unwrap();
    };
    let until = async { told.await.unwrap() };
    let (ended, ()) = tokio::join!(stub.run_until(until), stops);
    assert_eq!(ended.unwrap(), Ended::Stopped);
}

#[tokio::test(start_paused = true)]
async fn row_132_updates_before_the_start_are_an_error() {
    let (stub, mut runtime) = pair(Chooser);
    let handle = stub.handle();
    let update = || vec![ContainerUpdate::default()];
    let early = handle.update_containers(update()).await;
    assert!(matches!(early, Err(StubError::NotConnected)), "{early:?}");
    let unregistered = async {
        runtime.registration().await;
        let early = handle.update_containers(update()).await;
        runtime.configure(&today()).await.unwrap();
        early
    };
    let (session, early) = tokio::join!(stub.start(), unregistered);
    assert!(matches!(early, Err(StubError::NotConnected)), "{early:?}");
    drop(session);
    let late = handle.update_containers(update()).await;
    assert!(matches!(late, Err(StubError::NotConnected)), "{late:?}");
}
