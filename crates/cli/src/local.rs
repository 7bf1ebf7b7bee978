//! A supervisor within this process, for `demo` and `csi run`: everything below one temporary
//! root, and nothing left of it in the end: no process, no mount, no file. Of one that is killed no
//! process is left either: its shims end with it.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use longshore_agent::{Agent, AgentOptions};
use longshore_agent_client::{AgentClient, AgentClientConfig, AgentEndpoint};
use longshore_csi_manager::{CsiManager, ManagerOptions, PluginConfig};
use longshore_paths::{InstanceId, RuntimeDir, StateRoot, check_socket_path};

use crate::signals::Interrupts;
use crate::verbs::daemon::program;
use crate::verbs::runtime;

/// How long stopping may take before processes are killed, then until they are gone, and then until
/// nothing works in the root any more.
const STOP: Duration = Duration::from_secs(5);

/// Runs `work` with a root of its own, which it must leave without a process, and with the signals that
/// are to end it. In the end the root is removed, whatever `work` says.
pub(crate) fn in_temp_root<T>(
    work: impl AsyncFnOnce(PathBuf, Interrupts) -> Result<T>,
) -> Result<T> {
    let runtime = runtime()?;
    let (root, outcome) = {
        let _within = runtime.enter();
        // The signals first: from here on there is something to clean up.
        let interrupts = Interrupts::new().context("cannot handle signals")?;
        let root = TempRoot::new("longshore-")?;
        let work = Box::pin(work(root.path().to_owned(), interrupts));
        (root, runtime.block_on(work))
    };
    // What was just being written on another thread is written first, or the root would come back.
    runtime.shutdown_timeout(STOP);
    let removed = root.remove().context("cleaning up failed");
    let outcome = outcome?;
    removed?;
    Ok(outcome)
}

/// A running supervisor with its own root.
#[derive(Debug)]
pub(crate) struct Local {
    root: PathBuf,
    agent: Agent,
    pub(crate) manager: CsiManager,
    pub(crate) state: StateRoot,
}

impl Local {
    /// Starts an agent and a manager below `root`, with every service of `plugins` started.
    pub(crate) async fn start(root: &Path, plugins: Vec<PluginConfig>) -> Result<Self> {
        let state = StateRoot::new(root.join("s"));
        let runtime = RuntimeDir::new(root.join("r"));
        for dir in [state.path(), runtime.path()] {
            private_dir(dir)?;
        }
        let mut options = AgentOptions::new(
            state.agent_dir(),
            runtime.agent_dir(),
            runtime.agent_socket(),
            program()?.shim,
        );
        // A person's own limits hold; there is nothing here to limit.
        options.cgroups = false;
        options.leash = true;
        let agent = Agent::start(options)
            .await
            .context("the embedded agent cannot start")?;
        let client = AgentClient::new(AgentClientConfig::new(AgentEndpoint::unix(
            runtime.agent_socket(),
        )))?;
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).context("cannot draw random bytes")?;
        let mut options = ManagerOptions::new(
            state.clone(),
            runtime,
            InstanceId::from_bytes(bytes),
            client,
        );
        options.eager = true;
        match CsiManager::spawn(options, plugins) {
            Ok(manager) => Ok(Self {
                root: root.to_owned(),
                agent,
                manager,
                state,
            }),
            Err(error) => {
                agent.shutdown().await;
                Err(error.into())
            }
        }
    }

    /// Stops everything.
    ///
    /// # Errors
    /// Something could not be stopped; it is named, and the rest is gone.
    pub(crate) async fn end(self) -> Result<()> {
        // What does not stop by itself is killed below.
        let stopped = tokio::time::timeout(STOP, self.manager.stop_all()).await;
        tracing::debug!(?stopped, "stopped");
        let left = self.agent.end_all(STOP).await;
        unmount_below(&self.root)?;
        if let Some(id) = left.first() {
            bail!("the container {id} does not end");
        }
        Ok(())
    }
}

pub(crate) fn private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create {}", path.display()))
}

/// A directory of our own (0700) in `$TMPDIR`, else `/tmp`.
#[derive(Debug)]
pub(crate) struct TempRoot {
    path: PathBuf,
    removed: bool,
}

impl TempRoot {
    /// Makes it. A `$TMPDIR` too long for a socket's path is passed over for `/tmp`.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        let given = std::env::var_os("TMPDIR")
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute());
        // As long as the longest socket path below: <root>/r/csi/<16 digits>/csi.sock.
        let fits = |dir: &PathBuf| {
            let sample = format!("{prefix}XXXXXX/r/csi/0123456789abcdef/csi.sock");
            check_socket_path(&dir.join(sample)).is_ok()
        };
        let dir = given.filter(fits).unwrap_or_else(|| PathBuf::from("/tmp"));
        let template = dir.join(format!("{prefix}XXXXXX"));
        let path = nix::unistd::mkdtemp(&template)
            .with_context(|| format!("cannot create a directory in {}", dir.display()))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("{}", path.display()))?;
        Ok(Self {
            path,
            removed: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.removed = true;
        std::mem::take(&mut self.path)
    }

    /// Removes it with everything in it.
    pub(crate) fn remove(mut self) -> Result<()> {
        self.removed = true;
        remove(&self.path)
    }
}

impl Drop for TempRoot {
    /// The way out of a failure, where the failure is what is told.
    fn drop(&mut self) {
        if !self.removed
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!("{error:#}");
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    unmount_below(path)?;
    std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
}

/// Detaches whatever is mounted below `root`, innermost first, so that removing never reaches
/// into a mount.
fn unmount_below(root: &Path) -> Result<()> {
    let table =
        std::fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    let mut mounts = mounts_below(&table, root);
    mounts.reverse();
    for mount in mounts {
        nix::mount::umount2(&mount, nix::mount::MntFlags::MNT_DETACH)
            .with_context(|| format!("cannot unmount {}", mount.display()))?;
    }
    Ok(())
}

/// The mount points below `root`, in the order of the table: outer before inner.
fn mounts_below(table: &str, root: &Path) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(unescape)
        .filter(|mount| mount.starts_with(root))
        .collect()
}

/// `\040` and the like, as the kernel writes them.
fn unescape(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes
            .get(at + 1..at + 4)
            .filter(|_| bytes[at] == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                path.push(byte);
                at += 4;
            }
            None => {
                path.push(bytes[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_root_are_found() {
        let table = "1 0 8:1 / / rw - ext4 a rw\n\
                     2 1 0:2 / /tmp/x rw - tmpfs b rw\n\
                     3 2 0:3 / /tmp/x/with\\040space rw - tmpfs c rw\n\
                     4 1 0:4 / /tmp/xy rw - tmpfs d rw\n";
        let found = mounts_below(table, Path::new("/tmp/x"));
        assert_eq!(found, [Path::new("/tmp/x"), Path::new("/tmp/x/with space")]);
    }

    #[test]
    fn a_root_that_is_dropped_is_gone() {
        let root = TempRoot::new("ls-test-").unwrap();
        let path = root.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(root);
        assert!(!path.exists());
    }
}
