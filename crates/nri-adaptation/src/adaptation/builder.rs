//! How an adaptation is described before it starts.

use std::fmt;
use std::sync::Arc;

use longshore_nri_api::{NRI_VERSION, PluginId};

use super::Adaptation;
use crate::builtin::{Builtin, BuiltinPlugin};
use crate::core::{Core, Settings, Sources};
use crate::error::AdaptationError;
use crate::imitation::Imitation;
use crate::launch::{LaunchOptions, Program};
use crate::limits::Limits;
use crate::merge::Compat;
use crate::metrics::{Metrics, NoMetrics};
use crate::policy::{PluginPolicy, Policies, Timeouts};
use crate::runtime::{ApplyUpdates, Snapshot};
use crate::socket::SocketOptions;
use crate::validate::DefaultValidator;

/// Describes an [`Adaptation`]. Without anything it has no plugins, and takes those that are
/// [attached](Adaptation::attach).
pub struct Builder {
    settings: Settings,
    builtins: Vec<(String, String, Arc<dyn Builtin>)>,
    sources: Sources,
}

impl Builder {
    pub(super) fn new(runtime_name: String, runtime_version: String) -> Self {
        Self {
            settings: Settings {
                runtime_name,
                runtime_version,
                nri_version: NRI_VERSION.to_owned(),
                imitation: Imitation::default(),
                timeouts: Timeouts::default(),
                policies: Policies::default(),
                limits: Limits::default(),
                compat: Compat::default(),
                validator: None,
                metrics: Arc::new(NoMetrics),
            },
            builtins: Vec::new(),
            sources: Sources::default(),
        }
    }

    /// Adds a plugin that is part of the runtime, under this index (two digits) and name.
    #[must_use]
    pub fn builtin(
        mut self,
        index: impl Into<String>,
        name: impl Into<String>,
        plugin: impl BuiltinPlugin,
    ) -> Self {
        self.builtins
            .push((index.into(), name.into(), Arc::new(plugin)));
        self
    }

    /// Launches the plugins of a directory. Without it none is launched.
    #[must_use]
    pub fn launch(mut self, options: LaunchOptions) -> Self {
        self.sources.launch = Some(options);
        self
    }

    /// Launches one program as a plugin, wherever it lies.
    #[must_use]
    pub fn program(mut self, program: Program) -> Self {
        self.sources.programs.push(program);
        self
    }

    /// Serves external plugins on a socket. Without it none can connect.
    #[must_use]
    pub fn socket(mut self, options: SocketOptions) -> Self {
        self.sources.socket = Some(options);
        self
    }

    /// Judges every adjustment by the default validator, as the plugin `00-default-validator`.
    #[must_use]
    pub fn validator(mut self, validator: DefaultValidator) -> Self {
        self.settings.validator = Some(validator);
        self
    }

    /// How long plugins may take.
    #[must_use]
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.settings.timeouts = timeouts;
        self
    }

    /// How the plugin of this full (`10-logger`) or base name (`logger`) is treated. The full
    /// name goes before the base name.
    #[must_use]
    pub fn policy(mut self, name: impl Into<String>, policy: PluginPolicy) -> Self {
        self.settings.policies.set(name.into(), policy);
        self
    }

    /// How plugins are treated that have no policy of their own.
    /// [`OnFailure::FailUntilBack`](crate::OnFailure::FailUntilBack) holds here for each plugin
    /// from the moment it was active.
    #[must_use]
    pub fn default_policy(mut self, policy: PluginPolicy) -> Self {
        self.settings.policies.set_default(policy);
        self
    }

    /// Whether Go's adaptation is followed where it is known to be wrong.
    #[must_use]
    pub fn compat(mut self, compat: Compat) -> Self {
        self.settings.compat = compat;
        self
    }

    /// Who is told what happens.
    #[must_use]
    pub fn metrics(mut self, metrics: impl Metrics) -> Self {
        self.settings.metrics = Arc::new(metrics);
        self
    }

    /// The version of the protocol that plugins are told, in place of [`NRI_VERSION`].
    #[must_use]
    pub fn nri_version(mut self, version: impl Into<String>) -> Self {
        self.settings.nri_version = version.into();
        self
    }

    /// Behaves on the wire like a runtime of another kind or age; for trying plugins out.
    #[must_use]
    pub fn imitate(mut self, imitation: Imitation) -> Self {
        self.settings.imitation = imitation;
        self
    }

    /// How many connections, requests and events there may be at once.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Starts: configures built-in plugins and tells them what runs, launches plugins and waits
    /// until each is active or has failed, and opens the socket.
    ///
    /// A launched plugin that fails is logged, and started again by its policy; creations fail
    /// meanwhile if it is required.
    ///
    /// `runtime` implements the two traits of an embedder; both are needed:
    ///
    /// ```compile_fail
    /// use longshore_nri_adaptation::{Adaptation, NodeState, RuntimeError, Snapshot};
    ///
    /// struct OnlyHalf;
    /// impl Snapshot for OnlyHalf {
    ///     async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
    ///         Ok(NodeState::default())
    ///     }
    /// }
    /// # async fn no() {
    /// Adaptation::builder("r", "1").start(OnlyHalf).await;
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AdaptationError`]; nothing is left running then.
    pub async fn start<R: Snapshot + ApplyUpdates>(
        self,
        runtime: R,
    ) -> Result<Adaptation, AdaptationError> {
        let mut sources = self.sources;
        for (index, name, plugin) in self.builtins {
            match PluginId::new(&index, &name) {
                Ok(id) => sources.builtins.push((id, plugin)),
                Err(source) => {
                    return Err(AdaptationError::BuiltinName {
                        index,
                        name,
                        source,
                    });
                }
            }
        }
        let core = Core::new(self.settings, Arc::new(runtime));
        // From here on dropping the handle ends what was started.
        let adaptation = Adaptation::new(Arc::clone(&core));
        core.start(sources).await?;
        Ok(adaptation)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("runtime_name", &self.settings.runtime_name)
            .field("runtime_version", &self.settings.runtime_version)
            .finish_non_exhaustive()
    }
}
