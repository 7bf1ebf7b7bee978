//! What is looked after now and then: exits that were kept long enough, sandboxes that are too old
//! or too many.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::sandbox::{self, Gone};
use super::{Deferred, Shared, blocking};
use crate::containers::registry::Life;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

impl Shared {
    /// Never ends.
    pub(super) async fn maintain(self: Arc<Self>) {
        let every = self.host.gc.interval.max(SHORTEST);
        let look = (self.host.retention / 10)
            .clamp(SHORTEST, LONGEST)
            .min(every);
        let mut next_collection = tokio::time::Instant::now() + every;
        loop {
            tokio::time::sleep(look).await;
            let deferred = {
                let mut inner = self.lock();
                let actions = inner.registry.tick(SystemTime::now());
                inner.apply(&self.host, actions)
            };
            self.finish(deferred);
            if tokio::time::Instant::now() >= next_collection {
                self.collect().await;
                next_collection = tokio::time::Instant::now() + every;
            }
        }
    }

    /// Deletes sandboxes by age and size.
    async fn collect(self: &Arc<Self>) {
        let shared = Arc::clone(self);
        let done = blocking(move || {
            let all = shared.host.sandboxes.survey();
            let lives = |id: &_| {
                !matches!(
                    shared.lock().registry.get(id),
                    None | Some(Life::Exited { .. })
                )
            };
            let gone = sandbox::condemned(all, lives, shared.host.gc, SystemTime::now());
            for id in gone {
                if let Some(gone) = shared.take_ended(&id) {
                    tracing::info!(container = %id, "deleting the sandbox of an ended container");
                    let deferred = Deferred {
                        gone: vec![gone],
                        ..Deferred::default()
                    };
                    if let Err(error) = shared.delete(deferred) {
                        tracing::warn!(container = %id, %error, "a sandbox was not deleted");
                    }
                }
            }
        })
        .await;
        if let Err(error) = done {
            tracing::warn!(%error, "the sandboxes were not looked at");
        }
    }

    /// Takes a sandbox away unless its id has been launched meanwhile.
    fn take_ended(&self, id: &longshore_paths::ContainerId) -> Option<Gone> {
        let inner = self.lock();
        if !matches!(inner.registry.get(id), None | Some(Life::Exited { .. })) {
            return None;
        }
        match self.host.sandboxes.take_away(id) {
            Ok(gone) => gone,
            Err(error) => {
                tracing::debug!(container = %id, %error, "a sandbox is kept");
                None
            }
        }
    }
}
