//! The executor under a real Mesos agent, with a scheduler of the tests' own and a private Docker.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod containerizer;
mod custom;
mod fake_agent;
mod interrupted;
mod relay;
mod scheduler;
mod stand_in;
