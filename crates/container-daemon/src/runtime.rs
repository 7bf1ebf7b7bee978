//! What runs the container: the calls that the daemon makes, and an agent as their implementation.

use std::future::Future;

use longshore_agent_client::{AgentClient, AgentError, Launched, Waited};
use longshore_mesos_api::v1::ContainerId;
use longshore_mesos_api::v1::agent::call::LaunchContainer;

use crate::exit::Exit;
use crate::failure::{Failure, LaunchFailure};

/// Launch, wait and kill, as the agent's operator API defines them (Mesos `agent.proto`).
///
/// Every future may be dropped at any time. `launch` and `kill` get a deadline from the daemon;
/// `wait` is a long poll without one.
pub trait ContainerRuntime: Send + Sync + 'static {
    /// Starts the container, or finds it started ([`Launched::AlreadyPresent`], HTTP 202).
    fn launch(
        &self,
        request: LaunchContainer,
    ) -> impl Future<Output = Result<Launched, LaunchFailure>> + Send;

    /// Waits for its end. A container that is not known (HTTP 404) has ended: [`Exit::unknown`].
    fn wait(&self, id: &ContainerId) -> impl Future<Output = Result<Exit, Failure>> + Send;

    /// Sends a signal; a container that is not known is no failure.
    fn kill(
        &self,
        id: &ContainerId,
        signal: i32,
    ) -> impl Future<Output = Result<(), Failure>> + Send;
}

impl ContainerRuntime for AgentClient {
    async fn launch(&self, request: LaunchContainer) -> Result<Launched, LaunchFailure> {
        self.launch_container(request)
            .await
            .map_err(|error| launch_failure(&error))
    }

    async fn wait(&self, id: &ContainerId) -> Result<Exit, Failure> {
        match self.wait_container(id).await {
            Ok(Waited::Exited(answer)) => Ok(Exit::from_wait(&answer)),
            Ok(Waited::Unknown) => Ok(Exit::unknown()),
            Err(error) => Err(failure(&error)),
        }
    }

    async fn kill(&self, id: &ContainerId, signal: i32) -> Result<(), Failure> {
        match self.kill_container(id, Some(signal)).await {
            Ok(_) => Ok(()),
            Err(error) => Err(failure(&error)),
        }
    }
}

/// An agent's refusal (4xx) needs somebody to act; everything else may heal by itself.
fn failure(error: &AgentError) -> Failure {
    let permanent = error
        .status()
        .is_some_and(|status| (400..500).contains(&status));
    Failure {
        permanent: permanent && !error.is_retryable(),
        ..Failure::from_error(error)
    }
}

/// Sorts errors by whether the container can be there.
fn launch_failure(error: &AgentError) -> LaunchFailure {
    let failure = failure(error);
    match error {
        // A 503, or Mesos' 404 before its agent exists: it never looked at the request.
        AgentError::Status { .. } if error.is_retryable() => LaunchFailure::NotSent(failure),
        AgentError::Status { .. } | AgentError::Encode { .. } => LaunchFailure::Refused(failure),
        AgentError::Timeout { .. }
        | AgentError::Closed { .. }
        | AgentError::TooLarge { .. }
        | AgentError::Decode { .. } => LaunchFailure::Unknown(failure),
        // Address, certificates, credentials, no connection, and what may be added.
        _ => LaunchFailure::NotSent(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, body: &str) -> AgentError {
        AgentError::Status {
            call: "LAUNCH_CONTAINER",
            container: Some("c1".to_owned()),
            status,
            body: body.to_owned(),
        }
    }

    #[test]
    fn sorts_launch_errors_by_whether_the_container_can_be_there() {
        for (code, body, refused, permanent) in [
            (403, "", true, true),
            (400, "bad", true, true),
            (500, "sandbox", true, false),
            (503, "recovering", false, false),
            (404, "404 Not Found.", false, false),
        ] {
            let failure = match launch_failure(&status(code, body)) {
                LaunchFailure::Refused(failure) if refused => failure,
                LaunchFailure::NotSent(failure) if !refused => failure,
                other => panic!("{code}: {other:?}"),
            };
            assert_eq!(failure.permanent, permanent, "{code}");
            assert!(
                failure.message.contains(&code.to_string()),
                "{}",
                failure.message
            );
        }
        let timeout = AgentError::Timeout {
            call: "LAUNCH_CONTAINER",
            container: None,
            deadline: std::time::Duration::from_secs(1),
            source: None,
        };
        assert!(matches!(
            launch_failure(&timeout),
            LaunchFailure::Unknown(_)
        ));
    }
}
