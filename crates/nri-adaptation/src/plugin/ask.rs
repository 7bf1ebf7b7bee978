//! Asking one plugin one thing, under its policy.
//!
//! ```text
//!   wait for the plugin's turn ──▶ call ──answer──▶ settle ──▶ answer
//!        │ caller's deadline        │ caller's deadline, or dropped
//!        ▼                          ▼
//!       given up                  given up; the call goes on in the background, holding the
//!                                 plugin's and the pod's turn, until it is settled
//! ```

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use longshore_ttrpc::CallError;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use super::Plugin;
use crate::core::Core;
use crate::error::CallFailure;
use crate::pods::Ticket;
use crate::runtime::BoxFuture;
use crate::status::CloseCause;

/// How asking ended.
#[derive(Debug)]
pub(crate) enum Asked<R> {
    Answer(R),
    Failed(CallFailure),
    /// The caller's deadline passed; this says nothing of the plugin.
    GivenUp,
}

impl Plugin {
    /// Asks once it is this request's turn, until the caller's deadline.
    pub(crate) async fn ask<R: Send + 'static>(
        self: &Arc<Self>,
        core: &Arc<Core>,
        operation: &'static str,
        call: BoxFuture<'static, Result<R, CallFailure>>,
        deadline: Option<Instant>,
        ticket: Option<Arc<Ticket>>,
    ) -> Asked<R> {
        let turn = match self.turn(core, operation, deadline).await {
            Asked::Answer(turn) => turn,
            Asked::Failed(failure) => return Asked::Failed(failure),
            Asked::GivenUp => return Asked::GivenUp,
        };
        let (plugin, settling) = (Arc::clone(self), Arc::clone(core));
        let call = Box::pin(async move {
            let began = Instant::now();
            let answer = call.await;
            plugin.settle(&settling, operation, began.elapsed(), answer.as_ref().err());
            drop((turn, ticket));
            answer
        });
        let call = Detached::new(call, core);
        let answer = match deadline {
            Some(deadline) => match timeout_at(deadline, call).await {
                Ok(answer) => answer,
                Err(_) => return Asked::GivenUp,
            },
            None => call.await,
        };
        match answer {
            Ok(answer) => Asked::Answer(answer),
            Err(failure) => Asked::Failed(failure),
        }
    }

    /// Waits for the requests before this one.
    async fn turn(
        &self,
        core: &Core,
        operation: &'static str,
        deadline: Option<Instant>,
    ) -> Asked<Option<OwnedSemaphorePermit>> {
        let closed = || {
            let closed = CallError::Closed(self.closed_reason());
            Asked::Failed(CallFailure::Connection(closed))
        };
        if self.is_ended() {
            return closed();
        }
        let Some(gate) = &self.gate else {
            return Asked::Answer(None);
        };
        if let Ok(turn) = Arc::clone(gate).try_acquire_owned() {
            return Asked::Answer(Some(turn));
        }
        let began = Instant::now();
        let waiting = Waiting::new(self);
        let turn = Arc::clone(gate).acquire_owned();
        let turn = match deadline {
            Some(deadline) => match timeout_at(deadline, turn).await {
                Ok(turn) => turn,
                Err(_) => return Asked::GivenUp,
            },
            None => turn.await,
        };
        drop(waiting);
        core.settings
            .metrics
            .queued(&self.name, operation, began.elapsed());
        match turn {
            Ok(turn) => Asked::Answer(Some(turn)),
            Err(_) => closed(),
        }
    }

    /// Counts how a call ended, and ends the plugin when that was one failure too many.
    fn settle(
        self: &Arc<Self>,
        core: &Arc<Core>,
        operation: &'static str,
        took: Duration,
        failure: Option<&CallFailure>,
    ) {
        // A clock may stand still between two looks, a call takes some time all the same.
        let took = took.max(Duration::from_nanos(1));
        let metrics = &core.settings.metrics;
        metrics.latency(&self.name, operation, took);
        metrics.invocation(&self.name, operation, failure.map_or(Ok(()), Err));
        let Some(failure) = failure else {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            self.latency_ns.store(nanos, Ordering::Relaxed);
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.strikes.store(0, Ordering::Relaxed);
            return;
        };
        self.note(format!("{operation}: {failure}"));
        let ends = match failure {
            CallFailure::Status(_) => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                self.strikes.store(0, Ordering::Relaxed);
                false
            }
            CallFailure::Oversized(_) => false,
            CallFailure::Timeout(_) => {
                let strikes = self.strikes.fetch_add(1, Ordering::AcqRel) + 1;
                tracing::warn!(plugin = %self.name, operation, strikes, %failure, "plugin is late");
                strikes >= self.policy.strikes.max(1)
            }
            CallFailure::Connection(_) | CallFailure::Reply(_) => true,
        };
        if ends {
            let failure = failure.clone();
            core.close(self, CloseCause::Request { operation, failure });
        }
    }
}

/// Counts a request that waits.
struct Waiting<'a>(&'a Plugin);

impl<'a> Waiting<'a> {
    fn new(plugin: &'a Plugin) -> Self {
        plugin.waiting.fetch_add(1, Ordering::Relaxed);
        Self(plugin)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A future that is run to its end also when it is dropped before.
pub(crate) struct Detached<R: Send + 'static> {
    rest: Option<BoxFuture<'static, R>>,
    tasks: TaskTracker,
    runtime: Handle,
}

impl<R: Send + 'static> Detached<R> {
    pub(crate) fn new(call: BoxFuture<'static, R>, core: &Core) -> Self {
        Self {
            rest: Some(call),
            tasks: core.tasks.clone(),
            runtime: core.runtime_handle.clone(),
        }
    }
}

impl<R: Send + 'static> Future for Detached<R> {
    type Output = R;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<R> {
        let Some(rest) = &mut self.rest else {
            // Polled after its end, which no caller does.
            return Poll::Pending;
        };
        let result = rest.as_mut().poll(cx);
        if result.is_ready() {
            self.rest = None;
        }
        result
    }
}

impl<R: Send + 'static> Drop for Detached<R> {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            drop(self.tasks.spawn_on(rest, &self.runtime));
        }
    }
}
