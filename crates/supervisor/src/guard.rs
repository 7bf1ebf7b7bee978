//! What the daemon has in its runtime directory is looked at now and then: somebody may remove it.
//!
//! ```text
//!   lock in place? --yes--> agent: run directory, socket --ok--> again in a moment
//!        | no                      | cannot be made again
//!        v                         v
//!   made, checked, locked --no--> again; after some looks the daemon ends, for its service manager to see
//! ```
//!
//! The control socket is looked after by whoever accepts on it, the socket directories of plugins by the manager, when
//! it starts a plugin again. Containers are left running in any case.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_agent::Agent;
use longshore_checkpoint::RootLock;
use tokio::time::{sleep, timeout};

use crate::SupervisorError;
use crate::dirs::{acquire, make_runtime_dir};
use crate::watch_dir::WatchDir;

/// How often it is looked when nothing tells that something is gone, and where nothing can tell.
const LOOK: Duration = Duration::from_secs(60);
const LOOK_UNTOLD: Duration = Duration::from_secs(5);

/// Whoever removes one thing removes more.
const SETTLE: Duration = Duration::from_millis(500);

/// So many looks that find what they cannot mend, one after the other, are the end.
const LOOKS: u32 = 3;

/// The runtime directory, held.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeGuard {
    dir: PathBuf,
    lock: Arc<Mutex<RootLock>>,
}

impl RuntimeGuard {
    pub(crate) fn new(dir: &Path, lock: RootLock) -> Self {
        Self {
            dir: dir.to_owned(),
            lock: Arc::new(Mutex::new(lock)),
        }
    }

    /// Looks for ever; gives why that is of no use any more.
    pub(crate) async fn run(self, agent: Option<&Agent>) -> SupervisorError {
        let mut failed = 0;
        loop {
            // From before the look: what is removed during it is seen, too.
            let mut watch = self.watch(agent);
            match self.look(agent).await {
                Ok(()) => failed = 0,
                Err(error) => {
                    failed += 1;
                    tracing::error!(
                        error = crate::reload::chain(&error),
                        "the runtime directory was removed or changed"
                    );
                    if failed == LOOKS {
                        return error;
                    }
                    watch = None;
                }
            }
            let pause = watch.as_ref().map_or(LOOK_UNTOLD, |_| LOOK);
            let told = timeout(pause, WatchDir::changed(watch.as_mut())).await;
            if told.is_ok() {
                sleep(SETTLE).await;
            }
        }
    }

    fn watch(&self, agent: Option<&Agent>) -> Option<WatchDir> {
        let mut dirs = vec![self.dir.clone()];
        dirs.extend(agent.map(Agent::watched_dirs).into_iter().flatten());
        let dirs: Vec<_> = dirs.iter().map(PathBuf::as_path).collect();
        WatchDir::removals(&dirs).ok()
    }

    async fn look(&self, agent: Option<&Agent>) -> Result<(), SupervisorError> {
        let this = self.clone();
        let held = tokio::task::spawn_blocking(move || this.hold()).await;
        held.unwrap_or_else(|error| {
            Err(SupervisorError::System {
                what: "look at the runtime directory",
                source: std::io::Error::other(error),
            })
        })?;
        match agent {
            Some(agent) => agent
                .look()
                .await
                .map_err(|source| SupervisorError::Agent { source }),
            None => Ok(()),
        }
    }

    /// The directory and its lock, made and taken again where they are gone. Blocks.
    fn hold(&self) -> Result<(), SupervisorError> {
        let mut lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if lock.is_in_place() {
            return Ok(());
        }
        make_runtime_dir(&self.dir)?;
        let path = lock.path().to_owned();
        *lock = acquire(path).map_err(|source| SupervisorError::Lock {
            key: "runtime_dir",
            source,
        })?;
        tracing::warn!(dir = %self.dir.display(), "the runtime directory was removed; it is made again and locked");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;
    use crate::dirs::Root;

    #[test]
    fn a_directory_that_was_removed_is_held_again_and_one_that_is_another_s_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (state, runtime) = (dir.path().join("s"), dir.path().join("r"));
        let root = Root::open(&state, &runtime).unwrap();
        let mode = std::fs::metadata(&runtime).unwrap().mode();
        root.guard.hold().unwrap();
        std::fs::remove_dir_all(&runtime).unwrap();
        // Somebody of ours has made it meanwhile, for a record.
        std::fs::create_dir(&runtime).unwrap();
        std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
        root.guard.hold().unwrap();
        assert_eq!(std::fs::metadata(&runtime).unwrap().mode(), mode);
        let error = Root::open(&dir.path().join("s2"), &runtime).unwrap_err();
        assert!(matches!(error, SupervisorError::Lock { .. }), "{error}");
        std::fs::remove_dir_all(&runtime).unwrap();
        let other = Root::open(&dir.path().join("s2"), &runtime).unwrap();
        let error = root.guard.hold().unwrap_err();
        assert!(matches!(error, SupervisorError::Lock { .. }), "{error}");
        drop(other);
        root.guard.hold().unwrap();
    }
}
