//! The tasks of a root: on the fake engine, in virtual time.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod bed;
mod declared;
mod life;
