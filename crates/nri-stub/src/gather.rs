//! Gathers the chunks of a synchronization.
//!
//! ```text
//!          more                    more
//!   empty ──────▶ gathering ◀──────────┐
//!     ▲             │  │ └─────────────┘
//!     │    last     │  │ over a limit
//!     └─────────────┘  ▼
//!     ▲            refusing ◀──┐ more: refused too
//!     │    last       │ └──────┘
//!     └───────────────┘
//! ```

use longshore_nri_api::{Container, PodSandbox, SynchronizeRequest};

/// The most that one synchronization may be made of, over all its chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncLimits {
    /// Memory it takes decoded, in bytes. 256 MiB by default.
    pub memory: usize,
    /// Pods and containers together. 100,000 by default.
    pub objects: usize,
}

impl Default for SyncLimits {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            objects: 100_000,
        }
    }
}

/// What has come so far. Each connection has its own: a new one begins with nothing.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    pods: Vec<PodSandbox>,
    containers: Vec<Container>,
    memory: usize,
    refusing: bool,
}

/// What a chunk is answered with.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// Kept; more is to come.
    More,
    /// It was the last: this is all.
    Complete(Vec<PodSandbox>, Vec<Container>),
    /// The synchronization is over a limit; nothing of it is kept, and nothing more accepted.
    TooMuch,
}

impl Gather {
    /// Takes a chunk which takes this much memory.
    pub(crate) fn take(
        &mut self,
        chunk: SynchronizeRequest,
        memory: usize,
        limits: &SyncLimits,
    ) -> Step {
        self.memory = self.memory.saturating_add(memory);
        let own = chunk.pods.len() + chunk.containers.len();
        let objects = self.pods.len() + self.containers.len() + own;
        self.refusing |= self.memory > limits.memory || objects > limits.objects;
        if self.refusing {
            *self = Self {
                refusing: chunk.more,
                ..Self::default()
            };
            return Step::TooMuch;
        }
        // A synchronization of one chunk moves nothing.
        append(&mut self.pods, chunk.pods);
        append(&mut self.containers, chunk.containers);
        if chunk.more {
            return Step::More;
        }
        let whole = std::mem::take(self);
        Step::Complete(whole.pods, whole.containers)
    }
}

fn append<T>(list: &mut Vec<T>, chunk: Vec<T>) {
    if list.is_empty() {
        *list = chunk;
    } else {
        list.extend(chunk);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunk(pods: usize, containers: usize, more: bool) -> SynchronizeRequest {
        SynchronizeRequest {
            pods: vec![PodSandbox::default(); pods],
            containers: vec![Container::default(); containers],
            more,
        }
    }

    #[test]
    fn a_synchronization_over_a_limit_is_refused_to_its_end_and_no_further() {
        let limits = SyncLimits {
            memory: 100,
            objects: 4,
        };
        let mut gather = Gather::default();
        for (objects, memory, more, expected) in [
            (2, 10, true, "more"),
            (3, 10, true, "too much"),
            (1, 10, true, "too much"),
            (1, 10, false, "too much"),
            (2, 60, true, "more"),
            (1, 60, false, "too much"),
            (4, 100, false, "complete"),
            (5, 0, false, "too much"),
            (0, 0, false, "complete"),
        ] {
            let step = match gather.take(
                chunk(1.min(objects), objects.saturating_sub(1), more),
                memory,
                &limits,
            ) {
                Step::More => "more",
                Step::TooMuch => "too much",
                Step::Complete(..) => "complete",
            };
            assert_eq!(
                step, expected,
                "{objects} objects, {memory} bytes, more {more}"
            );
        }
    }

    proptest! {
        #[test]
        fn chunks_add_up_and_nothing_over_the_limits_is_kept(
            chunks in proptest::collection::vec((0_usize..5, 0_usize..5, 0_usize..60, any::<bool>()), 0..40),
        ) {
            let limits = SyncLimits { memory: 150, objects: 12 };
            let mut gather = Gather::default();
            // The model: sums since the last end, and whether they were over a limit once.
            let (mut pods, mut containers, mut memory, mut over) = (0, 0, 0, false);
            for (p, c, m, more) in chunks {
                (pods, containers, memory) = (pods + p, containers + c, memory + m);
                over |= pods + containers > 12 || memory > 150;
                let step = gather.take(chunk(p, c, more), m, &limits);
                match step {
                    Step::TooMuch => prop_assert!(over),
                    Step::More => prop_assert!(!over && more),
                    Step::Complete(all_pods, all_containers) => {
                        prop_assert!(!over && !more);
                        prop_assert_eq!((all_pods.len(), all_containers.len()), (pods, containers));
                    }
                }
                prop_assert!(gather.memory <= 150);
                prop_assert!(gather.pods.len() + gather.containers.len() <= 12);
                if !more {
                    (pods, containers, memory, over) = (0, 0, 0, false);
                }
            }
        }
    }
}
