#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Numbers, names and types are those of the published `csi.proto` of each version; the comments are ours.
//! - Everything below [`v0`] and [`v1`] comes from `cargo xtask codegen`; nothing here is written by hand.
//! - No I/O, no policy, no validation: a crate above decides what an answer means.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod r#gen;

pub use r#gen::csi::{v0, v1};
