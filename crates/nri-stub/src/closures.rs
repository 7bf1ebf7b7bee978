//! Handlers that are closures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use longshore_nri_api::{
    Container, ContainerUpdate, Event, EventMask, LinuxResources, PodSandbox,
    ValidateContainerAdjustmentRequest,
};

use crate::answer::{CreateReply, HandlerResult, IntoAnswer, UpdateReply};
use crate::plugin::{Configuration, Plugin};

type Boxed<T> = Pin<Box<dyn Future<Output = HandlerResult<T>> + Send>>;

macro_rules! handlers {
    ($(
        $(#[$doc:meta])*
        $on:ident => $method:ident($($argument:ident: $kind:ty),*) -> $answer:ty, $event:expr;
    )*) => {
        /// A plugin made of closures, each an async function of its own.
        ///
        /// The events it subscribes to are those of its closures. See [`Plugin`] for what each
        /// handler may do.
        ///
        /// ```
        /// use longshore_nri_stub::{Handlers, Plugin as _, api::ContainerAdjustment};
        ///
        /// let plugin = Handlers::new().on_create_container(|_pod, container| async move {
        ///     let mut adjustment = ContainerAdjustment::default();
        ///     adjustment.add_annotation("seen", container.name);
        ///     adjustment
        /// });
        /// assert_eq!(plugin.events().to_string(), "CreateContainer");
        /// ```
        #[derive(Default)]
        pub struct Handlers {
            $($method: Option<Box<dyn Fn($($kind),*) -> Boxed<$answer> + Send + Sync>>,)*
        }

        impl Handlers {
            /// No handler yet.
            #[must_use]
            pub fn new() -> Self {
                Self::default()
            }

            $(
                $(#[$doc])*
                #[must_use]
                pub fn $on<F, A>(mut self, handler: F) -> Self
                where
                    F: Fn($($kind),*) -> A + Send + Sync + 'static,
                    A: Future<Output: IntoAnswer<$answer>> + Send + 'static,
                {
                    self.$method = Some(Box::new(move |$($argument),*| {
                        let answer = handler($($argument),*);
                        Box::pin(async move { answer.await.into_answer() })
                    }));
                    self
                }
            )*
        }

        impl Plugin for Handlers {
            fn events(&self) -> EventMask {
                self.handlers()
            }

            fn handlers(&self) -> EventMask {
                [$((self.$method.is_some(), $event)),*]
                    .into_iter()
                    .filter_map(|(present, event)| event.filter(|_| present))
                    .collect()
            }

            $(
                async fn $method(&self, $($argument: $kind),*) -> HandlerResult<$answer> {
                    match &self.$method {
                        Some(handler) => handler($($argument),*).await,
                        None => Ok(<$answer>::default()),
                    }
                }
            )*
        }

        impl fmt::Debug for Handlers {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("Handlers")
                    .field("events", &self.handlers())
                    .finish_non_exhaustive()
            }
        }
    };
}

handlers! {
    /// See [`Plugin::configure`].
    on_configure => configure(configuration: Configuration) -> EventMask, None;
    /// See [`Plugin::synchronize`].
    on_synchronize => synchronize(pods: Vec<PodSandbox>, containers: Vec<Container>) -> Vec<ContainerUpdate>, None;
    /// See [`Plugin::shutdown`].
    on_shutdown => shutdown() -> (), None;
    /// See [`Plugin::run_pod_sandbox`].
    on_run_pod_sandbox => run_pod_sandbox(pod: PodSandbox) -> (), Some(Event::RunPodSandbox);
    /// See [`Plugin::update_pod_sandbox`].
    on_update_pod_sandbox => update_pod_sandbox(pod: PodSandbox, overhead: LinuxResources, resources: LinuxResources) -> (), Some(Event::UpdatePodSandbox);
    /// See [`Plugin::post_update_pod_sandbox`].
    on_post_update_pod_sandbox => post_update_pod_sandbox(pod: PodSandbox) -> (), Some(Event::PostUpdatePodSandbox);
    /// See [`Plugin::stop_pod_sandbox`].
    on_stop_pod_sandbox => stop_pod_sandbox(pod: PodSandbox) -> (), Some(Event::StopPodSandbox);
    /// See [`Plugin::remove_pod_sandbox`].
    on_remove_pod_sandbox => remove_pod_sandbox(pod: PodSandbox) -> (), Some(Event::RemovePodSandbox);
    /// See [`Plugin::create_container`].
    on_create_container => create_container(pod: PodSandbox, container: Container) -> CreateReply, Some(Event::CreateContainer);
    /// See [`Plugin::post_create_container`].
    on_post_create_container => post_create_container(pod: PodSandbox, container: Container) -> (), Some(Event::PostCreateContainer);
    /// See [`Plugin::start_container`].
    on_start_container => start_container(pod: PodSandbox, container: Container) -> (), Some(Event::StartContainer);
    /// See [`Plugin::post_start_container`].
    on_post_start_container => post_start_container(pod: PodSandbox, container: Container) -> (), Some(Event::PostStartContainer);
    /// See [`Plugin::update_container`].
    on_update_container => update_container(pod: PodSandbox, container: Container, resources: LinuxResources) -> UpdateReply, Some(Event::UpdateContainer);
    /// See [`Plugin::post_update_container`].
    on_post_update_container => post_update_container(pod: PodSandbox, container: Container) -> (), Some(Event::PostUpdateContainer);
    /// See [`Plugin::stop_container`].
    on_stop_container => stop_container(pod: PodSandbox, container: Container) -> Vec<ContainerUpdate>, Some(Event::StopContainer);
    /// See [`Plugin::remove_container`].
    on_remove_container => remove_container(pod: PodSandbox, container: Container) -> (), Some(Event::RemoveContainer);
    /// See [`Plugin::validate_container_adjustment`].
    on_validate_container_adjustment => validate_container_adjustment(request: ValidateContainerAdjustmentRequest) -> (), Some(Event::ValidateContainerAdjustment);
}
