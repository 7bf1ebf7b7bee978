//! Taking turns at what thousands may do at once and only a few should.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// How long anybody keeps the others waiting; then it gives its turn up and goes on without.
pub(crate) const TURN: Duration = Duration::from_secs(2);

/// How long anybody waits; then it goes on without a turn, too. So whatever hangs delays the others once,
/// and stops nobody.
const PATIENCE: Duration = Duration::from_secs(15);

/// A number of turns that can be had at once.
#[derive(Debug)]
pub(crate) struct Turns(Semaphore);

impl Turns {
    pub(crate) const fn new(at_once: usize) -> Self {
        Self(Semaphore::const_new(at_once))
    }

    /// A turn, until it is dropped; `None` for one that has waited too long.
    pub(crate) async fn take(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(turn) = self.0.try_acquire() {
            return Some(turn);
        }
        timeout(PATIENCE, self.0.acquire()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_too_long_goes_on_without_a_turn() {
        let turns = Turns::new(2);
        let (first, second) = (turns.take().await, turns.take().await);
        assert!(first.is_some() && second.is_some());
        let began = Instant::now();
        assert!(turns.take().await.is_none());
        assert_eq!(began.elapsed(), PATIENCE);
        drop(first);
        assert!(turns.take().await.is_some());
    }
}
