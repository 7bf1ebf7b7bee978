//! Plugins within the process of the runtime.

use std::future::{Future, ready};

use longshore_nri_api::{
    ConfigureRequest, ContainerUpdate, CreateContainerRequest, CreateContainerResponse, EventMask,
    StateChangeEvent, StopContainerRequest, StopContainerResponse, UpdateContainerRequest,
    UpdateContainerResponse, UpdatePodSandboxRequest, ValidateContainerAdjustmentRequest,
};
use longshore_ttrpc::Status;

use crate::runtime::{BoxFuture, NodeState};

/// A plugin that is part of the runtime: it stands in the same chain as the others, in the place
/// that its index gives it, under the same timeouts and policies.
///
/// Every method has a default that does nothing. Futures are dropped when the plugin's request
/// timeout passes; a panic fails the request like an error. A method must not make a request to
/// the adaptation and wait for it: that one would wait for this plugin's turn.
///
/// ```
/// use longshore_nri_adaptation::BuiltinPlugin;
/// use longshore_nri_api::{
///     ConfigureRequest, ContainerAdjustment, CreateContainerRequest, CreateContainerResponse,
///     Event, EventMask,
/// };
/// use longshore_ttrpc::Status;
///
/// struct Marker;
///
/// impl BuiltinPlugin for Marker {
///     async fn configure(&self, _: ConfigureRequest) -> Result<EventMask, Status> {
///         Ok(EventMask::of(Event::CreateContainer))
///     }
///
///     async fn create_container(
///         &self,
///         _: CreateContainerRequest,
///     ) -> Result<CreateContainerResponse, Status> {
///         let mut adjust = ContainerAdjustment::default();
///         adjust.add_env("MARKED", "yes");
///         Ok(CreateContainerResponse { adjust: Some(adjust), ..Default::default() })
///     }
/// }
/// ```
pub trait BuiltinPlugin: Send + Sync + 'static {
    /// Asked once, first: which events the plugin wants. Empty means all of them, as on the wire.
    ///
    /// # Errors
    /// The adaptation does not start.
    fn configure(
        &self,
        request: ConfigureRequest,
    ) -> impl Future<Output = Result<EventMask, Status>> + Send {
        drop(request);
        ready(Ok(EventMask::ALL))
    }

    /// Told what runs already; the answer are updates of it.
    ///
    /// # Errors
    /// The plugin is closed.
    fn synchronize(
        &self,
        state: NodeState,
    ) -> impl Future<Output = Result<Vec<ContainerUpdate>, Status>> + Send {
        drop(state);
        ready(Ok(Vec::new()))
    }

    /// A container is about to be created.
    ///
    /// # Errors
    /// The request fails.
    fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> impl Future<Output = Result<CreateContainerResponse, Status>> + Send {
        drop(request);
        ready(Ok(CreateContainerResponse::default()))
    }

    /// The resources of a container are about to be changed.
    ///
    /// # Errors
    /// The request fails.
    fn update_container(
        &self,
        request: UpdateContainerRequest,
    ) -> impl Future<Output = Result<UpdateContainerResponse, Status>> + Send {
        drop(request);
        ready(Ok(UpdateContainerResponse::default()))
    }

    /// A container is being stopped.
    ///
    /// # Errors
    /// The request fails.
    fn stop_container(
        &self,
        request: StopContainerRequest,
    ) -> impl Future<Output = Result<StopContainerResponse, Status>> + Send {
        drop(request);
        ready(Ok(StopContainerResponse::default()))
    }

    /// The resources of a pod are about to be changed.
    ///
    /// # Errors
    /// The request fails.
    fn update_pod_sandbox(
        &self,
        request: UpdatePodSandboxRequest,
    ) -> impl Future<Output = Result<(), Status>> + Send {
        drop(request);
        ready(Ok(()))
    }

    /// One of the nine events that only tell something.
    ///
    /// # Errors
    /// The request fails.
    fn state_change(
        &self,
        event: StateChangeEvent,
    ) -> impl Future<Output = Result<(), Status>> + Send {
        drop(event);
        ready(Ok(()))
    }

    /// Judges what all plugins together want of a container that is being created.
    ///
    /// # Errors
    /// The container is not created, for this reason.
    fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> impl Future<Output = Result<(), String>> + Send {
        drop(request);
        ready(Ok(()))
    }
}

/// [`BuiltinPlugin`] as an object.
pub(crate) trait Builtin: Send + Sync + 'static {
    fn configure(&self, request: ConfigureRequest) -> BoxFuture<'_, Result<EventMask, Status>>;
    fn synchronize(&self, state: NodeState) -> BoxFuture<'_, Result<Vec<ContainerUpdate>, Status>>;
    fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> BoxFuture<'_, Result<CreateContainerResponse, Status>>;
    fn update_container(
        &self,
        request: UpdateContainerRequest,
    ) -> BoxFuture<'_, Result<UpdateContainerResponse, Status>>;
    fn stop_container(
        &self,
        request: StopContainerRequest,
    ) -> BoxFuture<'_, Result<StopContainerResponse, Status>>;
    fn update_pod_sandbox(
        &self,
        request: UpdatePodSandboxRequest,
    ) -> BoxFuture<'_, Result<(), Status>>;
    fn state_change(&self, event: StateChangeEvent) -> BoxFuture<'_, Result<(), Status>>;
    fn validate(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> BoxFuture<'_, Result<(), String>>;
}

impl<T: BuiltinPlugin> Builtin for T {
    fn configure(&self, request: ConfigureRequest) -> BoxFuture<'_, Result<EventMask, Status>> {
        Box::pin(BuiltinPlugin::configure(self, request))
    }

    fn synchronize(&self, state: NodeState) -> BoxFuture<'_, Result<Vec<ContainerUpdate>, Status>> {
        Box::pin(BuiltinPlugin::synchronize(self, state))
    }

    fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> BoxFuture<'_, Result<CreateContainerResponse, Status>> {
        Box::pin(BuiltinPlugin::create_container(self, request))
    }

    fn update_container(
        &self,
        request: UpdateContainerRequest,
    ) -> BoxFuture<'_, Result<UpdateContainerResponse, Status>> {
        Box::pin(BuiltinPlugin::update_container(self, request))
    }

    fn stop_container(
        &self,
        request: StopContainerRequest,
    ) -> BoxFuture<'_, Result<StopContainerResponse, Status>> {
        Box::pin(BuiltinPlugin::stop_container(self, request))
    }

    fn update_pod_sandbox(
        &self,
        request: UpdatePodSandboxRequest,
    ) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(BuiltinPlugin::update_pod_sandbox(self, request))
    }

    fn state_change(&self, event: StateChangeEvent) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(BuiltinPlugin::state_change(self, event))
    }

    fn validate(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(BuiltinPlugin::validate_container_adjustment(self, request))
    }
}
