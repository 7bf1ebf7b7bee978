use std::collections::BTreeMap;
use std::fmt;

/// Something mounted into the container.
///
/// It is sent in `HostConfig.Mounts`, but for two kinds that are as old as docker's `-v` and go into
/// `HostConfig.Binds`: a bind whose source the engine creates ([`MountKind::Bind::create_source`]), unless its
/// paths hold a `:`, and any bind with [`MountKind::Bind::relabel`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// `Target`: where in the container; absolute.
    pub target: String,
    /// `ReadOnly`.
    pub read_only: bool,
    /// What is mounted.
    pub kind: MountKind,
}

/// What is mounted.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MountKind {
    /// `Type = bind`: a file or directory of the host.
    Bind {
        /// `Source`: absolute.
        source: String,
        /// The engine makes a directory, owned by root, where the source is missing (as `docker run -v` does);
        /// otherwise a missing source fails the creation. `BindOptions.CreateMountpoint` (API 1.42) where
        /// `Binds` cannot say it.
        create_source: bool,
        /// `BindOptions.Propagation`; otherwise private (`rprivate`).
        propagation: Option<Propagation>,
        /// `BindOptions.NonRecursive`: without the mounts below the source.
        non_recursive: bool,
        /// The options `z` (`Some(true)`: shared label) and `Z` (`Some(false)`: private label) of SELinux.
        relabel: Option<bool>,
    },
    /// `Type = volume`: a volume, made where it is missing.
    Volume {
        /// `Source`; absent: an anonymous one.
        name: Option<String>,
        /// `VolumeOptions.DriverConfig.Name`; otherwise [`crate::ContainerSpec::volume_driver`], otherwise `local`.
        driver: Option<String>,
        /// `VolumeOptions.DriverConfig.Options`.
        driver_options: BTreeMap<String, String>,
        /// `VolumeOptions.Labels`.
        labels: BTreeMap<String, String>,
        /// `VolumeOptions.NoCopy`: an empty volume is not filled with what the image has at the target.
        no_copy: bool,
        /// `VolumeOptions.Subpath`: a path within the volume. From API 1.45.
        subpath: Option<String>,
    },
    /// `Type = tmpfs`.
    Tmpfs {
        /// `TmpfsOptions.SizeBytes`; otherwise unlimited.
        size: Option<u64>,
        /// `TmpfsOptions.Mode`: permission bits; otherwise 1777.
        mode: Option<u32>,
    },
    /// `Type = image`: the file system of an image, read-only. From API 1.48.
    Image {
        /// `Source`: a reference.
        source: String,
        /// `ImageOptions.Subpath`.
        subpath: Option<String>,
    },
}

/// `BindOptions.Propagation`: whether later mounts are seen on the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Neither way.
    Private,
    /// Neither way, for the whole tree.
    RPrivate,
    /// Both ways.
    Shared,
    /// Both ways, for the whole tree. Mesos' BIDIRECTIONAL.
    RShared,
    /// From the host into the container.
    Slave,
    /// From the host into the container, for the whole tree. Mesos' HOST_TO_CONTAINER.
    RSlave,
}

impl Propagation {
    /// The engine's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::RPrivate => "rprivate",
            Self::Shared => "shared",
            Self::RShared => "rshared",
            Self::Slave => "slave",
            Self::RSlave => "rslave",
        }
    }
}

impl Mount {
    /// `source` of the host at `target`, as `docker run -v source:target`: the source is made where it is missing.
    pub fn bind(source: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            read_only: false,
            kind: MountKind::Bind {
                source: source.into(),
                create_source: true,
                propagation: None,
                non_recursive: false,
                relabel: None,
            },
        }
    }

    /// The volume `name` at `target`.
    pub fn volume(name: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            target: target.into(),
            read_only: false,
            kind: MountKind::Volume {
                name: Some(name.into()),
                driver: None,
                driver_options: BTreeMap::new(),
                labels: BTreeMap::new(),
                no_copy: false,
                subpath: None,
            },
        }
    }

    /// The same, read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl fmt::Debug for MountKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind {
                source,
                propagation,
                ..
            } => f
                .debug_struct("Bind")
                .field("source", source)
                .field("propagation", propagation)
                .finish_non_exhaustive(),
            Self::Volume {
                name,
                driver,
                driver_options,
                ..
            } => f
                .debug_struct("Volume")
                .field("name", name)
                .field("driver", driver)
                .field("driver_options", &driver_options.keys())
                .finish_non_exhaustive(),
            Self::Tmpfs { size, mode } => f
                .debug_struct("Tmpfs")
                .field("size", size)
                .field("mode", mode)
                .finish(),
            Self::Image { source, subpath } => f
                .debug_struct("Image")
                .field("source", source)
                .field("subpath", subpath)
                .finish(),
        }
    }
}
