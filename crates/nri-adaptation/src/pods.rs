//! The order of requests: one request at a time for each pod, in the order of arrival.
//!
//! A ticket is a place in the queue of its pod. It is held for the whole chain of a request, and
//! beyond it by a call that the caller gave up on, so that the pod's next request comes after it.
//!
//! ```text
//!   enter ──▶ waiting ──first in line──▶ held ──last holder drops it──▶ the next one's turn
//!                └──dropped──▶ gone, the others move up
//! ```

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The queues of all pods that have requests under way; there are no others.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    queues: Mutex<HashMap<Box<str>, Queue>>,
}

#[derive(Debug)]
struct Queue {
    turn: Arc<Semaphore>,
    /// Tickets held and waiting.
    tickets: usize,
}

/// A place in the queue of a pod.
#[derive(Debug)]
pub(crate) struct Ticket {
    pods: Arc<Pods>,
    pod: Box<str>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Pods {
    /// Waits for the pod's requests that came before. May be dropped.
    pub(crate) async fn enter(self: &Arc<Self>, pod: &str) -> Ticket {
        let (mut ticket, turn) = self.line_up(pod);
        // The semaphore is never closed.
        ticket.turn = turn.acquire_owned().await.ok();
        ticket
    }

    fn line_up(self: &Arc<Self>, pod: &str) -> (Ticket, Arc<Semaphore>) {
        let mut queues = self.lock();
        let turn = match queues.get_mut(pod) {
            Some(queue) => {
                queue.tickets += 1;
                Arc::clone(&queue.turn)
            }
            None => {
                let turn = Arc::new(Semaphore::new(1));
                let queue = Queue {
                    turn: Arc::clone(&turn),
                    tickets: 1,
                };
                queues.insert(pod.into(), queue);
                turn
            }
        };
        let ticket = Ticket {
            pods: Arc::clone(self),
            pod: pod.into(),
            turn: None,
        };
        (ticket, turn)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Queue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        drop(self.turn.take());
        let mut queues = self.pods.lock();
        if let Some(queue) = queues.get_mut(&self.pod) {
            queue.tickets -= 1;
            if queue.tickets == 0 {
                queues.remove(&self.pod);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn requests_of_a_pod_take_turns_in_order_and_other_pods_do_not_wait() {
        let pods = Arc::new(Pods::default());
        let Poll::Ready(first) = poll(pin!(pods.enter("a"))) else {
            panic!("nobody is before it")
        };
        let mut second = pin!(pods.enter("a"));
        let mut third = pin!(pods.enter("a"));
        assert!(poll(second.as_mut()).is_pending());
        assert!(poll(third.as_mut()).is_pending());
        assert!(poll(pin!(pods.enter("b"))).is_ready());
        drop(first);
        assert!(poll(third.as_mut()).is_pending(), "the second goes first");
        let Poll::Ready(second) = poll(second.as_mut()) else {
            panic!("it is its turn")
        };
        drop(second);
        assert!(poll(third.as_mut()).is_ready());
    }

    #[test]
    fn a_ticket_that_is_given_up_lets_the_next_one_in_and_nothing_is_left() {
        let pods = Arc::new(Pods::default());
        let Poll::Ready(first) = poll(pin!(pods.enter("a"))) else {
            panic!("nobody is before it")
        };
        {
            let mut given_up = pin!(pods.enter("a"));
            assert!(poll(given_up.as_mut()).is_pending());
        }
        drop(first);
        assert!(pods.lock().is_empty());
        assert!(poll(pin!(pods.enter("a"))).is_ready());
        assert!(pods.lock().is_empty());
    }
}
