//! The handle, and the tasks behind it.
//!
//! ```text
//!   CsiManager --commands--> one task a plugin --> one daemon a container --> agent
//!        |                        ^   |
//!        |   recovery ------------+   +--> board --> status (watch), endpoints (watch)
//!        |   (once, at the start)                |
//!        +-- pids, mounts, history writer <------+
//! ```

use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use longshore_paths::Service;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::board::PluginBoard;
use crate::config::PluginConfig;
use crate::error::ManagerError;
use crate::options::ManagerOptions;
use crate::plan::{Kind, Places, Plan, plan_all};
use crate::plugin::{Command, PluginTask};
use crate::recovery::Findings;
use crate::shared::Shared;
use crate::startup::{keep_saving, recover, save};
use crate::status::{EndpointState, ManagerStatus, ReadyEndpoint};
use crate::strays::serve_strays;
use crate::table::{Handle, Plugins};
use crate::wants::Wants;

/// Commands that wait for a plugin's task.
const COMMANDS: usize = 8;

/// How long a shutdown waits for the tasks.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(10);

/// Keeps CSI plugins running and hands out their endpoints. Clones are handles of one manager;
/// when the last one is dropped supervision ends and the containers keep running.
#[derive(Clone, Debug)]
pub struct CsiManager {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) plugins: Arc<Plugins>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl CsiManager {
    /// Checks the configuration, spawns the manager and begins recovery. Needs a tokio runtime
    /// with I/O and time.
    ///
    /// # Errors
    /// A configuration that cannot work; nothing has been done then.
    pub fn spawn(
        options: ManagerOptions,
        plugins: Vec<PluginConfig>,
    ) -> Result<Self, ManagerError> {
        let places = Places {
            state: options.state.clone(),
            runtime: options.runtime.clone(),
            instance: options.instance.clone(),
        };
        for path in [places.state.path(), places.runtime.path()] {
            if path.to_str().is_none() || !path.is_absolute() {
                return Err(ManagerError::Directory {
                    path: path.to_owned(),
                });
            }
        }
        let plans = plan_all(plugins, &places)?;
        let manager = Self {
            inner: Arc::new(Inner {
                shared: Arc::new(Shared::new(options, places)),
                plugins: Arc::default(),
                tasks: TaskTracker::new(),
                stop: CancellationToken::new(),
            }),
        };
        let shared = &manager.inner.shared;
        let weak = Arc::downgrade(&manager.inner);
        let (added, all_added) = oneshot::channel();
        manager.run(Box::pin(recover(
            weak,
            Arc::clone(shared),
            Arc::clone(&manager.inner.plugins),
            all_added,
        )));
        for plan in plans.into_values() {
            manager.add(plan, None);
        }
        // Recovery has just been spawned; without it there is no runtime any more.
        let _ = added.send(());
        let (pids, mounts, saves) = (Arc::clone(shared), Arc::clone(shared), Arc::clone(shared));
        let plugins = Arc::clone(&manager.inner.plugins);
        manager.run(async move { pids.serve_pids().await });
        manager.run(async move { mounts.serve_mounts().await });
        let strays = (Arc::clone(shared), Arc::clone(&plugins));
        manager.run(Box::pin(serve_strays(strays.0, strays.1)));
        manager.run(async move { keep_saving(&saves, &plugins).await });
        Ok(manager)
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.inner.stop.clone();
        self.inner.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Makes a plugin's handle and task; `found` is `None` when recovery will tell.
    pub(crate) fn add(&self, plan: Arc<Plan>, found: Option<Findings>) {
        let shared = &self.inner.shared;
        let managed = matches!(plan.kind, Kind::Managed(_));
        let board = Arc::new(PluginBoard::new(Arc::clone(&shared.board), &plan, managed));
        let wants = Arc::new(Wants::new(shared.eager));
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (tell, told) = oneshot::channel();
        let task = Box::new(PluginTask::new(
            Arc::clone(shared),
            Arc::clone(&board),
            Arc::clone(&wants),
            Arc::clone(&plan),
        ));
        let name = plan.name().to_owned();
        let made = {
            let mut table = self.inner.plugins.lock();
            table.made += 1;
            let found = match found {
                Some(found) => {
                    // The receiver is right here.
                    drop(tell.send(found));
                    None
                }
                None => Some(tell),
            };
            let made = table.made;
            let handle = Handle {
                made,
                board,
                wants,
                commands,
                plan,
                found,
                leaving: false,
            };
            table.by_name.insert(name.clone(), handle);
            made
        };
        let plugins = Arc::clone(&self.inner.plugins);
        self.run(async move {
            task.run(told, inbox).await;
            if let Entry::Occupied(entry) = plugins.lock().by_name.entry(name)
                && entry.get().made == made
            {
                entry.remove();
            }
        });
    }

    /// The endpoint of a service, now and whenever it changes; starts the plugin when nobody has
    /// yet. The channel closes when the plugin leaves the configuration.
    ///
    /// # Errors
    /// [`ManagerError::UnknownPlugin`], [`ManagerError::ServiceNotOffered`].
    pub fn endpoint(
        &self,
        name: &str,
        service: Service,
    ) -> Result<watch::Receiver<EndpointState>, ManagerError> {
        let table = self.inner.plugins.lock();
        let handle = table.find(name)?;
        let endpoint = handle.board.endpoint(service);
        let endpoint = endpoint.ok_or_else(|| ManagerError::ServiceNotOffered {
            plugin: name.to_owned(),
            service,
        })?;
        handle.wants.want(service);
        Ok(endpoint)
    }

    /// The current endpoint of a service, or the next good one.
    ///
    /// # Errors
    /// As [`endpoint`](Self::endpoint); [`ManagerError::NotReady`] with the reason at `deadline`;
    /// [`ManagerError::Closed`] when the plugin leaves the configuration meanwhile.
    pub async fn wait_endpoint(
        &self,
        name: &str,
        service: Service,
        deadline: Instant,
    ) -> Result<ReadyEndpoint, ManagerError> {
        let mut endpoint = self.endpoint(name, service)?;
        let ready = endpoint.wait_for(|state| state.ready.is_some());
        let found = match tokio::time::timeout_at(deadline, ready).await {
            Ok(Ok(state)) => state.ready.clone(),
            Ok(Err(_)) => return Err(ManagerError::Closed),
            Err(_) => None,
        };
        found.ok_or_else(|| ManagerError::NotReady {
            plugin: name.to_owned(),
            service,
            reason: endpoint.borrow().reason.clone(),
        })
    }

    /// The status of everything, always answered from memory.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Arc<ManagerStatus>> {
        self.inner.shared.board.subscribe()
    }

    /// Somebody looks at the status: what is only looked for now and then is looked for soon. Returns at once.
    pub fn look_again(&self) {
        self.inner.shared.looked_at.notify_one();
    }

    /// Waits until a liveness probe of a managed plugin has ended since the last call, well or not; for one caller at a time. For a program that
    /// does something about what probes have cost, such as memory. Dropping the future loses nothing.
    pub async fn probed(&self) {
        self.inner.shared.probed.notified().await;
    }

    /// Puts another configuration in force; what follows from it goes on after this returns.
    /// Plugins that did not change are not touched; one that changed or left while something is
    /// mounted below its mount root is kept and reported until the mount is gone, or until
    /// [`restart`](Self::restart) or [`stop`](Self::stop) with `force`.
    ///
    /// # Errors
    /// A configuration that cannot work: the old one stays in force, whole.
    pub async fn apply(&self, plugins: Vec<PluginConfig>) -> Result<(), ManagerError> {
        let plans = plan_all(plugins, &self.inner.shared.places)?;
        let (new, commands) = {
            let mut table = self.inner.plugins.lock();
            table.check(&plans)?;
            table.change(plans)
        };
        for plan in new {
            self.add(plan, Some(Findings::Look));
        }
        for (sender, command) in commands {
            sender
                .send(command)
                .await
                .map_err(|_| ManagerError::Closed)?;
        }
        Ok(())
    }

    /// Restarts a plugin's containers at once; `reset` forgets its failures and lets it speak
    /// another CSI version or take another name; `force` does so although FUSE mounts go down, and
    /// carries out a change that waits for a mount.
    ///
    /// # Errors
    /// [`ManagerError::UnknownPlugin`], [`ManagerError::HoldsFuse`] without `force`.
    pub async fn restart(&self, name: &str, reset: bool, force: bool) -> Result<(), ManagerError> {
        self.ask(name, |done| Command::Restart { reset, force, done })
            .await?
    }

    /// Stops a plugin's containers; they stay stopped until [`start`](Self::start), or until the
    /// supervisor starts anew. Returns when they are down. `force` as for
    /// [`restart`](Self::restart).
    ///
    /// # Errors
    /// As [`restart`](Self::restart).
    pub async fn stop(&self, name: &str, force: bool) -> Result<(), ManagerError> {
        self.ask(name, |done| Command::Stop { force, done }).await?
    }

    /// Starts a plugin that was stopped, or that nobody asked for yet.
    ///
    /// # Errors
    /// [`ManagerError::UnknownPlugin`].
    pub async fn start(&self, name: &str) -> Result<(), ManagerError> {
        self.ask(name, |done| Command::Start { done }).await
    }

    async fn ask<T>(
        &self,
        name: &str,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, ManagerError> {
        let commands = self.inner.plugins.lock().find(name)?.commands.clone();
        let (done, answer) = oneshot::channel();
        let sent = commands.send(Box::new(command(done))).await;
        sent.map_err(|_| ManagerError::Closed)?;
        answer.await.map_err(|_| ManagerError::Closed)
    }

    /// Ends supervision and leaves the containers running. Histories are written first.
    pub async fn shutdown(&self) {
        self.inner.plugins.lock().closed = true;
        self.inner.stop.cancel();
        self.inner.tasks.close();
        let _ = tokio::time::timeout(SHUTDOWN_DEADLINE, self.inner.tasks.wait()).await;
        save(&self.inner.shared, &self.inner.plugins).await;
        self.inner.plugins.lock().by_name.clear();
    }

    /// Stops every managed container with its grace, then ends supervision. For programs whose
    /// plugins must not outlive them (the demo, `csi run`).
    pub async fn stop_all(&self) {
        let names: Vec<String> = self.inner.plugins.lock().by_name.keys().cloned().collect();
        let mut jobs = tokio::task::JoinSet::new();
        for name in names {
            let manager = self.clone();
            jobs.spawn(async move {
                if let Err(error) = manager.stop(&name, true).await {
                    tracing::warn!(plugin = name, %error, "not stopped");
                }
            });
        }
        jobs.join_all().await;
        self.shutdown().await;
    }
}
