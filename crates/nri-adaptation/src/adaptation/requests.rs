//! What a runtime tells its plugins, and what it asks them.

use std::future::Future;

use longshore_nri_api::{
    Container, CreateContainerRequest, Event, PodSandbox, StopContainerRequest,
    UpdateContainerRequest, UpdatePodSandboxRequest,
};

use super::{Adaptation, RequestOptions};
use crate::error::RequestError;
use crate::merge::{Change, Creation};

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident => $event:ident ($($what:ident: $type:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// Tells all plugins at once, and returns when each has answered.
        ///
        /// # Errors
        /// [`RequestError`]: the first plugin's, in their order, whose answer is a failure. The
        /// others were told all the same.
        pub fn $name<'a>(
            &'a self,
            $($what: $type,)*
            options: &'a RequestOptions,
        ) -> impl Future<Output = Result<(), RequestError>> + Send + use<'a> {
            self.core.notify(Event::$event, events!(@pod $($what),*), events!(@container $($what),*), options)
        }
    )*};
    (@pod $pod:ident) => { $pod };
    (@pod $pod:ident, $container:ident) => { $pod };
    (@container $pod:ident) => { None };
    (@container $pod:ident, $container:ident) => { Some($container) };
}

impl Adaptation {
    events! {
        /// A pod is up, its network included, and has no containers yet.
        run_pod_sandbox => RunPodSandbox (pod: &'a PodSandbox);
        /// The resources of a pod were changed.
        post_update_pod_sandbox => PostUpdatePodSandbox (pod: &'a PodSandbox);
        /// A pod is being stopped.
        stop_pod_sandbox => StopPodSandbox (pod: &'a PodSandbox);
        /// A pod is being removed.
        remove_pod_sandbox => RemovePodSandbox (pod: &'a PodSandbox);
        /// A container was created, with all adjustments.
        post_create_container => PostCreateContainer (pod: &'a PodSandbox, container: &'a Container);
        /// A container is about to be started.
        start_container => StartContainer (pod: &'a PodSandbox, container: &'a Container);
        /// A container was started.
        post_start_container => PostStartContainer (pod: &'a PodSandbox, container: &'a Container);
        /// A container's resources were changed.
        post_update_container => PostUpdateContainer (pod: &'a PodSandbox, container: &'a Container);
        /// A container is being removed.
        remove_container => RemoveContainer (pod: &'a PodSandbox, container: &'a Container);
    }

    /// The resources of a pod are about to be changed. Plugins are asked one after another.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn update_pod_sandbox<'a>(
        &'a self,
        request: UpdatePodSandboxRequest,
        options: &'a RequestOptions,
    ) -> impl Future<Output = Result<(), RequestError>> + Send + use<'a> {
        self.core.update_pod(request, options)
    }

    /// A container is about to be created: asks each plugin in turn, shows it what those before
    /// it did, merges their answers, and has the result judged by all validators at once.
    ///
    /// # Errors
    /// [`RequestError`]; nothing of what plugins answered is to be applied then.
    pub fn create_container<'a>(
        &'a self,
        request: CreateContainerRequest,
        options: &'a RequestOptions,
    ) -> impl Future<Output = Result<Creation, RequestError>> + Send + use<'a> {
        self.core.create(request, options)
    }

    /// The resources of a container are about to be changed to those of the request: asks each
    /// plugin in turn, and returns what is to be applied in their place.
    ///
    /// # Errors
    /// [`RequestError`]; nothing of what plugins answered is to be applied then.
    pub fn update_container<'a>(
        &'a self,
        request: UpdateContainerRequest,
        options: &'a RequestOptions,
    ) -> impl Future<Output = Result<Change, RequestError>> + Send + use<'a> {
        self.core.update(request, options)
    }

    /// A container is being stopped: asks each plugin in turn what is to change for others.
    ///
    /// # Errors
    /// [`RequestError`]; nothing of what plugins answered is to be applied then.
    pub fn stop_container<'a>(
        &'a self,
        request: StopContainerRequest,
        options: &'a RequestOptions,
    ) -> impl Future<Output = Result<Change, RequestError>> + Send + use<'a> {
        self.core.stop(request, options)
    }
}
