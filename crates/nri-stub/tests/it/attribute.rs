//! What the attribute makes of a block.

use longshore_nri_stub::api::{
    Container, ContainerAdjustment, ContainerUpdate, EventMask, LinuxResources, PodSandbox,
    ValidateContainerAdjustmentRequest,
};
use longshore_nri_stub::{Configuration, CreateReply, HandlerError, Plugin, UpdateReply, plugin};

struct Everything;

#[plugin]
impl Everything {
    async fn configure(&self, configuration: Configuration) -> Result<EventMask, HandlerError> {
        Ok(configuration.config.parse()?)
    }
    async fn synchronize(&self, _: Vec<PodSandbox>, _: Vec<Container>) {}
    async fn shutdown(&self) {}
    async fn run_pod_sandbox(&self, _: PodSandbox) {}
    async fn update_pod_sandbox(&self, _: PodSandbox, _: LinuxResources, _: LinuxResources) {}
    async fn post_update_pod_sandbox(&self, _: PodSandbox) -> Result<(), String> {
        Err("no".to_owned())
    }
    async fn stop_pod_sandbox(&self, _: PodSandbox) {}
    async fn remove_pod_sandbox(&self, _: PodSandbox) {}
    async fn create_container(
        &self,
        _: PodSandbox,
        container: Container,
    ) -> Result<(ContainerAdjustment, Vec<ContainerUpdate>), HandlerError> {
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_annotation("name", container.name);
        Ok((adjustment, Vec::new()))
    }
    async fn post_create_container(&self, _: PodSandbox, _: Container) {}
    async fn start_container(&self, _: PodSandbox, _: Container) {}
    async fn post_start_container(&self, _: PodSandbox, _: Container) {}
    async fn update_container(
        &self,
        _: PodSandbox,
        _: Container,
        _: LinuxResources,
    ) -> Result<UpdateReply, HandlerError> {
        Ok(UpdateReply::default())
    }
    async fn post_update_container(&self, _: PodSandbox, _: Container) {}
    async fn stop_container(
        &self,
        _: PodSandbox,
        _: Container,
    ) -> Result<Vec<ContainerUpdate>, HandlerError> {
        Ok(Vec::new())
    }
    async fn remove_container(&self, _: PodSandbox, _: Container) {}
    async fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> Result<(), String> {
        Err(format!("{} updates", request.update.len()))
    }
}

struct Generic<T>(T);

#[plugin]
impl<T> Generic<T>
where
    T: ToString + Send + Sync + 'static,
{
    async fn create_container(&self, _: PodSandbox, _: Container) -> ContainerAdjustment {
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_env("VALUE", self.0.to_string());
        adjustment
    }

    #[cfg(any())]
    async fn run_pod_sandbox(&self, _: PodSandbox) {}
}

#[tokio::test]
async fn every_handler_is_an_event_and_answers_what_it_returns() {
    assert_eq!(Everything.events(), EventMask::ALL);
    assert_eq!(Everything.handlers(), EventMask::ALL);
    let container = Container {
        name: "db".into(),
        ..Container::default()
    };
    let reply = Plugin::create_container(&Everything, PodSandbox::default(), container);
    let reply: CreateReply = reply.await.unwrap();
    assert_eq!(reply.adjustment.annotations["name"], "db");
    let failed = Plugin::post_update_pod_sandbox(&Everything, PodSandbox::default()).await;
    assert_eq!(failed.unwrap_err().to_string(), "no");
}

#[tokio::test]
async fn types_with_parameters_and_conditional_handlers_are_plugins() {
    let plugin = Generic(7);
    assert_eq!(plugin.events().to_string(), "CreateContainer");
    assert_eq!(plugin.handlers(), plugin.events());
    let (pod, container) = (PodSandbox::default(), Container::default());
    let reply = Plugin::create_container(&plugin, pod, container).await;
    assert_eq!(reply.unwrap().adjustment.env[0].value, "7");
}
