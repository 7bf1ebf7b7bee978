//! A scripted fake agent, for tests of what uses an agent (feature `fake`).
//!
//! It serves the operator API on a Unix socket inside the test's process, in protobuf and JSON,
//! with the statuses of a real agent. Its containers are entries of a map: a test launches them
//! through [`AgentClient`](crate::AgentClient), ends them with [`FakeAgent::exit`], and looks at
//! [`FakeAgent::log`] to see what was asked. [`FakeAgent::fail`] makes the Nth call of a type go
//! wrong in a chosen way ([`Failpoint`]).
//!
//! ```
//! use longshore_agent_client::fake::{Failpoint, FakeAgent};
//! use longshore_mesos_api::v1::agent::call::Type;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let agent = FakeAgent::start(dir.path().join("agent.sock"))?;
//! agent.fail(Type::GetHealth, 1, Failpoint::status(503, "Agent has not finished recovery"));
//! assert!(agent.client().get_health().await?); // tried again
//! assert_eq!(agent.count(Type::GetHealth), 2);
//! # Ok(()) }
//! ```
//!
//! [`FakeExecutorApi`] is the other side of an executor, likewise.

mod agent;
mod dispatch;
mod executor;
mod failpoint;
mod http;
mod state;

pub use agent::FakeAgent;
pub use executor::{ExecutorFault, FakeExecutorApi, ReceivedCall};
pub use failpoint::Failpoint;
pub use state::{Flavor, Logged};
