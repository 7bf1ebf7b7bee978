//! What the manager does besides its plugins' tasks: recovery of all at the start, and histories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use longshore_checkpoint::{AnyRecord, Durability};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::manager::{CsiManager, Inner};
use crate::plan::Plan;
use crate::plugin::{Command, agent_id, history_path, totals_path};
use crate::recovery::{self, Findings};
use crate::shared::{Shared, blocking, in_parts};
use crate::status::{Foreign, Stray};
use crate::table::Plugins;

/// How long transitions are gathered before they are written.
const SAVE_GATHER: Duration = Duration::from_millis(200);

/// Recovery of everything, once. `all_added`: every plugin has its handle.
pub(crate) async fn recover(
    inner: Weak<Inner>,
    shared: Arc<Shared>,
    plugins: Arc<Plugins>,
    all_added: oneshot::Receiver<()>,
) {
    // The disk needs no agent; nobody else writes below this root.
    let this = Arc::clone(&shared);
    let (running, disk) = tokio::join!(
        Box::pin(recovery::running(&shared)),
        blocking(move || recovery::read_disk(&this))
    );
    let disk = match disk {
        Ok(disk) => disk,
        Err(failure) => {
            tracing::error!(failure.message, "recovery");
            return;
        }
    };
    if all_added.await.is_err() {
        return;
    }
    let plans: Vec<Arc<Plan>> = {
        let table = plugins.lock();
        table
            .by_name
            .values()
            .filter(|h| h.found.is_some())
            .map(|h| Arc::clone(&h.plan))
            .collect()
    };
    let agent_id = match plans.iter().find(|plan| plan.needs_agent_id()) {
        Some(plan) => Box::pin(agent_id(&shared, plan)).await,
        None => None,
    };
    let mounts = shared.mount_points().await;
    let this = Arc::clone(&shared);
    let judged = blocking(move || {
        let all_planned = in_parts(plans, |plan| {
            let planned = plan.planned(&this.places, agent_id.as_ref());
            let key = (plan.ty.to_string(), plan.plugin_name.to_string());
            (key, (plan, planned))
        });
        let mut all_planned: BTreeMap<_, _> = all_planned.into_iter().collect();
        let (mut strays, mut foreign) = (Vec::new(), disk.foreign);
        let mut found: Vec<(Arc<Plan>, Findings)> = Vec::new();
        let mut left = Vec::new();
        let mut known: Vec<String> = Vec::new();
        for plugin in disk.plugins {
            known.extend(plugin.container_ids());
            let key = (plugin.ty.to_string(), plugin.name.to_string());
            match all_planned.remove(&key) {
                Some((plan, planned)) => {
                    known.extend(planned.iter().map(|planned| planned.id.value().to_owned()));
                    let mounted = recovery::is_mounted(&this, &plan, mounts.as_ref());
                    let findings = recovery::judge(&this, &plugin, planned, &running, mounted);
                    found.push((plan, findings));
                }
                None => left.push(plugin),
            }
        }
        // Plugins that have no directory yet.
        for (plan, planned) in all_planned.into_values() {
            known.extend(planned.iter().map(|planned| planned.id.value().to_owned()));
            let empty = recovery::PluginOnDisk::empty(&plan);
            let mounted = recovery::is_mounted(&this, &plan, mounts.as_ref());
            let findings = recovery::judge(&this, &empty, planned, &running, mounted);
            found.push((plan, findings));
        }
        let known: BTreeSet<String> = known.into_iter().collect();
        strays.extend(recovery::unclaimed(&running, |id| known.contains(id)));
        let mounts = mounts.as_ref();
        let left = recovery::left_over(&this, left, &running, mounts, &mut strays, &mut foreign);
        (found, left, strays, foreign)
    });
    let (found, left, strays, foreign) = match judged.await {
        Ok(judged) => judged,
        Err(failure) => {
            tracing::error!(failure.message, "recovery");
            return;
        }
    };
    for (plan, findings) in found {
        let tell = {
            let mut table = plugins.lock();
            table
                .by_name
                .get_mut(plan.name())
                .and_then(|handle| handle.found.take())
        };
        if let Some(tell) = tell {
            // A task that is gone was shut down.
            drop(tell.send(findings));
        }
    }
    adopt_left_over(&inner, left).await;
    publish_recovered(&shared, strays, foreign);
}

/// Plugins that left the configuration while we were away: a task each, and its removal at once.
async fn adopt_left_over(inner: &Weak<Inner>, left: Vec<(Arc<Plan>, Findings)>) {
    for (plan, findings) in left {
        let Some(inner) = inner.upgrade() else { return };
        let manager = CsiManager { inner };
        let name = plan.name().to_owned();
        if manager.inner.plugins.lock().by_name.contains_key(&name) {
            tracing::warn!(
                plugin = name,
                "an older plugin of this name was left behind"
            );
            continue;
        }
        manager.add(plan, Some(findings));
        let commands = {
            let mut table = manager.inner.plugins.lock();
            table.by_name.get_mut(&name).map(|handle| {
                handle.leaving = true;
                handle.commands.clone()
            })
        };
        if let Some(commands) = commands {
            drop(commands.send(Box::new(Command::Remove)).await);
        }
    }
}

fn publish_recovered(shared: &Shared, strays: Vec<Stray>, foreign: Vec<Foreign>) {
    for stray in &strays {
        tracing::warn!(container = stray.id, reason = stray.reason, "left alone");
    }
    for Foreign { path, reason } in &foreign {
        tracing::warn!(path = %path.display(), reason, "left alone");
    }
    shared.board.update(|status| {
        status.recovered = true;
        status.strays = strays;
        status.foreign = foreign;
    });
}

pub(crate) async fn keep_saving(shared: &Arc<Shared>, plugins: &Plugins) {
    loop {
        shared.board.save.notified().await;
        sleep(SAVE_GATHER).await;
        save(shared, plugins).await;
    }
}

/// Writes the histories that changed, all at once.
pub(crate) async fn save(shared: &Arc<Shared>, plugins: &Plugins) {
    let names = shared.board.take_dirty();
    let records: Vec<_> = {
        let table = plugins.lock();
        let handles = names
            .iter()
            .filter_map(|name| table.by_name.get_key_value(name));
        handles
            .map(|(name, handle)| {
                let history = (history_path(shared, name), handle.board.history());
                (history, (totals_path(shared, name), handle.board.totals()))
            })
            .collect()
    };
    if records.is_empty() {
        return;
    }
    let this = Arc::clone(shared);
    let written = blocking(move || {
        let batch: Vec<_> = records
            .iter()
            .flat_map(|((path, history), (other, totals))| {
                [
                    (path, history as &dyn AnyRecord),
                    (other, totals as &dyn AnyRecord),
                ]
            })
            .collect();
        this.writer.write_batch(&batch, Durability::Process)
    });
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "history not written"),
        Err(failure) => tracing::warn!(failure.message, "history not written"),
    }
}
