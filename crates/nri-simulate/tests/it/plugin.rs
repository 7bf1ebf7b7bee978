//! What this program does when it was started as a plugin.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longshore_nri_stub::api::{
    Container, ContainerAdjustment, ContainerUpdate, LinuxResources, Mount, PodSandbox,
    ValidateContainerAdjustmentRequest,
};
use longshore_nri_stub::{Handle, HandlerError, Stub, plugin};

/// Sets a variable and mounts something.
pub(crate) struct Tuner;

#[plugin]
impl Tuner {
    async fn create_container(&self, _: PodSandbox, _: Container) -> ContainerAdjustment {
        let mut adjustment = ContainerAdjustment::default();
        adjustment
            .add_env("TUNED", "yes")
            .add_annotation("tuned", "yes")
            .add_mount(Mount {
                destination: "/tuned".into(),
                source: "/srv".into(),
                r#type: "bind".into(),
                options: vec!["rbind".into(), "ro".into()],
            });
        adjustment.resources_mut().set_memory_limit(1 << 26);
        adjustment
    }

    async fn stop_container(&self, _: PodSandbox, _: Container) -> Vec<ContainerUpdate> {
        Vec::new()
    }
}

/// Takes half a second.
struct Sleeper;

#[plugin]
impl Sleeper {
    async fn create_container(&self, _: PodSandbox, _: Container) -> ContainerAdjustment {
        tokio::time::sleep(Duration::from_millis(500)).await;
        ContainerAdjustment::default()
    }
}

/// Gives a container another share than was asked for, and another container one.
struct Updater;

#[plugin]
impl Updater {
    async fn update_container(
        &self,
        _: PodSandbox,
        container: Container,
        _: LinuxResources,
    ) -> Vec<ContainerUpdate> {
        [container.id.as_str(), "c1"]
            .map(|id| {
                let mut update = ContainerUpdate::new(id);
                update.resources_mut().set_cpu_shares(8_u64);
                update
            })
            .into()
    }
}

/// Rejects what is tuned.
struct Judge;

#[plugin]
impl Judge {
    async fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> Result<(), HandlerError> {
        let env = request.adjust.map(|adjust| adjust.env).unwrap_or_default();
        match env.iter().any(|variable| variable.key == "TUNED") {
            true => Err("no tuning here".into()),
            false => Ok(()),
        }
    }
}

/// Asks for changes by itself, very often.
struct Greedy(Arc<OnceLock<Handle>>);

#[plugin]
impl Greedy {
    async fn create_container(
        &self,
        _: PodSandbox,
        _: Container,
    ) -> Result<ContainerAdjustment, HandlerError> {
        let handle = self.0.get().ok_or("too early")?;
        for _ in 0..1100 {
            handle
                .update_containers(vec![ContainerUpdate::new("c0")])
                .await?;
        }
        Ok(ContainerAdjustment::default())
    }
}

/// A test that holds nothing where this program was not started as a plugin.
#[test]
fn as_a_plugin() {
    let Ok(name) = std::env::var("NRI_PLUGIN_NAME") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // The runtime that goes away is what ends a plugin.
    let stub = Stub::builder().no_reconnect();
    match &*name {
        "tuner" => drop(runtime.block_on(stub.run(Tuner))),
        "sleeper" => drop(runtime.block_on(stub.run(Sleeper))),
        "updater" => drop(runtime.block_on(stub.run(Updater))),
        "judge" => drop(runtime.block_on(stub.run(Judge))),
        "greedy" => {
            let handle = Arc::new(OnceLock::new());
            let stub = stub.build(Greedy(Arc::clone(&handle))).unwrap();
            assert!(handle.set(stub.handle()).is_ok());
            drop(runtime.block_on(stub.run()));
        }
        // Started as `alias`, it says that it is somebody else.
        "alias" => drop(runtime.block_on(stub.name("another").run(Tuner))),
        "quitter" => {
            use std::io::Write as _;
            writeln!(std::io::stderr(), "this plugin has no heart").unwrap();
        }
        name => panic!("no plugin {name}"),
    }
}
