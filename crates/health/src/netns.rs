//! Network namespaces: sockets that live in a container's, used from here.
//!
//! A socket belongs to the namespace of the thread that made it, wherever it is used afterwards. So a thread of its
//! own enters the namespace, makes one socket and ends; it is never given back to a pool. Own threads are entered
//! without any privilege, since there is nothing to enter.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{OFlag, open};
use nix::sched::{CloneFlags, setns};
use nix::sys::stat::{Mode, fstat, stat};
use nix::sys::statfs::{FsType, fstatfs};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, oneshot};

use crate::HealthError;

/// The file system of namespaces (`linux/magic.h`).
const NSFS_MAGIC: FsType = FsType(0x6e73_6673);
const OWN: &str = "/proc/thread-self/ns/net";

/// The network namespace of a container, or our own. Cheap to clone.
///
/// It holds the namespace open: a process id that is used again for another process changes nothing.
#[derive(Clone, Debug, Default)]
pub struct NetNamespace {
    /// `None` is our own.
    other: Option<Arc<Other>>,
}

#[derive(Debug)]
struct Other {
    handle: OwnedFd,
    /// Names are looked up by a thread that cannot be stopped, so there is one at a time.
    resolver: Arc<Semaphore>,
}

impl NetNamespace {
    /// Ours.
    #[must_use]
    pub fn own() -> Self {
        Self::default()
    }

    /// The one of the process `pid`, which must not have been reaped yet.
    ///
    /// # Errors
    /// As [`at`](Self::at).
    pub async fn of_pid(pid: u32) -> Result<Self, HealthError> {
        Self::at(Path::new(&format!("/proc/{pid}/ns/net"))).await
    }

    /// The one at a path, such as `/proc/PID/ns/net` or the sandbox key of a Docker network. It is entered once, so
    /// that a missing privilege is told here and not by a check that fails.
    ///
    /// # Errors
    /// [`HealthError::OpenNamespace`], [`HealthError::NotANamespace`], [`HealthError::EnterNamespace`].
    pub async fn at(path: &Path) -> Result<Self, HealthError> {
        let failed = |source: io::Error| HealthError::OpenNamespace {
            path: path.to_owned(),
            source,
        };
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let handle = open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let kind = fstatfs(&handle).map_err(|errno| failed(errno.into()))?;
        if kind.filesystem_type() != NSFS_MAGIC {
            return Err(HealthError::NotANamespace {
                path: PathBuf::from(path),
            });
        }
        let theirs = fstat(&handle).map_err(|errno| failed(errno.into()))?;
        let ours = stat(OWN).map_err(|errno| failed(errno.into()))?;
        if (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino) {
            return Ok(Self::own());
        }
        let namespace = Self {
            other: Some(Arc::new(Other {
                handle,
                resolver: Arc::new(Semaphore::new(1)),
            })),
        };
        match namespace.inside(|| Ok(())).await {
            Ok(()) => Ok(namespace),
            Err(source) => Err(HealthError::EnterNamespace {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Whether it is the namespace that we are in.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.other.is_none()
    }

    /// Connects from within.
    pub(crate) async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let make = move || {
            if to.is_ipv4() {
                TcpSocket::new_v4()
            } else {
                TcpSocket::new_v6()
            }
        };
        let socket = match self.other {
            None => make()?,
            Some(_) => self.inside(make).await?,
        };
        socket.connect(to).await
    }

    /// The addresses of a name, asked from within.
    pub(crate) async fn resolve(&self, name: String) -> io::Result<Vec<IpAddr>> {
        let resolver = match &self.other {
            Some(other) => Arc::clone(&other.resolver),
            None => own_resolver(),
        };
        // The permit goes with the thread: an answer that nobody waits for any more still holds it.
        let permit = resolver
            .try_acquire_owned()
            .map_err(|_| io::Error::other("an earlier look-up of a name has not come back yet"))?;
        self.inside(move || {
            let found = (name.as_str(), 0).to_socket_addrs()?.map(|at| at.ip());
            let found = found.take(16).collect();
            drop(permit);
            Ok(found)
        })
        .await
    }

    /// Does `work` on a thread of its own inside the namespace. When the future is dropped, the thread goes on to the
    /// end of `work` and its result is thrown away.
    async fn inside<T, F>(&self, work: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> io::Result<T> + Send + 'static,
    {
        let other = self.other.clone();
        let (sender, receiver) = oneshot::channel();
        std::thread::Builder::new()
            .name("netns".to_owned())
            .stack_size(128 * 1024)
            .spawn(move || {
                let entered = match &other {
                    Some(other) => setns(other.handle.as_fd(), CloneFlags::CLONE_NEWNET),
                    None => Ok(()),
                };
                let result = entered.map_err(io::Error::from).and_then(|()| work());
                // Nobody waits for it any more: the socket is closed here.
                drop(sender.send(result));
            })?;
        receiver
            .await
            .map_err(|_| io::Error::other("the thread in the namespace ended without an answer"))?
    }
}

fn own_resolver() -> Arc<Semaphore> {
    static OWN_RESOLVER: std::sync::OnceLock<Arc<Semaphore>> = std::sync::OnceLock::new();
    Arc::clone(OWN_RESOLVER.get_or_init(|| Arc::new(Semaphore::new(4))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn our_own_namespace_needs_no_privilege_and_no_thread() {
        assert!(
            NetNamespace::of_pid(std::process::id())
                .await
                .unwrap()
                .is_own()
        );
        assert!(NetNamespace::at(Path::new(OWN)).await.unwrap().is_own());
        let names = NetNamespace::own()
            .resolve("localhost".to_owned())
            .await
            .unwrap();
        assert!(names.iter().all(IpAddr::is_loopback), "{names:?}");
    }

    #[tokio::test]
    async fn what_is_no_namespace_is_refused_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        for path in [file.as_path(), &fifo, dir.path()] {
            let error = NetNamespace::at(path).await.unwrap_err();
            assert!(
                matches!(error, HealthError::NotANamespace { .. }),
                "{error}"
            );
        }
        // Of another kind: it is a namespace, and cannot be entered as a network.
        let error = NetNamespace::at(Path::new("/proc/self/ns/uts"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, HealthError::EnterNamespace { .. }),
            "{error}"
        );
        let error = NetNamespace::at(&dir.path().join("none"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, HealthError::OpenNamespace { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("none"), "{error}");
    }
}
