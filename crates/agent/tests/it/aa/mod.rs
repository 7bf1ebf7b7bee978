//! The agent API as a client sees it: the same scenarios on the embedded agent with real process containers, and on a
//! real Mesos agent where there is one.

mod codes;
mod rows;
mod target;

/// Makes each scenario two tests: `row_name::on_the_embedded_agent` and, with the peer `mesos`,
/// `row_name::on_a_mesos_agent`.
macro_rules! on_both_agents {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use super::super::target::Target;

            #[tokio::test]
            async fn on_the_embedded_agent() {
                let target = Target::embedded().await;
                super::$name(&target).await;
                target.end().await;
            }

            #[tokio::test]
            async fn on_a_mesos_agent() {
                let Some(target) = Target::mesos().await else { return };
                super::$name(&target).await;
                target.end().await;
            }
        }
    )+};
}

/// The same, where a Mesos agent does otherwise (or does not survive it).
macro_rules! on_the_embedded_agent {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            use super::super::target::Target;

            #[tokio::test]
            async fn on_the_embedded_agent() {
                let target = Target::embedded().await;
                super::$name(&target).await;
                target.end().await;
            }
        }
    )+};
}

use {on_both_agents, on_the_embedded_agent};
