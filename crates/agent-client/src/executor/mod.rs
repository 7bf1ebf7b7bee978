//! The executor's side of an agent: the v1 executor API.
//!
//! [`ExecutorEnvironment`] reads what the agent has put into the environment, [`ExecutorConnection`] subscribes, tells what the agent wants
//! as [`ExecutorEvent`]s, and sends what [`ExecutorHandle::update`] is given:
//!
//! - An update is kept until the agent has acknowledged it, and sent again, in order, after every interruption; a task until its first
//!   update is acknowledged. Only when 256 updates wait does an older RUNNING of a task give way to a newer one.
//! - While the agent is away, an executor with checkpoints goes on for the recovery timeout, trying at once and then after random
//!   pauses of up to the backoff's maximum; one without checkpoints is told to shut down at once, as is one that the agent has never
//!   taken. The attempts go on while it stops: what it still says may arrive.
//! - The connection ends with the last acknowledgement after [`ExecutorHandle::finish`], or with a bound that [`Ending`] names.
//! - A stream that breaks, hangs, or says what cannot be read is opened anew; nothing that an agent sends makes the executor's memory
//!   grow over its limits.
//!
//! ```no_run
//! use longshore_agent_client::executor::{
//!     ExecutorConfig, ExecutorConnection, ExecutorEnvironment, ExecutorEvent,
//! };
//! use longshore_mesos_api::v1::{TaskState, TaskStatus};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = ExecutorEnvironment::from_variables(std::env::vars_os())?;
//! let mut connection = ExecutorConnection::start(ExecutorConfig::new(environment))?;
//! let agent = connection.handle();
//! while let Some(event) = connection.next().await {
//!     match event {
//!         ExecutorEvent::Launch(task) => {
//!             let status = TaskStatus {
//!                 task_id: task.task_id,
//!                 state: TaskState::TaskFinished.into(),
//!                 ..TaskStatus::default()
//!             };
//!             agent.update(status).await?;
//!             agent.finish().await;
//!         }
//!         ExecutorEvent::Shutdown { .. } => agent.finish().await,
//!         ExecutorEvent::Ended(ending) => println!("{ending:?}"),
//!         _ => {}
//!     }
//! }
//! # Ok(()) }
//! ```

mod connection;
mod core;
mod driver;
mod environment;
mod event;
mod wire;

pub use connection::{ExecutorConfig, ExecutorConnection, ExecutorHandle};
pub use environment::{Checkpoint, ExecutorEnvironment, ExecutorToken};
pub use event::{Ending, ExecutorEvent, ShutdownCause, Uuid};
