//! NRI with peers that are not ours: the stub and the adaptation of containerd/nri, and real
//! containerds.
//!
//! The Go programs of `tests/interop/go` do what they are told to, a JSON object a line, and report
//! the same way; [`peer`] starts them. `wire` speaks ttrpc and protobuf by hand, so that a failure
//! there is one of the transport.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adaptation;
mod engines;
mod peer;
mod serve;
mod stub;
mod wire;
