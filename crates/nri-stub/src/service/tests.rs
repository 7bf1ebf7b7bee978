use std::io;

use longshore_nri_api::PluginId;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::answer::CreateReply;
use crate::handle::DEFAULT_REGISTRATION_TIMEOUT;

#[derive(Debug, thiserror::Error)]
#[error("cannot read the map")]
struct Outer(#[source] io::Error);

#[test]
fn errors_of_handlers_keep_their_status_or_tell_their_sources() {
    let own: HandlerError = Status::new(Code::NotFound, "no such pod").into();
    assert_eq!(status(&own), Status::new(Code::NotFound, "no such pod"));
    let nested: HandlerError = Outer(io::Error::other("on fire")).into();
    let expected = Status::new(Code::Unknown, "cannot read the map: on fire");
    assert_eq!(status(&nested), expected);
    let plain: HandlerError = "no".into();
    assert_eq!(status(&plain), Status::new(Code::Unknown, "no"));
}

/// What a hostile runtime talks to.
struct Target;

const OBJECTS: usize = 5;

impl Plugin for Target {
    fn events(&self) -> EventMask {
        self.handlers()
    }

    async fn configure(&self, configuration: Configuration) -> HandlerResult<EventMask> {
        Ok(configuration.config.parse()?)
    }

    async fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> HandlerResult<Vec<longshore_nri_api::ContainerUpdate>> {
        assert!(pods.len() + containers.len() <= OBJECTS, "over the limit");
        Ok(Vec::new())
    }

    async fn run_pod_sandbox(&self, _pod: PodSandbox) -> HandlerResult<()> {
        Ok(())
    }

    async fn create_container(
        &self,
        _pod: PodSandbox,
        _container: Container,
    ) -> HandlerResult<CreateReply> {
        Ok(CreateReply::default())
    }
}

/// A field: its number, and bytes or a number as its value.
fn field() -> impl Strategy<Value = Vec<u8>> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..12);
    prop_oneof![
        (1_u8..8, bytes).prop_map(|(tag, value)| {
            let length = u8::try_from(value.len()).unwrap_or(0);
            [vec![tag << 3 | 2, length], value].concat()
        }),
        (1_u8..8, 0_u8..128).prop_map(|(tag, value)| vec![tag << 3, value]),
    ]
}

/// Messages of empty objects, messages of any fields, and no messages at all.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let objects = proptest::collection::vec(1_u8..3, 0..4);
    prop_oneof![
        (objects, any::<bool>()).prop_map(|(tags, more)| {
            let fields = tags.into_iter().flat_map(|tag| [tag << 3 | 2, 0]);
            fields.chain([3 << 3, u8::from(more)]).collect()
        }),
        proptest::collection::vec(field(), 0..6).prop_map(|fields| fields.concat()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

fn method() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "Configure",
        "Configure",
        "Synchronize",
        "Synchronize",
        "Synchronize",
        "Shutdown",
        "StateChange",
        "CreateContainer",
        "UpdatePodSandbox",
        "ValidateContainerAdjustment",
        "Nonsense",
    ])
}

/// Whatever was asked before, an ordinary request is served, and a configuration has an outcome.
async fn ask(calls: Vec<(&'static str, Vec<u8>)>) -> Result<(), TestCaseError> {
    let id = PluginId::new("00", "target").unwrap();
    let shared = Shared::new(id, DEFAULT_REGISTRATION_TIMEOUT);
    let limits = SyncLimits {
        memory: 1 << 20,
        objects: OBJECTS,
    };
    let service = PluginService::new(Arc::new(Target), shared, limits);
    let request = |method: &str, payload: Vec<u8>| Request {
        service: PLUGIN.to_owned(),
        method: method.to_owned(),
        payload: payload.into(),
        metadata: Vec::new(),
        deadline: None,
    };
    for (method, payload) in calls {
        let answer = service.call(request(method, payload)).await;
        match (method, &answer) {
            ("Nonsense", _) => {
                prop_assert_eq!(answer.unwrap_err().code, Code::Unimplemented);
            }
            ("Configure", Ok(reply)) => {
                let events = ConfigureResponse::decode(reply.as_ref()).unwrap().events;
                let handlers = Target.handlers();
                prop_assert!(events != 0 && events & !handlers.bits() == 0, "{events:#x}");
                let configured = service.progress.borrow().configured.clone();
                prop_assert_eq!(configured, Some(Ok(())));
            }
            ("Synchronize", Ok(reply)) => {
                let reply = SynchronizeResponse::decode(reply.as_ref()).unwrap();
                prop_assert!(!reply.more || reply.update.is_empty());
            }
            _ => {}
        }
        let timeout = service.shared.request_timeout();
        prop_assert!(!timeout.is_zero() && timeout.as_secs() <= 3600);
    }
    let last = service.call(request("RunPodSandbox", Vec::new())).await;
    prop_assert_eq!(last, Ok(Bytes::new()));
    Ok(())
}

proptest! {
    #[test]
    fn any_requests_in_any_order_are_answered(
        calls in proptest::collection::vec((method(), payload()), 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(ask(calls))?;
    }
}
