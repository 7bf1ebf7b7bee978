//! The hooks of containers, told to plugins: performs what [`Life`](crate::Life) says.
//!
//! ```text
//!   docker-executor, agent ──hooks──► Bridge ──► Adaptation ──► plugins
//!            ▲                          │ ▲                        │
//!            └── Owner: update, evict ──┘ └── snapshot, apply ◄────┘
//! ```

mod hooks;
mod wishes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use longshore_engine::Resources;
use longshore_nri_adaptation::{Adaptation, RequestOptions};
use longshore_nri_api::{Container, ContainerState, PodSandbox};
use longshore_task_spec::hooks::{Draft, HookContainer, HookFuture};
use tokio::sync::watch;

use crate::{HostDevices, Life, Moment, SystemDevices, Told, container_of, pod_of};

/// What holds for all containers.
#[derive(Clone, Debug)]
pub struct BridgeOptions {
    /// The namespace of all pods.
    pub namespace: String,
    /// Who knows the device nodes of this host.
    pub devices: Arc<dyn HostDevices>,
}

impl BridgeOptions {
    /// Pods in this namespace, on the running system.
    #[must_use]
    pub fn new(namespace: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            devices: Arc::new(SystemDevices),
        }
    }
}

/// Whoever runs containers, for what plugins want of those that run.
pub trait Owner: Send + Sync + std::fmt::Debug {
    /// Whether it runs the container with this id.
    fn owns(&self, id: &str) -> bool;

    /// Changes the resources of a container that runs. Calls no hook, and waits for none.
    ///
    /// # Errors
    /// It has not been changed.
    fn update<'a>(&'a self, id: &'a str, resources: Resources) -> HookFuture<'a, ()>;

    /// Ends a container; `reason` names the plugin.
    fn evict(&self, id: &str, reason: &str);
}

/// Hooks that tell NRI plugins. Clones are the same.
///
/// Plugins come with [`attach`](Self::attach); until then every moment waits, under the deadline of whoever calls.
#[derive(Clone, Debug)]
pub struct Bridge {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: BridgeOptions,
    /// Never held while anybody is asked.
    entries: Mutex<BTreeMap<String, Entry>>,
    owners: RwLock<Vec<Arc<dyn Owner>>>,
    adaptation: watch::Sender<Option<Adaptation>>,
}

/// One container, as plugins know it.
#[derive(Clone, Debug)]
struct Entry {
    life: Life,
    pod: PodSandbox,
    container: Container,
    /// What it may use now.
    resources: Resources,
    /// It is a process of this host: nothing of it can be changed while it runs.
    is_process: bool,
}

impl Bridge {
    /// Without plugins, and without containers.
    #[must_use]
    pub fn new(options: BridgeOptions) -> Self {
        Self {
            shared: Arc::new(Shared {
                options,
                entries: Mutex::default(),
                owners: RwLock::default(),
                adaptation: watch::Sender::new(None),
            }),
        }
    }

    /// Plugins are told from now on. The adaptation was started with a clone of this as its runtime.
    pub fn attach(&self, adaptation: Adaptation) {
        self.shared.adaptation.send_replace(Some(adaptation));
    }

    /// The adaptation, now and from now on.
    #[must_use]
    pub fn adaptation(&self) -> watch::Receiver<Option<Adaptation>> {
        self.shared.adaptation.subscribe()
    }

    /// Asks this one, too, for what plugins want of containers.
    pub fn add_owner(&self, owner: Arc<dyn Owner>) {
        let mut owners = self
            .shared
            .owners
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        owners.push(owner);
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.shared
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, id: &str) -> Option<Entry> {
        self.entries().get(id).cloned()
    }

    async fn nri(&self) -> Option<Adaptation> {
        let mut adaptation = self.adaptation();
        let there = adaptation.wait_for(Option::is_some).await.ok()?;
        there.clone()
    }

    fn new_entry(&self, who: &HookContainer, draft: &Draft) -> Entry {
        let (resources, is_process) = match draft {
            Draft::Engine(spec) => (spec.resources.clone(), false),
            Draft::Process(draft) => (draft.resources.clone(), true),
            _ => (Resources::default(), true),
        };
        let options = &self.shared.options;
        let mut container = container_of(who, draft, options.devices.as_ref());
        container.created_at = now();
        Entry {
            life: Life::default(),
            pod: pod_of(who, &options.namespace, draft),
            container,
            resources,
            is_process,
        }
    }

    /// Takes the moment, and gives the entry as it is then, with what is to be told. An entry that ends is gone.
    fn step(
        &self,
        id: &str,
        moment: Moment,
        change: impl FnOnce(&mut Entry),
    ) -> Option<(Entry, Vec<Told>)> {
        let mut entries = self.entries();
        let entry = entries.get_mut(id)?;
        let told = entry.life.step(moment);
        change(entry);
        let entry = entry.clone();
        if entry.life == Life::Absent {
            entries.remove(id);
        }
        Some((entry, told))
    }

    /// Tells what only tells; the failure of one keeps none of the others from being told.
    async fn tell(&self, nri: &Adaptation, entry: &Entry, told: &[Told]) {
        for event in told {
            if let Err(problem) = self.tell_one(nri, entry, *event).await {
                let (id, event) = (entry.container.id.as_str(), format!("{event:?}"));
                tracing::warn!(container = id, event, problem, "an NRI plugin failed");
            }
        }
    }

    async fn tell_one(&self, nri: &Adaptation, entry: &Entry, told: Told) -> Result<(), String> {
        let options = RequestOptions::default();
        let Entry { pod, container, .. } = entry;
        let result = match told {
            Told::RunPodSandbox => nri.run_pod_sandbox(pod, &options).await,
            Told::PostCreateContainer => nri.post_create_container(pod, container, &options).await,
            Told::StartContainer => nri.start_container(pod, container, &options).await,
            Told::PostStartContainer => nri.post_start_container(pod, container, &options).await,
            Told::PostUpdateContainer => nri.post_update_container(pod, container, &options).await,
            Told::RemoveContainer => nri.remove_container(pod, container, &options).await,
            Told::StopPodSandbox => nri.stop_pod_sandbox(pod, &options).await,
            Told::RemovePodSandbox => nri.remove_pod_sandbox(pod, &options).await,
            Told::StopContainer => {
                let request = longshore_nri_api::StopContainerRequest {
                    pod: Some(pod.clone()),
                    container: Some(container.clone()),
                };
                let change = nri.stop_container(request, &options).await;
                match change {
                    Ok(change) => {
                        self.carry_out(change.updates, change.evictions).await;
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            // They are asked, and their answers used, where they come up.
            Told::CreateContainer | Told::UpdateContainer => Ok(()),
        };
        result.map_err(|error| error.to_string())
    }
}

fn state_of(life: Life) -> ContainerState {
    match life {
        Life::Absent | Life::Asked | Life::Accepted | Life::Created | Life::Starting => {
            ContainerState::ContainerCreated
        }
        Life::Running => ContainerState::ContainerRunning,
        Life::Stopped => ContainerState::ContainerStopped,
    }
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
