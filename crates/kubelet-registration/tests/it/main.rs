//! The registrar with a kubelet on the wire.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kubelet;
mod registration;
