//! Telling a plugin what runs, without losing what happens meanwhile.
//!
//! ```text
//!   subscribe ──▶ snapshot ──▶ Synchronize, part by part ──▶ kept events, one by one ──▶ active
//!       └───────────── events are kept from here ──────────────────────┘
//! ```

mod chunks;
mod kept;

pub(crate) use kept::{Kept, KeptBody, Queue, Seen};

use std::sync::Arc;
use std::time::Duration;

use longshore_nri_api::{ContainerUpdate, SynchronizeResponse, cost, event_name, service};
use longshore_ttrpc::{CallOptions, Client, Code, Status};
use tokio::time::{Instant, timeout};

use crate::core::Core;
use crate::error::CallFailure;
use crate::plugin::{Link, Part, Plugin, Subscription, within};
use crate::runtime::{ChangeCause, NodeState};
use crate::status::CloseCause;

/// What Synchronize is called in metrics.
const OPERATION: &str = "Synchronize";

impl Core {
    /// Makes a configured plugin active: subscribes it, tells it what runs and what happened
    /// since. Without a `snapshot` the runtime is asked for one.
    ///
    /// # Errors
    /// Why the plugin is to be closed.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        plugin: &Arc<Plugin>,
        subscription: Subscription,
        snapshot: Option<Arc<NodeState>>,
    ) -> Result<(), CloseCause> {
        if !subscription.unknown.is_empty() {
            tracing::warn!(
                plugin = %plugin.name,
                unknown = %subscription.unknown,
                "plugin wants events that are not known here, and does not get them"
            );
        }
        self.registry.subscribe(plugin, subscription.events);
        let state = match snapshot {
            Some(state) => state,
            None => Arc::new(self.snapshot(plugin).await?),
        };
        let mut seen = Seen::new(&state, self.registry.tick());
        let began = Instant::now();
        let (updates, parts) = self.synchronize(plugin, state).await?;
        self.settings
            .metrics
            .synchronized(&plugin.name, parts, began.elapsed());
        if !updates.is_empty() {
            let applied = self.apply(
                plugin.id.clone(),
                ChangeCause::Synchronize,
                updates,
                Vec::new(),
            );
            match applied.await {
                Ok(failed) if failed.is_empty() => {}
                Ok(failed) => {
                    tracing::warn!(plugin = %plugin.name, failed = failed.len(), "updates of a synchronized plugin failed");
                }
                Err(status) if status.code == Code::InvalidArgument => {
                    return Err(CloseCause::Synchronize(CallFailure::Status(status)));
                }
                Err(status) => {
                    tracing::warn!(plugin = %plugin.name, %status, "updates of a synchronized plugin are not applied");
                }
            }
        }
        while let Some(kept) = self.registry.next_kept(plugin) {
            if seen.is_due(&kept) && plugin.wants(kept.event()) {
                self.deliver_kept(plugin, &kept).await;
            } else {
                let event = event_name(kept.event());
                tracing::debug!(plugin = %plugin.name, event, "kept event shows in the snapshot");
            }
            if plugin.is_ended() {
                return Err(plugin.cause().unwrap_or(CloseCause::Shutdown));
            }
        }
        tracing::info!(plugin = %plugin.name, events = %plugin.events(), "plugin is active");
        self.report_count();
        Ok(())
    }

    async fn snapshot(&self, plugin: &Plugin) -> Result<NodeState, CloseCause> {
        let limit = plugin.policy.request_timeout(&self.settings.timeouts);
        match timeout(limit, self.runtime.snapshot()).await {
            Ok(Ok(state)) => Ok(state),
            Ok(Err(error)) => Err(CloseCause::Snapshot(error.to_string())),
            Err(_) => Err(CloseCause::Snapshot(format!(
                "it took longer than {limit:?}"
            ))),
        }
    }

    /// The updates that the plugin answers with, and the number of parts.
    async fn synchronize(
        &self,
        plugin: &Plugin,
        state: Arc<NodeState>,
    ) -> Result<(Vec<ContainerUpdate>, usize), CloseCause> {
        // Each part has this time.
        let limit = plugin.policy.request_timeout(&self.settings.timeouts);
        let began = Instant::now();
        let answer = match &plugin.link {
            Link::Remote(client) => {
                let split = self.settings.imitation.splits_synchronize;
                in_parts(client, &state, split, limit).await
            }
            Link::Builtin(builtin) => {
                let builtin = Arc::clone(builtin);
                let state = Arc::unwrap_or_clone(state);
                let call = Box::pin(async move { builtin.synchronize(state).await });
                let updates = within(limit, call).await;
                updates
                    .map(|updates| (updates, 1))
                    .map_err(CloseCause::Synchronize)
            }
        };
        let metrics = &self.settings.metrics;
        metrics.latency(
            &plugin.name,
            OPERATION,
            began.elapsed().max(Duration::from_nanos(1)),
        );
        match &answer {
            Ok((updates, _)) => {
                metrics.invocation(&plugin.name, OPERATION, Ok(()));
                metrics.adjustments(&plugin.name, OPERATION, None, updates.len(), 0);
            }
            Err(CloseCause::Synchronize(failure)) => {
                metrics.invocation(&plugin.name, OPERATION, Err(failure));
            }
            Err(cause) => {
                let failure = CallFailure::Status(Status::new(Code::Aborted, cause.to_string()));
                metrics.invocation(&plugin.name, OPERATION, Err(&failure));
            }
        }
        answer
    }
}

async fn in_parts(
    client: &Client,
    state: &NodeState,
    split: bool,
    limit: Duration,
) -> Result<(Vec<ContainerUpdate>, usize), CloseCause> {
    let chunks = chunks::plan(&state.pods, &state.containers, chunks::room(&[]))?;
    let parts = chunks.len();
    if parts > 1 && !split {
        return Err(CloseCause::Synchronize(CallFailure::Status(Status::new(
            Code::ResourceExhausted,
            format!("it takes {parts} messages, and the runtime that is imitated sends one"),
        ))));
    }
    let options = CallOptions::timeout(limit);
    let mut updates = Vec::new();
    for (index, chunk) in chunks.into_iter().enumerate() {
        let more = index + 1 < parts;
        let part = Part {
            pods: state.pods.get(chunk.pods).unwrap_or_default(),
            containers: state.containers.get(chunk.containers).unwrap_or_default(),
            more,
        };
        let answer = client
            .call_raw(service::PLUGIN, OPERATION, &part, &options)
            .await;
        let answer = answer.map_err(|error| CloseCause::Synchronize(error.into()))?;
        let reply: SynchronizeResponse = cost::decode(&answer, &cost::Limits::default())
            .map_err(|error| CloseCause::Synchronize(CallFailure::Reply(error)))?;
        if reply.more != more || (more && !reply.update.is_empty()) {
            return Err(CloseCause::Unsplit {
                part: index + 1,
                parts,
            });
        }
        updates = reply.update;
    }
    Ok((updates, parts))
}
