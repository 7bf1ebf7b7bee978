//! A plugin on our stub that a runtime launches; what it does is its configuration text:
//! `die` kills the process while it creates a container, any other text becomes an annotation.

use std::process::ExitCode;
use std::sync::OnceLock;

use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox};
use longshore_nri_stub::{Configuration, Stub, plugin};
use nix::sys::signal::{Signal, raise};

#[derive(Default)]
struct Launched {
    config: OnceLock<String>,
}

#[plugin]
impl Launched {
    async fn configure(&self, configuration: Configuration) {
        // A launched plugin is configured once.
        drop(self.config.set(configuration.config));
    }

    async fn create_container(
        &self,
        _pod: PodSandbox,
        _container: Container,
    ) -> ContainerAdjustment {
        let config = self.config.get().map_or("", String::as_str);
        if config == "die" {
            // It does not come back from this.
            let _ = raise(Signal::SIGKILL);
        }
        let mut names: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
        names.sort();
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_annotation("config", config);
        adjustment.add_annotation("environment", names.join(" "));
        adjustment
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Stub::builder().run(Launched::default()).await {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
