//! Generated Apache Mesos v1 messages: the agent and executor subset.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod r#gen;

pub use r#gen::mesos::v1;
