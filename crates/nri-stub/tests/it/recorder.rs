//! A plugin that handles everything and logs it, and what it is asked.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longshore_nri_stub::api::{
    Container, ContainerUpdate, Empty, Event, LinuxResources, PodSandbox, RunPodSandboxRequest,
    ValidateContainerAdjustmentRequest, event_name,
};
use longshore_nri_stub::{
    CallError, Code, Configuration, CreateReply, Handle, HandlerError, Status, UpdateReply, plugin,
};

use crate::runtime::FakeRuntime;

type Log = Arc<Mutex<Vec<String>>>;

/// Logs all events with their pod and container, and answers with something of its own.
#[derive(Default, Clone)]
pub(crate) struct Recorder {
    log: Log,
    pub(crate) running: Arc<AtomicUsize>,
    pub(crate) handle: Arc<Mutex<Option<Handle>>>,
}

impl Recorder {
    fn note(&self, event: Event, pod: &PodSandbox, container: Option<&Container>) {
        let container = container.map_or("", |container| container.name.as_str());
        let line = format!("{} {} {container}", event_name(event), pod.name);
        self.log.lock().unwrap().push(line.trim_end().to_owned());
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) fn update(id: &str) -> ContainerUpdate {
    ContainerUpdate {
        container_id: id.into(),
        ..ContainerUpdate::default()
    }
}

#[plugin]
impl Recorder {
    async fn configure(&self, configuration: Configuration) {
        *self.handle.lock().unwrap() = Some(configuration.handle);
    }
    async fn run_pod_sandbox(&self, pod: PodSandbox) -> Result<(), HandlerError> {
        match pod.name.as_str() {
            "panic" => panic!("as asked"),
            "hang" => {
                self.running.fetch_add(1, Ordering::SeqCst);
                let _running = Running(Arc::clone(&self.running));
                pending().await
            }
            "status" => Err(Status::new(Code::NotFound, "no such pod").into()),
            "fail" => Err("it did not work".into()),
            _ => {
                self.note(Event::RunPodSandbox, &pod, None);
                Ok(())
            }
        }
    }
    async fn update_pod_sandbox(
        &self,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> Result<(), HandlerError> {
        assert_eq!(overhead.unified["which"], "overhead");
        assert_eq!(resources.unified["which"], "own");
        self.note(Event::UpdatePodSandbox, &pod, None);
        Ok(())
    }
    async fn post_update_pod_sandbox(&self, pod: PodSandbox) {
        self.note(Event::PostUpdatePodSandbox, &pod, None);
    }
    async fn stop_pod_sandbox(&self, pod: PodSandbox) {
        self.note(Event::StopPodSandbox, &pod, None);
    }
    async fn remove_pod_sandbox(&self, pod: PodSandbox) {
        self.note(Event::RemovePodSandbox, &pod, None);
    }
    async fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<CreateReply, HandlerError> {
        self.note(Event::CreateContainer, &pod, Some(&container));
        let mut reply = CreateReply {
            updates: vec![update("other")],
            evictions: vec![longshore_nri_stub::api::ContainerEviction::new("x", "old")],
            ..CreateReply::default()
        };
        reply.adjustment.add_env("A", "1").remove_env("B");
        Ok(reply)
    }
    async fn post_create_container(&self, pod: PodSandbox, container: Container) {
        self.note(Event::PostCreateContainer, &pod, Some(&container));
    }
    async fn start_container(&self, pod: PodSandbox, container: Container) {
        self.note(Event::StartContainer, &pod, Some(&container));
    }
    async fn post_start_container(&self, pod: PodSandbox, container: Container) {
        self.note(Event::PostStartContainer, &pod, Some(&container));
    }
    async fn update_container(
        &self,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Result<UpdateReply, HandlerError> {
        self.note(Event::UpdateContainer, &pod, Some(&container));
        Ok(vec![update(&resources.unified["id"])].into())
    }
    async fn post_update_container(&self, pod: PodSandbox, container: Container) {
        self.note(Event::PostUpdateContainer, &pod, Some(&container));
    }
    async fn stop_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<Vec<ContainerUpdate>, HandlerError> {
        self.note(Event::StopContainer, &pod, Some(&container));
        // Asks the runtime while the runtime asks it.
        let handle = self.handle.lock().unwrap().clone().ok_or("no handle")?;
        Ok(handle.update_containers(vec![update("inner")]).await?)
    }
    async fn remove_container(&self, pod: PodSandbox, container: Container) {
        self.note(Event::RemoveContainer, &pod, Some(&container));
    }
    async fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> Result<(), HandlerError> {
        let adjust = request.adjust.unwrap_or_default();
        if adjust.env.is_empty() {
            return Ok(());
        }
        Err(format!("{} variables are too many", adjust.env.len()).into())
    }
}

pub(crate) fn pod(name: &str) -> Option<PodSandbox> {
    Some(PodSandbox {
        name: name.into(),
        ..PodSandbox::default()
    })
}

pub(crate) fn container() -> Option<Container> {
    Some(Container {
        name: "c".into(),
        ..Container::default()
    })
}

pub(crate) fn resources(key: &str, value: &str) -> Option<LinuxResources> {
    let unified = [(key.to_owned(), value.to_owned())].into();
    Some(LinuxResources {
        unified,
        ..LinuxResources::default()
    })
}

pub(crate) async fn run_pod(runtime: &FakeRuntime, name: &str) -> Result<Empty, CallError> {
    let request = RunPodSandboxRequest { pod: pod(name) };
    runtime.call("RunPodSandbox", &request).await
}
