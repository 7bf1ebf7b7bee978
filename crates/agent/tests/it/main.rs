//! Integration tests: the API over its sockets.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod aa;
mod containers;
mod http;
