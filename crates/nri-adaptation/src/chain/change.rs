//! UpdateContainer, StopContainer and UpdatePodSandbox: one plugin after another.
//!
//! The futures are large: only a request that somebody wants makes one.

use std::sync::Arc;

use bytes::Bytes;
use longshore_nri_api::{
    Event, StopContainerRequest, StopContainerResponse, UpdateContainerRequest,
    UpdateContainerResponse, UpdatePodSandboxRequest, event_name,
};

use super::{Going, Passage};
use crate::adaptation::RequestOptions;
use crate::core::Core;
use crate::error::RequestError;
use crate::fields::FieldSet;
use crate::merge::{Change, ChangeMerge};
use crate::plugin::{Payload, Plugin, Rpc};
use crate::sync::KeptBody;

impl Core {
    pub(crate) fn update<'a>(
        self: &'a Arc<Self>,
        request: UpdateContainerRequest,
        options: &'a RequestOptions,
    ) -> Going<'a, Change> {
        let event = Event::UpdateContainer;
        if request.container.is_none() {
            return Going::over(Err(incomplete(event, "container")));
        }
        if !self.registry.wants(event) {
            return Going::over(Ok(Change {
                requested: request.linux_resources.unwrap_or_default(),
                ..Change::default()
            }));
        }
        Going::Under(Box::pin(self.update_with_plugins(request, options)))
    }

    async fn update_with_plugins(
        self: &Arc<Self>,
        request: UpdateContainerRequest,
        options: &RequestOptions,
    ) -> Result<Change, RequestError> {
        let event = Event::UpdateContainer;
        let container = request
            .container
            .as_ref()
            .ok_or(incomplete(event, "container"))?;
        let pod = request
            .pod
            .as_ref()
            .map_or(&*container.pod_sandbox_id, |pod| &*pod.id);
        let ids = (pod, container.id.as_str());
        let mut passage = Passage::begin(self, event, ids, options).await?;
        let mut merge = ChangeMerge::update(request, self.settings.compat);
        let mut body = Encoded::default();
        let roster = self.registry.roster();
        loop {
            while let Some(plugin) = passage.next() {
                let terms = passage.terms(&plugin, event);
                let request = merge.request();
                let call = plugin.call(|| body.of(request), || request.clone(), terms);
                let reply = passage.ask::<UpdateContainerRequest>(&plugin, call).await?;
                let Some(reply) = reply else { continue };
                self.count(&plugin, event, (reply.update.len(), reply.evict.len()));
                Passage::allow(&plugin, FieldSet::of_updates(&reply.update))?;
                if reply != UpdateContainerResponse::default() {
                    body = Encoded::default();
                }
                merge.add(&plugin.name, reply)?;
            }
            let request = merge.request();
            let kept = || KeptBody::Request(event, body.of(request));
            if passage.finish(&roster, kept).is_empty() {
                return Ok(merge.finish());
            }
        }
    }

    pub(crate) fn stop<'a>(
        self: &'a Arc<Self>,
        request: StopContainerRequest,
        options: &'a RequestOptions,
    ) -> Going<'a, Change> {
        let event = Event::StopContainer;
        if request.container.is_none() {
            return Going::over(Err(incomplete(event, "container")));
        }
        if !self.registry.wants(event) {
            return Going::over(Ok(Change::default()));
        }
        Going::Under(Box::pin(self.stop_with_plugins(request, options)))
    }

    async fn stop_with_plugins(
        self: &Arc<Self>,
        request: StopContainerRequest,
        options: &RequestOptions,
    ) -> Result<Change, RequestError> {
        let event = Event::StopContainer;
        let container = request
            .container
            .as_ref()
            .ok_or(incomplete(event, "container"))?;
        let pod = request
            .pod
            .as_ref()
            .map_or(&*container.pod_sandbox_id, |pod| &*pod.id);
        let ids = (pod, container.id.as_str());
        let mut passage = Passage::begin(self, event, ids, options).await?;
        let mut merge = ChangeMerge::stop(self.settings.compat);
        let mut body = Encoded::default();
        let roster = self.registry.roster();
        loop {
            while let Some(plugin) = passage.next() {
                let terms = passage.terms(&plugin, event);
                let call = plugin.call(|| body.of(&request), || request.clone(), terms);
                let reply = passage.ask::<StopContainerRequest>(&plugin, call).await?;
                let Some(StopContainerResponse { update }) = reply else {
                    continue;
                };
                self.count(&plugin, event, (update.len(), 0));
                Passage::allow(&plugin, FieldSet::of_updates(&update))?;
                merge.add_stop(&plugin.name, StopContainerResponse { update })?;
            }
            let kept = || KeptBody::Request(event, body.of(&request));
            if passage.finish(&roster, kept).is_empty() {
                return Ok(merge.finish());
            }
        }
    }

    pub(crate) fn update_pod<'a>(
        self: &'a Arc<Self>,
        request: UpdatePodSandboxRequest,
        options: &'a RequestOptions,
    ) -> Going<'a, ()> {
        let event = Event::UpdatePodSandbox;
        if request.pod.is_none() {
            return Going::over(Err(incomplete(event, "pod")));
        }
        if !self.registry.wants(event) {
            return Going::over(Ok(()));
        }
        Going::Under(Box::pin(self.update_pod_with_plugins(request, options)))
    }

    async fn update_pod_with_plugins(
        self: &Arc<Self>,
        request: UpdatePodSandboxRequest,
        options: &RequestOptions,
    ) -> Result<(), RequestError> {
        let event = Event::UpdatePodSandbox;
        let pod = request.pod.as_ref().ok_or(incomplete(event, "pod"))?;
        let mut passage = Passage::begin(self, event, (&pod.id, ""), options).await?;
        let mut body = Encoded::default();
        let roster = self.registry.roster();
        loop {
            while let Some(plugin) = passage.next() {
                let terms = passage.terms(&plugin, event);
                let call = plugin.call(|| body.of(&request), || request.clone(), terms);
                passage
                    .ask::<UpdatePodSandboxRequest>(&plugin, call)
                    .await?;
            }
            let kept = || KeptBody::Request(event, body.of(&request));
            if passage.finish(&roster, kept).is_empty() {
                return Ok(());
            }
        }
    }

    /// Counts what an answer asks for.
    pub(super) fn count(
        &self,
        plugin: &Plugin,
        event: Event,
        (updates, evictions): (usize, usize),
    ) {
        let metrics = &self.settings.metrics;
        metrics.adjustments(&plugin.name, event_name(event), None, updates, evictions);
    }
}

pub(super) fn incomplete(event: Event, missing: &'static str) -> RequestError {
    RequestError::Incomplete {
        operation: event_name(event),
        missing,
    }
}

/// A request that is encoded when the first plugin needs it, and not again until it changes.
#[derive(Debug, Default)]
pub(super) struct Encoded(Option<Bytes>);

impl Encoded {
    pub(super) fn of(&mut self, request: &impl Rpc) -> Bytes {
        self.0.get_or_insert_with(|| Payload::of(request).0).clone()
    }
}
