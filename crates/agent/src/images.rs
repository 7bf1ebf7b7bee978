//! The boundary between the agent and what runs containers of images for it.
//!
//! The agent has the API, the ids and the sandboxes, and decides as it does for process containers; an
//! [`ImageRuntime`] has an engine and the records of its own containers.
//!
//! ```text
//!  Containers --ImageOrder--> ImageRuntime --> ImageContainer: started, signal, ended, forget
//!             <--FoundImage-- (at the agent's start)
//! ```

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use longshore_mesos_api::v1::{ContainerInfo, container_info};

use crate::service::{ExitInfo, LaunchError, LaunchRequest};

/// What a method returns.
pub type ImageFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs containers of images.
pub trait ImageRuntime: Debug + Send + Sync + 'static {
    /// Judges a request by what it says alone: no engine is asked.
    ///
    /// # Errors
    /// With the text of the answer.
    fn check(&self, request: &LaunchRequest) -> Result<(), LaunchError>;

    /// Begins to launch a container, and returns at once. Whatever comes of it is told by the
    /// [`ImageContainer`].
    fn launch(&self, order: ImageOrder) -> Arc<dyn ImageContainer>;

    /// The containers that an earlier process of ours has left, ended ones included. Answers within
    /// seconds, whatever the engine does.
    fn recover(&self) -> ImageFuture<'_, Vec<FoundImage>>;
}

/// A container of an image.
pub trait ImageContainer: Debug + Send + Sync + 'static {
    /// Waits until its first process exists, and gives its pid where that is known. May be called again.
    ///
    /// # Errors
    /// It is over without one, and nothing of it is left: the text of the answer.
    fn started(&self) -> ImageFuture<'_, Result<Option<u32>, LaunchError>>;

    /// Sends a signal to its first process; 9 ends the container however far it is, and whatever the
    /// engine does. Returns at once.
    fn signal(&self, signal: i32);

    /// Waits until it is verified down, and every process of it with it. May be called again.
    fn ended(&self) -> ImageFuture<'_, ExitInfo>;

    /// Forgets a container that has ended: its record, and what is left of it in the engine. Its
    /// sandbox is the agent's. Returns at once.
    fn forget(&self);
}

/// A container to be launched.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ImageOrder {
    /// What was asked for; checked.
    pub request: LaunchRequest,
    /// Where its output and its files go; made, and empty or as an earlier container of the id has left it.
    pub sandbox: PathBuf,
}

/// A container that an earlier process of ours has left.
#[derive(Debug, Clone)]
pub struct FoundImage {
    /// What was asked for when it was launched.
    pub request: LaunchRequest,
    /// When its launch was recorded.
    pub launched: SystemTime,
    /// How it ended, and when, if it has.
    pub exited: Option<(ExitInfo, SystemTime)>,
    /// The container.
    pub container: Arc<dyn ImageContainer>,
}

/// Whether a request is for a container of an image: of type DOCKER, or of type MESOS with an image.
#[must_use]
pub fn is_image(container: Option<&ContainerInfo>) -> bool {
    container.is_some_and(|container| {
        container.r#type() == container_info::Type::Docker
            || container
                .mesos
                .as_ref()
                .is_some_and(|mesos| mesos.image.is_some())
    })
}
