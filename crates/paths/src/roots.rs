//! The two directories that Longshore owns: the state root and the runtime directory.

use std::path::{Component, Path, PathBuf};

use crate::{ContainerId, CsiRoot, PathsError};

/// The state root (`state_dir`): what outlives a reboot. One supervisor at a time holds its lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateRoot(PathBuf);

/// The runtime directory (`runtime_dir`): sockets, and what cannot outlive a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RuntimeDir(PathBuf);

const CONTAINERS: &str = "containers";
const RUN: &str = "run";

impl StateRoot {
    /// The state root at `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The root itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `csi`, in Mesos' layout.
    #[must_use]
    pub fn csi(&self) -> CsiRoot {
        CsiRoot::new(self.0.join("csi"))
    }

    /// `lock`: held by the supervisor.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// `instance`: the record of the root's [`InstanceId`](crate::InstanceId).
    #[must_use]
    pub fn instance_file(&self) -> PathBuf {
        self.0.join("instance")
    }

    /// `kubelet-sockets`: the record of sockets in kubelet's directory.
    #[must_use]
    pub fn kubelet_sockets(&self) -> PathBuf {
        self.0.join("kubelet-sockets")
    }

    /// `history`: transitions of plugins, kept across restarts.
    #[must_use]
    pub fn history_dir(&self) -> PathBuf {
        self.0.join("history")
    }

    /// `agent`: the embedded agent's part.
    #[must_use]
    pub fn agent_dir(&self) -> PathBuf {
        self.0.join("agent")
    }

    /// `agent/containers/<id>[/containers/<child id> ..]`: a container's sandbox.
    #[must_use]
    pub fn sandbox(&self, id: &ContainerId) -> PathBuf {
        nested(self.agent_dir(), id)
    }
}

impl RuntimeDir {
    /// The runtime directory at `dir`.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(dir.into())
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `control`, mode 0700.
    #[must_use]
    pub fn control_dir(&self) -> PathBuf {
        self.0.join("control")
    }

    /// `control/control.sock`: the control service.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        self.control_dir().join("control.sock")
    }

    /// `agent`, mode 0700.
    #[must_use]
    pub fn agent_dir(&self) -> PathBuf {
        self.0.join("agent")
    }

    /// `agent/agent.sock`: the embedded agent.
    #[must_use]
    pub fn agent_socket(&self) -> PathBuf {
        self.agent_dir().join("agent.sock")
    }

    /// `nri.sock`: where NRI plugins connect.
    #[must_use]
    pub fn nri_socket(&self) -> PathBuf {
        self.0.join("nri.sock")
    }

    /// `agent/containers`: the top-level containers' directories.
    #[must_use]
    pub fn agent_containers_dir(&self) -> PathBuf {
        self.agent_dir().join(CONTAINERS)
    }

    /// `agent/containers/<id>[/containers/<child id> ..]/run`: written by the container's shim alone.
    ///
    /// Not a place for sockets: it can be longer than `sun_path`.
    #[must_use]
    pub fn container_run_dir(&self, id: &ContainerId) -> PathBuf {
        nested(self.agent_dir(), id).join(RUN)
    }

    /// The id that `path`, a [`container_run_dir`](Self::container_run_dir), belongs to.
    ///
    /// # Errors
    /// When the path is not below the agent's directory, has another form, or holds an invalid id.
    pub fn parse_container_run_dir(&self, path: &Path) -> Result<ContainerId, PathsError> {
        let root = self.agent_dir();
        let structure = || PathsError::Structure {
            path: path.to_owned(),
            expected: "containers/<id>[/containers/<child id> ..]/run",
        };
        let below = path.strip_prefix(&root).map_err(|_| PathsError::NotUnder {
            path: path.to_owned(),
            root: root.clone(),
        })?;
        let mut id: Option<ContainerId> = None;
        let mut components = below.components();
        loop {
            match (components.next(), &id) {
                (Some(Component::Normal(word)), _) if word == CONTAINERS => {}
                (Some(Component::Normal(word)), Some(id)) if word == RUN => {
                    let end = components.next().is_none();
                    return if end {
                        Ok(id.clone())
                    } else {
                        Err(structure())
                    };
                }
                _ => return Err(structure()),
            }
            let Some(Component::Normal(value)) = components.next() else {
                return Err(structure());
            };
            let value = value.to_str().ok_or_else(structure)?;
            let next = match &id {
                Some(parent) => ContainerId::nested(parent, value),
                None => ContainerId::new(value),
            };
            id = Some(next.map_err(|source| PathsError::Component {
                path: path.to_owned(),
                source: Box::new(source),
            })?);
        }
    }

    /// `csi/<short>`: the directory of a plugin's socket, mode 0700, owned by the container's user.
    /// `short` comes from [`short_id`](crate::short_id).
    #[must_use]
    pub fn csi_socket_dir(&self, short: &str) -> PathBuf {
        let mut path = self.0.join("csi");
        path.push(short);
        path
    }

    /// `csi/<short>/csi.sock`: a plugin's socket. Check it with
    /// [`check_socket_path`](crate::check_socket_path) before creating its directory.
    #[must_use]
    pub fn csi_socket(&self, short: &str) -> PathBuf {
        self.csi_socket_dir(short).join("csi.sock")
    }
}

/// `<root>/containers/<id>[/containers/<child id> ..]`
fn nested(root: PathBuf, id: &ContainerId) -> PathBuf {
    let mut path = root;
    for value in id.values() {
        path.push(CONTAINERS);
        path.push(value);
    }
    path
}
