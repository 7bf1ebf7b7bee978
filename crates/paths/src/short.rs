//! Socket paths: the limit of `sun_path`, and short names that stay below it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::{ContainerId, InstanceId, PathsError};

/// The longest path of a Unix socket: `sun_path` has 108 bytes with the terminating NUL (unix(7)).
pub const SUN_PATH_MAX: usize = 107;

/// Checks that a socket can be bound at `path`. Call it before anything is created for the socket.
///
/// # Errors
/// When the path is longer than [`SUN_PATH_MAX`] bytes or holds a NUL byte.
pub fn check_socket_path(path: &Path) -> Result<(), PathsError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(PathsError::SocketPathNul {
            path: path.to_owned(),
        });
    }
    if bytes.len() > SUN_PATH_MAX {
        return Err(PathsError::SocketPath {
            path: path.to_owned(),
            length: bytes.len(),
            max: SUN_PATH_MAX,
        });
    }
    Ok(())
}

/// The short name of a container's socket directory: 16 characters (`a-z2-7`, 80 bits of SHA-256), the
/// same for the same ids in every release, since a running plugin keeps its socket across an upgrade.
#[must_use]
pub fn short_id(instance: &InstanceId, container: &ContainerId) -> String {
    const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut hash = Sha256::new();
    hash.update(instance.as_str());
    hash.update(b"/");
    hash.update(container.to_string());
    let digest = hash.finalize();
    let mut short = String::with_capacity(16);
    for chunk in digest.chunks_exact(5).take(2) {
        let group = chunk
            .iter()
            .fold(0u64, |group, byte| group << 8 | u64::from(*byte));
        for digit in 0..8 {
            let index = usize::try_from(group >> (35 - 5 * digit) & 31).unwrap_or_default();
            short.push(char::from(BASE32[index]));
        }
    }
    short
}
