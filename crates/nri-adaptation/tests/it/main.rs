//! The adaptation through its public API, with plugins at the other end of an in-memory stream.

mod requests;
