//! How a request of the runtime goes through the plugins.
//!
//! ```text
//!   notify   pod's turn ─▶ all plugins at once ─▶ first failure in order, or done
//!   create   pod's turn ─▶ plugin ─▶ merge ─▶ plugin ─▶ merge … ─▶ all validators at once
//!   update,  pod's turn ─▶ plugin ─▶ merge ─▶ plugin ─▶ merge …
//!   stop
//! ```
//!
//! At the end of each, plugins that became active meanwhile are asked as well, and the request is
//! kept for those that are being synchronized.

mod change;
mod create;
mod late;
mod notify;
mod validate;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use longshore_nri_api::{Event, event_name};
use tokio::time::timeout_at;

use crate::adaptation::RequestOptions;
use crate::core::Core;
use crate::error::{CallFailure, RequestError};
use crate::fields::FieldSet;
use crate::plugin::{Asked, Plugin, Rpc, Terms};
use crate::pods::Ticket;
use crate::policy::OnFailure;
use crate::registry::Roster;
use crate::runtime::BoxFuture;
use crate::sync::{Kept, KeptBody};

/// A request of the runtime: over at once when no plugin wants it, else on its way. It starts when
/// it is first polled.
pub(crate) enum Going<'a, T> {
    Over(Option<Result<T, RequestError>>),
    Under(BoxFuture<'a, Result<T, RequestError>>),
}

impl<T> Going<'_, T> {
    fn over(result: Result<T, RequestError>) -> Self {
        Self::Over(Some(result))
    }
}

impl<T: Unpin> Future for Going<'_, T> {
    type Output = Result<T, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            // Polled after its end, which no caller does.
            Self::Over(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            Self::Under(request) => request.as_mut().poll(cx),
        }
    }
}

/// One request of the runtime on its way.
pub(crate) struct Passage<'a> {
    core: &'a Arc<Core>,
    options: &'a RequestOptions,
    event: Event,
    pod: String,
    container: String,
    began: u64,
    ticket: Option<Arc<Ticket>>,
    /// Arrivals of the plugins that were asked.
    asked: Vec<u64>,
    _slot: Slot<'a>,
}

/// Counts a request that is under way.
struct Slot<'a>(&'a AtomicUsize);

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<'a> Passage<'a> {
    /// Waits for the turn of the request's pod. Containers without one are their own.
    pub(crate) async fn begin(
        core: &'a Arc<Core>,
        event: Event,
        (pod, container): (&str, &str),
        options: &'a RequestOptions,
    ) -> Result<Self, RequestError> {
        if core.registry.is_shut() {
            return Err(RequestError::Shutdown);
        }
        let max = core.settings.limits.requests;
        let under_way = core.under_way.fetch_add(1, Ordering::AcqRel);
        let slot = Slot(&core.under_way);
        if under_way >= max {
            return Err(RequestError::Busy { max });
        }
        let turn = core
            .pods
            .enter(if pod.is_empty() { container } else { pod });
        let ticket = match options.deadline {
            None => turn.await,
            Some(deadline) => timeout_at(deadline, turn).await.map_err(|_| {
                let waiting = "other requests of the pod were under way".to_owned();
                RequestError::Deadline {
                    operation: event_name(event),
                    waiting,
                }
            })?,
        };
        Ok(Self {
            core,
            options,
            event,
            pod: pod.to_owned(),
            container: container.to_owned(),
            began: core.registry.tick(),
            ticket: Some(Arc::new(ticket)),
            asked: Vec::new(),
            _slot: slot,
        })
    }

    fn operation(&self) -> &'static str {
        event_name(self.event)
    }

    fn terms(&self, plugin: &Plugin, event: Event) -> Terms {
        Terms {
            timeout: plugin.policy.timeout(event, &self.core.settings.timeouts),
            metadata: self.options.metadata.clone(),
        }
    }

    /// The next plugin in order that wants the event and has not been asked: also one that became
    /// active while others were asked.
    fn next(&mut self) -> Option<Arc<Plugin>> {
        let roster = self.core.registry.roster();
        let unasked = roster
            .active
            .iter()
            .find(|plugin| plugin.wants(self.event) && !self.asked.contains(&plugin.arrival));
        let plugin = unasked.cloned()?;
        self.asked.push(plugin.arrival);
        Some(plugin)
    }

    /// Asks a plugin. `None` when it failed and its policy is to go on without it.
    async fn ask<Q: Rpc>(
        &self,
        plugin: &Arc<Plugin>,
        call: BoxFuture<'static, Result<Q::Reply, CallFailure>>,
    ) -> Result<Option<Q::Reply>, RequestError> {
        let operation = event_name(Q::EVENT);
        let (deadline, ticket) = (self.options.deadline, self.ticket.clone());
        let asked = plugin
            .ask(self.core, operation, call, deadline, ticket)
            .await;
        self.judge(plugin, operation, asked)
    }

    fn judge<R>(
        &self,
        plugin: &Plugin,
        operation: &'static str,
        asked: Asked<R>,
    ) -> Result<Option<R>, RequestError> {
        match asked {
            Asked::Answer(answer) => Ok(Some(answer)),
            Asked::GivenUp => Err(RequestError::Deadline {
                operation,
                waiting: format!("plugin {:?} was asked", &*plugin.name),
            }),
            Asked::Failed(failure) => self.failed(plugin, operation, failure).map(|()| None),
        }
    }

    /// What a plugin's failure means for the request.
    fn failed(
        &self,
        plugin: &Plugin,
        operation: &'static str,
        failure: CallFailure,
    ) -> Result<(), RequestError> {
        if self.core.registry.is_shut() {
            return Err(RequestError::Shutdown);
        }
        let lost = match &failure {
            CallFailure::Timeout(_) | CallFailure::Connection(_) => true,
            CallFailure::Reply(_) => !failure.is_too_costly(),
            CallFailure::Status(_) | CallFailure::Oversized(_) => false,
        };
        if lost && plugin.policy.on_failure == OnFailure::Ignore {
            tracing::warn!(plugin = %plugin.name, operation, %failure, "request goes on without the plugin");
            return Ok(());
        }
        Err(RequestError::Plugin {
            plugin: plugin.name.to_string(),
            operation,
            failure,
        })
    }

    /// Refuses what a plugin's policy does not allow.
    fn allow(plugin: &Plugin, fields: FieldSet) -> Result<(), RequestError> {
        let denied = fields.without(plugin.policy.allow_fields);
        if denied.is_empty() {
            return Ok(());
        }
        Err(RequestError::Denied {
            plugin: plugin.name.to_string(),
            fields: denied,
        })
    }

    /// Keeps the request for plugins that are being synchronized; those that became active
    /// meanwhile are returned.
    fn finish(&self, roster: &Roster, body: impl FnOnce() -> KeptBody) -> Vec<Arc<Plugin>> {
        self.core
            .registry
            .finish(roster, self.event, &self.asked, || Kept {
                what: body(),
                pod: self.pod.clone(),
                container: self.container.clone(),
                began: self.began,
            })
    }
}

/// Runs futures side by side in this task; results in the order of the futures.
pub(crate) async fn join_all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut running: Vec<_> = futures.into_iter().map(Some).collect();
    let mut results: Vec<Option<T>> = running.iter().map(|_| None).collect();
    std::future::poll_fn(|cx| {
        let mut pending = false;
        for (future, result) in running.iter_mut().zip(&mut results) {
            let Some(it) = future else { continue };
            match it.as_mut().poll(cx) {
                Poll::Ready(value) => {
                    *result = Some(value);
                    *future = None;
                }
                Poll::Pending => pending = true,
            }
        }
        if pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    results.into_iter().flatten().collect()
}
