//! A container that is not to be supervised any more: stopped with grace, awaited, its files
//! removed. Goes on until it is done.

use std::sync::Arc;
use std::time::Duration;

use longshore_backoff::Backoff;
use longshore_checkpoint::{Durability, remove, sweep_temps};
use longshore_container_daemon::{ContainerDaemon, DaemonOptions, Failure, NoHooks};
use longshore_mesos_api::v1::ContainerId as MesosId;
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_paths::{ContainerId, PluginName, PluginType, short_id};
use tokio::time::{sleep, timeout};

use crate::plan::{Plan, Planned};
use crate::shared::{Shared, blocking, line};
use crate::socket_dir::{Owner, SocketDir};

/// How often the files are tried before they are left and reported.
const CLEAN_ATTEMPTS: u32 = 5;

/// How long a container that is ending by itself is waited for (row 12 of the recovery table).
const ENDING_BOUND: Duration = Duration::from_secs(30);

/// What is to go.
#[derive(Clone, Debug)]
pub(crate) struct Retired {
    pub(crate) id: ContainerId,
    pub(crate) ty: PluginType,
    pub(crate) name: PluginName,
    /// Whose the socket's directory is; `None` is ours.
    pub(crate) user: Option<String>,
    pub(crate) grace: Duration,
    pub(crate) running: bool,
    /// Listed without a pid: only awaited, within a bound.
    pub(crate) ending: bool,
}

impl Retired {
    /// Only the files of a container that is down.
    pub(crate) fn files(plan: &Plan, planned: &Planned) -> Self {
        Self {
            id: planned.id.clone(),
            ty: plan.ty.clone(),
            name: plan.plugin_name.clone(),
            user: planned.user(),
            grace: plan.config.kill_grace,
            running: false,
            ending: false,
        }
    }
}

pub(crate) async fn retire(shared: Arc<Shared>, retired: Retired) {
    let mut running = retired.running;
    let id = MesosId {
        value: retired.id.value().to_owned(),
        parent: None,
    };
    if retired.ending {
        let ended = timeout(ENDING_BOUND, shared.agent.wait_container(&id)).await;
        running = !matches!(ended, Ok(Ok(_)));
    }
    if running {
        let request = LaunchContainer {
            container_id: id,
            ..LaunchContainer::default()
        };
        let options = DaemonOptions::new(request);
        let daemon = ContainerDaemon::spawn(options, Arc::clone(&shared.agent), Arc::new(NoHooks));
        // Attached and stopped: TERM, KILL, again and again while the agent does not answer.
        let attached = daemon.attach().await;
        let stopped = match attached {
            Ok(()) => daemon.stopped(retired.grace).await,
            Err(error) => Err(error),
        };
        if let Err(error) = stopped {
            tracing::error!(container = %retired.id, %error, "not stopped");
            return;
        }
    }
    for attempt in 1..=CLEAN_ATTEMPTS {
        let (shared, retired) = (Arc::clone(&shared), retired.clone());
        let id = retired.id.clone();
        let cleaned = blocking(move || clean(&shared, &retired)).await;
        match cleaned.and_then(|result| result) {
            Ok(()) => {
                tracing::info!(container = %id, "retired");
                return;
            }
            Err(failure) => {
                tracing::warn!(container = %id, failure.message, attempt, "not cleaned");
            }
        }
        sleep(Backoff::default().delay(attempt, 0.5)).await;
    }
}

/// Removes the socket's directory, the record and the container's directory, in this order: as
/// long as there is a record the rest is found again. A damaged record that was set aside stays.
fn clean(shared: &Shared, retired: &Retired) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(line(error));
    let owner = Owner::of(retired.user.as_deref()).map_err(|error| failed(&error))?;
    let short = short_id(&shared.places.instance, &retired.id);
    let sockets = SocketDir::new(&shared.places.runtime, &short, owner);
    sockets.remove().map_err(|error| failed(&error))?;
    let csi = shared.places.state.csi();
    let dir = csi.container_dir(&retired.ty, &retired.name, &retired.id);
    let record = csi.container_info(&retired.ty, &retired.name, &retired.id);
    remove(record, Durability::Power).map_err(|error| failed(&error))?;
    sweep_temps(&dir).map_err(|error| failed(&error))?;
    match std::fs::remove_dir(&dir) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
        Err(error) => Err(Failure::new(format!(
            "cannot remove {}: {error}",
            dir.display()
        ))),
    }
}
