//! Plugins on our stub, for `bench-nri`: `bench-nri-plugin SOCKET FIRST COUNT` connects COUNT of them.
//!
//! A program of its own, as a plugin's author builds it: what is resident of it is the stub's.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use longshore_backoff::Backoff;
use longshore_bench::Failure;
use longshore_bench::nri::{plugin_index, plugin_name, runtime, subject};
use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox};
use longshore_nri_stub::{Stub, plugin};
use tokio::task::JoinSet;

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

fn main() -> ExitCode {
    match run(env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the edge of a program")]
            {
                eprintln!("bench-nri-plugin: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let socket = PathBuf::from(arguments.next().ok_or("no socket")?);
    let first: usize = arguments.next().ok_or("no number")?.parse()?;
    let count: usize = arguments.next().ok_or("no count")?.parse()?;
    runtime()?.block_on(async {
        let mut tasks = JoinSet::new();
        for nth in first..first + count {
            let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50), 0.0)?;
            let plugin = Adds {
                adjustment: subject::adjustment(&plugin_name(nth)),
            };
            let stub = Stub::builder()
                .name(plugin_name(nth))
                .index(plugin_index(nth))
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
