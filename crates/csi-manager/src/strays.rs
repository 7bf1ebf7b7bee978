//! Containers of this instance that nothing explains: no plugin of the configuration, and no record of one
//! that is on its way out. They are reported and never touched; an operator decides.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::plugin::ids;
use crate::shared::{Shared, blocking};
use crate::status::Stray;
use crate::table::Plugins;

/// How often the agent is asked when nobody looks at the status, and how often while somebody does or there is a stray.
const LOOK: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(2);

pub(crate) fn stray(id: &str) -> Stray {
    Stray {
        id: id.to_owned(),
        reason: "no plugin of the configuration has this id, and no readable record tells of it"
            .to_owned(),
    }
}

/// Keeps the status' strays up to date once recovery has found the first.
pub(crate) async fn serve_strays(shared: Arc<Shared>, plugins: Arc<Plugins>) {
    let mut status = shared.board.subscribe();
    if status.wait_for(|status| status.recovered).await.is_err() {
        return;
    }
    let mut suspects = BTreeSet::new();
    loop {
        let quiet = suspects.is_empty() && shared.board.subscribe().borrow().strays.is_empty();
        sleep(LOOK_AGAIN).await;
        if quiet {
            let _asked = timeout(LOOK, shared.looked_at.notified()).await;
        }
        let Ok(containers) = shared.list().await else {
            continue;
        };
        let listed = containers.into_iter().map(|c| c.container_id.value);
        let unknown = unexplained(&shared, &plugins, listed.collect()).await;
        let shown: Vec<Stray> = shared.board.subscribe().borrow().strays.clone();
        let next = decide(&shown, &suspects, &unknown);
        suspects = unknown;
        if next != shown {
            for stray in next.iter().filter(|stray| !shown.contains(stray)) {
                tracing::warn!(container = stray.id, reason = stray.reason, "left alone");
            }
            shared.board.update(|status| status.strays = next);
        }
    }
}

/// Who is unexplained twice in a row, or was a stray already and is still there. Pure.
fn decide(shown: &[Stray], before: &BTreeSet<String>, now: &BTreeSet<String>) -> Vec<Stray> {
    now.iter()
        .filter_map(|id| {
            let known = shown.iter().find(|stray| stray.id == *id).cloned();
            known.or_else(|| before.contains(id).then(|| stray(id)))
        })
        .collect()
}

async fn unexplained(
    shared: &Arc<Shared>,
    plugins: &Plugins,
    mut listed: BTreeSet<String>,
) -> BTreeSet<String> {
    {
        let table = plugins.lock();
        for handle in table.by_name.values() {
            for id in ids(&handle.plan) {
                listed.remove(id.value());
            }
            for container in &handle.board.status().containers {
                listed.remove(container.id.value());
            }
        }
    }
    if listed.is_empty() {
        return listed;
    }
    let this = Arc::clone(shared);
    let recorded = blocking(move || {
        listed.retain(|id| !has_record(&this, id));
        listed
    });
    recorded.await.unwrap_or_default()
}

/// Whether a record tells of the container; it is there until the container is down and cleaned. Blocking.
fn has_record(shared: &Shared, id: &str) -> bool {
    let below = |dir: std::path::PathBuf| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let types = below(shared.places.state.csi().path().to_owned());
    types.flat_map(below).any(|name| {
        name.join("containers")
            .join(id)
            .join("container.info")
            .exists()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_is_one_that_stays_unexplained_and_goes_with_its_container() {
        let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        assert_eq!(decide(&[], &set(&[]), &set(&["a"])), []);
        let shown = decide(&[], &set(&["a"]), &set(&["a", "b"]));
        assert_eq!(shown, [stray("a")]);
        assert_eq!(
            decide(&shown, &set(&["a", "b"]), &set(&["a", "b"])),
            [stray("a"), stray("b")]
        );
        // Of recovery: at once.
        assert_eq!(decide(&shown, &set(&[]), &set(&["a"])), shown);
        assert_eq!(decide(&shown, &set(&["a"]), &set(&[])), []);
    }
}
