//! From what the containers answered to an HTTP response.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use longshore_mesos_api::v1;
use longshore_mesos_api::v1::agent::response::{self, Type, get_containers};
use longshore_mesos_api::v1::task_status::Reason;
use longshore_mesos_api::{json, v1::agent::Response as AgentResponse};
use longshore_paths::ContainerId;
use prost::Message as _;

use super::negotiate::Codec;
use super::refusal::Refusal;
use crate::service::{ContainerView, ExitInfo, ExitReason, Phase, Slice};

/// The body type of every response.
pub(crate) type Answer = Response<Full<Bytes>>;

/// 200 or 202 without a body and, as on a Mesos agent, without a Content-Type.
pub(crate) fn empty(status: StatusCode) -> Answer {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// A refusal as `text/plain`.
pub(crate) fn refused(refusal: Refusal) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(refusal.text)));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Some((name, value)) = refusal.header {
        headers.insert(name, value);
    }
    response
}

/// 200 with a message of at most `max` bytes.
pub(crate) fn message(codec: Codec, answer: &AgentResponse, max: usize) -> Result<Answer, Refusal> {
    let too_large = || Refusal::internal(format!("the answer is over the limit of {max} bytes"));
    // JSON is never shorter, so this spares the work for one that is too long.
    if answer.encoded_len() > max {
        return Err(too_large());
    }
    let body = match codec {
        Codec::Protobuf => answer.encode_to_vec(),
        Codec::Json => {
            json::to_vec(answer).map_err(|error| Refusal::internal(error.to_string()))?
        }
    };
    if body.len() > max {
        return Err(too_large());
    }
    let mut response = Response::new(Full::new(Bytes::from(body)));
    let media_type = HeaderValue::from_static(codec.media_type());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    Ok(response)
}

pub(crate) fn health() -> AgentResponse {
    AgentResponse {
        r#type: Some(Type::GetHealth.into()),
        get_health: Some(response::GetHealth { healthy: true }),
        ..AgentResponse::default()
    }
}

/// `1.11.0-longshore.VERSION`: the API of that Mesos release, served by us. Clients know us by it.
pub(crate) fn version() -> AgentResponse {
    let version = concat!("1.11.0-longshore.", env!("CARGO_PKG_VERSION"));
    AgentResponse {
        r#type: Some(Type::GetVersion.into()),
        get_version: Some(response::GetVersion {
            version_info: v1::VersionInfo {
                version: version.to_owned(),
                ..Default::default()
            },
        }),
        ..AgentResponse::default()
    }
}

/// `port` is that of the TCP listener, if there is one.
pub(crate) fn agent(hostname: &str, agent_id: &str, port: Option<u16>) -> AgentResponse {
    AgentResponse {
        r#type: Some(Type::GetAgent.into()),
        get_agent: Some(response::GetAgent {
            agent_info: Some(v1::AgentInfo {
                hostname: hostname.to_owned(),
                id: Some(v1::AgentId {
                    value: agent_id.to_owned(),
                }),
                port: port.map(i32::from),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..AgentResponse::default()
    }
}

/// The containers that were asked for. Where there are none, `get_containers` is absent, as on a Mesos agent.
pub(crate) fn containers(
    views: Vec<ContainerView>,
    nested: bool,
    standalone: bool,
    now: SystemTime,
) -> AgentResponse {
    let containers: Vec<_> = views
        .into_iter()
        .filter(|view| {
            if view.id.parent().is_some() {
                nested
            } else {
                standalone
            }
        })
        .map(|view| entry(&view, now))
        .collect();
    AgentResponse {
        r#type: Some(Type::GetContainers.into()),
        get_containers: (!containers.is_empty()).then_some(response::GetContainers { containers }),
        ..AgentResponse::default()
    }
}

pub(crate) fn slice(Slice { size, data }: Slice) -> AgentResponse {
    AgentResponse {
        r#type: Some(Type::ReadFile.into()),
        read_file: Some(response::ReadFile { size, data }),
        ..AgentResponse::default()
    }
}

/// `twin`: the answer to the deprecated WAIT_NESTED_CONTAINER.
#[expect(deprecated, reason = "the deprecated nested twins are still served")]
pub(crate) fn waited(exit: ExitInfo, twin: bool) -> AgentResponse {
    let ExitInfo {
        status: exit_status,
        reason,
        message,
    } = exit;
    let state = reason.map(|_| v1::TaskState::TaskFailed.into());
    let limitation = match reason {
        Some(ExitReason::MemoryLimit { limit_bytes }) => Some(memory_limitation(limit_bytes)),
        _ => None,
    };
    let reason = reason.map(|reason| reason_code(reason).into());
    if twin {
        let wait = response::WaitNestedContainer {
            exit_status,
            state,
            reason,
            limitation,
            message,
        };
        AgentResponse {
            r#type: Some(Type::WaitNestedContainer.into()),
            wait_nested_container: Some(wait),
            ..AgentResponse::default()
        }
    } else {
        let wait = response::WaitContainer {
            exit_status,
            state,
            reason,
            limitation,
            message,
        };
        AgentResponse {
            r#type: Some(Type::WaitContainer.into()),
            wait_container: Some(wait),
            ..AgentResponse::default()
        }
    }
}

fn reason_code(reason: ExitReason) -> Reason {
    match reason {
        ExitReason::MemoryLimit { .. } => Reason::ContainerLimitationMemory,
        ExitReason::ShimLost => Reason::ExecutorTerminated,
        ExitReason::Rebooted => Reason::AgentRestarted,
    }
}

fn memory_limitation(limit_bytes: u64) -> v1::TaskResourceLimitation {
    v1::TaskResourceLimitation {
        resources: vec![v1::Resource {
            name: "mem".to_owned(),
            r#type: v1::value::Type::Scalar.into(),
            scalar: Some(v1::value::Scalar {
                value: limit_bytes as f64 / f64::from(1 << 20),
            }),
            ..Default::default()
        }],
    }
}

fn entry(view: &ContainerView, now: SystemTime) -> get_containers::Container {
    let id = id_message(&view.id);
    // One that is on its way out has no pid in Mesos' answer, and that is how callers know it.
    let executor_pid = if view.phase == Phase::Running {
        view.pid
    } else {
        None
    };
    get_containers::Container {
        container_id: id.clone(),
        container_status: Some(v1::ContainerStatus {
            container_id: Some(id),
            executor_pid,
            ..Default::default()
        }),
        resource_statistics: Some(Box::new(v1::ResourceStatistics {
            timestamp: now
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            cpus_soft_limit: view.cpus,
            cpus_limit: view.cpus_limit,
            mem_soft_limit_bytes: view.mem_bytes,
            mem_limit_bytes: view.mem_limit_bytes.or(view.mem_bytes),
            ..Default::default()
        })),
        ..Default::default()
    }
}

/// The id with its parents: Mesos leaves the parent out of the entry itself, which makes nested ids ambiguous.
fn id_message(id: &ContainerId) -> v1::ContainerId {
    v1::ContainerId {
        value: id.value().to_owned(),
        parent: id.parent().map(|parent| Box::new(id_message(parent))),
    }
}

#[cfg(test)]
mod tests;
