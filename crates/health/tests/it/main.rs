//! The driver in virtual time; HTTP and TCP probes against real servers, here and in another network namespace.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod driver;
mod http;
mod namespace;
mod servers;

use std::time::Duration;

/// Long enough for a busy machine; no test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
