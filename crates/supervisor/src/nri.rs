//! NRI for the daemon's containers: the bridge between those who run them and the plugins, wired.

use std::sync::Arc;
use std::time::Duration;

use longshore_docker_executor::{Executor, Kill};
use longshore_engine::{DockerConfig, DockerEngine, EngineEndpoint, Resources};
use longshore_nri_adaptation::launch::LaunchOptions;
use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_adaptation::validate::DefaultValidator;
use longshore_nri_adaptation::{Adaptation, OnFailure, PluginPolicy};
use longshore_nri_bridge::{Bridge, BridgeOptions, Owner};
use longshore_task_spec::hooks::{ContainerHooks, HookError, HookFuture, NoHooks};

use crate::config::NriSettings;
use crate::control::{NriControl, NriLedger};
use crate::{SupervisorError, reload};

/// What plugins are told of who we are.
const RUNTIME: &str = "longshore";
/// How soon an engine that did not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(10);
/// Why a daemon knows no NRI plugins.
const ABSENT: &str =
    "this daemon serves no NRI plugins: set `nri.enabled = true` and start it again";

/// The daemon's plugins, or none.
#[derive(Debug, Clone)]
pub(crate) struct Nri {
    bridge: Option<Bridge>,
    ledger: NriLedger,
}

impl Nri {
    /// Without plugins yet: hooks wait for [`serve`](Self::serve).
    pub(crate) fn new(settings: &NriSettings) -> Self {
        let bridge = settings
            .enabled
            .then(|| Bridge::new(BridgeOptions::new(&settings.namespace)));
        Self {
            bridge,
            ledger: NriLedger::default(),
        }
    }

    /// No plugins, for good.
    pub(crate) fn none() -> Self {
        Self {
            bridge: None,
            ledger: NriLedger::default(),
        }
    }

    /// What whoever runs containers calls.
    pub(crate) fn hooks(&self) -> Arc<dyn ContainerHooks> {
        match &self.bridge {
            Some(bridge) => Arc::new(bridge.clone()),
            None => Arc::new(NoHooks),
        }
    }

    /// The containers of this executor are within the plugins' reach.
    pub(crate) fn reaches(&self, executor: Executor) {
        if let Some(bridge) = &self.bridge {
            bridge.add_owner(Arc::new(Runner(executor)));
        }
    }

    /// Launches plugins and lets others connect. Containers that were taken up are known by now.
    ///
    /// # Errors
    /// [`SupervisorError::Nri`].
    pub(crate) async fn serve(
        &self,
        settings: &NriSettings,
        version: &str,
    ) -> Result<(), SupervisorError> {
        let Some(bridge) = &self.bridge else {
            return Ok(());
        };
        let launch = LaunchOptions::new(&settings.plugin_dir, &settings.config_dir);
        let mut builder = Adaptation::builder(RUNTIME, version)
            .launch(launch)
            .socket(SocketOptions::new(&settings.socket))
            .timeouts(settings.timeouts)
            // It also reads which plugins a container requires by itself.
            .validator(DefaultValidator::default())
            .metrics(self.ledger.clone());
        for name in &settings.required {
            let mut policy = PluginPolicy::default();
            policy.on_failure = OnFailure::FailUntilBack;
            builder = builder.policy(name, policy);
        }
        let adaptation = builder.start(bridge.clone()).await;
        let adaptation = adaptation.map_err(|source| SupervisorError::Nri {
            source: Box::new(source),
        })?;
        bridge.attach(adaptation);
        tracing::info!(socket = %settings.socket.display(), "NRI plugins are served");
        Ok(())
    }

    /// Warns when the engine of tasks serves plugins of its own. Asks until it has answered, and ends then.
    pub(crate) async fn look_for_nri_of_engine(self, engine: EngineEndpoint) {
        if self.bridge.is_none() {
            return;
        }
        let address = engine.to_string();
        let engine = DockerEngine::new(DockerConfig::new(engine));
        loop {
            match engine.own_nri().await {
                Ok(Some(words)) => {
                    tracing::warn!(
                        engine = address,
                        says = words,
                        "the engine serves NRI plugins of its own: a plugin that is connected to both sees each container twice"
                    );
                    return;
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "it is not known whether the engine has NRI plugins of its own");
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    /// For the control service.
    pub(crate) fn control(&self) -> NriControl {
        match &self.bridge {
            Some(bridge) => NriControl::new(RUNTIME, bridge.adaptation(), self.ledger.clone()),
            None => NriControl::absent(ABSENT),
        }
    }

    /// Plugins are asked to end, and those that were launched are ended.
    pub(crate) async fn shutdown(&self) {
        let adaptation = self
            .bridge
            .as_ref()
            .and_then(|bridge| bridge.adaptation().borrow().clone());
        if let Some(adaptation) = adaptation {
            adaptation.shutdown().await;
        }
    }
}

/// An executor, for what plugins want of its containers.
#[derive(Debug)]
struct Runner(Executor);

impl Owner for Runner {
    fn owns(&self, id: &str) -> bool {
        self.0.task_of_container(id).is_some()
    }

    fn update<'a>(&'a self, id: &'a str, resources: Resources) -> HookFuture<'a, ()> {
        Box::pin(async move {
            let unavailable = |reason: String| HookError::Unavailable { reason };
            let task = self.0.task_of_container(id);
            let task = task.ok_or_else(|| unavailable("its task is forgotten".to_owned()))?;
            match self.0.update_unasked(&task, &resources).await {
                Ok(warnings) => {
                    for warning in warnings {
                        tracing::info!(task = task.id(), warning, "the engine remarks");
                    }
                    Ok(())
                }
                Err(error) => Err(unavailable(reload::chain(&error))),
            }
        })
    }

    fn evict(&self, id: &str, reason: &str) {
        if let Some(task) = self.0.task_of_container(id) {
            tracing::info!(task = task.id(), reason, "evicted");
            task.kill(Kill::evicted(reason));
        }
    }
}
