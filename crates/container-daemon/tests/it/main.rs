//! The daemon over a fake runtime, in virtual time.

mod hooks;
mod lifecycle;
mod support;
