//! Which version to probe next, and what an answer means: pure.
//!
//! ```text
//!   unknown:    v1 ── UNIMPLEMENTED ──► v0 ── UNIMPLEMENTED ──► Unknown
//!                └── ready ─► Found(v1)  └── ready ─► Found(v0)
//!   expected:    it ── UNIMPLEMENTED ──► the other ── ready or not ready ──► Changed
//!   any:         not ready, UNAVAILABLE, no answer, disconnected ──► Later, with the same version
//!                any other status ──► Refused
//! ```

use crate::{ApiVersion, Waiting};

/// What one Probe call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// OK, with `ready` true or absent (0.2 has no such field).
    Ready,
    /// OK, with `ready = false`.
    NotReady,
    Unimplemented,
    Unavailable {
        message: String,
    },
    Disconnected {
        detail: String,
    },
    /// No answer in time.
    Silent,
    /// Any other status.
    Refused,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Try(ApiVersion),
    Later(Waiting),
    Found(ApiVersion),
    Unknown,
    Changed {
        expected: ApiVersion,
        found: ApiVersion,
    },
    Refused,
}

#[derive(Clone, Debug)]
pub(crate) struct Detection {
    expect: Option<ApiVersion>,
    trying: ApiVersion,
    /// The other version was UNIMPLEMENTED in this round.
    crossed: bool,
}

impl Detection {
    pub(crate) const fn new(expect: Option<ApiVersion>) -> Self {
        let trying = match expect {
            Some(version) => version,
            None => ApiVersion::V1,
        };
        Self {
            expect,
            trying,
            crossed: false,
        }
    }

    /// The version to probe first in a new round.
    pub(crate) const fn first(&self) -> ApiVersion {
        self.trying
    }

    pub(crate) fn step(&mut self, answer: Answer) -> Verdict {
        let changed = self.expect.filter(|expected| *expected != self.trying);
        match (answer, changed) {
            (Answer::Ready | Answer::NotReady, Some(expected)) => Verdict::Changed {
                expected,
                found: self.trying,
            },
            (Answer::Ready, None) => Verdict::Found(self.trying),
            (Answer::NotReady, None) => self.later(Waiting::Ready),
            (Answer::Unimplemented, _) if self.crossed => Verdict::Unknown,
            (Answer::Unimplemented, _) => {
                self.crossed = true;
                self.trying = self.trying.other();
                Verdict::Try(self.trying)
            }
            (Answer::Unavailable { message }, _) => self.later(Waiting::Unavailable { message }),
            (Answer::Disconnected { detail }, _) => self.later(Waiting::Disconnected { detail }),
            (Answer::Silent, _) => self.later(Waiting::Answer),
            (Answer::Refused, _) => Verdict::Refused,
        }
    }

    fn later(&mut self, waiting: Waiting) -> Verdict {
        self.crossed = false;
        self.trying = self.expect.unwrap_or(self.trying);
        Verdict::Later(waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiVersion::{V0, V1};
    use Answer::{NotReady, Ready, Refused, Silent, Unimplemented};

    fn unavailable() -> Answer {
        Answer::Unavailable {
            message: "busy".into(),
        }
    }

    #[test]
    fn sm17_the_probe_order_and_its_verdicts() {
        let later = |waiting| Verdict::Later(waiting);
        let busy = || Waiting::Unavailable {
            message: "busy".into(),
        };
        let changed = |expected, found| Verdict::Changed { expected, found };
        for (expect, answers, verdicts) in [
            (None, vec![Ready], vec![Verdict::Found(V1)]),
            (
                None,
                vec![Unimplemented, Ready],
                vec![Verdict::Try(V0), Verdict::Found(V0)],
            ),
            (
                None,
                vec![Unimplemented, Unimplemented],
                vec![Verdict::Try(V0), Verdict::Unknown],
            ),
            (None, vec![Refused], vec![Verdict::Refused]),
            (
                None,
                vec![Unimplemented, Refused],
                vec![Verdict::Try(V0), Verdict::Refused],
            ),
            (Some(V1), vec![Ready], vec![Verdict::Found(V1)]),
            (Some(V0), vec![Ready], vec![Verdict::Found(V0)]),
            (
                Some(V1),
                vec![Unimplemented, Ready],
                vec![Verdict::Try(V0), changed(V1, V0)],
            ),
            (
                Some(V0),
                vec![Unimplemented, Ready],
                vec![Verdict::Try(V1), changed(V0, V1)],
            ),
            (
                Some(V1),
                vec![Unimplemented, NotReady],
                vec![Verdict::Try(V0), changed(V1, V0)],
            ),
            (
                Some(V1),
                vec![Unimplemented, Unimplemented],
                vec![Verdict::Try(V0), Verdict::Unknown],
            ),
            // A round that comes to nothing starts again with the version that was heard of last.
            (
                None,
                vec![NotReady, Ready],
                vec![later(Waiting::Ready), Verdict::Found(V1)],
            ),
            (
                None,
                vec![Silent, Ready],
                vec![later(Waiting::Answer), Verdict::Found(V1)],
            ),
            (
                None,
                vec![Unimplemented, unavailable(), Ready],
                vec![Verdict::Try(V0), later(busy()), Verdict::Found(V0)],
            ),
            (
                None,
                vec![Unimplemented, NotReady, Unimplemented, Ready],
                vec![
                    Verdict::Try(V0),
                    later(Waiting::Ready),
                    Verdict::Try(V1),
                    Verdict::Found(V1),
                ],
            ),
            (
                Some(V1),
                vec![Unimplemented, unavailable(), Ready],
                vec![Verdict::Try(V0), later(busy()), Verdict::Found(V1)],
            ),
        ] {
            let mut detection = Detection::new(expect);
            assert_eq!(detection.first(), expect.unwrap_or(V1));
            let got: Vec<Verdict> = answers.iter().cloned().map(|a| detection.step(a)).collect();
            assert_eq!(got, verdicts, "expect {expect:?}, answers {answers:?}");
        }
    }
}
