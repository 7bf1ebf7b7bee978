use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::container::{ContainerInfo, ContainerSummary};
use crate::event::{EventFilter, EventStream};
use crate::exec::{ExecInfo, ExecSpec};
use crate::exit::{ExitWait, WaitUntil};
use crate::image::ImageInfo;
use crate::log::{LogOptions, LogStream};
use crate::pull::{Pull, PullRequest};
use crate::spec::{ContainerSpec, Resources};
use crate::{EngineError, EngineVersion};

/// What a call returns.
pub type EngineFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// A container engine: the part of the Docker Engine API that running tasks needs.
///
/// Every call ends within a deadline of the implementation, and every future may be dropped at any
/// time: the call is given up, and the engine may or may not have done what it was asked. What has
/// no end of its own (an exit, events, logs, a pull) is returned as a value that was opened
/// within a deadline and then has none.
///
/// `id` is a container's id or name. Use ids: a name may belong to another container tomorrow.
///
/// # Errors
///
/// Every call may fail with [`EngineError::Unreachable`], [`EngineError::Gone`],
/// [`EngineError::Timeout`], [`EngineError::Status`], [`EngineError::TooLarge`] and [`EngineError::Decode`]; what
/// else it may fail with is said at the call.
pub trait Engine: Debug + Send + Sync + 'static {
    /// Asks the engine who it is (`GET /_ping` and `GET /version`).
    fn version(&self) -> EngineFuture<'_, EngineVersion>;

    /// Makes sure that an image is there (`GET /images/NAME/json`, `POST /images/create`). Waiters for one image share one pull;
    /// it is given up when the last [`Pull`] is dropped. Needs a tokio runtime.
    ///
    /// # Errors
    /// By [`Pull::done`]: also [`EngineError::Reference`], [`EngineError::Pull`],
    /// [`EngineError::PullStalled`], [`EngineError::NotFound`] (the registry has no such image), and those of
    /// credentials.
    fn pull(&self, request: PullRequest) -> Pull;

    /// Looks at an image that is there (`GET /images/NAME/json`).
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    fn inspect_image<'a>(&'a self, image: &'a str) -> EngineFuture<'a, ImageInfo>;

    /// Creates a container (`POST /containers/create`).
    ///
    /// # Errors
    /// [`EngineError::InvalidSpec`] and [`EngineError::Unsupported`] before anything is sent;
    /// [`EngineError::NotFound`] (the image, a network); [`EngineError::Conflict`] (the name is taken).
    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> EngineFuture<'a, Created>;

    /// Starts a container (`POST /containers/ID/start`). [`EngineError::start_exit_code`] tells what
    /// a failure means to a user of docker.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::NotModified`] when it runs already.
    fn start<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()>;

    /// Subscribes to a container's exit (`POST /containers/ID/wait`): when this returns, the engine
    /// has taken the subscription, so an exit after it is not missed. The value then waits without a
    /// deadline.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    fn wait<'a>(&'a self, id: &'a str, until: WaitUntil) -> EngineFuture<'a, ExitWait>;

    /// Sends a signal, as `SIGTERM` or `15` (`POST /containers/ID/kill`).
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] when it does not run.
    fn kill<'a>(&'a self, id: &'a str, signal: &'a str) -> EngineFuture<'a, ()>;

    /// Lets the engine stop a container: its stop signal, the grace in whole seconds rounded up, KILL (`POST
    /// /containers/ID/stop`). It ends when the container is down.
    /// Dropping it does not stop the stop, and made Docker 23.0 to 24.0.2 kill at once (moby 45731): for a grace
    /// that is kept, use [`Self::kill`] and a timer of your own.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::NotModified`] when it is down already.
    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> EngineFuture<'a, ()>;

    /// Freezes a container's processes (`POST /containers/ID/pause`).
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] when it does not run or is paused.
    fn pause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()>;

    /// Thaws them (`POST /containers/ID/unpause`).
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] when it is not paused (some engines answer 500).
    fn unpause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()>;

    /// Removes a container (`DELETE /containers/ID`).
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] when it runs and `force` is not set, or when it is
    /// being removed already.
    fn remove<'a>(&'a self, id: &'a str, options: RemoveOptions) -> EngineFuture<'a, ()>;

    /// Looks at a container (`GET /containers/ID/json`); never at anything else of that name.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    fn inspect<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ContainerInfo>;

    /// Lists containers (`GET /containers/json`).
    fn list<'a>(&'a self, filter: &'a ListFilter) -> EngineFuture<'a, Vec<ContainerSummary>>;

    /// Changes a container's limits (`POST /containers/ID/update`); returns the engine's warnings.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::InvalidSpec`] for a field that an update does not take.
    fn update<'a>(&'a self, id: &'a str, resources: &'a Resources)
    -> EngineFuture<'a, Vec<String>>;

    /// Opens a container's output (`GET /containers/ID/logs`).
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    fn logs<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> EngineFuture<'a, LogStream>;

    /// Opens the stream of events (`GET /events`), and keeps it open over restarts of the engine.
    fn events<'a>(&'a self, filter: &'a EventFilter) -> EngineFuture<'a, EventStream>;

    /// Prepares a command in a running container (`POST /containers/ID/exec`); returns the id of the exec instance.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`] when the container is not running or is paused.
    fn exec_create<'a>(&'a self, id: &'a str, spec: &'a ExecSpec) -> EngineFuture<'a, String>;

    /// Starts it (`POST /exec/ID/start`). The stream is its output; it ends when the command and all
    /// that holds its output have ended. Dropping the stream ends nothing in the container: see
    /// [`ExecInfo::pid`].
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Conflict`].
    fn exec_start<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, LogStream>;

    /// Looks at it (`GET /exec/ID/json`): whether it runs, its exit code, its process id.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]: also some time after the end of the command or of its container.
    fn exec_inspect<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, ExecInfo>;
}

/// What a creation answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// The container's id.
    pub id: String,
    /// What the engine had to remark.
    pub warnings: Vec<String>,
}

/// How to remove a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoveOptions {
    /// `force`: kill it first if it runs.
    pub force: bool,
    /// `v`: remove its anonymous volumes too.
    pub volumes: bool,
}

/// Which containers to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// `all`: also those that do not run.
    pub all: bool,
    /// `filters.label`: all of them must be there, each as `key` or `key=value`.
    pub labels: Vec<String>,
    /// `filters.name`: one of these; matched as a regular expression by the engine, without the leading `/`.
    pub names: Vec<String>,
    /// `filters.id`: one of these.
    pub ids: Vec<String>,
}

impl ListFilter {
    /// All containers, running or not, with all of these labels.
    pub fn labelled(labels: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            all: true,
            labels: labels.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}
