//! Tasks on engines: the fake one in virtual time, and a real Docker.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod bad_input;
mod bed;
mod chaos;
mod disk;
mod docker;
mod faults;
mod health;
mod hooks;
mod launches;
mod recovery;
