//! Logs every event as a line of JSON, and can leave a mark on containers.
//!
//! ```text
//! cargo run -p longshore-nri-stub --example logger -- --idx 90 --socket /var/run/nri/nri.sock
//! ```
//!
//! Launched by a runtime, it reads the YAML of its configuration file, all of it optional. A mark
//! is the text `logger-pid-<pid>`; `set` also removes what was there before:
//!
//! ```text
//! logFile: /var/log/nri.log      # standard error by default
//! events: [pod, CreateContainer] # all by default
//! addAnnotation: seen-by
//! setAnnotation: owner
//! addEnv: SEEN_BY
//! setEnv: OWNER
//! ```

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use longshore_nri_api::cost;
use longshore_nri_json as json;
use longshore_nri_stub::api::{
    Container, ContainerAdjustment, EventMask, LinuxResources, PodSandbox,
    ValidateContainerAdjustmentRequest,
};
use longshore_nri_stub::{Configuration, HandlerError, plugin};

mod common;

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Settings {
    log_file: Option<String>,
    events: Vec<String>,
    add_annotation: Option<String>,
    set_annotation: Option<String>,
    add_env: Option<String>,
    set_env: Option<String>,
}

/// The plugin.
#[derive(Default)]
pub(crate) struct Logger {
    state: Mutex<(Settings, Option<File>)>,
}

#[plugin]
impl Logger {
    async fn configure(&self, configuration: Configuration) -> Result<EventMask, HandlerError> {
        let Configuration {
            config,
            runtime_name,
            runtime_version,
            nri_version,
            ..
        } = configuration;
        let settings = if config.trim().is_empty() {
            Settings::default()
        } else {
            serde_saphyr::from_str(&config)?
        };
        let file = match &settings.log_file {
            Some(path) => Some(OpenOptions::new().append(true).create(true).open(path)?),
            None => None,
        };
        let events = EventMask::parse(&settings.events)?;
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = (settings, file);
        self.line(&format!(
            "Configure {runtime_name} {runtime_version} NRI {nri_version}"
        ));
        Ok(events)
    }

    async fn synchronize(&self, pods: Vec<PodSandbox>, containers: Vec<Container>) {
        self.line(&format!(
            "Synchronize {} pods {} containers",
            pods.len(),
            containers.len()
        ));
        for pod in &pods {
            self.log("Synchronize", &[&Json(pod)]);
        }
        for container in &containers {
            self.log("Synchronize", &[&Json(container)]);
        }
    }

    async fn shutdown(&self) {
        self.line("Shutdown");
    }

    async fn run_pod_sandbox(&self, pod: PodSandbox) {
        self.log("RunPodSandbox", &[&Json(&pod)]);
    }

    async fn update_pod_sandbox(
        &self,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) {
        self.log(
            "UpdatePodSandbox",
            &[&Json(&pod), &Json(&overhead), &Json(&resources)],
        );
    }

    async fn post_update_pod_sandbox(&self, pod: PodSandbox) {
        self.log("PostUpdatePodSandbox", &[&Json(&pod)]);
    }

    async fn stop_pod_sandbox(&self, pod: PodSandbox) {
        self.log("StopPodSandbox", &[&Json(&pod)]);
    }

    async fn remove_pod_sandbox(&self, pod: PodSandbox) {
        self.log("RemovePodSandbox", &[&Json(&pod)]);
    }

    async fn create_container(&self, pod: PodSandbox, container: Container) -> ContainerAdjustment {
        self.log("CreateContainer", &[&Json(&pod), &Json(&container)]);
        let mark = format!("logger-pid-{}", std::process::id());
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = &state.0;
        let mut adjustment = ContainerAdjustment::default();
        if let Some(key) = &settings.add_annotation {
            adjustment.add_annotation(key, &mark);
        }
        if let Some(key) = &settings.set_annotation {
            adjustment.remove_annotation(key).add_annotation(key, &mark);
        }
        if let Some(name) = &settings.add_env {
            adjustment.add_env(name, &mark);
        }
        if let Some(name) = &settings.set_env {
            adjustment.remove_env(name).add_env(name, &mark);
        }
        adjustment
    }

    async fn post_create_container(&self, pod: PodSandbox, container: Container) {
        self.log("PostCreateContainer", &[&Json(&pod), &Json(&container)]);
    }

    async fn start_container(&self, pod: PodSandbox, container: Container) {
        self.log("StartContainer", &[&Json(&pod), &Json(&container)]);
    }

    async fn post_start_container(&self, pod: PodSandbox, container: Container) {
        self.log("PostStartContainer", &[&Json(&pod), &Json(&container)]);
    }

    async fn update_container(
        &self,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) {
        self.log(
            "UpdateContainer",
            &[&Json(&pod), &Json(&container), &Json(&resources)],
        );
    }

    async fn post_update_container(&self, pod: PodSandbox, container: Container) {
        self.log("PostUpdateContainer", &[&Json(&pod), &Json(&container)]);
    }

    async fn stop_container(&self, pod: PodSandbox, container: Container) {
        self.log("StopContainer", &[&Json(&pod), &Json(&container)]);
    }

    async fn remove_container(&self, pod: PodSandbox, container: Container) {
        self.log("RemoveContainer", &[&Json(&pod), &Json(&container)]);
    }

    async fn validate_container_adjustment(&self, request: ValidateContainerAdjustmentRequest) {
        self.log("ValidateContainerAdjustment", &[&Json(&request)]);
    }
}

impl Logger {
    fn log(&self, event: &str, messages: &[&dyn Text]) {
        let messages: Vec<String> = messages.iter().map(|message| message.text()).collect();
        self.line(&format!("{event} {}", messages.join(" ")));
    }

    /// Writes a line; a plugin does not fail because its log cannot be written.
    fn line(&self, line: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match &mut state.1 {
            Some(file) => writeln!(file, "{line}"),
            None => {
                common::say(&line);
                Ok(())
            }
        };
        if let Err(error) = written {
            common::say(&format_args!("cannot write the log: {error}"));
        }
    }
}

/// A message as JSON.
struct Json<'a, M>(&'a M);

trait Text {
    fn text(&self) -> String;
}

impl<M: cost::Message> Text for Json<'_, M> {
    fn text(&self) -> String {
        json::to_value(self.0).map_or_else(|error| error.to_string(), |value| value.to_string())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    common::run(Logger::default()).await
}
