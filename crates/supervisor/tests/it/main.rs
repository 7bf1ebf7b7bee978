//! Configurations, good and bad, as files.
#![expect(clippy::unwrap_used, reason = "in a test a failure is a panic")]

mod judged;
mod layers;
mod plugin_dir;
mod samples;
