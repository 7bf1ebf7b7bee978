//! The pod and the container that a step is about.

use longshore_nri_api::{Container, Event, LinuxResources, PodSandbox, event_name};
use longshore_nri_oci::oci_spec::runtime::Spec;
use serde_json::Value;

use crate::{Node, SimulateError, Step, case, spec};

/// The pod and the container of one step.
pub(crate) struct Scene {
    pub(crate) pod: PodSandbox,
    pub(crate) container: Container,
    pub(crate) spec: Option<Spec>,
    pub(crate) resources: Option<LinuxResources>,
}

impl Scene {
    pub(crate) fn new(
        node: &Node,
        number: usize,
        step: &Step,
        time: usize,
        event: Event,
    ) -> Result<Self, SimulateError> {
        let refuse = |why: String| SimulateError::Step { step: number, why };
        let place = format!("step {number} of the case");
        let of_pod = matches!(
            event,
            Event::RunPodSandbox
                | Event::UpdatePodSandbox
                | Event::PostUpdatePodSandbox
                | Event::StopPodSandbox
                | Event::RemovePodSandbox
        );
        let (mut container, mut spec) = match &step.container {
            None if of_pod => (Container::default(), None),
            None => return Err(refuse("it has no container".to_owned())),
            Some(Value::String(id)) => node
                .container(id)
                .ok_or_else(|| refuse(format!("no container {id:?} is known: create it before")))?,
            Some(described) => (case::message::<Container>(described, &place)?, None),
        };
        if time > 1 && event == Event::CreateContainer {
            container.id = format!("{}-{time}", container.id);
        }
        let pod = match &step.pod {
            Some(Value::String(id)) => node.pod(id),
            Some(described) => Some(case::message(described, &place)?),
            None => node.pod(&container.pod_sandbox_id),
        };
        let pod: PodSandbox = pod.ok_or_else(|| {
            refuse("its pod is not known: name one of `pods`, or of a step before".to_owned())
        })?;
        if event == Event::CreateContainer {
            container.pod_sandbox_id.clone_from(&pod.id);
            let cannot = |error: String| refuse(format!("its spec cannot be made: {error}"));
            let base = match &step.spec {
                Some(given) => serde_json::from_value(given.clone())
                    .map_err(|error| cannot(error.to_string()))?,
                None => spec::empty(),
            };
            let made = spec::of(&container, base).map_err(|error| cannot(error.to_string()))?;
            if step.spec.is_some() {
                container = known_by(spec::seen(&made)?, &container);
            }
            spec = Some(made);
        }
        let resources = match &step.resources {
            Some(resources) => Some(case::message(resources, &place)?),
            None => None,
        };
        Ok(Self {
            pod,
            container,
            spec,
            resources,
        })
    }

    pub(crate) fn name(&self, event: Event) -> String {
        let id = match &*self.container.id {
            "" => &self.pod.id,
            id => id,
        };
        format!("{} {id}", event_name(event))
    }
}

/// What is seen of a spec, under the identity of `container`.
pub(crate) fn known_by(mut seen: Container, container: &Container) -> Container {
    seen.id.clone_from(&container.id);
    seen.name.clone_from(&container.name);
    seen.pod_sandbox_id.clone_from(&container.pod_sandbox_id);
    seen.labels.clone_from(&container.labels);
    for (key, value) in &container.annotations {
        seen.annotations
            .entry(key.clone())
            .or_insert_with(|| value.clone());
    }
    seen
}
