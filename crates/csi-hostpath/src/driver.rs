//! What the driver does, in terms of neither API version. Blocking.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use nix::sys::statvfs::statvfs;
use tonic::Status;

use crate::{
    mounts::same_dir,
    publish::{Found, PublishBy, appear, disappear, look},
    store::{Store, Volume, VolumeId},
};

/// The driver's name, as GetPluginInfo gives it.
pub(crate) const NAME: &str = "hostpath.csi.longshore";

/// The topology key whose value is the node's id.
pub(crate) const TOPOLOGY: &str = "topology.hostpath.csi.longshore/node";

/// In the manifest and in each volume's context: how volumes are published here.
pub(crate) const PUBLISHED_BY: &str = "published-by";

/// What a volume has to be able to do, in both versions' terms.
#[derive(Clone, Debug)]
pub(crate) struct Capability {
    pub(crate) mount: bool,
    pub(crate) flags: Vec<String>,
    /// A mode for one node only.
    pub(crate) single_node: bool,
    pub(crate) reader_only: bool,
}

/// A range of sizes in bytes; `None` is open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Range {
    pub(crate) required: Option<u64>,
    pub(crate) limit: Option<u64>,
}

impl Range {
    /// From the wire, where 0 is "not given".
    pub(crate) fn new(required: i64, limit: i64) -> Result<Self, Status> {
        let side = |bytes: i64| match u64::try_from(bytes) {
            Ok(0) => Ok(None),
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => Err(Status::invalid_argument(
                "capacity range: a size is negative",
            )),
        };
        let range = Self {
            required: side(required)?,
            limit: side(limit)?,
        };
        match (range.required, range.limit) {
            (Some(required), Some(limit)) if required > limit => Err(Status::invalid_argument(
                "capacity range: more is required than the limit allows",
            )),
            _ => Ok(range),
        }
    }

    fn takes(self, capacity: u64) -> bool {
        self.required.is_none_or(|n| capacity >= n) && self.limit.is_none_or(|n| capacity <= n)
    }
}

/// Bytes or inodes of the volume's file system.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) total: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

/// One page of volumes.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) volumes: Vec<Volume>,
    pub(crate) next: String,
}

/// Where a call wants a volume.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) capability: Option<Capability>,
    pub(crate) readonly: bool,
}

#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) store: Store,
    pub(crate) node_id: String,
    pub(crate) by: PublishBy,
    /// All volumes together may have so many bytes.
    pub(crate) capacity: Option<u64>,
    /// An unpublished target stays as an empty directory (v0: the caller makes it; v1: the plugin does).
    pub(crate) keep_target: bool,
}

impl Driver {
    /// How volumes are published: for the manifest and each volume's context.
    pub(crate) fn context(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(PUBLISHED_BY.to_owned(), self.by.as_str().to_owned())])
    }

    pub(crate) fn topology(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(TOPOLOGY.to_owned(), self.node_id.clone())])
    }

    pub(crate) fn ready(&self) -> Result<(), Status> {
        match std::fs::read_dir(self.store.root()) {
            Ok(_) => Ok(()),
            Err(error) => Err(Status::failed_precondition(format!(
                "the state directory {} is gone: {error}",
                self.store.root().display()
            ))),
        }
    }

    pub(crate) fn create(
        &self,
        name: &str,
        range: Range,
        capabilities: &[Capability],
        requisite: &[BTreeMap<String, String>],
    ) -> Result<Volume, Status> {
        if name.is_empty() {
            return Err(Status::invalid_argument("name: it is missing"));
        }
        self.check(capabilities)?;
        let here = |segments: &BTreeMap<String, String>| {
            segments
                .get(TOPOLOGY)
                .is_none_or(|node| *node == self.node_id)
        };
        if !requisite.is_empty() && !requisite.iter().any(here) {
            return Err(Status::resource_exhausted(
                "no requisite topology is this node's",
            ));
        }
        if let Some(volume) = self.store.get(&VolumeId::of_name(name))? {
            return if range.takes(volume.capacity) {
                Ok(volume)
            } else {
                Err(Status::already_exists(format!(
                    "volume {name} exists with {} bytes",
                    volume.capacity
                )))
            };
        }
        let capacity = range.required.unwrap_or(0);
        self.fits(capacity)?;
        self.store.create(name, capacity)
    }

    fn fits(&self, more: u64) -> Result<(), Status> {
        let available = self.available()?;
        if more > available {
            return Err(Status::out_of_range(format!(
                "{more} bytes are required and {available} are left"
            )));
        }
        Ok(())
    }

    pub(crate) fn delete(&self, id: &str) -> Result<(), Status> {
        let Some(id) = VolumeId::parse(needed("volume id", id)?) else {
            return Ok(());
        };
        let data = self.store.data(&id);
        for target in self.store.targets(&id) {
            if matches!(look(&target, &data), Ok(Found::Bound | Found::Linked)) {
                return Err(Status::failed_precondition(format!(
                    "volume {} is in use at {}",
                    id.as_str(),
                    target.display()
                )));
            }
        }
        self.store.remove(&id)
    }

    pub(crate) fn volume(&self, id: &str) -> Result<Volume, Status> {
        let id = needed("volume id", id)?;
        let known = match VolumeId::parse(id) {
            Some(id) => self.store.get(&id)?,
            None => None,
        };
        known.ok_or_else(|| Status::not_found(format!("no volume {id:?}")))
    }

    /// Volumes by id, at most `max` of them (0: all), after `token`.
    pub(crate) fn list(&self, max: i32, token: &str) -> Result<Page, Status> {
        let max = usize::try_from(max)
            .map_err(|_| Status::invalid_argument("max entries: it is negative"))?;
        let after = match token {
            "" => None,
            token => Some(VolumeId::parse(token).ok_or_else(|| {
                Status::aborted(format!(
                    "starting token {token:?} is not one of ours: start again"
                ))
            })?),
        };
        let mut volumes = self.store.list()?;
        volumes.retain(|volume| after.as_ref().is_none_or(|after| volume.id > *after));
        let mut next = String::new();
        if max > 0 && volumes.len() > max {
            volumes.truncate(max);
            next = volumes
                .last()
                .map(|v| v.id.as_str().to_owned())
                .unwrap_or_default();
        }
        Ok(Page { volumes, next })
    }

    /// What is left: of the configured capacity, or of the file system.
    pub(crate) fn available(&self) -> Result<u64, Status> {
        let Some(capacity) = self.capacity else {
            return Ok(file_system(self.store.root())?.0.available);
        };
        let taken = self
            .store
            .list()?
            .iter()
            .fold(0u64, |sum, volume| sum.saturating_add(volume.capacity));
        Ok(capacity.saturating_sub(taken))
    }

    pub(crate) fn expand(&self, id: &str, range: Range) -> Result<Volume, Status> {
        let volume = self.volume(id)?;
        let wanted = range.required.unwrap_or(0).max(volume.capacity);
        if range.limit.is_some_and(|limit| limit < wanted) {
            return Err(Status::out_of_range(format!(
                "volume {id} has {} bytes and never shrinks",
                volume.capacity
            )));
        }
        if wanted == volume.capacity {
            return Ok(volume);
        }
        self.fits(wanted - volume.capacity)?;
        self.store.resize(&volume, wanted)
    }

    /// Why one of the capabilities cannot be had; `None` when all can.
    pub(crate) fn unsupported(&self, capabilities: &[Capability]) -> Option<String> {
        capabilities.iter().find_map(|capability| {
            if !capability.mount {
                return Some(
                    "a volume of this driver is a directory, never a block device".to_owned(),
                );
            }
            if !capability.single_node {
                return Some("a volume of this driver is on one node only".to_owned());
            }
            capability
                .flags
                .iter()
                .find(|flag| *flag != "ro")
                .map(|_| "the only mount flag is ro".to_owned())
        })
    }

    fn check(&self, capabilities: &[Capability]) -> Result<(), Status> {
        if capabilities.is_empty() {
            return Err(Status::invalid_argument(
                "volume capabilities: they are missing",
            ));
        }
        match self.unsupported(capabilities) {
            Some(reason) => Err(Status::invalid_argument(reason)),
            None => Ok(()),
        }
    }

    /// Stages: binds the volume on the staging path. A process that may not mount has nothing to do here.
    pub(crate) fn stage(&self, target: &Target) -> Result<(), Status> {
        let (volume, path) = self.target("staging target path", target)?;
        if self.by == PublishBy::SymbolicLink {
            return Ok(());
        }
        self.store.note(&volume.id, &path)?;
        appear(&self.store.data(&volume.id), &path, false, self.by)
    }

    pub(crate) fn unstage(&self, id: &str, path: &str) -> Result<(), Status> {
        let path = absolute("staging target path", path)?;
        let volume = self.volume(id)?;
        if self.by == PublishBy::BindMount {
            // The caller made the directory, and removes it.
            disappear(&self.store.data(&volume.id), &path, true)?;
        }
        self.store.forget(&volume.id, &path)
    }

    pub(crate) fn publish(&self, target: &Target, staging: &str) -> Result<(), Status> {
        let (volume, path) = self.target("target path", target)?;
        let data = self.store.data(&volume.id);
        if staging.is_empty() {
            return Err(Status::failed_precondition(
                "staging target path: it is missing, stage the volume first",
            ));
        }
        if self.by == PublishBy::BindMount && !same_dir(Path::new(staging), &data) {
            return Err(Status::failed_precondition(format!(
                "the volume is not staged at {staging}"
            )));
        }
        let capability = target.capability.as_ref();
        let readonly = target.readonly
            || capability.is_some_and(|c| c.reader_only || c.flags.iter().any(|flag| flag == "ro"));
        self.store.note(&volume.id, &path)?;
        appear(&data, &path, readonly, self.by)
    }

    pub(crate) fn unpublish(&self, id: &str, path: &str) -> Result<(), Status> {
        let path = absolute("target path", path)?;
        let volume = self.volume(id)?;
        disappear(&self.store.data(&volume.id), &path, self.keep_target)?;
        self.store.forget(&volume.id, &path)
    }

    /// Bytes and inodes of the file system under a volume that is at `path`.
    pub(crate) fn stats(&self, id: &str, path: &str) -> Result<(Usage, Usage), Status> {
        needed("volume path", path)?;
        let volume = self.volume(id)?;
        let elsewhere = || Status::not_found(format!("volume {id} is not at {path}"));
        let wanted = absolute("volume path", path).map_err(|_| elsewhere())?;
        let data = self.store.data(&volume.id);
        match look(&wanted, &data)? {
            Found::Bound | Found::Linked => file_system(&data),
            // Without mounts a staging path is the caller's own empty directory.
            Found::EmptyDirectory if self.by == PublishBy::SymbolicLink => file_system(&data),
            _ => Err(elsewhere()),
        }
    }

    fn target(&self, what: &str, target: &Target) -> Result<(Volume, PathBuf), Status> {
        needed("volume id", &target.id)?;
        let path = absolute(what, &target.path)?;
        let Some(capability) = &target.capability else {
            return Err(Status::invalid_argument("volume capability: it is missing"));
        };
        let volume = self.volume(&target.id)?;
        self.check(std::slice::from_ref(capability))?;
        Ok((volume, path))
    }
}

fn needed<'a>(what: &str, text: &'a str) -> Result<&'a str, Status> {
    if text.is_empty() {
        return Err(Status::invalid_argument(format!("{what}: it is missing")));
    }
    Ok(text)
}

fn absolute(what: &str, path: &str) -> Result<PathBuf, Status> {
    let path = Path::new(needed(what, path)?);
    if !path.is_absolute()
        || path
            .components()
            .any(|c| c == std::path::Component::ParentDir)
    {
        return Err(Status::invalid_argument(format!(
            "{what}: an absolute path without .. is needed"
        )));
    }
    // Without a trailing slash, which would make the last component followed.
    Ok(path.components().collect())
}

/// Bytes and inodes.
fn file_system(path: &Path) -> Result<(Usage, Usage), Status> {
    let vfs =
        statvfs(path).map_err(|error| crate::error::io_status("measure", path, &error.into()))?;
    let block = vfs.fragment_size();
    let usage = |total: u64, free: u64, available: u64, unit: u64| Usage {
        total: total.saturating_mul(unit),
        available: available.saturating_mul(unit),
        used: total.saturating_sub(free).saturating_mul(unit),
    };
    Ok((
        usage(
            vfs.blocks(),
            vfs.blocks_free(),
            vfs.blocks_available(),
            block,
        ),
        usage(vfs.files(), vfs.files_free(), vfs.files_available(), 1),
    ))
}
