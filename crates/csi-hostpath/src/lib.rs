//! Internal to Longshore: the bundled CSI driver, whose volumes are directories of the host.
//!
//! It serves the demo, the tests and authors of plugins who want to see calls arrive. CSI v1 (Identity, Controller,
//! Node) or v0, over a Unix socket.
//!
//! # Invariants
//!
//! - A volume id is `vol-` and 32 hex digits, made of the volume's name; anything else names no volume, so no id leads
//!   out of the state directory.
//! - A volume exists whole or not at all: its directory is made under another name and renamed. All state is in the state
//!   directory and the kernel's mount table; nothing is remembered, so a kill loses nothing.
//! - Where it may not mount (no CAP_SYS_ADMIN) it publishes by a symbolic link, and says so in its log, its manifest and
//!   each volume's context.
//! - Root never follows a name that somebody else can plant: a target is opened without following and mounted through
//!   that handle. What is not the volume's is never unmounted or removed, and nothing is removed below a mount point.
//! - Calls are made one at a time, on a blocking thread.
//!
//! # Limits
//!
//! A client on a recent C-core (Python, C++) must set `grpc.default_authority` to `localhost`, as the CSI sidecars do: its
//! default for a Unix socket is the percent-encoded path, which the HTTP/2 library below resets as malformed.

mod driver;
mod error;
mod mounts;
mod publish;
mod serve;
mod services;
mod store;
mod v0;
mod v1;

pub use error::HostPathError;
pub use publish::PublishBy;
pub use serve::{HostPathOptions, Mode, serve};
