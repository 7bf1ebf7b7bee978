//! What a plugin would be launched with, before there is a manager: so that a configuration can be judged
//! by all that will be asked of it.

use std::sync::Arc;

use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_paths::{InstanceId, RuntimeDir, StateRoot};

use crate::config::PluginConfig;
use crate::error::ManagerError;
use crate::plan::{Places, Plan};

/// The launch requests of a plugin below these directories, each with the index of its entry in
/// `CSIPluginInfo.containers`; none of an unmanaged plugin. Pure: the instance's id and the agent's, which
/// only a start knows, stand in as zeros of the same length.
///
/// # Errors
/// What [`CsiManager::spawn`](crate::CsiManager::spawn) would say of this plugin alone.
pub fn launch_requests(
    config: &PluginConfig,
    state: &StateRoot,
    runtime: &RuntimeDir,
) -> Result<Vec<(usize, LaunchContainer)>, ManagerError> {
    let places = Places {
        state: state.clone(),
        runtime: runtime.clone(),
        instance: InstanceId::from_bytes([0; 8]),
    };
    let plan = Arc::new(Plan::new(config.clone(), &places)?);
    let planned = plan.planned(&places, Some(&Arc::from("longshore-0000000000000000")));
    let entries = plan.drafts().iter().map(|draft| draft.entry);
    let requests = planned.iter().map(|planned| planned.request(&places));
    Ok(entries.zip(requests).collect())
}

#[cfg(test)]
mod tests {
    use longshore_mesos_api::v1::csi_plugin_container_info::Service as Number;
    use longshore_mesos_api::v1::{CsiPluginContainerInfo, CsiPluginInfo};
    use longshore_paths::Service;

    use super::*;

    #[test]
    fn each_container_that_would_run_has_its_request_and_what_a_spawn_refuses_is_refused() {
        let container = |service: Number| CsiPluginContainerInfo {
            services: vec![service.into()],
            ..CsiPluginContainerInfo::default()
        };
        let info = CsiPluginInfo {
            r#type: "t".to_owned(),
            containers: vec![
                container(Number::ControllerService),
                container(Number::NodeService),
            ],
            ..CsiPluginInfo::default()
        };
        let (state, runtime) = (StateRoot::new("/s"), RuntimeDir::new("/r"));
        let mut config = PluginConfig::new("p", info);
        config.services = [Service::Node].into();
        let requests = launch_requests(&config, &state, &runtime).unwrap();
        let entries: Vec<_> = requests.iter().map(|(entry, _)| *entry).collect();
        assert_eq!(entries, [1]);
        let request = &requests[0].1;
        let command = request.command.clone().unwrap_or_default();
        let variables = command.environment.unwrap_or_default().variables;
        assert!(variables.iter().any(|v| v.name == "CSI_ENDPOINT"));
        config.kill_grace = std::time::Duration::from_secs(2 * 86_400);
        let error = launch_requests(&config, &state, &runtime).unwrap_err();
        assert!(
            matches!(
                &error,
                ManagerError::Setting {
                    setting: "kill_grace",
                    ..
                }
            ),
            "{error}"
        );
    }
}
