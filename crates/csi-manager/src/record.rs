//! What the manager keeps on disk (see `docs/formats.md`).
//!
//! | record | where | class |
//! |---|---|---|
//! | [`ContainerRecord`] | `<state>/csi/<type>/<name>/containers/<id>/container.info` | power-durable: it is ownership, written before the container exists |
//! | [`HistoryRecord`] | `<state>/history/<type>-<name>.history` | process-durable: it only explains the past, and is written a moment after a transition |

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_checkpoint::{CodecError, Record, bincode_decode, bincode_encode};
use serde::{Deserialize, Serialize};

use crate::launch::LaunchHash;
use crate::status::{PluginState, Transition};

/// The most transitions that are kept of a plugin.
pub(crate) const HISTORY_MAX: usize = 20;

/// One container that we launch, or are about to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    /// The operator's name of the plugin, to name it after it left the configuration.
    pub(crate) plugin: String,
    pub(crate) plugin_type: String,
    pub(crate) plugin_name: String,
    pub(crate) container_id: String,
    /// The encoded `mesos.v1.CSIPluginContainerInfo`.
    #[serde(with = "bytes")]
    pub(crate) info: Vec<u8>,
    /// The encoded `mesos.v1.agent.Call.LaunchContainer`, which the hash is of.
    #[serde(with = "bytes")]
    pub(crate) request: Vec<u8>,
    pub(crate) hash: LaunchHash,
    pub(crate) socket: String,
    /// Whose the socket's directory is.
    pub(crate) uid: u32,
    /// From SIGTERM to SIGKILL, should the plugin leave the configuration.
    pub(crate) grace_ms: u64,
}

impl Record for ContainerRecord {
    const KIND: &'static str = "csi-container";
    const VERSION: u16 = 1;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(self)
    }

    fn decode(_: u16, body: &[u8]) -> Result<Self, CodecError> {
        bincode_decode(body)
    }
}

/// Bytes as bytes, not as a list of numbers: the same on disk, and read at once.
mod bytes {
    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        from.deserialize_byte_buf(Bytes)
    }

    struct Bytes;

    impl Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }
    }
}

/// What happened to a plugin, and what is fixed while its configuration stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HistoryRecord {
    /// The configuration that `version` and `name` belong to.
    pub(crate) configuration: Option<LaunchHash>,
    /// `v0` or `v1`.
    pub(crate) version: Option<String>,
    /// The name that the plugin gave itself.
    pub(crate) name: Option<String>,
    pub(crate) transitions: Vec<RecordedTransition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedTransition {
    /// Milliseconds since 1970.
    at_ms: u64,
    from: u8,
    to: u8,
    reason: String,
    exit_status: Option<i32>,
    stderr: Vec<String>,
}

impl Record for HistoryRecord {
    const KIND: &'static str = "csi-history";
    const VERSION: u16 = 1;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(self)
    }

    fn decode(_: u16, body: &[u8]) -> Result<Self, CodecError> {
        bincode_decode(body)
    }
}

impl RecordedTransition {
    pub(crate) fn new(transition: &Transition) -> Self {
        let at = transition.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            from: transition.from.number(),
            to: transition.to.number(),
            reason: transition.reason.clone(),
            exit_status: transition.exit_status,
            stderr: transition.stderr.clone(),
        }
    }

    pub(crate) fn to_transition(&self) -> Transition {
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(self.at_ms));
        Transition {
            at: at.unwrap_or(SystemTime::UNIX_EPOCH),
            from: PluginState::from_number(self.from),
            to: PluginState::from_number(self.to),
            reason: self.reason.clone(),
            exit_status: self.exit_status,
            stderr: self.stderr.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
