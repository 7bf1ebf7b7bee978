//! The JSON form of a message, by the method that it belongs to.

use longshore_nri_api::cost::{self, Limits};
use longshore_nri_api::{self as api, service};
use serde_json::Value;

use crate::record::Message;

/// The most memory that one decoded message may take; its JSON form takes a multiple of it.
const LIMITS: Limits = Limits {
    max_cost: 32 << 20,
    max_depth: 32,
};

/// Whether a message asks or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Request,
    Response,
}

/// The message that `payload` is.
pub(crate) fn decode(service: &str, method: &str, role: Role, payload: &[u8]) -> Message {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_messages_and_no_bytes_make_them_panic() {
        for (service, method) in SERVICES.into_iter().zip(METHODS) {
            for role in [Role::Request, Role::Response] {
                let empty = decode(service, method, role, b"");
                assert_eq!(empty.json, Some(serde_json::json!({})), "{method}");
                let broken = decode(service, method, role, b"\xff\xff");
                assert!(broken.json.is_none() && broken.problem.is_some());
            }
        }
        let unknown = decode("x", "y", Role::Request, b"");
        assert_eq!(unknown.problem.as_deref(), Some("NRI has no method y of x"));
    }

    #[test]
    fn a_message_that_decodes_huge_has_no_json_form() {
        let bytes = [0x0a, 0x00].repeat(1 << 20);
        let message = decode(service::RUNTIME, "UpdateContainers", Role::Request, &bytes);
        assert_eq!(message.bytes, 2 << 20);
        assert!(message.problem.unwrap().contains("decoded"));
    }
}
