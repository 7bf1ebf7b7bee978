//! What was kept for a plugin while it was synchronized, told to it afterwards.
//!
//! The requests are over by then. What the plugin would have adjusted at the creation of a
//! container comes too late; updates and evictions that it answers with go to the runtime.

use std::sync::Arc;

use bytes::Bytes;
use longshore_nri_api::{
    ContainerAdjustment, ContainerEviction, ContainerUpdate, CreateContainerRequest, Event,
    StopContainerRequest, UpdateContainerRequest, UpdatePodSandboxRequest, cost, event_name,
};

use crate::core::Core;
use crate::error::CallFailure;
use crate::plugin::{Asked, Plugin, Rpc, Terms};
use crate::runtime::{BoxFuture, ChangeCause};
use crate::sync::{Kept, KeptBody};

/// What a late answer asks for.
#[derive(Default)]
struct Wishes {
    adjustment: Option<ContainerAdjustment>,
    updates: Vec<ContainerUpdate>,
    evictions: Vec<ContainerEviction>,
}

impl Core {
    /// Delivers one kept event; a failure is the plugin's alone.
    pub(crate) async fn deliver_kept(self: &Arc<Self>, plugin: &Arc<Plugin>, kept: &Kept) {
        let event = kept.event();
        let terms = Terms {
            timeout: plugin.policy.timeout(event, &self.settings.timeouts),
            metadata: Vec::new(),
        };
        let asked = match &kept.what {
            KeptBody::Notice(notice) => {
                let call = plugin.tell(notice.clone(), terms);
                self.ask_late(plugin, event, call, |()| Wishes::default())
                    .await
            }
            KeptBody::Request(Event::CreateContainer, body) => {
                let call = call::<CreateContainerRequest>(plugin, body, terms);
                self.ask_late(plugin, event, call, |reply| Wishes {
                    adjustment: reply.adjust,
                    updates: reply.update,
                    evictions: reply.evict,
                })
                .await
            }
            KeptBody::Request(Event::UpdateContainer, body) => {
                let call = call::<UpdateContainerRequest>(plugin, body, terms);
                self.ask_late(plugin, event, call, |reply| Wishes {
                    adjustment: None,
                    updates: reply.update,
                    evictions: reply.evict,
                })
                .await
            }
            KeptBody::Request(Event::StopContainer, body) => {
                let call = call::<StopContainerRequest>(plugin, body, terms);
                self.ask_late(plugin, event, call, |reply| Wishes {
                    updates: reply.update,
                    ..Wishes::default()
                })
                .await
            }
            KeptBody::Request(_, body) => {
                let call = call::<UpdatePodSandboxRequest>(plugin, body, terms);
                self.ask_late(plugin, event, call, |_| Wishes::default())
                    .await
            }
        };
        match asked {
            Ok(wishes) => self.grant(plugin, kept, wishes).await,
            Err(failure) => {
                let operation = event_name(event);
                tracing::warn!(plugin = %plugin.name, operation, %failure, "kept event failed");
            }
        }
    }

    async fn ask_late<R: Send + 'static>(
        self: &Arc<Self>,
        plugin: &Arc<Plugin>,
        event: Event,
        call: BoxFuture<'static, Result<R, CallFailure>>,
        wishes: impl FnOnce(R) -> Wishes,
    ) -> Result<Wishes, CallFailure> {
        match plugin.ask(self, event_name(event), call, None, None).await {
            Asked::Answer(reply) => Ok(wishes(reply)),
            Asked::Failed(failure) => Err(failure),
            // There is no deadline.
            Asked::GivenUp => Ok(Wishes::default()),
        }
    }

    async fn grant(self: &Arc<Self>, plugin: &Arc<Plugin>, kept: &Kept, wishes: Wishes) {
        let adjustment = wishes.adjustment.unwrap_or_default();
        if adjustment != ContainerAdjustment::default() {
            tracing::warn!(
                plugin = %plugin.name,
                container = kept.container,
                "container was created while the plugin was synchronized, its adjustment comes too late"
            );
        }
        if wishes.updates.is_empty() && wishes.evictions.is_empty() {
            return;
        }
        let (updates, evictions) = (wishes.updates, wishes.evictions);
        let applied = self
            .apply(plugin.id.clone(), ChangeCause::Late, updates, evictions)
            .await;
        if let Err(status) = applied {
            tracing::warn!(plugin = %plugin.name, %status, "late updates are not applied");
        }
    }
}

fn call<Q: Rpc>(
    plugin: &Plugin,
    body: &Bytes,
    terms: Terms,
) -> BoxFuture<'static, Result<Q::Reply, CallFailure>> {
    // What was encoded here can be decoded.
    let request = || cost::decode::<Q>(body, &cost::Limits::default()).unwrap_or_default();
    plugin.call(|| body.clone(), request, terms)
}
