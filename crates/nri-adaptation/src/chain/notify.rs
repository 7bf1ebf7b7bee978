//! The nine events that only tell something: all plugins at once.

use std::sync::Arc;

use longshore_nri_api::{Container, Event, PodSandbox};

use super::{Going, Passage, join_all};
use crate::adaptation::RequestOptions;
use crate::core::Core;
use crate::error::RequestError;
use crate::merge::Compat;
use crate::plugin::{Notice, Plugin};
use crate::runtime::BoxFuture;
use crate::sync::KeptBody;

impl Core {
    pub(crate) fn notify<'a>(
        self: &'a Arc<Self>,
        event: Event,
        pod: &'a PodSandbox,
        container: Option<&'a Container>,
        options: &'a RequestOptions,
    ) -> Going<'a, ()> {
        if !self.registry.wants(event) {
            return Going::over(Ok(()));
        }
        Going::Under(Box::pin(
            self.notify_plugins(event, pod, container, options),
        ))
    }

    async fn notify_plugins(
        self: &Arc<Self>,
        event: Event,
        pod: &PodSandbox,
        container: Option<&Container>,
        options: &RequestOptions,
    ) -> Result<(), RequestError> {
        let ids = (pod.id.as_str(), container.map_or("", |it| it.id.as_str()));
        let mut passage = Passage::begin(self, event, ids, options).await?;
        let notice = Notice::new(event, pod, container);
        let roster = self.registry.roster();
        let mut plugins: Vec<_> = roster
            .active
            .iter()
            .filter(|plugin| plugin.wants(event))
            .cloned()
            .collect();
        let mut outcome = Ok(());
        loop {
            passage
                .asked
                .extend(plugins.iter().map(|plugin| plugin.arrival));
            let told = match self.settings.compat {
                Compat::Correct => passage.tell_all(&plugins, &notice).await,
                Compat::GoAdaptation => passage.tell_in_turn(&plugins, &notice).await,
            };
            outcome = outcome.and(told);
            plugins = passage.finish(&roster, || KeptBody::Notice(notice.clone()));
            if plugins.is_empty() {
                break;
            }
        }
        outcome
    }
}

impl Passage<'_> {
    async fn tell_all(&self, plugins: &[Arc<Plugin>], notice: &Notice) -> Result<(), RequestError> {
        if let [plugin] = plugins {
            return self.tell(plugin, notice).await;
        }
        let telling = plugins.iter().map(|plugin| {
            let told: BoxFuture<'_, _> = Box::pin(self.tell(plugin, notice));
            told
        });
        let told = join_all(telling.collect()).await;
        told.into_iter().find(Result::is_err).unwrap_or(Ok(()))
    }

    /// As Go's adaptation does: one after another, and none after the first failure.
    async fn tell_in_turn(
        &self,
        plugins: &[Arc<Plugin>],
        notice: &Notice,
    ) -> Result<(), RequestError> {
        for plugin in plugins {
            self.tell(plugin, notice).await?;
        }
        Ok(())
    }

    async fn tell(&self, plugin: &Arc<Plugin>, notice: &Notice) -> Result<(), RequestError> {
        let (operation, deadline) = (self.operation(), self.options.deadline);
        let call = plugin.tell(notice.clone(), self.terms(plugin, self.event));
        let told = plugin
            .ask(self.core, operation, call, deadline, self.ticket.clone())
            .await;
        self.judge(plugin, operation, told).map(|_| ())
    }
}
