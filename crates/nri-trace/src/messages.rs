//! The JSON form of a message, by the method that it belongs to.

use bytes::{Buf, BufMut, Bytes};
use longshore_nri_api::cost::{self, Limits};
use longshore_nri_api::{self as api, service};
use prost::DecodeError;
use prost::encoding::{DecodeContext, WireType, skip_field};
use serde_json::Value;

use crate::record::{Message, Side};

/// The most memory that one decoded message may take; its JSON form takes a multiple of it.
const LIMITS: Limits = Limits {
    max_cost: 32 << 20,
    max_depth: 32,
};

/// Whether a message asks or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It asks.
    Request,
    /// It answers.
    Response,
}

/// The service that is asked by this side.
fn service_asked_by(side: Side) -> &'static str {
    match side {
        Side::Plugin => service::RUNTIME,
        Side::Runtime => service::PLUGIN,
    }
}

/// Reads the message of a method that `asker` asks for, or asked for.
#[must_use]
pub fn decode(asker: Side, role: Role, method: &str, payload: &[u8]) -> Message {
    decode_of(service_asked_by(asker), method, role, payload)
}

/// The message of a method that `asker` asks for, or asked for, from its JSON form.
///
/// # Errors
/// The method does not exist, or this is no message of it: what is wrong, in words.
pub fn encode(asker: Side, role: Role, method: &str, json: Value) -> Result<Payload, String> {
    from_json(service_asked_by(asker), method, role, json).map(Payload)
}

/// A message that is encoded, to be sent as it is. It cannot be decoded into: what is read is skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(Bytes);

impl prost::Message for Payload {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, buf, ctx)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// The message that `payload` is.
pub(crate) fn decode_of(service: &str, method: &str, role: Role, payload: &[u8]) -> Message {
    let (json, problem) = match to_json(service, method, role, payload) {
        Ok(json) => (Some(json), None),
        Err(problem) => (None, Some(problem)),
    };
    Message {
        bytes: payload.len(),
        json,
        problem,
    }
}

macro_rules! methods {
    ($($service:ident { $($method:ident($request:ident) -> $response:ident;)* })*) => {
        fn to_json(service: &str, method: &str, role: Role, payload: &[u8]) -> Result<Value, String> {
            match (service, method, role) {
                $($(
                    (service::$service, stringify!($method), Role::Request) => typed::<api::$request>(payload),
                    (service::$service, stringify!($method), Role::Response) => typed::<api::$response>(payload),
                )*)*
                _ => Err(format!("NRI has no method {method} of {service}")),
            }
        }

        /// The methods of NRI, those of the runtime first.
        pub const METHODS: [&str; 20] = [$($(stringify!($method),)*)*];

        fn from_json(service: &str, method: &str, role: Role, json: Value) -> Result<Bytes, String> {
            match (service, method, role) {
                $($(
                    (service::$service, stringify!($method), Role::Request) => encoded::<api::$request>(json),
                    (service::$service, stringify!($method), Role::Response) => encoded::<api::$response>(json),
                )*)*
                _ => Err(format!("NRI has no method {method} of {service}")),
            }
        }

        #[cfg(test)]
        const SERVICES: [&str; 20] = [$($({ let _ = stringify!($method); service::$service },)*)*];
    };
}

methods! {
    RUNTIME {
        RegisterPlugin(RegisterPluginRequest) -> Empty;
        UpdateContainers(UpdateContainersRequest) -> UpdateContainersResponse;
    }
    PLUGIN {
        Configure(ConfigureRequest) -> ConfigureResponse;
        Synchronize(SynchronizeRequest) -> SynchronizeResponse;
        Shutdown(Empty) -> Empty;
        RunPodSandbox(RunPodSandboxRequest) -> RunPodSandboxResponse;
        UpdatePodSandbox(UpdatePodSandboxRequest) -> UpdatePodSandboxResponse;
        PostUpdatePodSandbox(PostUpdatePodSandboxRequest) -> PostUpdatePodSandboxResponse;
        StopPodSandbox(StopPodSandboxRequest) -> StopPodSandboxResponse;
        RemovePodSandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
        CreateContainer(CreateContainerRequest) -> CreateContainerResponse;
        PostCreateContainer(PostCreateContainerRequest) -> PostCreateContainerResponse;
        StartContainer(StartContainerRequest) -> StartContainerResponse;
        PostStartContainer(PostStartContainerRequest) -> PostStartContainerResponse;
        UpdateContainer(UpdateContainerRequest) -> UpdateContainerResponse;
        PostUpdateContainer(PostUpdateContainerRequest) -> PostUpdateContainerResponse;
        StopContainer(StopContainerRequest) -> StopContainerResponse;
        RemoveContainer(RemoveContainerRequest) -> RemoveContainerResponse;
        StateChange(StateChangeEvent) -> Empty;
        ValidateContainerAdjustment(ValidateContainerAdjustmentRequest) -> ValidateContainerAdjustmentResponse;
    }
}

fn typed<M: cost::Message>(payload: &[u8]) -> Result<Value, String> {
    let message: M = cost::decode(payload, &LIMITS).map_err(|error| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    })?;
    longshore_nri_json::to_value(&message).map_err(|error| error.to_string())
}

fn encoded<M: cost::Message>(json: Value) -> Result<Bytes, String> {
    let message: M = longshore_nri_json::from_value(json).map_err(|error| {
        let source = std::error::Error::source(&error);
        source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
    })?;
    Ok(message.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn what_was_read_is_written_as_the_same_bytes() {
        let mut request = api::CreateContainerRequest::default();
        request.container.get_or_insert_default().id = "c0".to_owned();
        let bytes = request.encode_to_vec();
        let read = decode(Side::Runtime, Role::Request, "CreateContainer", &bytes);
        let json = read.json.unwrap();
        let written = encode(Side::Runtime, Role::Request, "CreateContainer", json).unwrap();
        assert_eq!(written.encode_to_vec(), bytes);
        for (asker, method, json, named) in [
            (
                Side::Plugin,
                "CreateContainer",
                "{}",
                "no method CreateContainer",
            ),
            (Side::Runtime, "Explode", "{}", "no method Explode"),
            (Side::Runtime, "CreateContainer", r#"{"pood": 1}"#, "pood"),
            (
                Side::Runtime,
                "CreateContainer",
                "7",
                "CreateContainerRequest",
            ),
        ] {
            let json = serde_json::from_str(json).unwrap();
            let error = encode(asker, Role::Request, method, json).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn every_method_has_messages_and_no_bytes_make_them_panic() {
        for (service, method) in SERVICES.into_iter().zip(METHODS) {
            for role in [Role::Request, Role::Response] {
                let empty = decode_of(service, method, role, b"");
                assert_eq!(empty.json, Some(serde_json::json!({})), "{method}");
                let broken = decode_of(service, method, role, b"\xff\xff");
                assert!(broken.json.is_none() && broken.problem.is_some());
            }
        }
        let unknown = decode_of("x", "y", Role::Request, b"");
        assert_eq!(unknown.problem.as_deref(), Some("NRI has no method y of x"));
    }

    #[test]
    fn a_message_that_decodes_huge_has_no_json_form() {
        let bytes = [0x0a, 0x00].repeat(1 << 20);
        let message = decode_of(service::RUNTIME, "UpdateContainers", Role::Request, &bytes);
        assert_eq!(message.bytes, 2 << 20);
        assert!(message.problem.unwrap().contains("decoded"));
    }
}
