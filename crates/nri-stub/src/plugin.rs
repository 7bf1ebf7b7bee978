//! What a plugin is: its handlers.

use std::any::type_name;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use longshore_nri_api::{
    Container, ContainerUpdate, Event, EventMask, LinuxResources, PodSandbox,
    ValidateContainerAdjustmentRequest,
};

use crate::answer::{CreateReply, HandlerResult, UpdateReply};
use crate::handle::Handle;

/// What the runtime tells a plugin about itself, once for each connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Configuration {
    /// The text of the plugin's configuration file; empty for plugins that connect themselves.
    pub config: String,
    /// Such as `containerd`.
    pub runtime_name: String,
    /// Such as `v2.1.4`.
    pub runtime_version: String,
    /// The level of NRI that the runtime speaks, told or inferred; `unknown` when it is neither.
    pub nri_version: String,
    /// To ask the runtime something later, from inside a handler or elsewhere.
    pub handle: Handle,
}

/// The handlers of a plugin.
///
/// [`macro@crate::plugin`] implements this from an ordinary `impl` block; [`Handlers`](crate::Handlers)
/// does from closures. By hand, [`Self::events`] has to be given as well: a stub refuses to start
/// when it names an event whose handler is left out.
///
/// Handlers run side by side, each in its own task; a runtime asks one thing at a time, but a
/// request it has given up on may still be running when the next one comes. The future of a
/// handler is **dropped** when the runtime's deadline passes (2 s unless it says otherwise), or
/// the connection is lost: nothing after the `await` it is at happens. Keep what must not be
/// torn apart between two awaits, or spawn it. A panic is answered with status 13, and harms
/// nothing else.
///
/// A handler that is left out answers with success and nothing else.
pub trait Plugin: Send + Sync + 'static {
    /// What the plugin wants to be told. Not empty, and no event without its handler.
    fn events(&self) -> EventMask;

    /// Which events have handlers. What the default answers is found at compile time; only types
    /// that decide it at run time have to answer it themselves.
    fn handlers(&self) -> EventMask {
        implemented::<Self>()
    }

    /// The runtime has accepted the plugin. The answer replaces [`Self::events`] for this
    /// connection; an empty one keeps it.
    ///
    /// # Errors
    /// The runtime drops the plugin.
    fn configure(
        &self,
        configuration: Configuration,
    ) -> impl Future<Output = HandlerResult<EventMask>> + Send {
        missing(configuration)
    }

    /// All pods and containers that exist: after each connect, before any event, however many
    /// messages it took. Answers with changes to resources of containers.
    ///
    /// # Errors
    /// The runtime drops the plugin.
    fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> impl Future<Output = HandlerResult<Vec<ContainerUpdate>>> + Send {
        missing((pods, containers))
    }

    /// The runtime is about to end the plugin, or itself. Runtimes that use the Go adaptation do
    /// not say so.
    ///
    /// # Errors
    /// The runtime is told; it makes no difference.
    fn shutdown(&self) -> impl Future<Output = HandlerResult<()>> + Send {
        missing(())
    }

    /// A pod is up, its containers are not yet created.
    ///
    /// # Errors
    /// The pod is not started.
    fn run_pod_sandbox(&self, pod: PodSandbox) -> impl Future<Output = HandlerResult<()>> + Send {
        missing(pod)
    }

    /// The resources of a pod are about to change: its overhead and its own.
    ///
    /// # Errors
    /// The change is not made.
    fn update_pod_sandbox(
        &self,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing((pod, overhead, resources))
    }

    /// The resources of a pod have changed.
    ///
    /// # Errors
    /// The runtime logs it.
    fn post_update_pod_sandbox(
        &self,
        pod: PodSandbox,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing(pod)
    }

    /// A pod is being stopped.
    ///
    /// # Errors
    /// The runtime logs it.
    fn stop_pod_sandbox(&self, pod: PodSandbox) -> impl Future<Output = HandlerResult<()>> + Send {
        missing(pod)
    }

    /// A pod is removed.
    ///
    /// # Errors
    /// The runtime logs it.
    fn remove_pod_sandbox(
        &self,
        pod: PodSandbox,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing(pod)
    }

    /// A container is about to be created. Answers with adjustments to it.
    ///
    /// # Errors
    /// The container is not created.
    fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = HandlerResult<CreateReply>> + Send {
        missing((pod, container))
    }

    /// A container has been created, all adjustments are in `container`.
    ///
    /// # Errors
    /// The runtime logs it.
    fn post_create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing((pod, container))
    }

    /// A container is about to be started.
    ///
    /// # Errors
    /// The container is not started.
    fn start_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing((pod, container))
    }

    /// A container has been started.
    ///
    /// # Errors
    /// The runtime logs it.
    fn post_start_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing((pod, container))
    }

    /// The resources of a container are about to be set to `resources`. Answers with changes.
    ///
    /// # Errors
    /// The update is not made.
    fn update_container(
        &self,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> impl Future<Output = HandlerResult<UpdateReply>> + Send {
        missing((pod, container, resources))
    }

    /// The resources of a container have been changed.
    ///
    /// # Errors
    /// The runtime logs it.
    fn post_update_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing((pod, container))
    }

    /// A container is stopped. Answers with changes to other containers.
    ///
    /// # Errors
    /// The runtime logs it.
    fn stop_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = HandlerResult<Vec<ContainerUpdate>>> + Send {
        missing((pod, container))
    }

    /// A container is removed.
    ///
    /// # Errors
    /// The runtime logs it.
    fn remove_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing((pod, container))
    }

    /// What all plugins together want to change about a container, before it is created.
    ///
    /// # Errors
    /// The container is not created; the text of the error is the reason that is told.
    fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> impl Future<Output = HandlerResult<()>> + Send {
        missing(request)
    }
}

/// The future of a handler that is left out. It is recognised by its type, so that a mask can be
/// checked against the handlers without calling any.
struct Missing<T>(PhantomData<fn() -> T>);

/// What a handler that is left out does with its arguments: nothing.
fn missing<A, T>(_: A) -> Missing<T> {
    Missing(PhantomData)
}

impl<T: Default> Future for Missing<T> {
    type Output = HandlerResult<T>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(Ok(T::default()))
    }
}

/// Whether what a handler returns is its own future; no handler is called.
fn present<T, F: Future<Output = HandlerResult<T>>>() -> bool {
    type_name::<F>() != type_name::<Missing<T>>()
}

fn one<'a, P: ?Sized + 'a, A, T, F>(_: impl FnOnce(&'a P, A) -> F) -> bool
where
    F: Future<Output = HandlerResult<T>>,
{
    present::<T, F>()
}

fn two<'a, P: ?Sized + 'a, A, B, T, F>(_: impl FnOnce(&'a P, A, B) -> F) -> bool
where
    F: Future<Output = HandlerResult<T>>,
{
    present::<T, F>()
}

fn three<'a, P: ?Sized + 'a, A, B, C, T, F>(_: impl FnOnce(&'a P, A, B, C) -> F) -> bool
where
    F: Future<Output = HandlerResult<T>>,
{
    present::<T, F>()
}

/// The events whose handlers are not [`Missing`].
fn implemented<P: Plugin + ?Sized>() -> EventMask {
    [
        (Event::RunPodSandbox, one(P::run_pod_sandbox)),
        (Event::UpdatePodSandbox, three(P::update_pod_sandbox)),
        (Event::PostUpdatePodSandbox, one(P::post_update_pod_sandbox)),
        (Event::StopPodSandbox, one(P::stop_pod_sandbox)),
        (Event::RemovePodSandbox, one(P::remove_pod_sandbox)),
        (Event::CreateContainer, two(P::create_container)),
        (Event::PostCreateContainer, two(P::post_create_container)),
        (Event::StartContainer, two(P::start_container)),
        (Event::PostStartContainer, two(P::post_start_container)),
        (Event::UpdateContainer, three(P::update_container)),
        (Event::PostUpdateContainer, two(P::post_update_container)),
        (Event::StopContainer, two(P::stop_container)),
        (Event::RemoveContainer, two(P::remove_container)),
        (
            Event::ValidateContainerAdjustment,
            one(P::validate_container_adjustment),
        ),
    ]
    .into_iter()
    .filter_map(|(event, present)| present.then_some(event))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl Plugin for Two {
        fn events(&self) -> EventMask {
            EventMask::ALL
        }

        async fn create_container(
            &self,
            _pod: PodSandbox,
            _container: Container,
        ) -> HandlerResult<CreateReply> {
            Ok(CreateReply::default())
        }

        async fn stop_pod_sandbox(&self, _pod: PodSandbox) -> HandlerResult<()> {
            tokio::task::yield_now().await;
            Ok(())
        }
    }

    #[test]
    fn handlers_that_are_left_out_are_known_without_a_call() {
        let expected = [Event::CreateContainer, Event::StopPodSandbox];
        assert_eq!(Two.handlers(), expected.into_iter().collect());
    }
}
