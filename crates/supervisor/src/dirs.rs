//! The directories a daemon owns: made, checked, locked, and the state directory's own id.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longshore_checkpoint::{
    CheckpointError, CodecError, Durability, Loaded, Record, RootLock, Writer, bincode_decode,
    bincode_encode, read,
};
use longshore_paths::{InstanceId, RuntimeDir, StateRoot};

use crate::SupervisorError;
use crate::guard::RuntimeGuard;

/// Everything a daemon holds for itself alone while it runs.
#[derive(Debug)]
pub struct Root {
    /// What survives a reboot.
    pub state: StateRoot,
    /// Sockets and what does not.
    pub runtime: RuntimeDir,
    /// The state directory's own id.
    pub instance: InstanceId,
    /// Holds the runtime directory.
    pub(crate) guard: RuntimeGuard,
    _lock: RootLock,
}

impl Root {
    /// Makes both directories where they are missing (state 0700; runtime 0711 for root, else
    /// 0700), checks that nobody else can write there, takes their locks, reads or makes the id.
    /// Blocking.
    ///
    /// # Errors
    /// A directory that cannot be made or is not ours, another supervisor on either, a damaged id.
    pub fn open(state_dir: &Path, runtime_dir: &Path) -> Result<Self, SupervisorError> {
        prepare("state_dir", state_dir, 0o700)?;
        prepare("runtime_dir", runtime_dir, runtime_mode())?;
        let state = StateRoot::new(state_dir);
        let runtime = RuntimeDir::new(runtime_dir);
        let lock =
            |key, path| acquire(path).map_err(|source| SupervisorError::Lock { key, source });
        let state_lock = lock("state_dir", state.lock_file())?;
        let runtime_lock = lock("runtime_dir", runtime_dir.join("lock"))?;
        let instance = instance(&state)?;
        Ok(Self {
            state,
            runtime,
            instance,
            guard: RuntimeGuard::new(runtime_dir, runtime_lock),
            _lock: state_lock,
        })
    }
}

/// How long a start waits for a daemon that is just ending, and how often it looks.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE_MS: u16 = 10;

/// Takes a lock. A daemon that was killed has its locks until it is gone, and as long as the shim that it was
/// just spawning has not executed its program.
pub(crate) fn acquire(path: PathBuf) -> Result<RootLock, CheckpointError> {
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match RootLock::acquire(&path) {
            Err(CheckpointError::Locked { .. }) if Instant::now() < deadline => {
                // Before anything else runs on this thread.
                let _a_pause = nix::poll::poll(&mut [], LOCK_PAUSE_MS);
            }
            taken => return taken,
        }
    }
}

/// Plugins of other users must get through it to their sockets.
fn runtime_mode() -> u32 {
    if nix::unistd::geteuid().is_root() {
        0o711
    } else {
        0o700
    }
}

/// Makes the runtime directory of a daemon that runs again, or takes the one that one of its shims has made to write
/// a record.
pub(crate) fn make_runtime_dir(path: &Path) -> Result<(), SupervisorError> {
    prepare("runtime_dir", path, runtime_mode())?;
    let mode = std::fs::Permissions::from_mode(runtime_mode());
    std::fs::set_permissions(path, mode).map_err(|source| SupervisorError::Directory {
        key: "runtime_dir",
        path: path.to_owned(),
        source,
    })
}

/// Makes a directory with `mode`, or checks the one that is there.
fn prepare(key: &'static str, path: &Path, mode: u32) -> Result<(), SupervisorError> {
    let failed = |source| SupervisorError::Directory {
        key,
        path: path.to_owned(),
        source,
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            // A read-only file system says so even for a directory that exists.
            if !path.is_dir() {
                return Err(failed(error));
            }
        }
        Ok(()) | Err(_) => {}
    }
    check_ours(key, path)
}

/// A directory of ours that nobody else can write to, and no link.
pub(crate) fn check_ours(key: &'static str, path: &Path) -> Result<(), SupervisorError> {
    let found = std::fs::symlink_metadata(path).map_err(|source| SupervisorError::Directory {
        key,
        path: path.to_owned(),
        source,
    })?;
    let us = nix::unistd::geteuid().as_raw();
    let problem = if found.is_symlink() {
        // An operator may put the state elsewhere by a link of their own; nobody else may.
        match std::fs::metadata(path) {
            Ok(target) if found.uid() == us && target.uid() == us && target.mode() & 0o022 == 0 => {
                return Ok(());
            }
            _ => "is a symbolic link that somebody else may have made".to_owned(),
        }
    } else if !found.is_dir() {
        "is not a directory".to_owned()
    } else if found.uid() != us {
        format!("belongs to uid {}, and this is uid {us}", found.uid())
    } else if found.mode() & 0o022 != 0 {
        format!(
            "can be written by others (mode {:04o})",
            found.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    Err(SupervisorError::NotOurs {
        key,
        path: path.to_owned(),
        problem,
    })
}

/// The id of a state directory, made once.
#[derive(Debug, PartialEq, Eq)]
struct InstanceRecord {
    id: String,
}

impl Record for InstanceRecord {
    const KIND: &'static str = "instance";
    const VERSION: u16 = 1;
    const MAX_BODY: usize = 256;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(&self.id)
    }

    fn decode(version: u16, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => Ok(Self {
                id: bincode_decode(body)?,
            }),
            version => Err(CodecError::UnsupportedVersion { version }),
        }
    }
}

fn instance(state: &StateRoot) -> Result<InstanceId, SupervisorError> {
    let path = state.instance_file();
    let failed = |source| SupervisorError::Instance { source };
    match read::<InstanceRecord>(&path).map_err(failed)? {
        Loaded::Record(record) => {
            InstanceId::new(&record.id).map_err(|source| SupervisorError::Path { source })
        }
        Loaded::Damaged(damage) => Err(SupervisorError::InstanceDamaged {
            path,
            damage: damage.to_string(),
        }),
        Loaded::Missing | Loaded::Empty => {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(|error| SupervisorError::System {
                what: "draw random bytes",
                source: io::Error::other(error),
            })?;
            let id = InstanceId::from_bytes(bytes);
            let record = InstanceRecord { id: id.to_string() };
            Writer::new()
                .write(&path, &record, Durability::Power)
                .map_err(failed)?;
            Ok(id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_record_has_the_bytes_of_its_golden_file() {
        let sample = InstanceRecord {
            id: "0123456789abcdef".to_owned(),
        };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/instance");
        longshore_checkpoint::testing::check_golden(dir, &sample, 1, "0.1.0").unwrap();
    }

    #[test]
    fn the_id_stays_and_a_second_supervisor_is_locked_out() {
        let dir = tempfile::tempdir().unwrap();
        let (state, runtime) = (dir.path().join("s"), dir.path().join("r"));
        let first = Root::open(&state, &runtime).unwrap();
        let id = first.instance.clone();
        for (state, runtime, key) in [
            (state.clone(), dir.path().join("r2"), "state_dir"),
            (dir.path().join("s2"), runtime.clone(), "runtime_dir"),
        ] {
            let error = Root::open(&state, &runtime).unwrap_err();
            let SupervisorError::Lock { key: found, source } = error else {
                panic!("{error}")
            };
            assert_eq!(found, key);
            let pid = std::process::id().to_string();
            assert!(source.to_string().contains(&pid), "{source}");
        }
        drop(first);
        assert_eq!(Root::open(&state, &runtime).unwrap().instance, id);
    }

    #[test]
    fn a_lock_that_is_just_let_go_of_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (state, runtime) = (dir.path().join("s"), dir.path().join("r"));
        let first = Root::open(&state, &runtime).unwrap();
        let both = std::sync::Arc::new(std::sync::Barrier::new(2));
        let begun = std::sync::Arc::clone(&both);
        let ending = std::thread::spawn(move || {
            begun.wait();
            drop(first);
        });
        both.wait();
        assert!(Root::open(&state, &runtime).is_ok());
        ending.join().unwrap();
    }

    #[test]
    fn a_lock_that_cannot_be_made_is_not_blamed_on_another_supervisor() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("s");
        std::fs::create_dir_all(state.join("lock")).unwrap();
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
        let error = Root::open(&state, &dir.path().join("r")).unwrap_err();
        assert_eq!(error.to_string(), "`state_dir` cannot be used");
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("s");
        std::fs::create_dir(&state).unwrap();
        std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Root::open(&state, &dir.path().join("r")).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("can be written by others (mode 0777)"),
            "{error}"
        );
        assert!(!dir.path().join("r").exists());
    }

    #[test]
    fn a_damaged_id_is_named_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (state, runtime) = (dir.path().join("s"), dir.path().join("r"));
        drop(Root::open(&state, &runtime).unwrap());
        let file = StateRoot::new(&state).instance_file();
        std::fs::write(&file, b"not a record, and longer than a header").unwrap();
        let error = Root::open(&state, &runtime).unwrap_err();
        assert!(
            matches!(error, SupervisorError::InstanceDamaged { .. }),
            "{error}"
        );
        assert_eq!(
            std::fs::read(&file).unwrap(),
            b"not a record, and longer than a header"
        );
    }
}
