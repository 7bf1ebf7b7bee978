//! What the owner of a container does around its life.

use std::future::{Future, ready};

use longshore_mesos_api::v1::agent::call::LaunchContainer;

use crate::failure::Failure;
use crate::status::DaemonStatus;

/// The moments of a container's life. Each hook has a deadline
/// ([`DaemonOptions`](crate::DaemonOptions)); passing it is a failure of the hook. No failure ends
/// the daemon. A hook's future may be dropped at any await: when the container ends, or is to be
/// stopped, while it runs.
pub trait Hooks: Send + Sync + 'static {
    /// Before LAUNCH: prepares what the container needs, and may change or refuse the request.
    /// Never called while the container can be running.
    fn pre_launch(
        &self,
        request: LaunchContainer,
    ) -> impl Future<Output = Result<LaunchContainer, Failure>> + Send {
        ready(Ok(request))
    }

    /// After LAUNCH was answered (200 or 202), or after
    /// [`attach`](crate::DaemonControl::attach); the container may already have ended. A failure
    /// stops the container, unless it is [`Failure::keep`].
    fn post_start(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Ok(()))
    }

    /// After the container ended; always between two launches.
    fn post_stop(&self) -> impl Future<Output = Result<(), Failure>> + Send {
        ready(Ok(()))
    }

    /// Every change of the status, in order and without gaps (a watch channel shows the latest
    /// only). Called by the daemon's task: must return at once.
    fn changed(&self, status: &DaemonStatus) {
        let _: &DaemonStatus = status;
    }
}

/// No hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}
