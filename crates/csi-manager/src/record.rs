//! What the manager keeps on disk (see `docs/formats.md`).
//!
//! | record | where | class |
//! |---|---|---|
//! | [`ContainerRecord`] | `<state>/csi/<type>/<name>/containers/<id>/container.info` | power-durable: it is ownership, written before the container exists |
//! | [`TotalsRecord`] | `<state>/history/<type>-<name>.totals` | process-durable, likewise |
//! | [`HistoryRecord`] | `<state>/history/<type>-<name>.history` | process-durable: it only explains the past, and is written a moment after a transition |

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_checkpoint::{CodecError, Record, bincode_decode, bincode_encode};
use serde::{Deserialize, Serialize};

use crate::board::Total;
use crate::launch::LaunchHash;
use crate::status::{LastExit, PluginState, Transition};

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

/// What was counted of a plugin's containers in all lives of the supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TotalsRecord {
    pub(crate) containers: Vec<RecordedTotal>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordedTotal {
    container_id: String,
    runs: u64,
    last_exit: Option<RecordedExit>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedExit {
    /// Milliseconds since 1970.
    at_ms: u64,
    status: Option<i32>,
    text: String,
}

impl Record for TotalsRecord {
    const KIND: &'static str = "csi-totals";
    const VERSION: u16 = 1;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(self)
    }

    fn decode(_: u16, body: &[u8]) -> Result<Self, CodecError> {
        bincode_decode(body)
    }
}

impl RecordedTotal {
    pub(crate) fn new((container_id, total): (String, Total)) -> Self {
        let exit = |exit: LastExit| RecordedExit {
            at_ms: millis(exit.at),
            status: exit.status,
            text: exit.text,
        };
        Self {
            container_id,
            runs: total.runs,
            last_exit: total.last_exit.map(exit),
        }
    }

    pub(crate) fn into_total(self) -> (String, Total) {
        let exit = |exit: RecordedExit| LastExit {
            at: moment(exit.at_ms),
            status: exit.status,
            text: exit.text,
        };
        let total = Total {
            runs: self.runs,
            last_exit: self.last_exit.map(exit),
        };
        (self.container_id, total)
    }
}

fn millis(at: SystemTime) -> u64 {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(at.as_millis()).unwrap_or(u64::MAX)
}

fn moment(ms: u64) -> SystemTime {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    at.unwrap_or(UNIX_EPOCH)
}

impl RecordedTransition {
    pub(crate) fn new(transition: &Transition) -> Self {
        Self {
            at_ms: millis(transition.at),
            from: transition.from.number(),
            to: transition.to.number(),
            reason: transition.reason.clone(),
            exit_status: transition.exit_status,
            stderr: transition.stderr.clone(),
        }
    }

    pub(crate) fn to_transition(&self) -> Transition {
        Transition {
            at: moment(self.at_ms),
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
