//! Tasks of this process alone, in a root of its own: `task run` without a daemon, and the demo.

use std::time::Duration;

use anyhow::{Context as _, Result};
use longshore_engine::EngineEndpoint;
use longshore_executor_watchdog::{Watchdog, Watched};
use longshore_supervisor::{Config, Flags, Sources, TaskSettings};

use crate::control::{Named, own_channel};
use crate::local::private_dir;
use crate::temp_root::TempRoot;

/// Tasks below a temporary root, which end with it. Those that are watched also when this process is killed.
#[derive(Debug)]
pub(crate) struct LocalTasks {
    root: TempRoot,
    tasks: longshore_supervisor::LocalTasks,
    watchdog: Option<Watchdog>,
    grace: Duration,
}

impl LocalTasks {
    /// By the settings of the configuration that a daemon would have.
    pub(crate) async fn start(config: Option<std::path::PathBuf>) -> Result<Self> {
        let config = Config::load(&Sources::of_process(config, Flags::default()), None)?;
        Self::with(&config.tasks).await
    }

    pub(crate) async fn with(settings: &TaskSettings) -> Result<Self> {
        let root = TempRoot::new("longshore-")?;
        let (state, runtime) = (root.path().join("s"), root.path().join("r"));
        for dir in [&state, &runtime] {
            private_dir(dir)?;
        }
        let tasks = longshore_supervisor::LocalTasks::start(settings, &state, &runtime).await?;
        let endpoint = EngineEndpoint::parse(tasks.engine(), "the engine")?;
        let watchdog = Watchdog::start(endpoint.socket())
            .inspect_err(|error| {
                tracing::warn!(%error, "should this process be killed, its container is not stopped");
            })
            .ok();
        Ok(Self {
            root,
            tasks,
            watchdog,
            grace: settings.grace,
        })
    }

    /// The container of this name is not to outlive this process. To be told before it is created. Without a grace of its
    /// own it has that of the settings.
    pub(crate) fn watch(&mut self, container: &str, grace: Option<Duration>) {
        let watched = Watched {
            container: container.to_owned(),
            grace: grace.unwrap_or(self.grace),
            init: None,
        };
        if let Some(watchdog) = &mut self.watchdog
            && let Err(error) = watchdog.watch(&watched)
        {
            tracing::warn!(%error, container, "the container would outlive this process");
        }
    }

    pub(crate) async fn channel(&self) -> Result<Named> {
        own_channel(self.tasks.socket()).await
    }

    /// The engine's address.
    pub(crate) fn engine(&self) -> &str {
        self.tasks.engine()
    }

    /// Ends what runs, and removes everything.
    ///
    /// # Errors
    /// A task whose end could not be made sure of; its root stays then, for whoever looks after it.
    pub(crate) async fn end(self) -> Result<()> {
        let path = self.root.path().to_owned();
        if let Err(error) = self.tasks.end().await {
            let _kept = self.root.keep();
            return Err(error).with_context(|| {
                format!(
                    "a container may be left; its records are in {}",
                    path.display()
                )
            });
        }
        if let Some(watchdog) = self.watchdog
            && let Err(error) = watchdog.done()
        {
            tracing::debug!(%error, "the watchdog is gone");
        }
        self.root.remove()
    }
}
