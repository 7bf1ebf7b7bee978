//! Tasks on engines: the fake one in virtual time, and a real Docker.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod bed;
mod docker;
mod faults;
mod health;
mod launches;
mod recovery;
