//! Waiting for an answer that comes at once: the thread looks for it for some microseconds before it sleeps.
//!
//! Waking a thread that sleeps on an idle processor takes longer than a short handler on the other side. While it looks, the
//! runtime goes on with its other tasks, and reads sockets between them. Where answers take longer than that, looking is
//! given up, and tried again now and then:
//!
//! ```text
//!   keen (8) ◀──found: +1── 1..7 ──not found: -1──▶ 0: looks at every 32nd call only ──found: 4──▶
//! ```

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::oneshot::{self, error::TryRecvError};

/// How often looking may have failed more than it paid, and how much of it is known after one success.
const KEEN: u8 = 8;
const HOPE: u8 = 4;
/// Of so many calls one looks where it does not pay.
const AGAIN: u8 = 32;
/// The runtime may be busy with other tasks: no more turns than this, whatever the clock says.
const TURNS: u32 = 256;

/// Whether looking has paid of late; of one peer.
#[derive(Debug)]
pub(crate) struct Eagerness {
    level: AtomicU8,
    skipped: AtomicU8,
}

impl Default for Eagerness {
    fn default() -> Self {
        Self {
            level: AtomicU8::new(HOPE),
            skipped: AtomicU8::new(0),
        }
    }
}

impl Eagerness {
    /// Whether this call looks.
    fn looks(&self) -> bool {
        if self.level.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let skipped = self.skipped.fetch_add(1, Ordering::Relaxed);
        skipped.is_multiple_of(AGAIN)
    }

    /// Losing a count to another thread does no harm.
    fn learn(&self, found: bool) {
        let level = self.level.load(Ordering::Relaxed);
        let level = match (found, level) {
            (true, 0) => HOPE,
            (true, level) => (level + 1).min(KEEN),
            (false, level) => level.saturating_sub(1),
        };
        self.level.store(level, Ordering::Relaxed);
    }
}

/// The answer; looked for during `time` when that has paid of late, then slept for. `None` when its sender is gone.
pub(crate) async fn receive<T>(
    mut answer: oneshot::Receiver<T>,
    time: Duration,
    eagerness: &Eagerness,
) -> Option<T> {
    if !time.is_zero() && eagerness.looks() {
        let begun = Instant::now();
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
            match answer.try_recv() {
                Ok(answer) => {
                    eagerness.learn(true);
                    return Some(answer);
                }
                Err(TryRecvError::Empty) if begun.elapsed() < time => {}
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Closed) => return None,
            }
        }
        eagerness.learn(false);
    }
    answer.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn an_answer_is_found_and_one_that_comes_late_is_waited_for() {
        for time in [Duration::ZERO, Duration::from_micros(50), LONG] {
            let (sender, receiver) = oneshot::channel();
            let answers = tokio::spawn(async move {
                for _ in 0..3 * TURNS {
                    tokio::task::yield_now().await;
                }
                sender.send(7)
            });
            assert_eq!(
                receive(receiver, time, &Eagerness::default()).await,
                Some(7)
            );
            assert_eq!(answers.await.unwrap(), Ok(()));
        }
    }

    #[tokio::test]
    async fn an_answer_that_never_comes_is_an_error() {
        for time in [Duration::ZERO, LONG] {
            let (sender, receiver) = oneshot::channel::<u8>();
            drop(sender);
            assert_eq!(receive(receiver, time, &Eagerness::default()).await, None);
        }
    }

    #[test]
    fn looking_is_given_up_where_it_does_not_pay_and_tried_again() {
        let eagerness = Eagerness::default();
        for _ in 0..HOPE {
            assert!(eagerness.looks());
            eagerness.learn(false);
        }
        let mut looked = 0;
        for _ in 0..10 * u32::from(AGAIN) {
            if eagerness.looks() {
                looked += 1;
                eagerness.learn(false);
            }
        }
        assert_eq!(looked, 10);
        // One success in such a time is enough.
        eagerness.learn(true);
        assert!((0..HOPE).all(|_| {
            let looks = eagerness.looks();
            eagerness.learn(false);
            looks
        }));
        assert!(!eagerness.looks() || !eagerness.looks());
    }

    #[test]
    fn the_best_times_are_forgotten_soon() {
        let eagerness = Eagerness::default();
        (0..1000).for_each(|_| eagerness.learn(true));
        (0..KEEN).for_each(|_| eagerness.learn(false));
        let looks = (0..u32::from(AGAIN)).filter(|_| eagerness.looks()).count();
        assert_eq!(looks, 1);
    }
}
