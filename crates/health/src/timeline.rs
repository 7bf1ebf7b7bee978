//! When the runs of one checker take place: the part that health checks and checks share.
//!
//! ```text
//!              due                 finished
//!   Waiting ────────► Probing(run) ────────► Waiting (interval from now)
//!      │                  │ the run is dropped
//!      └────── pause ─────┴──► Paused ── resume: probes at once ──► Probing(run)
//! ```

use std::time::Duration;

use crate::ProbeResult;

/// Tells one run from another; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run(u64);

/// What a checker is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckerEvent {
    /// The time that [`due`](crate::Machine::due) named has come.
    Due,
    /// A run ended. One that is not under way any more is passed over.
    Finished {
        /// Which.
        run: Run,
        /// What it came to.
        result: ProbeResult,
    },
    /// Stop checking; what is under way is dropped.
    Pause,
    /// Check again, at once.
    Resume,
}

/// What a checker wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckerAction<Report> {
    /// Begin this run.
    Probe(Run),
    /// Drop the run under way, and kill what it started.
    Cancel,
    /// Tell this.
    Report(Report),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting { due: Duration },
    Probing,
    Paused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    interval: Duration,
    phase: Phase,
    run: Run,
}

impl Timeline {
    pub(crate) const fn new(delay: Duration, interval: Duration) -> Self {
        Self {
            interval,
            phase: Phase::Waiting { due: delay },
            run: Run(0),
        }
    }

    pub(crate) const fn due(&self) -> Option<Duration> {
        match self.phase {
            Phase::Waiting { due } => Some(due),
            Phase::Probing | Phase::Paused => None,
        }
    }

    /// Takes an event: what is to be done, and the result that counts.
    pub(crate) fn step<R>(
        &mut self,
        event: CheckerEvent,
        now: Duration,
        actions: &mut Vec<CheckerAction<R>>,
    ) -> Option<ProbeResult> {
        match (event, self.phase) {
            (CheckerEvent::Due, Phase::Waiting { due }) if now >= due => self.begin(actions),
            (CheckerEvent::Finished { run, result }, Phase::Probing) if run == self.run => {
                let due = now.saturating_add(self.interval);
                self.phase = Phase::Waiting { due };
                return Some(result);
            }
            (CheckerEvent::Pause, Phase::Probing) => {
                actions.push(CheckerAction::Cancel);
                self.phase = Phase::Paused;
            }
            (CheckerEvent::Pause, Phase::Waiting { .. }) => self.phase = Phase::Paused,
            (CheckerEvent::Resume, Phase::Paused) => self.begin(actions),
            (
                CheckerEvent::Due
                | CheckerEvent::Finished { .. }
                | CheckerEvent::Pause
                | CheckerEvent::Resume,
                _,
            ) => {}
        }
        None
    }

    fn begin<R>(&mut self, actions: &mut Vec<CheckerAction<R>>) {
        self.run = Run(self.run.0.wrapping_add(1));
        self.phase = Phase::Probing;
        actions.push(CheckerAction::Probe(self.run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn step(
        timeline: &mut Timeline,
        event: CheckerEvent,
        now: u32,
    ) -> (Option<ProbeResult>, Vec<CheckerAction<()>>) {
        let mut actions = Vec::new();
        let result = timeline.step(event, SECOND * now, &mut actions);
        (result, actions)
    }

    fn finished(run: Run) -> CheckerEvent {
        CheckerEvent::Finished {
            run,
            result: ProbeResult::Connected,
        }
    }

    #[test]
    fn hc22_the_first_run_comes_after_the_delay_and_the_next_an_interval_after_its_end() {
        let mut timeline = Timeline::new(SECOND * 15, SECOND * 10);
        assert_eq!(timeline.due(), Some(SECOND * 15));
        assert_eq!(step(&mut timeline, CheckerEvent::Due, 14).1, vec![]);
        let run = Run(1);
        assert_eq!(
            step(&mut timeline, CheckerEvent::Due, 15).1,
            vec![CheckerAction::Probe(run)]
        );
        assert_eq!(timeline.due(), None, "one run at a time");
        assert_eq!(step(&mut timeline, CheckerEvent::Due, 99).1, vec![]);
        assert!(step(&mut timeline, finished(run), 22).0.is_some());
        assert_eq!(
            timeline.due(),
            Some(SECOND * 32),
            "from the end, not from the beginning"
        );
    }

    #[test]
    fn hc22_a_pause_drops_what_is_under_way_and_a_resume_runs_at_once() {
        let mut timeline = Timeline::new(Duration::ZERO, SECOND);
        step(&mut timeline, CheckerEvent::Due, 0);
        assert_eq!(
            step(&mut timeline, CheckerEvent::Pause, 1).1,
            vec![CheckerAction::Cancel]
        );
        assert_eq!(
            step(&mut timeline, CheckerEvent::Pause, 1).1,
            vec![],
            "twice"
        );
        assert_eq!(step(&mut timeline, finished(Run(1)), 2), (None, vec![]));
        assert_eq!(timeline.due(), None);
        assert_eq!(step(&mut timeline, CheckerEvent::Due, 3).1, vec![]);
        let probe = vec![CheckerAction::Probe(Run(2))];
        assert_eq!(step(&mut timeline, CheckerEvent::Resume, 4).1, probe);
        assert_eq!(
            step(&mut timeline, CheckerEvent::Resume, 4).1,
            vec![],
            "twice"
        );
        assert_eq!(
            step(&mut timeline, finished(Run(1)), 5).0,
            None,
            "an earlier run"
        );
        assert!(step(&mut timeline, finished(Run(2)), 5).0.is_some());
        assert_eq!(
            step(&mut timeline, CheckerEvent::Pause, 5).1,
            vec![],
            "nothing under way"
        );
    }

    #[test]
    fn times_that_never_come_are_no_overflow() {
        let mut timeline = Timeline::new(Duration::ZERO, Duration::MAX);
        step(&mut timeline, CheckerEvent::Due, 1);
        step(&mut timeline, finished(Run(1)), 2);
        assert_eq!(timeline.due(), Some(Duration::MAX));
    }
}
