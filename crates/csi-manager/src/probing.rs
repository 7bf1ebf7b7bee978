//! Counting RPCs as Mesos does: pending, then finished, failed, or cancelled when cut off.

use std::sync::Arc;

use crate::board::PluginBoard;

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
