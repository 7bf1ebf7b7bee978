//! Tasks on the fake engine, with plugins that are built in.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

mod bed;
mod lives;
mod wishes;
