//! Merging what several plugins answer to one request.
//!
//! One merge lives for one chain of CreateContainer, UpdateContainer or StopContainer. After each
//! reply it changes three things:
//!
//! ```text
//!             ┌─▶ view    what the next plugin is shown
//!   reply ────┼─▶ result  what the runtime gets in the end
//!             └─▶ owners  who set what: a second claim is a conflict
//! ```
//!
//! Pure: no I/O, no clock. Deterministic: the same replies in the same order give the same
//! result, whatever order a plugin lists things in. After an error the merge is of no more use:
//! the request fails as a whole.

mod adjust;
mod check;
mod keyed;
mod resources;
mod update;

use longshore_nri_api::{
    Conflict, ContainerAdjustment, ContainerEviction, ContainerUpdate, CreateContainerRequest,
    CreateContainerResponse, LinuxResources, OwningPlugins, StopContainerResponse,
    UpdateContainerRequest, UpdateContainerResponse,
};

pub(crate) use self::check::updates as check_updates;
pub(crate) use self::resources::simple_fields;
use self::update::Updates;

/// Which rules hold where Go's adaptation is known to be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compat {
    /// Do the right thing; each deviation is listed in the crate's README.
    #[default]
    Correct,
    /// Do what Go's adaptation does, for callers that depend on it.
    GoAdaptation,
}

/// Why replies cannot be merged; the request fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// Two plugins set the same thing, or one set it twice.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// A plugin updates the container that is only being created.
    #[error("plugin {plugin:?} asked for an update of container {container:?} during its creation")]
    UpdateDuringCreation {
        /// Full name of the plugin.
        plugin: String,
        /// The container.
        container: String,
    },
    /// A value that no container can have.
    #[error("plugin {plugin:?} set {field} to {value:?}: {why}")]
    BadValue {
        /// Full name of the plugin.
        plugin: String,
        /// The field, such as `env`.
        field: &'static str,
        /// The value, cut to 64 characters.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More entries than a reply may have.
    #[error("plugin {plugin:?} sent {count} entries of {field}, at most {max} are accepted")]
    TooMany {
        /// Full name of the plugin.
        plugin: String,
        /// The field, such as `mounts`.
        field: &'static str,
        /// How many.
        count: usize,
        /// The limit.
        max: usize,
    },
}

/// An eviction with the plugin that asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Eviction {
    /// Full name of the plugin.
    pub plugin: String,
    /// Which container, and why.
    pub eviction: ContainerEviction,
}

/// What a chain of CreateContainer came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Creation {
    /// How the container is to be changed. Removals have a leading dash and come before what is
    /// added under the same key.
    pub adjustment: ContainerAdjustment,
    /// Changes of other containers, in the order in which they were first named.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop.
    pub evictions: Vec<Eviction>,
    /// Who set what.
    pub owners: OwningPlugins,
}

/// What a chain of UpdateContainer or StopContainer came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Change {
    /// The resources for the container that the request is about; for StopContainer empty.
    pub requested: LinuxResources,
    /// Changes of other containers, in the order in which they were first named.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop.
    pub evictions: Vec<Eviction>,
}

/// The merge of a chain of CreateContainer.
#[derive(Debug, Clone)]
pub struct CreateMerge {
    request: CreateContainerRequest,
    container: String,
    adjustment: ContainerAdjustment,
    updates: Updates,
    evictions: Vec<Eviction>,
    owners: OwningPlugins,
    compat: Compat,
}

impl CreateMerge {
    /// Starts with the request as the runtime made it. Absent collections become empty ones:
    /// plugins in Go expect them.
    #[must_use]
    pub fn new(mut request: CreateContainerRequest, compat: Compat) -> Self {
        let container = request.container.get_or_insert_default();
        container.hooks.get_or_insert_default();
        let resources = container
            .linux
            .get_or_insert_default()
            .resources
            .get_or_insert_default();
        resources.memory.get_or_insert_default();
        resources.cpu.get_or_insert_default();
        let container = container.id.clone();
        Self {
            request,
            container,
            adjustment: ContainerAdjustment::default(),
            updates: Updates::new(compat),
            evictions: Vec::new(),
            owners: OwningPlugins::default(),
            compat,
        }
    }

    /// What the next plugin is to be shown.
    #[must_use]
    pub fn request(&self) -> &CreateContainerRequest {
        &self.request
    }

    /// Takes the reply of the plugin with this full name.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn add(&mut self, plugin: &str, reply: CreateContainerResponse) -> Result<(), MergeError> {
        if let Some(adjustment) = reply.adjust {
            check::adjustment(plugin, &adjustment)?;
            self.adjust(plugin, adjustment)?;
        }
        check::updates(plugin, &reply.update, &reply.evict)?;
        for update in reply.update {
            if update.container_id == self.container {
                let (plugin, container) = (plugin.to_owned(), update.container_id);
                return Err(MergeError::UpdateDuringCreation { plugin, container });
            }
            self.updates.add(plugin, update, &mut self.owners)?;
        }
        collect_evictions(&mut self.evictions, plugin, reply.evict);
        Ok(())
    }

    /// The owners so far, for validators.
    #[must_use]
    pub fn owners(&self) -> &OwningPlugins {
        &self.owners
    }

    /// Ends the chain.
    #[must_use]
    pub fn finish(self) -> Creation {
        Creation {
            adjustment: self.adjustment,
            updates: self.updates.finish(),
            evictions: self.evictions,
            owners: self.owners,
        }
    }
}

/// The merge of a chain of UpdateContainer or StopContainer.
#[derive(Debug, Clone)]
pub struct ChangeMerge {
    /// Of StopContainer only the container is used.
    request: UpdateContainerRequest,
    /// The container whose resources are asked for; `None` for StopContainer, which treats all
    /// alike.
    container: Option<String>,
    updates: Updates,
    evictions: Vec<Eviction>,
    owners: OwningPlugins,
}

impl ChangeMerge {
    /// Starts a chain of UpdateContainer with the request as the runtime made it.
    #[must_use]
    pub fn update(mut request: UpdateContainerRequest, compat: Compat) -> Self {
        let resources = request.linux_resources.get_or_insert_default();
        resources.memory.get_or_insert_default();
        resources.cpu.get_or_insert_default();
        let container = request.container.get_or_insert_default().id.clone();
        Self {
            container: Some(container),
            ..Self::start(request, compat)
        }
    }

    /// Starts a chain of StopContainer.
    #[must_use]
    pub fn stop(compat: Compat) -> Self {
        Self::start(UpdateContainerRequest::default(), compat)
    }

    fn start(request: UpdateContainerRequest, compat: Compat) -> Self {
        Self {
            request,
            container: None,
            updates: Updates::new(compat),
            evictions: Vec::new(),
            owners: OwningPlugins::default(),
        }
    }

    /// What the next plugin of a chain of UpdateContainer is to be shown.
    #[must_use]
    pub fn request(&self) -> &UpdateContainerRequest {
        &self.request
    }

    /// Takes the reply to UpdateContainer of the plugin with this full name.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn add(&mut self, plugin: &str, reply: UpdateContainerResponse) -> Result<(), MergeError> {
        check::updates(plugin, &reply.update, &reply.evict)?;
        for update in reply.update {
            self.take(plugin, update)?;
        }
        collect_evictions(&mut self.evictions, plugin, reply.evict);
        Ok(())
    }

    /// Takes the reply to StopContainer of the plugin with this full name.
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn add_stop(
        &mut self,
        plugin: &str,
        reply: StopContainerResponse,
    ) -> Result<(), MergeError> {
        let reply = UpdateContainerResponse {
            update: reply.update,
            evict: Vec::new(),
        };
        self.add(plugin, reply)
    }

    fn take(&mut self, plugin: &str, update: ContainerUpdate) -> Result<(), MergeError> {
        if self.container.as_deref() == Some(update.container_id.as_str()) {
            let requested = self.request.linux_resources.get_or_insert_default();
            return self
                .updates
                .overlay(plugin, update, requested, &mut self.owners);
        }
        self.updates.add(plugin, update, &mut self.owners)
    }

    /// Ends the chain.
    #[must_use]
    pub fn finish(self) -> Change {
        Change {
            requested: self.request.linux_resources.unwrap_or_default(),
            updates: self.updates.finish(),
            evictions: self.evictions,
        }
    }
}

fn collect_evictions(all: &mut Vec<Eviction>, plugin: &str, evictions: Vec<ContainerEviction>) {
    let plugin = || plugin.to_owned();
    all.extend(evictions.into_iter().map(|eviction| Eviction {
        plugin: plugin(),
        eviction,
    }));
}

#[cfg(test)]
mod tests;
