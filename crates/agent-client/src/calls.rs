//! The calls of the operator API, each with its meaning of the statuses.

#![expect(
    deprecated,
    reason = "the nested twins are deprecated; agents still serve them"
)]

use longshore_mesos_api::v1::agent::call::{
    GetContainers, KillContainer, KillNestedContainer, LaunchContainer, LaunchNestedContainer,
    ReadFile as ReadOf, RemoveContainer, RemoveNestedContainer, Type, WaitContainer as WaitFor,
    WaitNestedContainer,
};
use longshore_mesos_api::v1::agent::response::{
    GetAgent, ReadFile, WaitContainer, get_containers::Container,
};
use longshore_mesos_api::v1::agent::{Call, Response};
use longshore_mesos_api::v1::{ContainerId, VersionInfo};

use crate::codec::{restore_parent, show_id};
use crate::error::is_container_unknown;
use crate::exchange::{Answer, Prepared};
use crate::retry::Repeat;
use crate::{AgentClient, AgentError, AnswerError};

/// Which containers GET_CONTAINERS lists beside those of executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Show {
    /// Containers with a parent.
    pub nested: bool,
    /// Containers that were launched by LAUNCH_CONTAINER without a parent.
    pub standalone: bool,
}

impl Show {
    /// All of them.
    pub const ALL: Self = Self {
        nested: true,
        standalone: true,
    };
}

/// What LAUNCH did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launched {
    /// 200: the container was started.
    New,
    /// 202: a container of this id is there already, possibly one that is just being destroyed;
    /// nothing was started.
    AlreadyPresent,
}

/// What WAIT found.
#[derive(Debug, Clone, PartialEq)]
pub enum Waited {
    /// The container ended. `exit_status` is a raw `wait(2)` status.
    Exited(WaitContainer),
    /// The agent does not know the container: it never existed, or it ended and the agent has
    /// forgotten how (a Mesos agent forgets a top-level one at once).
    Unknown,
}

/// What KILL did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killed {
    /// The signal was sent; the container may live on.
    Signalled,
    /// There was nothing to signal: the container is not known, has ended or is just ending.
    Unknown,
}

/// What READ_FILE found.
#[derive(Debug, Clone, PartialEq)]
pub enum FileRead {
    /// The piece that was asked for, and the size of the whole file. `data` is shorter than asked
    /// for when an agent bounds it (64 KiB), and empty from the end of the file on.
    Read(ReadFile),
    /// The agent has no such file. A Mesos agent says so of every file of a container that no
    /// executor has launched.
    Unknown,
}

impl AgentClient {
    /// GET_HEALTH.
    ///
    /// # Errors
    /// Any [`AgentError`] of a call.
    pub async fn get_health(&self) -> Result<bool, AgentError> {
        let prepared = self.prepare(Type::GetHealth, None, Repeat::Harmless, Call::default())?;
        let response = self.get(&prepared).await?;
        let health = response.get_health;
        let health = health.ok_or_else(|| prepared.missing("get_health"))?;
        Ok(health.healthy)
    }

    /// GET_VERSION.
    ///
    /// # Errors
    /// Any [`AgentError`] of a call.
    pub async fn get_version(&self) -> Result<VersionInfo, AgentError> {
        let prepared = self.prepare(Type::GetVersion, None, Repeat::Harmless, Call::default())?;
        let response = self.get(&prepared).await?;
        let version = response.get_version;
        let version = version.ok_or_else(|| prepared.missing("get_version"))?;
        Ok(version.version_info)
    }

    /// GET_AGENT: id, host name, resources of the agent.
    ///
    /// # Errors
    /// Any [`AgentError`] of a call.
    pub async fn get_agent(&self) -> Result<GetAgent, AgentError> {
        let prepared = self.prepare(Type::GetAgent, None, Repeat::Harmless, Call::default())?;
        let response = self.get(&prepared).await?;
        let agent = response.get_agent;
        agent.ok_or_else(|| prepared.missing("get_agent"))
    }

    /// GET_CONTAINERS. Ids of nested containers are whole, also those of a Mesos agent, which
    /// leaves the parent out of `container_id`. A container that is being destroyed is listed
    /// without `executor_pid`.
    ///
    /// # Errors
    /// Any [`AgentError`] of a call.
    pub async fn get_containers(&self, show: Show) -> Result<Vec<Container>, AgentError> {
        let call = Call {
            get_containers: Some(GetContainers {
                show_nested: Some(show.nested),
                show_standalone: Some(show.standalone),
            }),
            ..Call::default()
        };
        let prepared = self.prepare(Type::GetContainers, None, Repeat::Harmless, call)?;
        let response = self.get(&prepared).await?;
        // An agent without containers leaves the member out.
        let mut containers = response.get_containers.unwrap_or_default().containers;
        containers.iter_mut().for_each(restore_parent);
        Ok(containers)
    }

    /// READ_FILE: at most `length` bytes from `offset` on of a file that the agent serves under
    /// the virtual path `path`.
    ///
    /// # Errors
    /// Any [`AgentError`] of a call.
    pub async fn read_file(
        &self,
        path: &str,
        offset: u64,
        length: u64,
    ) -> Result<FileRead, AgentError> {
        let call = Call {
            read_file: Some(ReadOf {
                path: path.to_owned(),
                offset,
                length: Some(length),
            }),
            ..Call::default()
        };
        let prepared = self.prepare(Type::ReadFile, None, Repeat::Harmless, call)?;
        let answer = self.send(&prepared, self.config().deadlines.get).await?;
        if answer.says_no_file() {
            return Ok(FileRead::Unknown);
        }
        prepared.expect(&answer, 200)?;
        let read = self.read(&prepared, &answer)?.read_file;
        let read = read.ok_or_else(|| prepared.missing("read_file"))?;
        Ok(FileRead::Read(read))
    }

    /// [`Self::read_file`] of a container's `stdout` or `stderr`, where Longshore's agent has it.
    ///
    /// # Errors
    /// Any [`AgentError`] of a call.
    pub async fn read_output(
        &self,
        id: &ContainerId,
        stream: &str,
        offset: u64,
        length: u64,
    ) -> Result<FileRead, AgentError> {
        let path = format!("{}/{stream}", sandbox_path(id));
        self.read_file(&path, offset, length).await
    }

    /// LAUNCH_CONTAINER, for top-level containers and nested ones.
    ///
    /// See [`crate::RetryPolicy`] for what happens when the connection is cut. A Mesos agent
    /// destroys the container if this future is dropped before the answer.
    ///
    /// # Errors
    /// [`AgentError::Status`] with 400 for what the agent refuses or cannot launch, and any
    /// other [`AgentError`] of a call.
    pub async fn launch_container(&self, launch: LaunchContainer) -> Result<Launched, AgentError> {
        let container = show_id(&launch.container_id);
        let call = Call {
            launch_container: Some(launch),
            ..Call::default()
        };
        let prepared =
            self.prepare(Type::LaunchContainer, Some(container), Repeat::Launch, call)?;
        self.launch(prepared).await
    }

    /// LAUNCH_NESTED_CONTAINER, the deprecated twin that needs a parent.
    ///
    /// # Errors
    /// [`AgentError::NotNested`], else as [`Self::launch_container`].
    pub async fn launch_nested_container(
        &self,
        launch: LaunchNestedContainer,
    ) -> Result<Launched, AgentError> {
        let container = nested("LAUNCH_NESTED_CONTAINER", &launch.container_id)?;
        let call = Call {
            launch_nested_container: Some(launch),
            ..Call::default()
        };
        let prepared = self.prepare(
            Type::LaunchNestedContainer,
            Some(container),
            Repeat::Launch,
            call,
        )?;
        self.launch(prepared).await
    }

    /// WAIT_CONTAINER: waits, without a limit, until the container has ended.
    ///
    /// A cut connection, an agent that is not there and one that is recovering are no exits:
    /// the client connects and waits again, for ever. Dropping the future ends the waiting.
    ///
    /// # Errors
    /// What is no answer about the container: [`AgentError::Status`] other than 404 of an
    /// unknown container, [`AgentError::Decode`], [`AgentError::Credentials`] and the like.
    pub async fn wait_container(&self, id: &ContainerId) -> Result<Waited, AgentError> {
        let call = Call {
            wait_container: Some(WaitFor {
                container_id: id.clone(),
            }),
            ..Call::default()
        };
        let prepared = self.prepare(
            Type::WaitContainer,
            Some(show_id(id)),
            Repeat::Harmless,
            call,
        )?;
        let Some(response) = self.wait(&prepared).await? else {
            return Ok(Waited::Unknown);
        };
        let exited = response.wait_container;
        let exited = exited.ok_or_else(|| prepared.missing("wait_container"))?;
        Ok(Waited::Exited(exited))
    }

    /// WAIT_NESTED_CONTAINER, the deprecated twin that needs a parent.
    ///
    /// # Errors
    /// [`AgentError::NotNested`], else as [`Self::wait_container`].
    pub async fn wait_nested_container(&self, id: &ContainerId) -> Result<Waited, AgentError> {
        let container = nested("WAIT_NESTED_CONTAINER", id)?;
        let call = Call {
            wait_nested_container: Some(WaitNestedContainer {
                container_id: id.clone(),
            }),
            ..Call::default()
        };
        let prepared = self.prepare(
            Type::WaitNestedContainer,
            Some(container),
            Repeat::Harmless,
            call,
        )?;
        let Some(response) = self.wait(&prepared).await? else {
            return Ok(Waited::Unknown);
        };
        let exited = response.wait_nested_container;
        let exited = exited.ok_or_else(|| prepared.missing("wait_nested_container"))?;
        Ok(Waited::Exited(WaitContainer {
            exit_status: exited.exit_status,
            state: exited.state,
            reason: exited.reason,
            limitation: exited.limitation,
            message: exited.message,
        }))
    }

    /// KILL_CONTAINER with `signal`, or the agent's default (9). It does not wait for the end.
    ///
    /// # Errors
    /// Any [`AgentError`] of a call; an invalid signal is a [`AgentError::Status`] 500.
    pub async fn kill_container(
        &self,
        id: &ContainerId,
        signal: Option<i32>,
    ) -> Result<Killed, AgentError> {
        let call = Call {
            kill_container: Some(KillContainer {
                container_id: id.clone(),
                signal,
            }),
            ..Call::default()
        };
        let prepared = self.prepare(
            Type::KillContainer,
            Some(show_id(id)),
            repeat_of(signal),
            call,
        )?;
        self.kill(prepared).await
    }

    /// KILL_NESTED_CONTAINER, the deprecated twin that needs a parent.
    ///
    /// # Errors
    /// [`AgentError::NotNested`], else as [`Self::kill_container`].
    pub async fn kill_nested_container(
        &self,
        id: &ContainerId,
        signal: Option<i32>,
    ) -> Result<Killed, AgentError> {
        let container = nested("KILL_NESTED_CONTAINER", id)?;
        let call = Call {
            kill_nested_container: Some(KillNestedContainer {
                container_id: id.clone(),
                signal,
            }),
            ..Call::default()
        };
        let prepared = self.prepare(
            Type::KillNestedContainer,
            Some(container),
            repeat_of(signal),
            call,
        )?;
        self.kill(prepared).await
    }

    /// REMOVE_CONTAINER: frees the sandbox and the exit status of a container that has ended.
    ///
    /// For a top-level container it is sent only if GET_VERSION says that the agent is
    /// Longshore's, or by [`crate::AgentClientConfig::remove_top_level`]: a Mesos agent aborts
    /// (`Check failed: containerId.has_parent()`).
    ///
    /// # Errors
    /// [`AgentError::RemoveRefused`], and any other [`AgentError`] of a call.
    pub async fn remove_container(&self, id: &ContainerId) -> Result<(), AgentError> {
        if id.parent.is_none() && !self.config().remove_top_level {
            let version = self.get_version().await?;
            if !is_longshore(&version) {
                return Err(AgentError::RemoveRefused {
                    container: show_id(id),
                    version: version.version,
                });
            }
        }
        let call = Call {
            remove_container: Some(RemoveContainer {
                container_id: id.clone(),
            }),
            ..Call::default()
        };
        let prepared = self.prepare(
            Type::RemoveContainer,
            Some(show_id(id)),
            Repeat::Harmless,
            call,
        )?;
        self.remove(prepared).await
    }

    /// REMOVE_NESTED_CONTAINER, the deprecated twin that needs a parent.
    ///
    /// # Errors
    /// [`AgentError::NotNested`], else as [`Self::remove_container`].
    pub async fn remove_nested_container(&self, id: &ContainerId) -> Result<(), AgentError> {
        let container = nested("REMOVE_NESTED_CONTAINER", id)?;
        let call = Call {
            remove_nested_container: Some(RemoveNestedContainer {
                container_id: id.clone(),
            }),
            ..Call::default()
        };
        let prepared = self.prepare(
            Type::RemoveNestedContainer,
            Some(container),
            Repeat::Harmless,
            call,
        )?;
        self.remove(prepared).await
    }

    async fn get(&self, prepared: &Prepared) -> Result<Response, AgentError> {
        let answer = self.send(prepared, self.config().deadlines.get).await?;
        prepared.expect(&answer, 200)?;
        self.read(prepared, &answer)
    }

    async fn launch(&self, prepared: Prepared) -> Result<Launched, AgentError> {
        let answer = self.send(&prepared, self.config().deadlines.launch).await?;
        match answer.status {
            200 => Ok(Launched::New),
            202 => Ok(Launched::AlreadyPresent),
            _ => Err(prepared.status_error(&answer)),
        }
    }

    /// `None` for an unknown container.
    async fn wait(&self, prepared: &Prepared) -> Result<Option<Response>, AgentError> {
        let answer = self.send_for_ever(prepared).await?;
        if answer.says_unknown() {
            return Ok(None);
        }
        prepared.expect(&answer, 200)?;
        self.read(prepared, &answer).map(Some)
    }

    async fn kill(&self, prepared: Prepared) -> Result<Killed, AgentError> {
        let answer = self.send(&prepared, self.config().deadlines.kill).await?;
        if answer.says_unknown() || answer.says_no_process() {
            return Ok(Killed::Unknown);
        }
        prepared.expect(&answer, 200)?;
        Ok(Killed::Signalled)
    }

    async fn remove(&self, prepared: Prepared) -> Result<(), AgentError> {
        let answer = self.send(&prepared, self.config().deadlines.remove).await?;
        prepared.expect(&answer, 200)
    }
}

/// Two signals do the same as one if the container ends by it, or nothing happens.
fn repeat_of(signal: Option<i32>) -> Repeat {
    match signal {
        None | Some(9 | 15 | 0) => Repeat::Harmless,
        Some(_) => Repeat::Harmful,
    }
}

/// Whether an agent of this version is Longshore's own: it says so in `version` or `git_tag`
/// (`1.11.0-longshore.0.1.0`).
#[must_use]
pub fn is_longshore(version: &VersionInfo) -> bool {
    version.version.contains("longshore")
        || version
            .git_tag
            .as_deref()
            .is_some_and(|tag| tag.contains("longshore"))
}

/// `/containers/<id>`, below the parents' where there are some.
fn sandbox_path(id: &ContainerId) -> String {
    let parent = id.parent.as_deref().map(sandbox_path);
    format!("{}/containers/{}", parent.unwrap_or_default(), id.value)
}

fn nested(call: &'static str, id: &ContainerId) -> Result<String, AgentError> {
    let container = show_id(id);
    if id.parent.is_none() {
        return Err(AgentError::NotNested { call, container });
    }
    Ok(container)
}

impl Prepared {
    fn expect(&self, answer: &Answer, status: u16) -> Result<(), AgentError> {
        if answer.status == status {
            Ok(())
        } else {
            Err(self.status_error(answer))
        }
    }

    fn missing(&self, member: &'static str) -> AgentError {
        self.decode_error(AnswerError::Missing(member))
    }
}

impl Answer {
    fn says_unknown(&self) -> bool {
        is_container_unknown(self.status, &String::from_utf8_lossy(&self.body))
    }

    /// Longshore's agent says it in words; a Mesos agent says nothing.
    fn says_no_file(&self) -> bool {
        self.status == 404 && (self.body.is_empty() || self.body.starts_with(b"No such file"))
    }

    /// A container that is being destroyed: its process is gone, its id is not yet.
    fn says_no_process(&self) -> bool {
        self.status == 500 && String::from_utf8_lossy(&self.body).contains("No such process")
    }
}
