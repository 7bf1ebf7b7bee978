//! A plugin that wants what others have set.

use std::sync::{Arc, Mutex, PoisonError};

use longshore_nri_adaptation::BuiltinPlugin;
use longshore_nri_api::{
    ConfigureRequest, Container, ContainerAdjustment, CreateContainerRequest,
    CreateContainerResponse, Event, EventMask,
};
use longshore_ttrpc::Status;

/// Index and name.
pub(crate) const NAME: (&str, &str) = ("99", "rival");

/// Sets again what others have changed of a container. A handle; clones are the same rival.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rival {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    pristine: Container,
    claimed: bool,
}

impl Rival {
    /// The container as the runtime made it, before the next request.
    pub(crate) fn expect(&self, pristine: &Container) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State {
            pristine: pristine.clone(),
            claimed: false,
        };
    }

    /// Whether it has set anything since.
    pub(crate) fn claimed(&self) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .claimed
    }
}

impl BuiltinPlugin for Rival {
    async fn configure(&self, _: ConfigureRequest) -> Result<EventMask, Status> {
        Ok(EventMask::of(Event::CreateContainer))
    }

    async fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> Result<CreateContainerResponse, Status> {
        let shown = request.container.unwrap_or_default();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let adjust = claims(&state.pristine, &shown);
        state.claimed = adjust != ContainerAdjustment::default();
        Ok(CreateContainerResponse {
            adjust: state.claimed.then_some(adjust),
            ..CreateContainerResponse::default()
        })
    }
}

/// The same keys with other values.
fn claims(pristine: &Container, shown: &Container) -> ContainerAdjustment {
    let mut adjust = ContainerAdjustment::default();
    for entry in shown
        .env
        .iter()
        .filter(|entry| !pristine.env.contains(entry))
    {
        adjust.add_env(entry.split('=').next().unwrap_or_default(), "rival");
    }
    for (key, value) in &shown.annotations {
        if pristine.annotations.get(key) != Some(value) {
            adjust.add_annotation(key, "rival");
        }
    }
    for mount in shown
        .mounts
        .iter()
        .filter(|mount| !pristine.mounts.contains(mount))
    {
        adjust.add_mount(mount.clone());
    }
    if shown.args != pristine.args {
        adjust.set_args(["rival"]);
    }
    let linux = |container: &Container| container.linux.clone().unwrap_or_default();
    let (before, after) = (linux(pristine), linux(shown));
    for device in after
        .devices
        .iter()
        .filter(|device| !before.devices.contains(device))
    {
        adjust.add_device(device.clone());
    }
    if after.oom_score_adj != before.oom_score_adj {
        adjust.set_oom_score_adj(1);
    }
    if after.cgroups_path != before.cgroups_path {
        adjust.set_cgroups_path("/rival");
    }
    let (before, after) = (
        before.resources.unwrap_or_default(),
        after.resources.unwrap_or_default(),
    );
    let memory = (
        before.memory.unwrap_or_default(),
        after.memory.unwrap_or_default(),
    );
    if memory.0.limit != memory.1.limit {
        adjust.resources_mut().set_memory_limit(1 << 30);
    }
    let cpu = (
        before.cpu.unwrap_or_default(),
        after.cpu.unwrap_or_default(),
    );
    if cpu.0.shares != cpu.1.shares {
        adjust.resources_mut().set_cpu_shares(2_u64);
    }
    if cpu.0.quota != cpu.1.quota {
        adjust.resources_mut().set_cpu_quota(1);
    }
    if cpu.0.cpus != cpu.1.cpus {
        adjust.resources_mut().set_cpuset_cpus("0");
    }
    adjust
}
