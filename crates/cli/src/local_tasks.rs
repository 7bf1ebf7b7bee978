//! Tasks of this process alone, in a root of its own: `task run` without a daemon, and the demo.

use crate::control::Named;
use anyhow::{Context as _, Result};
use longshore_supervisor::{Config, Flags, Sources, TaskSettings};

use crate::control::own_channel;
use crate::local::{TempRoot, private_dir};

/// Tasks below a temporary root, which end with it.
#[derive(Debug)]
pub(crate) struct LocalTasks {
    root: TempRoot,
    tasks: longshore_supervisor::LocalTasks,
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
        Ok(Self { root, tasks })
    }

    pub(crate) async fn channel(&self) -> Result<Named> {
        own_channel(self.tasks.socket()).await
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
        self.root.remove()
    }
}
