//! CreateContainer: one plugin after another, then all validators at once.

use std::sync::Arc;

use longshore_nri_api::{
    Container, CreateContainerRequest, CreateContainerResponse, Event, PluginInstance, event_name,
};

use super::change::{Encoded, incomplete};
use super::{Going, Passage};
use crate::adaptation::RequestOptions;
use crate::core::Core;
use crate::error::RequestError;
use crate::fields::FieldSet;
use crate::merge::{CreateMerge, Creation};
use crate::plugin::Plugin;
use crate::registry::Roster;
use crate::sync::KeptBody;

/// What validators are shown besides the outcome.
pub(super) struct Evidence {
    /// The container as the runtime made it.
    pub(super) pristine: Option<Container>,
    /// Those that answered, in order.
    pub(super) answered: Vec<Arc<Plugin>>,
    /// The validators when the request began: one that is lost meanwhile fails it.
    pub(super) validators: Vec<Arc<Plugin>>,
}

impl Core {
    pub(crate) fn create<'a>(
        self: &'a Arc<Self>,
        request: CreateContainerRequest,
        options: &'a RequestOptions,
    ) -> Going<'a, Creation> {
        let event = Event::CreateContainer;
        if request.container.is_none() {
            return Going::over(Err(incomplete(event, "container")));
        }
        if !self.registry.wants(event) {
            return Going::over(Ok(Creation::default()));
        }
        Going::Under(Box::pin(self.create_with_plugins(request, options)))
    }

    async fn create_with_plugins(
        self: &Arc<Self>,
        request: CreateContainerRequest,
        options: &RequestOptions,
    ) -> Result<Creation, RequestError> {
        let event = Event::CreateContainer;
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
        let roster = self.registry.roster();
        none_missing(&roster)?;
        let validates = |plugin: &&Arc<Plugin>| plugin.wants(Event::ValidateContainerAdjustment);
        let validators: Vec<_> = roster.active.iter().filter(validates).cloned().collect();
        let mut merge = CreateMerge::new(request, self.settings.compat);
        let pristine = (!validators.is_empty()).then(|| merge.request().container.clone());
        let mut evidence = Evidence {
            pristine: pristine.flatten(),
            answered: Vec::new(),
            validators,
        };
        let mut body = Encoded::default();
        loop {
            while let Some(plugin) = passage.next() {
                let terms = passage.terms(&plugin, event);
                let request = merge.request();
                let call = plugin.call(|| body.of(request), || request.clone(), terms);
                let reply = passage.ask::<CreateContainerRequest>(&plugin, call).await?;
                let Some(reply) = reply else { continue };
                self.count_creation(&plugin, &reply);
                let adjusted = reply.adjust.as_ref().map(FieldSet::of_adjustment);
                let updated = FieldSet::of_updates(&reply.update);
                Passage::allow(&plugin, adjusted.unwrap_or_default() | updated)?;
                if reply != CreateContainerResponse::default() {
                    body = Encoded::default();
                }
                merge.add(&plugin.name, reply)?;
                evidence.answered.push(plugin);
            }
            let request = merge.request();
            let kept = || KeptBody::Request(event, body.of(request));
            if passage.finish(&roster, kept).is_empty() {
                break;
            }
        }
        let created = if evidence.validators.is_empty() {
            merge.finish()
        } else {
            let pod = merge.request().pod.clone();
            Box::pin(passage.validate(pod, merge.finish(), evidence)).await?
        };
        none_missing(&self.registry.roster())?;
        Ok(created)
    }

    fn count_creation(&self, plugin: &Plugin, reply: &CreateContainerResponse) {
        let counts = (reply.update.len(), reply.evict.len());
        let (operation, adjust) = (event_name(Event::CreateContainer), reply.adjust.as_ref());
        let metrics = &self.settings.metrics;
        metrics.adjustments(&plugin.name, operation, adjust, counts.0, counts.1);
    }
}

/// Nothing is created without a required plugin.
fn none_missing(roster: &Roster) -> Result<(), RequestError> {
    match roster.missing.first() {
        None => Ok(()),
        Some(name) => Err(RequestError::Missing {
            plugin: name.clone(),
        }),
    }
}

/// How validators are told of a plugin.
pub(super) fn instance(plugin: &Plugin) -> PluginInstance {
    PluginInstance {
        name: plugin.id.base().to_owned(),
        index: plugin.id.index().to_string(),
    }
}
