//! Containers of ours that belong to no task.

use std::time::Duration;

use longshore_engine::{ContainerSummary, EngineTime, ListFilter, RemoveOptions};

use super::{Executor, is_key};
use crate::{ExecutorError, labels};

impl Executor {
    /// Removes containers that carry our labels, belong to no task on record, and are older than `grace`; returns their
    /// names. Never anybody else's.
    ///
    /// # Errors
    /// When the engine cannot list. One that cannot be removed is logged, and found again the next time.
    pub async fn remove_strays(&self, grace: Duration) -> Result<Vec<String>, ExecutorError> {
        let filter =
            ListFilter::labelled(labels::filter(&self.core.options.owner, &self.core.root));
        let listed = self.core.engine.list(&filter).await?;
        let mut removed = Vec::new();
        for container in listed {
            if !self.is_stray(&container, grace) {
                continue;
            }
            let options = RemoveOptions {
                force: true,
                volumes: true,
            };
            let name = container.names.first().unwrap_or(&container.id).clone();
            match self.core.engine.remove(&container.id, options).await {
                Ok(()) => removed.push(name),
                Err(error) if error.is_no_such_container() => {}
                Err(error) => tracing::warn!(name, %error, "a stray container was not removed"),
            }
        }
        Ok(removed)
    }

    fn is_on_record(&self, key: &str) -> bool {
        self.core.entries().contains_key(key) || self.core.records.dir(key).exists()
    }

    fn is_stray(&self, container: &ContainerSummary, grace: Duration) -> bool {
        // The filter is the engine's; that it is ours is looked at once more before it is removed.
        let ours = container.labels.get(labels::OWNER) == Some(&self.core.options.owner)
            && container.labels.get(labels::ROOT) == Some(&self.core.root);
        let Some(key) = container.labels.get(labels::KEY).filter(|key| is_key(key)) else {
            return false;
        };
        let old = container
            .created
            .is_some_and(|created| created <= EngineTime::now().before(grace));
        // A record that cannot be read is a record, too. A task that is through has no container any more: what there is came
        // of a creation that the engine finished late.
        let through = self.core.entries().get(key).is_some_and(|entry| {
            let shared = &entry.task.shared;
            shared.removes && shared.outbox.record().cleaned
        });
        ours && old && (through || !self.is_on_record(key))
    }
}
