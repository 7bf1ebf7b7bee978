//! Pod and container configurations as `crictl runp` and `crictl create` take them.

use std::collections::BTreeMap;
use std::path::Path;

use longshore_nri_api::{Container, ContainerAdjustment, Mount, PodSandbox};
use longshore_nri_oci::oci_spec::runtime::Spec;
use serde::Deserialize;

use crate::report::message;
use crate::{Case, EXAMPLE, SimulateError, Step, case, spec};

impl Case {
    /// The life of one container from the files of `crictl runp` and `crictl create`, and an OCI spec
    /// (`config.json`) to which the container's configuration is applied. What is `None` is as in
    /// [`EXAMPLE`].
    ///
    /// # Errors
    /// [`SimulateError`]: a file that cannot be read, or is not what it should be.
    pub fn from_files(
        pod: Option<&Path>,
        container: Option<&Path>,
        config: Option<&Path>,
    ) -> Result<Self, SimulateError> {
        let mut made = Self::parse(EXAMPLE, "example")?;
        let mut pod_of_case = PodSandbox::default();
        if let Some(path) = pod {
            pod_of_case = read::<PodConfig>(path)?.pod();
        } else if let Some(example) = made.steps.first().and_then(|step| step.pod.as_ref()) {
            pod_of_case = case::message(example, "example")?;
        }
        let base = match config {
            Some(path) => read::<Spec>(path)?,
            None => spec::empty(),
        };
        let described = match container {
            Some(path) => Some(read::<ContainerConfig>(path)?.container(&pod_of_case)),
            None if config.is_some() => Some(ContainerConfig::default().container(&pod_of_case)),
            None => None,
        };
        let described = match described {
            None => None,
            Some((container, set)) => {
                let mut spec = base;
                let applied = spec::adjuster().apply(&mut spec, &set);
                applied.map_err(|error| SimulateError::Malformed {
                    origin: container.name.clone(),
                    why: error.to_string(),
                })?;
                Some((container, serde_json::to_value(spec).unwrap_or_default()))
            }
        };
        for step in &mut made.steps {
            adopt(step, &pod_of_case, described.as_ref());
        }
        Ok(made)
    }
}

/// Puts pod and container of the files in the place of the example's.
fn adopt(step: &mut Step, pod: &PodSandbox, container: Option<&(Container, serde_json::Value)>) {
    match &step.pod {
        Some(serde_json::Value::String(_)) => step.pod = Some(pod.id.clone().into()),
        Some(_) => step.pod = Some(message(pod)),
        None => {}
    }
    let Some((container, spec)) = container else {
        return;
    };
    match &step.container {
        Some(serde_json::Value::String(_)) => step.container = Some(container.id.clone().into()),
        Some(_) => {
            step.container = Some(message(container));
            step.spec = Some(spec.clone());
        }
        None => {}
    }
}

/// A file of YAML or JSON.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, SimulateError> {
    case::parse(&case::read(path)?, &path.display().to_string())
}

/// `crictl runp`'s file, as far as plugins see it. Other members are no concern of theirs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodConfig {
    metadata: Metadata,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    linux: PodLinux,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    uid: String,
    namespace: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodLinux {
    cgroup_parent: String,
}

/// `crictl create`'s file, as far as plugins see it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerConfig {
    metadata: Metadata,
    command: Vec<String>,
    args: Vec<String>,
    envs: Vec<Variable>,
    mounts: Vec<ConfigMount>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    linux: ContainerLinux,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Variable {
    key: String,
    value: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigMount {
    container_path: String,
    host_path: String,
    readonly: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerLinux {
    resources: Resources,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    cpu_period: i64,
    cpu_quota: i64,
    cpu_shares: i64,
    memory_limit_in_bytes: i64,
    oom_score_adj: i32,
    cpuset_cpus: String,
    cpuset_mems: String,
    unified: BTreeMap<String, String>,
}

fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
    if text.is_empty() { default } else { text }
}

impl PodConfig {
    pub(crate) fn pod(self) -> PodSandbox {
        let mut pod = PodSandbox {
            id: or(&self.metadata.uid, "pod0").to_owned(),
            name: or(&self.metadata.name, "pod").to_owned(),
            uid: self.metadata.uid,
            namespace: or(&self.metadata.namespace, "default").to_owned(),
            labels: self.labels,
            annotations: self.annotations,
            ..PodSandbox::default()
        };
        pod.linux.get_or_insert_default().cgroup_parent = self.linux.cgroup_parent;
        pod
    }
}

impl ContainerConfig {
    /// The container, and what the configuration sets in its spec.
    pub(crate) fn container(self, pod: &PodSandbox) -> (Container, ContainerAdjustment) {
        let mut set = ContainerAdjustment::default();
        let args = [self.command, self.args].concat();
        if !args.is_empty() {
            set.args.clone_from(&args);
        }
        for variable in &self.envs {
            set.add_env(&variable.key, &variable.value);
        }
        for mount in self.mounts {
            let access = if mount.readonly { "ro" } else { "rw" };
            set.add_mount(Mount {
                destination: mount.container_path,
                source: mount.host_path,
                r#type: "bind".to_owned(),
                options: vec!["rbind".to_owned(), "rprivate".to_owned(), access.to_owned()],
            });
        }
        let resources = self.linux.resources;
        if let Ok(shares @ 1..) = u64::try_from(resources.cpu_shares) {
            set.resources_mut().set_cpu_shares(shares);
        }
        if resources.cpu_quota != 0 {
            set.resources_mut().set_cpu_quota(resources.cpu_quota);
        }
        if let Ok(period @ 1..) = u64::try_from(resources.cpu_period) {
            set.resources_mut().set_cpu_period(period);
        }
        if resources.memory_limit_in_bytes != 0 {
            set.resources_mut()
                .set_memory_limit(resources.memory_limit_in_bytes);
        }
        if !resources.cpuset_cpus.is_empty() {
            set.resources_mut().set_cpuset_cpus(resources.cpuset_cpus);
        }
        if !resources.cpuset_mems.is_empty() {
            set.resources_mut().set_cpuset_mems(resources.cpuset_mems);
        }
        set.resources_mut().unified.extend(resources.unified);
        if resources.oom_score_adj != 0 {
            set.set_oom_score_adj(resources.oom_score_adj);
        }
        let name = or(&self.metadata.name, "ctr0").to_owned();
        let container = Container {
            id: name.clone(),
            name,
            pod_sandbox_id: pod.id.clone(),
            labels: self.labels,
            annotations: self.annotations,
            ..Container::default()
        };
        (container, set)
    }
}
