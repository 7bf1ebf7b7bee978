//! Counting RPCs as Mesos does (pending, then finished, failed, or cancelled when cut off), and telling
//! what a probe waits for.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use longshore_csi_probe::{Endpoint, ProbeError, ProbeOptions, Probed, probe};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::board::PluginBoard;

/// What is waited for is told when it has lasted for so long: a quick start has nothing to tell.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// Probes, and tells what is missing as long as it does not answer. Cancel safe.
pub(crate) async fn probe_telling(
    endpoint: &Endpoint,
    mut options: ProbeOptions,
    tell: impl Fn(&str),
) -> Result<Probed, ProbeError> {
    let (progress, said) = watch::channel(None);
    options.progress = Some(progress);
    let mut probing = pin!(probe(endpoint, &options));
    let mut told = None;
    loop {
        if let Ok(done) = timeout(TELL_AFTER, &mut probing).await {
            return done;
        }
        let waiting = said.borrow().clone();
        if let Some(waiting) = waiting.filter(|waiting| told.as_ref() != Some(waiting)) {
            tell(&format!("{endpoint}: {waiting} yet"));
            told = Some(waiting);
        }
    }
}

/// One RPC (a whole probe, or a whole description) that is under way.
#[derive(Debug)]
pub(crate) struct Rpc {
    board: Arc<PluginBoard>,
    ended: Option<bool>,
}

impl Rpc {
    pub(crate) fn begin(board: &Arc<PluginBoard>) -> Self {
        board.metrics(|metrics| metrics.rpcs_pending += 1);
        Self {
            board: Arc::clone(board),
            ended: None,
        }
    }

    pub(crate) fn end(mut self, good: bool) {
        self.ended = Some(good);
    }
}

impl Drop for Rpc {
    fn drop(&mut self) {
        let ended = self.ended;
        self.board.metrics(|metrics| {
            metrics.rpcs_pending = metrics.rpcs_pending.saturating_sub(1);
            match ended {
                Some(true) => metrics.rpcs_finished += 1,
                Some(false) => metrics.rpcs_failed += 1,
                None => metrics.rpcs_cancelled += 1,
            }
        });
    }
}
