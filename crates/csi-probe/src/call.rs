//! One call over one channel, bounded, and what its failure means.

use std::{error::Error, future::Future};

use longshore_csi_api::{v0, v1};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Response, Status, transport::Channel};

use crate::{
    ApiVersion, Endpoint, MAX_ANSWER_BYTES, ProbeError, Waiting,
    detect::Answer,
    error::{chain, clip, timed_out},
};

/// Who is asked, for the errors' sake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callee<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) version: ApiVersion,
    pub(crate) deadline: Instant,
}

impl Callee<'_> {
    /// Runs a call until the deadline.
    pub(crate) async fn call<T>(
        &self,
        call: &'static str,
        future: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, ProbeError> {
        let started = Instant::now();
        match timeout_at(self.deadline, future).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failure(call, status)),
            Err(_) => Err(timed_out(self.endpoint, started, Waiting::Answer)),
        }
    }

    /// The same, with UNIMPLEMENTED as `None`.
    pub(crate) async fn call_optional<T>(
        &self,
        call: &'static str,
        future: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<Option<T>, ProbeError> {
        match self.call(call, future).await {
            Ok(answer) => Ok(Some(answer)),
            Err(ProbeError::Rpc { status, .. }) if status.code() == Code::Unimplemented => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn failure(&self, call: &'static str, status: Status) -> ProbeError {
        let (endpoint, version) = (self.endpoint.clone(), self.version);
        if status.code() == Code::OutOfRange
            && status.message().contains("message length too large")
        {
            return ProbeError::AnswerTooLarge {
                endpoint,
                version,
                call,
                limit: MAX_ANSWER_BYTES,
            };
        }
        if let Some(Broken::NotGrpc(detail)) = status.source().map(broken) {
            return ProbeError::NotGrpc { endpoint, detail };
        }
        ProbeError::Rpc {
            endpoint,
            version,
            call,
            status: Box::new(status),
        }
    }

    pub(crate) fn bad(&self, call: &'static str, problem: &'static str) -> ProbeError {
        ProbeError::BadAnswer {
            endpoint: self.endpoint.clone(),
            version: self.version,
            call,
            problem,
        }
    }
}

/// Identity.Probe: the `ready` of the answer, where there is one.
pub(crate) async fn probe(channel: Channel, version: ApiVersion) -> Result<Option<bool>, Status> {
    match version {
        ApiVersion::V1 => v1::identity_client::IdentityClient::new(channel)
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .probe(v1::ProbeRequest {})
            .await
            .map(|answer| answer.into_inner().ready),
        ApiVersion::V0 => v0::identity_client::IdentityClient::new(channel)
            .max_decoding_message_size(MAX_ANSWER_BYTES)
            .probe(v0::ProbeRequest {})
            .await
            .map(|answer| answer.into_inner().ready),
    }
}

pub(crate) fn answer(result: &Result<Option<bool>, Status>) -> Answer {
    match result {
        Ok(Some(false)) => Answer::NotReady,
        Ok(_) => Answer::Ready,
        // A status with a source was made here, out of a transport's failure, and not by the plugin.
        Err(status) => match (status.source().map(broken), status.code()) {
            (Some(Broken::Ended(detail)), _) => Answer::Disconnected { detail },
            (Some(Broken::NotGrpc(_)), _) => Answer::Refused,
            (None, Code::Unimplemented) => Answer::Unimplemented,
            (None, Code::Unavailable) => Answer::Unavailable {
                message: clip(status.message()),
            },
            (None, _) => Answer::Refused,
        },
    }
}

/// How a connection broke, with the error and its causes on one line.
#[derive(Debug)]
pub(crate) enum Broken {
    /// It ended: the other side is gone, or going.
    Ended(String),
    /// What came is no HTTP/2.
    NotGrpc(String),
}

pub(crate) fn broken(error: &(dyn Error + 'static)) -> Broken {
    let mut next = Some(error);
    while let Some(cause) = next {
        // A library error is one that our own side found in what came.
        if cause
            .downcast_ref::<h2::Error>()
            .is_some_and(h2::Error::is_library)
        {
            return Broken::NotGrpc(chain(error));
        }
        next = cause.source();
    }
    Broken::Ended(chain(error))
}
