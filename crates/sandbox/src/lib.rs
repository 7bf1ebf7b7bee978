//! Internal to Longshore: directories that others can write to, and the output files in them.
//!
//! # Invariants
//!
//! - Everything goes from an open directory, component by component, and follows no symbolic link: a name that is swapped
//!   under us leads to an error and never to another place.
//! - What stands in the way is set aside by a rename, never opened for writing and never deleted.
//! - No async runtime: a shim, which has none, writes its container's output with this.

pub mod dirs;
mod log_file;

pub use log_file::{LogFile, Mark, Rotation};
