//! Internal to Longshore: the directory layout and the identifiers; format and parse, no I/O.
//!
//! Everything that Longshore puts on disk has its place computed here, and every identifier that
//! becomes part of a path is a type of its own that validates on construction. The layout below
//! the CSI root is Mesos' (`src/csi/paths.cpp`), so that a person who knows one finds their way in
//! the other.
//!
//! ```text
//! <state_dir>/                         power-durable, mode 0700
//!   lock  instance  history/
//!   csi/<type>/<name>/
//!     containers/<container id>/container.info
//!     volumes/<encoded volume id>/volume.state
//!     mounts/<encoded volume id>/{staging,target}
//!   agent/containers/<id>[/containers/<child id> ..]     sandboxes
//! <runtime_dir>/                       process-durable, emptied by a reboot, mode 0711
//!   control/control.sock  agent/agent.sock
//!   agent/containers/<id>[/containers/<child id> ..]/run/
//!   csi/<short>/csi.sock
//! ```
//!
//! # Invariants
//! - A value of one of the identifier types is always one safe path component: never empty, `.`,
//!   `..`, longer than 255 bytes, and without `/`, NUL or control characters. What a CSI plugin
//!   may choose freely, the volume id, is encoded by [`VolumeId::to_component`] without collision.
//! - Format and parse are inverse: `parse(format(ids)) == ids`, and a path that parses is the path
//!   that formatting its ids gives (Mesos' `+` for a space, for one, is refused; see
//!   [`VolumeId::decode_mesos`] for its directories).
//! - Nothing here touches the file system, the environment or the clock, and nothing panics.
//! - A socket path that does not fit `sun_path` is refused before anything is created for it.

mod container;
mod csi;
mod error;
mod ids;
mod percent;
mod roots;
mod service;
mod short;
mod volume;

pub use container::{CONTAINER_ID_MAX, ContainerId};
pub use csi::CsiRoot;
pub use error::{PathsError, Shown};
pub use ids::{InstanceId, NAME_MAX, PluginName, PluginType};
pub use roots::{RuntimeDir, StateRoot};
pub use service::{Service, csi_container_id, refuse_shared_container};
pub use short::{SUN_PATH_MAX, check_socket_path, short_id};
pub use volume::VolumeId;
