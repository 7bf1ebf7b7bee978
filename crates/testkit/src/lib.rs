//! Internal to Longshore: wire-level fakes and helper programs for its tests.
//!
//! Invariants
//! - Depends on floor 1 alone, so that every other crate may use it in its tests. A fake of a
//!   trait lives beside the trait, under the feature `fake` of that crate.
//! - A fake speaks on the wire (sockets, files, processes); it never reaches into a crate.
//! - What a test needs from the machine is asked for through [`peers`]: present, or a skip that
//!   is named in the summary of `cargo xtask test`, or (when required) a failure. Nothing is
//!   passed over in silence.

pub mod csi;
pub mod interop;
pub mod lines;
pub mod peers;
pub mod script;
