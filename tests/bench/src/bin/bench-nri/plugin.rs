//! Plugins on our stub: `plugin SOCKET FIRST COUNT` connects COUNT of them.

use std::path::PathBuf;
use std::time::Duration;

use longshore_backoff::Backoff;
use longshore_bench::Failure;
use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox};
use longshore_nri_stub::{Stub, plugin};
use tokio::task::JoinSet;

use crate::{runtime, subject};

struct Adds {
    adjustment: ContainerAdjustment,
}

#[plugin]
impl Adds {
    async fn synchronize(&self, pods: Vec<PodSandbox>, containers: Vec<Container>) {
        drop((pods, containers));
    }

    async fn create_container(
        &self,
        _pod: PodSandbox,
        _container: Container,
    ) -> ContainerAdjustment {
        self.adjustment.clone()
    }

    async fn start_container(&self, _pod: PodSandbox, _container: Container) {}
}

/// The name of the nth plugin, without its index.
pub(crate) fn name(nth: usize) -> String {
    format!("bench-{nth:03}")
}

/// Its index: two digits.
pub(crate) fn index(nth: usize) -> String {
    format!("{:02}", nth % 100)
}

pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let socket = PathBuf::from(arguments.next().ok_or("no socket")?);
    let first: usize = arguments.next().ok_or("no number")?.parse()?;
    let count: usize = arguments.next().ok_or("no count")?.parse()?;
    runtime()?.block_on(async {
        let mut tasks = JoinSet::new();
        for nth in first..first + count {
            let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50), 0.0)?;
            let plugin = Adds {
                adjustment: subject::adjustment(&name(nth)),
            };
            let stub = Stub::builder()
                .name(name(nth))
                .index(index(nth))
                .socket(&socket)
                .reconnect(backoff)
                .build(plugin)?;
            tasks.spawn(async move { stub.run().await });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(())
    })
}
