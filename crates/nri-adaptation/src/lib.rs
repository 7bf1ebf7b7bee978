#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Merging is a pure function of the request and the replies in their order.
//! - A key has one owner; a second claim fails the request, and names both plugins.
//! - What the runtime is told to apply, removals first, gives exactly the container that the last
//!   plugin would have been shown.
//! - A contribution that is ignored leaves nothing behind.

pub mod merge;
pub mod validate;
