//! The real binary, from outside.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chaos;
mod crash;
mod daemon;
mod docs;
mod go_driver;
mod kubelet;
mod pages;
mod procs;
mod random;
