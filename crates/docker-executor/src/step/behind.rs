//! Behind our back: what others do to the container.

use std::time::Duration;

use crate::state::{Ended, Init, Others, Phase, Report, Stage, State};
use crate::{Action, KillCause, Seen};

/// How long after a signal an exit is still its doing.
const AFTERMATH: Duration = Duration::from_secs(30);
/// Signals that end what does not handle them, and are sent for that: HUP, INT, QUIT, KILL, TERM.
const ENDING_SIGNALS: [i32; 5] = [1, 2, 3, 9, 15];

impl Others {
    /// The engine tells of a signal, which may be one of ours.
    fn saw_signal(&mut self, signal: i32, now: Duration) {
        match self.sent_by_us.iter().position(|sent| *sent == signal) {
            Some(index) => {
                self.sent_by_us.remove(index);
            }
            None => self.signal = Some((signal, now)),
        }
    }

    /// Whether an exit with `code` at `at` was their doing.
    pub(crate) fn has_stopped_it(&self, code: i64, at: Duration) -> bool {
        self.stopped
            || self.signal.is_some_and(|(signal, sent)| {
                let by_it = code == 128 + i64::from(signal);
                let after_it =
                    ENDING_SIGNALS.contains(&signal) && at.saturating_sub(sent) <= AFTERMATH;
                by_it || after_it
            })
    }
}

impl State {
    /// The engine tells that something was done to the container, by us or by others.
    pub(super) fn seen(&mut self, seen: Seen, now: Duration, actions: &mut Vec<Action>) {
        self.engine_silent = false;
        let watched = self.may_run() || matches!(self.phase, Phase::Ended(_));
        if !watched {
            return;
        }
        let ours = self.kill.is_some();
        match seen {
            // Its own start is told too; whether it is another one, a look tells.
            Seen::Start if self.run.is_some() => self.inspect(actions),
            Seen::Start => {}
            Seen::Signal(signal) if !ours => self.others.saw_signal(signal, now),
            Seen::Stop if !ours => self.others.stopped = true,
            Seen::Signal(_) | Seen::Stop => {}
            Seen::Die(code) => self.exit_told(code, true, now, actions),
            Seen::OutOfMemory => self.others.out_of_memory = true,
            Seen::Pause => self.set_paused(true, actions),
            Seen::Unpause => self.set_paused(false, actions),
            Seen::Destroy => {
                self.others.removed = !ours;
                self.inspect(actions);
            }
        }
    }

    /// What runs is not what was launched: it is removed, which holds whatever restart policy it was given.
    pub(super) fn restarted_by_other(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.others.restarted, true) && self.kill.is_none() {
            // Should we die before it is told, it is not somebody else who has removed it.
            actions.push(Action::Record(Stage::Killing(KillCause::Restarted)));
        }
        self.take_down(now, actions);
    }

    /// It is removed by force, and over when it is gone.
    pub(super) fn take_down(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.enter_ended(now, actions);
        // The one that was held belongs to the run before.
        self.init = Init::Dead;
        if let Phase::Ended(Ended {
            taking_down,
            report,
            ..
        }) = &mut self.phase
        {
            *report = Report::Nothing;
            if !std::mem::replace(taking_down, true) {
                actions.push(Action::Remove);
            }
        }
    }
}
