//! What may be changed about one container on its way, and what is told of it: every moment of NRI that one container
//! has. Whoever runs containers calls these; whoever knows NRI implements them; neither knows the other.
//!
//! ```text
//!   (found: it is there from before)
//!   create ──► created ──► starting ──► started ──► (updating ──► updated)* ──► stopped ──► removed
//!     │ refused: the container is never made           │ refused: the resources stay as they are
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use longshore_engine::spec::Ulimit;
use longshore_engine::{ContainerSpec, EnvVar, Mount, Resources};

/// What a hook returns.
pub type HookFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HookError>> + Send + 'a>>;

/// The moments of one container. A caller gives each its deadline and goes on without it when that has passed, but for
/// [`create`](Self::create): a container that could not be asked about is not made.
///
/// Moments of one container come in the order of the picture above and never at once; of different containers at once.
/// A container may end or go at any of them; `stopped` and `removed` may come more than once, and `removed` also for one
/// that never came to be. All but `create` and `updating` only tell: their errors are logged and change nothing.
pub trait ContainerHooks: Send + Sync + fmt::Debug {
    /// It is there from before: whoever ran it has died, and it is taken up again. Called before anything else is told
    /// of it; never waits.
    fn found(&self, container: &HookContainer, found: FoundContainer) {
        let _nobody_listens = (container, found);
    }

    /// Before it is made. Its spec may be changed, or the container refused.
    fn create<'a>(&'a self, container: &'a HookContainer, draft: Draft) -> HookFuture<'a, Draft>;

    /// It has been made, as told.
    fn created<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()>;

    /// Before it is started.
    fn starting<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()>;

    /// It runs.
    fn started<'a>(&'a self, container: &'a HookContainer, pid: u32) -> HookFuture<'a, ()>;

    /// Before its resources are changed. They may be changed further, or the change refused.
    fn updating<'a>(
        &'a self,
        container: &'a HookContainer,
        resources: Resources,
    ) -> HookFuture<'a, Resources>;

    /// They have been changed, to these.
    fn updated<'a>(
        &'a self,
        container: &'a HookContainer,
        resources: &'a Resources,
    ) -> HookFuture<'a, ()>;

    /// It has ended.
    fn stopped<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()>;

    /// It is gone.
    fn removed<'a>(&'a self, container: &'a HookContainer) -> HookFuture<'a, ()>;
}

/// Who a container is, at every moment the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookContainer {
    /// Our own id of it, which exists before the engine has one.
    pub id: String,
    /// What it is called: the id of its task, or that of the plugin's container.
    pub name: String,
    /// What it belongs to: the name of its task, or of the plugin.
    pub pod: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A container that was there before whoever runs it.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundContainer {
    /// What was asked for; what hooks had changed of it is not known any more.
    pub draft: Draft,
    /// It may run.
    pub running: bool,
    /// It has ended, and is to be removed.
    pub ended: bool,
    /// Its first process, where that is known.
    pub pid: Option<u32>,
}

/// What is about to be made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Draft {
    /// By an engine.
    Engine(Box<ContainerSpec>),
    /// As a process of this host.
    Process(Box<ProcessDraft>),
}

/// A container that is a process of this host. `Debug` shows neither arguments nor values of the environment.
#[derive(Clone, Default, PartialEq)]
pub struct ProcessDraft {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its environment; of two variables with one name the later counts.
    pub env: Vec<EnvVar>,
    /// Its mounts, in their order.
    pub mounts: Vec<Mount>,
    /// Its cgroup's limits.
    pub resources: Resources,
    /// Its resource limits.
    pub rlimits: Vec<Ulimit>,
    /// -1000 to 1000.
    pub oom_score_adj: Option<i32>,
    /// Its cgroup, below the root of the hierarchy.
    pub cgroup: Option<String>,
    /// Kernel parameters of its namespaces.
    pub sysctls: BTreeMap<String, String>,
}

impl fmt::Debug for ProcessDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessDraft")
            .field("program", &self.argv.first())
            .field("env", &self.env)
            .field("mounts", &self.mounts)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// The container, or the change, is not wanted as it is.
    #[error("refused: {reason}")]
    Refused {
        /// Who refused it, and why.
        reason: String,
    },
    /// The change that was asked for cannot be made on this kind of container.
    #[error("{what} cannot be changed on this container: {why}")]
    Unsupported {
        /// Which part of the change.
        what: String,
        /// Why, and what to do.
        why: String,
    },
    /// Nobody answers.
    #[error("no answer: {reason}")]
    Unavailable {
        /// What was missing.
        reason: String,
    },
}

/// Changes and refuses nothing: where there are no plugins.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHooks;

impl ContainerHooks for NoHooks {
    fn create<'a>(&'a self, _: &'a HookContainer, draft: Draft) -> HookFuture<'a, Draft> {
        Box::pin(std::future::ready(Ok(draft)))
    }

    fn created<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        nothing()
    }

    fn starting<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        nothing()
    }

    fn started<'a>(&'a self, _: &'a HookContainer, _pid: u32) -> HookFuture<'a, ()> {
        nothing()
    }

    fn updating<'a>(
        &'a self,
        _: &'a HookContainer,
        resources: Resources,
    ) -> HookFuture<'a, Resources> {
        Box::pin(std::future::ready(Ok(resources)))
    }

    fn updated<'a>(&'a self, _: &'a HookContainer, _: &'a Resources) -> HookFuture<'a, ()> {
        nothing()
    }

    fn stopped<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        nothing()
    }

    fn removed<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        nothing()
    }
}

fn nothing<'a>() -> HookFuture<'a, ()> {
    Box::pin(std::future::ready(Ok(())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_shows_neither_arguments_nor_values() {
        let draft = ProcessDraft {
            argv: vec!["/bin/x".to_owned(), "--password=hunter2".to_owned()],
            env: vec![EnvVar::new("TOKEN", "hunter3")],
            ..ProcessDraft::default()
        };
        let shown = format!("{:?}", Draft::Process(Box::new(draft)));
        assert!(
            shown.contains("/bin/x") && shown.contains("TOKEN"),
            "{shown}"
        );
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn without_hooks_everything_stays_as_it_is() {
        let container = HookContainer {
            id: "1".to_owned(),
            name: "n".to_owned(),
            pod: "p".to_owned(),
            labels: BTreeMap::new(),
        };
        let hooks: &dyn ContainerHooks = &NoHooks;
        let draft = Draft::Engine(Box::new(ContainerSpec::new("busybox")));
        let mut create = hooks.create(&container, draft.clone());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match create.as_mut().poll(&mut context) {
            std::task::Poll::Ready(Ok(found)) => assert_eq!(found, draft),
            other => panic!("{other:?}"),
        }
    }
}
