//! The layout of the CSI root, which is Mesos' (`<work_dir>/csi`).

use std::path::{Component, Path, PathBuf};

use crate::{ContainerId, PathsError, PluginName, PluginType, VolumeId};

/// The CSI root, `<state_dir>/csi`: where each plugin's containers, volumes and mounts have their
/// directories.
///
/// Format and parse are inverse. Listing is the caller's: read the directory that a function names
/// and parse each path in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CsiRoot(PathBuf);

const CONTAINERS: &str = "containers";
const VOLUMES: &str = "volumes";
const MOUNTS: &str = "mounts";

impl CsiRoot {
    /// The CSI root at `root`, the directory that holds the plugin types.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self(root.into())
    }

    /// The root itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// `<type>/<name>`.
    #[must_use]
    pub fn plugin_dir(&self, ty: &PluginType, name: &PluginName) -> PathBuf {
        let mut path = self.0.join(ty.as_str());
        path.push(name.as_str());
        path
    }

    /// `<type>/<name>/containers`.
    #[must_use]
    pub fn containers_dir(&self, ty: &PluginType, name: &PluginName) -> PathBuf {
        self.plugin_dir(ty, name).join(CONTAINERS)
    }

    /// `<type>/<name>/containers/<id>`; the id stands as it is, a nested one as `parent.child`.
    #[must_use]
    pub fn container_dir(&self, ty: &PluginType, name: &PluginName, id: &ContainerId) -> PathBuf {
        self.containers_dir(ty, name).join(id.to_string())
    }

    /// `<type>/<name>/containers/<id>/container.info`.
    #[must_use]
    pub fn container_info(&self, ty: &PluginType, name: &PluginName, id: &ContainerId) -> PathBuf {
        self.container_dir(ty, name, id).join("container.info")
    }

    /// `<type>/<name>/volumes`.
    #[must_use]
    pub fn volumes_dir(&self, ty: &PluginType, name: &PluginName) -> PathBuf {
        self.plugin_dir(ty, name).join(VOLUMES)
    }

    /// `<type>/<name>/volumes/<encoded id>`.
    #[must_use]
    pub fn volume_dir(&self, ty: &PluginType, name: &PluginName, id: &VolumeId) -> PathBuf {
        self.volumes_dir(ty, name).join(id.to_component())
    }

    /// `<type>/<name>/volumes/<encoded id>/volume.state`.
    #[must_use]
    pub fn volume_state(&self, ty: &PluginType, name: &PluginName, id: &VolumeId) -> PathBuf {
        self.volume_dir(ty, name, id).join("volume.state")
    }

    /// `<type>/<name>/mounts`: the default mount root, shared with the plugin.
    #[must_use]
    pub fn mount_root(&self, ty: &PluginType, name: &PluginName) -> PathBuf {
        self.plugin_dir(ty, name).join(MOUNTS)
    }

    /// `<type>/<name>/mounts/<encoded id>`.
    #[must_use]
    pub fn mount_dir(&self, ty: &PluginType, name: &PluginName, id: &VolumeId) -> PathBuf {
        self.mount_root(ty, name).join(id.to_component())
    }

    /// `<type>/<name>/mounts/<encoded id>/staging`.
    #[must_use]
    pub fn staging(&self, ty: &PluginType, name: &PluginName, id: &VolumeId) -> PathBuf {
        self.mount_dir(ty, name, id).join("staging")
    }

    /// `<type>/<name>/mounts/<encoded id>/target`.
    #[must_use]
    pub fn target(&self, ty: &PluginType, name: &PluginName, id: &VolumeId) -> PathBuf {
        self.mount_dir(ty, name, id).join("target")
    }

    /// The ids that `path`, a [`container_dir`](Self::container_dir), is made of.
    ///
    /// # Errors
    /// When the path is not below the root, has another form, or holds an invalid id.
    pub fn parse_container(
        &self,
        path: &Path,
    ) -> Result<(PluginType, PluginName, ContainerId), PathsError> {
        let expected = "<type>/<name>/containers/<container id>";
        self.parse(path, CONTAINERS, expected, str::parse)
    }

    /// The ids that `path`, a [`volume_dir`](Self::volume_dir), is made of.
    ///
    /// # Errors
    /// As [`parse_container`](Self::parse_container), and when the volume id is not encoded as this crate does.
    pub fn parse_volume(
        &self,
        path: &Path,
    ) -> Result<(PluginType, PluginName, VolumeId), PathsError> {
        let expected = "<type>/<name>/volumes/<encoded volume id>";
        self.parse(path, VOLUMES, expected, VolumeId::from_component)
    }

    /// The ids that `path`, a [`mount_dir`](Self::mount_dir), is made of.
    ///
    /// # Errors
    /// As [`parse_volume`](Self::parse_volume).
    pub fn parse_mount(
        &self,
        path: &Path,
    ) -> Result<(PluginType, PluginName, VolumeId), PathsError> {
        let expected = "<type>/<name>/mounts/<encoded volume id>";
        self.parse(path, MOUNTS, expected, VolumeId::from_component)
    }

    fn parse<T>(
        &self,
        path: &Path,
        third: &str,
        expected: &'static str,
        id: impl FnOnce(&str) -> Result<T, PathsError>,
    ) -> Result<(PluginType, PluginName, T), PathsError> {
        let component = |source| PathsError::Component {
            path: path.to_owned(),
            source: Box::new(source),
        };
        let structure = || PathsError::Structure {
            path: path.to_owned(),
            expected,
        };
        let Some([ty, name, kind, last]) = tokens(&self.0, path)? else {
            return Err(structure());
        };
        if kind != third {
            return Err(structure());
        }
        let ty = PluginType::new(ty).map_err(component)?;
        let name = PluginName::new(name).map_err(component)?;
        Ok((ty, name, id(last).map_err(component)?))
    }
}

/// The components of `path` below `root` when there are exactly `N` and all are plain names.
pub(crate) fn tokens<'a, const N: usize>(
    root: &Path,
    path: &'a Path,
) -> Result<Option<[&'a str; N]>, PathsError> {
    let below = path.strip_prefix(root).map_err(|_| PathsError::NotUnder {
        path: path.to_owned(),
        root: root.to_owned(),
    })?;
    let mut tokens = Vec::with_capacity(N + 1);
    for component in below.components().take(N + 1) {
        let Component::Normal(token) = component else {
            return Ok(None);
        };
        let token = token.to_str().ok_or_else(|| PathsError::NotUtf8 {
            value: crate::Shown::new(&token.to_string_lossy()),
        })?;
        tokens.push(token);
    }
    Ok(tokens.try_into().ok())
}
