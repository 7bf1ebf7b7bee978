//! What a plugin is judged by besides its own text: the defaults, who will run it, and where.

use std::path::Path;

use longshore_agent::{CheckImage, Part};
use longshore_csi_manager::{ManagerError, PluginConfig, launch_requests};
use longshore_engine::EngineError;
use longshore_mesos_api::v1 as mesos;
use longshore_paths::{RuntimeDir, StateRoot};

use super::{Refusals, has_image};
use crate::config::raw::RawCsi;
use crate::reload::chain;

/// The surroundings of every plugin.
#[derive(Debug)]
pub(crate) struct Ground {
    /// `[csi]`.
    pub(crate) defaults: RawCsi,
    /// The embedded agent runs the containers, so that its rules hold.
    pub(crate) embedded: bool,
    /// Whether there is an engine for images, which may be silent at the moment.
    pub(crate) engine: Result<(), EngineError>,
    /// Whom the daemon runs as.
    pub(crate) uid: u32,
    /// Plugins that do not say it are registered with kubelet.
    pub(crate) register: bool,
    pub(crate) state: StateRoot,
    pub(crate) runtime: RuntimeDir,
}

impl Ground {
    /// Images need an engine.
    pub(super) fn check_images(&self, info: &mesos::CsiPluginInfo, refusals: &mut Refusals) {
        let Err(error) = &self.engine else { return };
        let containers = info.containers.iter().enumerate();
        for (index, _) in containers.filter(|(_, container)| self.embedded && has_image(container))
        {
            refusals.note(
                format!("containers[{index}].image"),
                format!(
                    "no engine can be used for it: {error}; name one by `tasks.engine`, or set `agent.url` to an agent \
                     that runs images"
                ),
            );
        }
    }

    /// A program by a relative path is looked for in a sandbox, where nothing is but what an agent fetches:
    /// the embedded one does not. (A mere name is looked for in `PATH`, as Mesos does.)
    pub(super) fn check_programs(&self, info: &mesos::CsiPluginInfo, refusals: &mut Refusals) {
        for (index, container) in info.containers.iter().enumerate() {
            let Some(command) = &container.command else {
                continue;
            };
            let (program, shell) = (command.value(), command.shell.unwrap_or(true));
            let relative = program.contains('/') && !Path::new(program).is_absolute();
            if self.embedded && relative && !shell && !has_image(container) {
                refusals.note(
                    format!("containers[{index}].command.value"),
                    format!(
                        "`{program}` is not an absolute path; write it like \"/usr/bin/driver\""
                    ),
                );
            }
        }
    }

    /// What the manager and the embedded agent would refuse, found by what one would ask of the other; and,
    /// apart, what only this machine lacks.
    pub(super) fn check_launches(
        &self,
        config: &PluginConfig,
        refusals: &mut Refusals,
        lacking: &mut Refusals,
    ) {
        let requests = match launch_requests(config, &self.state, &self.runtime) {
            Ok(requests) => requests,
            Err(ManagerError::Setting {
                setting,
                value,
                expected,
                ..
            }) => return refusals.note(setting, format!("{value} is not {expected}")),
            Err(error) => return refusals.note("", chain(&error)),
        };
        if !self.embedded {
            return;
        }
        let images: Option<CheckImage> = match &self.engine {
            Ok(()) => Some(longshore_image_containers::check),
            Err(_) => None,
        };
        for (index, request) in requests {
            let Err(refused) = longshore_agent::check_launch(&request, self.uid, images) else {
                continue;
            };
            let key = match refused.part {
                Part::Command => ".command",
                Part::Environment => ".env",
                Part::User => ".user",
                Part::Volumes => ".volumes",
                Part::Container if refused.message.contains("image") => ".image",
                Part::Container | Part::Other => "",
            };
            let list = if refused.lacking {
                &mut *lacking
            } else {
                &mut *refusals
            };
            list.note(
                format!("containers[{index}]{key}"),
                format!("the embedded agent refuses it: {refused}"),
            );
        }
    }
}
