//! What is looked after in the background: the engine, strays, finished tasks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::manager::{Shared, blocking};
use crate::{EngineStatus, Finished, plan};

/// How often the engine is asked whether it is there, with tasks and without.
const LOOK: Duration = Duration::from_secs(10);
const LOOK_WITHOUT: Duration = Duration::from_secs(60);
/// How often containers of ours without a record are looked for: only a crash leaves some.
const STRAYS: Duration = Duration::from_secs(600);
/// How often finished tasks are looked at when none ends, and how soon after one has.
const FINISHED: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(2);

/// Notes whether the engine answers.
pub(crate) async fn engine(shared: Arc<Shared>) {
    let mut tasks = shared.subscribe();
    loop {
        let asked = shared.engine.version().await;
        let changed = shared.engine_status.send_if_modified(|status| {
            let next = match &asked {
                Ok(version) => EngineStatus {
                    version: Some(format!(
                        "{:?} {}, API {}",
                        version.kind, version.version, version.api
                    )),
                    silent: None,
                },
                Err(error) => {
                    let since = status.silent.as_ref().map_or_else(now, |(since, _)| *since);
                    EngineStatus {
                        version: status.version.clone(),
                        silent: Some((since, chain(error))),
                    }
                }
            };
            let changed = *status != next;
            *status = next;
            changed
        });
        if changed {
            log(&shared.engine_status.borrow(), !shared.handles().is_empty());
            shared.bump();
        }
        let silent = shared.engine_status.borrow().silent.is_some();
        // Declared tasks wait for an engine that is away.
        let awaited = silent && shared.declared.load(Ordering::Relaxed) > 0;
        if shared.handles().is_empty() && !awaited {
            // Until then, or until there may be one.
            tasks.mark_unchanged();
            let _either = tokio::time::timeout(LOOK_WITHOUT, tasks.changed()).await;
        } else {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Whether the engine answers matters to a person where there are tasks.
fn log(engine: &EngineStatus, tasks: bool) {
    match (&engine.silent, tasks) {
        (None, _) => {
            let version = engine.version.as_deref();
            tracing::info!(version, "the engine of the tasks answers");
        }
        (Some((_, reason)), true) => {
            tracing::warn!(reason, "the engine of the tasks does not answer");
        }
        (Some((_, reason)), false) => {
            tracing::info!(reason, "the engine of the tasks does not answer");
        }
    }
}

/// Removes containers with our labels that no record names, once they are old enough.
pub(crate) async fn strays(shared: Arc<Shared>) {
    let mut engine = shared.engine_status.subscribe();
    loop {
        let there = |status: &EngineStatus| status.version.is_some() && status.silent.is_none();
        if engine.wait_for(there).await.is_err() {
            return;
        }
        // One that is younger now is old enough next time.
        tokio::time::sleep(shared.options.stray_grace).await;
        match shared
            .executor
            .remove_strays(shared.options.stray_grace)
            .await
        {
            Ok(removed) => {
                for container in removed {
                    tracing::warn!(
                        container,
                        "a container of ours that no record names was removed"
                    );
                }
            }
            Err(error) => tracing::warn!(%error, "stray containers cannot be looked for"),
        }
        tokio::time::sleep(STRAYS).await;
    }
}

/// Forgets finished tasks by their age and size.
pub(crate) async fn finished(shared: Arc<Shared>) {
    let mut changed = shared.subscribe();
    loop {
        if forget(&shared).await.is_err() {
            return;
        }
        // A burst of ends is one look.
        let woken = tokio::time::timeout(FINISHED, changed.changed()).await;
        if matches!(woken, Ok(Err(_))) {
            return;
        }
        tokio::time::sleep(SOON).await;
        changed.mark_unchanged();
    }
}

async fn forget(shared: &Arc<Shared>) -> Result<(), crate::TaskManagerError> {
    let handles = shared.handles();
    let ended: Vec<_> = handles
        .iter()
        .filter(|(id, _)| shared.keeper(id).is_none())
        .filter_map(|(id, handle)| {
            let ended = handle.status.borrow().ended?;
            // What is not finished yet cannot be forgotten.
            handle
                .task
                .watch()
                .borrow()
                .finished
                .then(|| (id.clone(), ended))
        })
        .collect();
    let (sandboxes, retention) = (shared.sandboxes.clone(), shared.options.retention);
    let gone = blocking(move || {
        let finished: Vec<_> = ended
            .into_iter()
            .map(|(id, ended)| Finished {
                bytes: sandboxes.size(&id),
                id,
                ended,
            })
            .collect();
        plan(&retention, now(), &finished)
    })
    .await?;
    for id in gone {
        let Some(handle) = handles.get(&id) else {
            continue;
        };
        match shared.forget(&id, handle, SOON).await {
            Ok(()) => tracing::info!(task = id, "a finished task was forgotten"),
            Err(error) => tracing::warn!(task = id, error = chain(&error), "a finished task stays"),
        }
    }
    Ok(())
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
