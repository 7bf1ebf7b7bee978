//! What the fake agent answers to a call.

#![expect(
    deprecated,
    reason = "the nested twins are deprecated; agents still serve them"
)]

use longshore_mesos_api::v1::agent::call::{LaunchContainer, Type};
use longshore_mesos_api::v1::agent::response::get_containers::Container;
use longshore_mesos_api::v1::agent::response::{
    self, GetAgent, GetContainers, GetHealth, GetVersion, ReadFile, WaitContainer,
    WaitNestedContainer,
};
use longshore_mesos_api::v1::agent::{Call, Response};
use longshore_mesos_api::v1::{AgentId, AgentInfo, ContainerId, ContainerStatus, VersionInfo};

use super::state::{Fake, Flavor, Logged, State};
use crate::codec::show_id;

/// What to send back.
pub(super) enum Reply {
    /// This status with this text.
    Text(u16, String),
    /// 200 with this message.
    Message(Box<Response>),
    /// Nothing yet: ask again when the state has changed.
    Later,
    /// The agent aborts.
    Abort,
}

/// The call as the log shows it.
pub(super) fn logged(call: &Call) -> Logged {
    let id = container_id(call);
    let signal = call.kill_container.as_ref().and_then(|kill| kill.signal);
    let nested = call.kill_nested_container.as_ref();
    Logged {
        kind: call.r#type(),
        container: id.map(show_id),
        signal: signal.or_else(|| nested.and_then(|kill| kill.signal)),
    }
}

fn container_id(call: &Call) -> Option<&ContainerId> {
    let mut ids = [
        call.launch_container.as_ref().map(|c| &c.container_id),
        call.wait_container.as_ref().map(|c| &c.container_id),
        call.kill_container.as_ref().map(|c| &c.container_id),
        call.remove_container.as_ref().map(|c| &c.container_id),
        call.launch_nested_container
            .as_ref()
            .map(|c| &c.container_id),
        call.wait_nested_container.as_ref().map(|c| &c.container_id),
        call.kill_nested_container.as_ref().map(|c| &c.container_id),
        call.remove_nested_container
            .as_ref()
            .map(|c| &c.container_id),
    ]
    .into_iter()
    .flatten();
    ids.next()
}

impl State {
    pub(super) fn dispatch(&mut self, call: &Call) -> Reply {
        let id = container_id(call);
        let (key, top_level) = match id {
            Some(id) if id.value.is_empty() => {
                return Reply::Text(400, "ID must not be empty".to_owned());
            }
            Some(id) => (show_id(id), id.parent.is_none()),
            None => (String::new(), false),
        };
        match call.r#type() {
            Type::GetHealth => message(response::Type::GetHealth, |response| {
                response.get_health = Some(GetHealth { healthy: true });
            }),
            Type::GetVersion => self.version(),
            Type::GetAgent => message(response::Type::GetAgent, |response| {
                response.get_agent = Some(GetAgent {
                    agent_info: Some(AgentInfo {
                        hostname: "localhost".to_owned(),
                        id: Some(AgentId {
                            value: self.agent_id.clone(),
                        }),
                        ..AgentInfo::default()
                    }),
                    ..GetAgent::default()
                });
            }),
            Type::GetContainers => {
                let show = call.get_containers.unwrap_or_default();
                self.list(show.show_nested(), show.show_standalone())
            }
            Type::ReadFile => self.read_file(call),
            Type::LaunchContainer | Type::LaunchNestedContainer => {
                let nested = call.launch_nested_container.clone();
                let launch = call.launch_container.clone().or_else(|| {
                    nested.map(|nested| LaunchContainer {
                        container_id: nested.container_id,
                        command: nested.command,
                        container: nested.container,
                        ..LaunchContainer::default()
                    })
                });
                match launch {
                    Some(launch) => self.launch(key, launch),
                    None => Reply::Text(400, "Expecting 'launch_container' to be present".into()),
                }
            }
            Type::WaitContainer => self.wait(&key, |wait, response| {
                response.r#type = Some(response::Type::WaitContainer.into());
                response.wait_container = Some(wait);
            }),
            Type::WaitNestedContainer => self.wait(&key, |wait, response| {
                response.r#type = Some(response::Type::WaitNestedContainer.into());
                response.wait_nested_container = Some(WaitNestedContainer {
                    exit_status: wait.exit_status,
                    state: wait.state,
                    reason: wait.reason,
                    limitation: wait.limitation,
                    message: wait.message,
                });
            }),
            Type::KillContainer | Type::KillNestedContainer => {
                self.kill(&key, logged(call).signal.unwrap_or(9))
            }
            Type::RemoveContainer | Type::RemoveNestedContainer => self.remove(&key, top_level),
            Type::Unknown => Reply::Text(501, "501 Not Implemented.".to_owned()),
            _ => Reply::Text(501, "the fake agent does not know this call".to_owned()),
        }
    }

    fn version(&self) -> Reply {
        let version = match self.flavor {
            Flavor::Longshore => "1.11.0-longshore.0.1.0",
            Flavor::Mesos => "1.11.0",
        };
        message(response::Type::GetVersion, |response| {
            response.get_version = Some(GetVersion {
                version_info: VersionInfo {
                    version: version.to_owned(),
                    ..VersionInfo::default()
                },
            });
        })
    }

    fn read_file(&self, call: &Call) -> Reply {
        const LONGEST: usize = 64 * 1024;
        let Some(wanted) = &call.read_file else {
            return Reply::Text(400, "Expecting 'read_file' to be present".to_owned());
        };
        let file = self.files.get(&wanted.path);
        let Some(file) = file.filter(|_| self.flavor == Flavor::Longshore) else {
            return match self.flavor {
                Flavor::Longshore => Reply::Text(404, format!("No such file: {}", wanted.path)),
                Flavor::Mesos => Reply::Text(404, String::new()),
            };
        };
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let rest = file.get(number(wanted.offset)..).unwrap_or_default();
        let length = rest
            .len()
            .min(LONGEST)
            .min(number(wanted.length.unwrap_or(u64::MAX)));
        message(response::Type::ReadFile, |response| {
            response.read_file = Some(ReadFile {
                size: u64::try_from(file.len()).unwrap_or(u64::MAX),
                data: rest[..length].to_vec(),
            });
        })
    }

    fn list(&self, nested: bool, standalone: bool) -> Reply {
        let containers: Vec<_> = self
            .containers
            .values()
            .filter(|fake| fake.ended.is_none())
            .filter(|fake| {
                if fake.id.parent.is_some() {
                    nested
                } else {
                    standalone
                }
            })
            .map(|fake| {
                let mut container_id = fake.id.clone();
                if self.flavor == Flavor::Mesos {
                    container_id.parent = None;
                }
                Container {
                    container_id,
                    container_status: Some(ContainerStatus {
                        container_id: Some(fake.id.clone()),
                        executor_pid: fake.pid.and_then(|pid| u32::try_from(pid).ok()),
                        ..ContainerStatus::default()
                    }),
                    ..Container::default()
                }
            })
            .collect();
        message(response::Type::GetContainers, |response| {
            if !containers.is_empty() {
                response.get_containers = Some(GetContainers { containers });
            }
        })
    }

    fn launch(&mut self, key: String, launch: LaunchContainer) -> Reply {
        if let Some(parent) = &launch.container_id.parent {
            let parent = show_id(parent);
            if self
                .containers
                .get(&parent)
                .is_none_or(|c| c.ended.is_some())
            {
                return Reply::Text(400, format!("Parent container {parent} does not exist"));
            }
        }
        let earlier = self.containers.get(&key);
        if earlier.is_some_and(|fake| fake.ended.is_none()) {
            return Reply::Text(202, String::new());
        }
        let launches = earlier.map_or(0, |fake| fake.launches) + 1;
        let pid = self.next_pid;
        self.next_pid += 1;
        let fake = Fake {
            id: launch.container_id.clone(),
            launch: launch.clone(),
            pid: Some(pid),
            ended: None,
            launches,
        };
        self.containers.insert(key, fake);
        if let Some(on_launch) = self.on_launch.clone() {
            on_launch(&launch);
        }
        Reply::Text(200, String::new())
    }

    fn wait(&self, key: &str, put: impl FnOnce(WaitContainer, &mut Response)) -> Reply {
        let Some(fake) = self.containers.get(key) else {
            return Reply::Text(404, format!("Container {key} cannot be found"));
        };
        let Some(ended) = fake.ended.clone() else {
            return Reply::Later;
        };
        let mut response = Response::default();
        put(ended, &mut response);
        Reply::Message(Box::new(response))
    }

    fn kill(&mut self, key: &str, signal: i32) -> Reply {
        let running = self.containers.get(key).is_some_and(|c| c.ended.is_none());
        if !running {
            let text = format!("Container '{key}' cannot be found (or is already killed)");
            return Reply::Text(404, text);
        }
        if !(0..=64).contains(&signal) {
            let text = "Unable to send signal to container: Invalid argument";
            return Reply::Text(500, text.to_owned());
        }
        let ends = signal == 9 || (signal != 0 && !self.ignores_term.contains(key));
        if ends {
            let wait = WaitContainer {
                exit_status: Some(signal),
                ..WaitContainer::default()
            };
            self.exit(key, &wait);
        }
        Reply::Text(200, String::new())
    }

    fn remove(&mut self, key: &str, top_level: bool) -> Reply {
        if top_level && self.flavor == Flavor::Mesos {
            return Reply::Abort;
        }
        let running = self.containers.get(key).is_some_and(|c| c.ended.is_none());
        if running {
            return Reply::Text(500, "Container has not terminated yet".to_owned());
        }
        self.containers.remove(key);
        Reply::Text(200, String::new())
    }
}

fn message(kind: response::Type, put: impl FnOnce(&mut Response)) -> Reply {
    let mut response = Response {
        r#type: Some(kind.into()),
        ..Response::default()
    };
    put(&mut response);
    Reply::Message(Box::new(response))
}
