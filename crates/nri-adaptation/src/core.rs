//! What the handle of an adaptation and its tasks share.

use std::sync::Arc;

use longshore_nri_api::{
    Container, CreateContainerRequest, Event, PluginId, PodSandbox, StopContainerRequest,
    UpdateContainerRequest, UpdatePodSandboxRequest,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::adaptation::RequestOptions;
use crate::builtin::Builtin;
use crate::error::{AdaptationError, RequestError};
use crate::limits::Limits;
use crate::merge::{Change, ChangeMerge, Compat, CreateMerge, Creation};
use crate::metrics::Metrics;
use crate::policy::{Policies, Timeouts};
use crate::runtime::Runtime;
use crate::status::PluginStatus;
use crate::validate::DefaultValidator;

/// What the builder gathers.
pub(crate) struct Settings {
    pub(crate) runtime_name: String,
    pub(crate) runtime_version: String,
    pub(crate) nri_version: String,
    pub(crate) timeouts: Timeouts,
    pub(crate) policies: Policies,
    pub(crate) limits: Limits,
    pub(crate) compat: Compat,
    pub(crate) validator: Option<DefaultValidator>,
    pub(crate) metrics: Arc<dyn Metrics>,
}

pub(crate) struct Core {
    settings: Settings,
    generation: watch::Sender<u64>,
}

impl Core {
    pub(crate) fn new(settings: Settings, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        drop(runtime);
        Arc::new(Self {
            settings,
            generation: watch::Sender::new(0),
        })
    }

    pub(crate) async fn start(
        &self,
        builtins: Vec<(PluginId, Arc<dyn Builtin>)>,
    ) -> Result<(), AdaptationError> {
        drop(builtins);
        Ok(())
    }

    pub(crate) fn abandon(&self) {}

    pub(crate) fn attach(&self, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
        drop(stream);
    }

    pub(crate) fn plugins(&self) -> Vec<PluginStatus> {
        Vec::new()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    pub(crate) async fn active(&self, _name: &str) {
        std::future::pending::<()>().await;
    }

    pub(crate) async fn remove(&self, _name: &str) -> usize {
        0
    }

    pub(crate) async fn shutdown(&self) {}

    pub(crate) async fn notify(
        &self,
        _event: Event,
        _pod: &PodSandbox,
        _container: Option<&Container>,
        _options: &RequestOptions,
    ) -> Result<(), RequestError> {
        Ok(())
    }

    pub(crate) async fn update_pod(
        &self,
        _request: UpdatePodSandboxRequest,
        _options: &RequestOptions,
    ) -> Result<(), RequestError> {
        Ok(())
    }

    pub(crate) async fn create(
        &self,
        request: CreateContainerRequest,
        _options: &RequestOptions,
    ) -> Result<Creation, RequestError> {
        Ok(CreateMerge::new(request, self.settings.compat).finish())
    }

    pub(crate) async fn update(
        &self,
        request: UpdateContainerRequest,
        _options: &RequestOptions,
    ) -> Result<Change, RequestError> {
        Ok(ChangeMerge::update(request, self.settings.compat).finish())
    }

    pub(crate) async fn stop(
        &self,
        _request: StopContainerRequest,
        _options: &RequestOptions,
    ) -> Result<Change, RequestError> {
        Ok(ChangeMerge::stop(self.settings.compat).finish())
    }
}
