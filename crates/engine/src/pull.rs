//! Pulls: one for all who wait for the same image.

mod shared;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::EngineError;
use crate::auth::RegistryAuth;
use crate::image::ImageInfo;

pub(crate) use shared::Pulls;

/// An image that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PullRequest {
    /// Its reference; untagged means `:latest`.
    pub image: String,
    /// Whether the registry is asked when the image is there.
    pub policy: PullPolicy,
    /// `platform`, as `os[/arch[/variant]]`.
    pub platform: Option<String>,
    /// How to show who asks.
    pub auth: PullAuth,
    /// The pull is given up when the engine reports nothing for so long. Default 2 minutes.
    pub inactivity: Duration,
}

impl PullRequest {
    /// `image`, if it is missing, with the credentials of the docker client's configuration.
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            policy: PullPolicy::Missing,
            platform: None,
            auth: PullAuth::Config,
            inactivity: Duration::from_secs(120),
        }
    }
}

/// When to ask the registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum PullPolicy {
    /// Only when the image is not there.
    #[default]
    Missing,
    /// Always.
    Always,
    /// Never: an image that is not there is [`EngineError::NotFound`].
    Never,
}

/// Where credentials come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum PullAuth {
    /// The docker client's configuration: `credHelpers`, `credsStore`, `auths`. None there: anonymous.
    #[default]
    Config,
    /// The docker client's configuration in this file, or the older `.dockercfg`.
    File(std::path::PathBuf),
    /// Anonymous.
    Anonymous,
    /// These.
    Given(RegistryAuth),
}

/// How far a pull is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PullProgress {
    /// The engine's last words, as `Downloading` or `Pull complete`; `the registry is asked` before them, and empty while it is
    /// not known yet whether the image has to be pulled.
    pub status: String,
    /// Layers that were named so far.
    pub layers: usize,
    /// Layers that are there.
    pub layers_done: usize,
    /// Bytes of the layers being loaded: those that are here.
    pub bytes: u64,
    /// Bytes of the layers being loaded: all, as far as it is known.
    pub bytes_total: u64,
}

/// One waiter for an image. The pull itself is shared, and given up when its last waiter is
/// dropped.
#[derive(Clone)]
pub struct Pull {
    running: Arc<Running>,
    outcome: watch::Receiver<Option<Outcome>>,
}

type Outcome = Result<ImageInfo, EngineError>;

#[derive(Debug)]
pub(crate) struct Running {
    progress: watch::Receiver<PullProgress>,
    outcome: watch::Receiver<Option<Outcome>>,
    /// Holds the one task that pulls.
    _task: JoinSet<()>,
}

impl Pull {
    pub(crate) fn of(running: Arc<Running>) -> Self {
        let outcome = running.outcome.clone();
        Self { running, outcome }
    }

    /// How far it is, now and from now on.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<PullProgress> {
        self.running.progress.clone()
    }

    /// Waits for the end and tells what the image is. May be dropped and called again.
    ///
    /// # Errors
    /// See [`crate::Engine::pull`]. All waiters get the same one.
    pub async fn done(&mut self) -> Result<ImageInfo, EngineError> {
        match self.outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            // The task ended without an outcome: it panicked, or the runtime is going down.
            Ok(None) | Err(_) => Err(EngineError::Gone {
                call: "pull",
                subject: String::new(),
                source: None,
            }),
        }
    }
}

impl fmt::Debug for Pull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pull")
            .field("progress", &*self.running.progress.borrow())
            .finish_non_exhaustive()
    }
}
