//! Records on the real file system.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod disk;
mod full;
mod golden;
mod lock;
mod process;

use longshore_checkpoint::{CodecError, Record, bincode_decode, bincode_encode};
use serde::{Deserialize, Serialize};

/// A record as the crates above write them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Plugin {
    name: String,
    pids: Vec<u32>,
    on: bool,
}

impl Record for Plugin {
    const KIND: &'static str = "plugin";
    const VERSION: u16 = 1;

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

fn plugin(name: &str) -> Plugin {
    Plugin {
        name: name.to_owned(),
        pids: vec![1, 300, 70_000],
        on: true,
    }
}
