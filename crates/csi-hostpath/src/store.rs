//! Volumes on disk.
//!
//! ```text
//!   <state>/volumes/vol-<32 hex>/volume.info     name and capacity: a record
//!                               /data/           what is published
//!                               /targets/<hash>  -> the path at which it is (or is about to be) staged or published
//!          /volumes/.new-…  .dead-…              half made, half removed: swept at the next start
//! ```

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use longshore_checkpoint::{
    CheckpointError, CodecError, Durability, Loaded, Record, Writer, bincode_decode, bincode_encode,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tonic::Status;

use crate::{
    error::{io_status, record_status},
    mounts::{bytes, mounted_below},
};

/// The longest name that the specification allows.
const MAX_NAME: usize = 128;

/// The record in a volume's directory.
const RECORD: &str = "volume.info";

/// A volume's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VolumeId(String);

impl VolumeId {
    /// The id of the volume of that name: the same name is always the same volume.
    pub(crate) fn of_name(name: &str) -> Self {
        Self(format!(
            "vol-{}",
            &hex(&Sha256::digest(name.as_bytes()))[..32]
        ))
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hash = text.strip_prefix("vol-")?;
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        (hash.len() == 32 && hash.bytes().all(is_hex)).then(|| Self(text.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// One volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) id: VolumeId,
    pub(crate) name: String,
    pub(crate) capacity: u64,
}

/// What is on record of a volume; its id is the directory's name.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct VolumeRecord {
    name: String,
    capacity: u64,
}

impl Record for VolumeRecord {
    const KIND: &'static str = "hostpath.volume";
    const VERSION: u16 = 1;
    const MAX_BODY: usize = 4096;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(self)
    }

    fn decode(version: u16, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => bincode_decode(body),
            version => Err(CodecError::UnsupportedVersion { version }),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Store {
    volumes: PathBuf,
}

impl Store {
    /// Opens or makes a state directory, and removes what a killed predecessor left half done.
    pub(crate) fn open(state: &Path) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(state)?;
        // Mounts name whole paths, and the working directory may change.
        let volumes = fs::canonicalize(state)?.join("volumes");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&volumes)?;
        for entry in fs::read_dir(&volumes)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                sweep(&entry.path());
            }
        }
        Ok(Self { volumes })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.volumes
    }

    /// Where a volume's files are.
    pub(crate) fn data(&self, id: &VolumeId) -> PathBuf {
        self.dir(id).join("data")
    }

    fn dir(&self, id: &VolumeId) -> PathBuf {
        self.volumes.join(id.as_str())
    }

    pub(crate) fn get(&self, id: &VolumeId) -> Result<Option<Volume>, Status> {
        let path = self.dir(id).join(RECORD);
        let damaged =
            |why: &dyn std::fmt::Display| Status::data_loss(format!("{}: {why}", path.display()));
        let record: VolumeRecord = match longshore_checkpoint::read(&path) {
            Ok(Loaded::Record(record)) => record,
            Ok(Loaded::Missing) => return Ok(None),
            // The directory had its name only once the record in it was whole.
            Ok(Loaded::Empty) => return Err(damaged(&"empty")),
            Ok(Loaded::Damaged(damage)) => return Err(damaged(&damage)),
            Err(error) => return Err(record_status(&error)),
        };
        Ok(Some(Volume {
            id: id.clone(),
            name: record.name,
            capacity: record.capacity,
        }))
    }

    /// All volumes by id; one whose record is damaged is left out, and said.
    pub(crate) fn list(&self) -> Result<Vec<Volume>, Status> {
        let failed = |error: io::Error| io_status("list", &self.volumes, &error);
        let mut volumes = Vec::new();
        for entry in fs::read_dir(&self.volumes).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(id) = name.to_str().and_then(VolumeId::parse) else {
                continue;
            };
            match self.get(&id) {
                Ok(Some(volume)) => volumes.push(volume),
                Ok(None) => {}
                Err(status) => tracing::warn!(
                    volume = id.as_str(),
                    error = status.message(),
                    "left out of the list"
                ),
            }
        }
        volumes.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(volumes)
    }

    pub(crate) fn create(&self, name: &str, capacity: u64) -> Result<Volume, Status> {
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(Status::invalid_argument(format!(
                "name: 1 to {MAX_NAME} bytes without control characters are needed"
            )));
        }
        let volume = Volume {
            id: VolumeId::of_name(name),
            name: name.to_owned(),
            capacity,
        };
        let fresh = self.volumes.join(format!(".new-{}", volume.id.as_str()));
        let made = self.make(&fresh, &volume);
        if let Err(status) = made {
            sweep(&fresh);
            return Err(status);
        }
        Ok(volume)
    }

    fn make(&self, fresh: &Path, volume: &Volume) -> Result<(), Status> {
        sweep(fresh);
        let directories = || {
            let mut private = fs::DirBuilder::new();
            private.mode(0o700);
            private.create(fresh)?;
            private.create(fresh.join("targets"))?;
            let data = fresh.join("data");
            fs::create_dir(&data)?;
            // Whoever gets the volume may write to it, whatever its user; the state directory above is private.
            fs::set_permissions(&data, fs::Permissions::from_mode(0o777))
        };
        let dir = self.dir(&volume.id);
        let failed = |error: io::Error| io_status("create", &dir, &error);
        directories().map_err(failed)?;
        write_record(fresh, volume)?;
        rename(fresh, &dir)
            .and_then(|()| File::open(&self.volumes)?.sync_all())
            .map_err(failed)
    }

    pub(crate) fn resize(&self, volume: &Volume, capacity: u64) -> Result<Volume, Status> {
        let volume = Volume {
            capacity,
            ..volume.clone()
        };
        write_record(&self.dir(&volume.id), &volume)?;
        Ok(volume)
    }

    /// Removes a volume with its files; one that does not exist is removed already.
    pub(crate) fn remove(&self, id: &VolumeId) -> Result<(), Status> {
        let dir = self.dir(id);
        let failed = |error: io::Error| io_status("remove", &dir, &error);
        if fs::symlink_metadata(&dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(());
        }
        if let Some(point) = mounted_below(&dir).map_err(failed)? {
            return Err(Status::failed_precondition(format!(
                "volume {} has something mounted at {}",
                id.as_str(),
                point.display()
            )));
        }
        let dead = self.volumes.join(format!(".dead-{}", id.as_str()));
        sweep(&dead);
        rename(&dir, &dead).map_err(failed)?;
        sweep(&dead);
        Ok(())
    }

    /// Notes that the volume is about to be at `target`.
    pub(crate) fn note(&self, id: &VolumeId, target: &Path) -> Result<(), Status> {
        let note = self.note_path(id, target);
        match symlink(target, &note) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(io_status("write", &note, &error))
            }
            _ => Ok(()),
        }
    }

    /// Notes that it is no longer.
    pub(crate) fn forget(&self, id: &VolumeId, target: &Path) -> Result<(), Status> {
        let note = self.note_path(id, target);
        match fs::remove_file(&note) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_status("remove", &note, &error))
            }
            _ => Ok(()),
        }
    }

    /// Every path at which the volume was noted to be.
    pub(crate) fn targets(&self, id: &VolumeId) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.dir(id).join("targets"));
        entries
            .into_iter()
            .flatten()
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .collect()
    }

    fn note_path(&self, id: &VolumeId, target: &Path) -> PathBuf {
        let hash = hex(&Sha256::digest(bytes(target)));
        self.dir(id).join("targets").join(&hash[..32])
    }
}

fn write_record(dir: &Path, volume: &Volume) -> Result<(), Status> {
    let record = VolumeRecord {
        name: volume.name.clone(),
        capacity: volume.capacity,
    };
    Writer::new()
        .write(dir.join(RECORD), &record, Durability::Power)
        .map_err(|error: CheckpointError| record_status(&error))
}

#[expect(
    clippy::disallowed_methods,
    reason = "the driver's own volumes, not the daemon's state"
)]
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

/// Removes a tree of ours that is half made or half removed; not across a mount point.
fn sweep(path: &Path) {
    let swept = match mounted_below(path) {
        Ok(None) => fs::remove_dir_all(path),
        Ok(Some(point)) => Err(io::Error::other(format!("{} is mounted", point.display()))),
        Err(error) => Err(error),
    };
    match swept {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "left behind");
        }
        _ => {}
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_made_of_the_name_and_nothing_else_is_one() {
        let id = VolumeId::of_name("a");
        assert_eq!(VolumeId::parse(id.as_str()), Some(id.clone()));
        assert_eq!(id, VolumeId::of_name("a"));
        assert_ne!(id, VolumeId::of_name("b"));
        let upper = id.as_str().to_uppercase();
        for hostile in [
            "",
            "..",
            "vol-",
            "vol-..",
            "vol-../../../../../../etc/passwd12345",
            &upper,
            "/etc",
            "vol-\0",
        ] {
            assert_eq!(VolumeId::parse(hostile), None, "{hostile:?}");
        }
    }

    #[test]
    fn volumes_outlive_the_process_and_what_is_half_done_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let made = store.create("one", 7).unwrap();
        fs::write(store.data(&made.id).join("file"), "kept").unwrap();
        fs::create_dir_all(store.root().join(".new-vol-x/data")).unwrap();
        fs::create_dir_all(store.root().join(".dead-vol-x/data/deep")).unwrap();

        let store = Store::open(dir.path()).unwrap();
        assert_eq!(store.list().unwrap(), std::slice::from_ref(&made));
        assert_eq!(
            fs::read(store.data(&made.id).join("file")).unwrap(),
            b"kept"
        );
        assert_eq!(fs::read_dir(store.root()).unwrap().count(), 1);
        let grown = store.resize(&made, 9).unwrap();
        assert_eq!(store.get(&made.id).unwrap(), Some(grown));
        store.remove(&made.id).unwrap();
        store.remove(&made.id).unwrap();
        assert_eq!(store.list().unwrap(), []);
    }

    #[test]
    fn a_volume_record_has_the_bytes_of_its_golden_file() {
        let sample = VolumeRecord {
            name: "pvc-1".to_owned(),
            capacity: 1 << 30,
        };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hostpath.volume");
        longshore_checkpoint::testing::check_golden(dir, &sample, 1, "0.1.0").unwrap();
    }

    #[test]
    fn a_damaged_record_is_named_and_left_out_of_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let (bad, good) = (
            store.create("bad", 1).unwrap(),
            store.create("good", 1).unwrap(),
        );
        let path = store.dir(&bad.id).join(RECORD);
        let whole = fs::read(&path).unwrap();
        for damage in [&b""[..], b"{", &whole[1..], &whole[..whole.len() - 1]] {
            fs::write(&path, damage).unwrap();
            let status = store.get(&bad.id).unwrap_err();
            assert_eq!(status.code(), tonic::Code::DataLoss);
            assert!(status.message().contains(RECORD), "{status}");
        }
        assert_eq!(store.list().unwrap(), [good]);
    }

    #[test]
    fn targets_are_noted_once_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let volume = store.create("one", 0).unwrap();
        let target = Path::new("/some/where");
        store.note(&volume.id, target).unwrap();
        store.note(&volume.id, target).unwrap();
        assert_eq!(store.targets(&volume.id), [target]);
        store.forget(&volume.id, target).unwrap();
        store.forget(&volume.id, target).unwrap();
        assert_eq!(store.targets(&volume.id), [] as [PathBuf; 0]);
    }
}
