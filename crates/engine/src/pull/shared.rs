use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Outcome, Pull, PullProgress, PullRequest, Running};

/// The pulls that run. One that has ended, or that nobody waits for, is forgotten when the next
/// one is asked for.
#[derive(Debug, Default)]
pub(crate) struct Pulls {
    running: Mutex<HashMap<PullRequest, Weak<Running>>>,
}

impl Pulls {
    /// Joins the pull that runs for an equal request, or begins one with `begin`.
    pub(crate) fn join<F>(
        &self,
        request: PullRequest,
        begin: impl FnOnce(PullRequest, watch::Sender<PullProgress>) -> F,
    ) -> Pull
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, pull| pull.upgrade().is_some_and(|pull| goes_on(&pull)));
        if let Some(pull) = running.get(&request).and_then(Weak::upgrade) {
            return Pull::of(pull);
        }
        let (progress, watched) = watch::channel(PullProgress::default());
        let (ended, outcome) = watch::channel(None);
        let work = begin(request.clone(), progress);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let outcome = work.await;
            ended.send_replace(Some(outcome));
        });
        let pull = Arc::new(Running {
            progress: watched,
            outcome,
            _task: task,
        });
        running.insert(request, Arc::downgrade(&pull));
        Pull::of(pull)
    }
}

/// One that has ended says how things were, not how they are: the next waiter asks anew.
fn goes_on(pull: &Running) -> bool {
    pull.outcome.borrow().is_none()
}
