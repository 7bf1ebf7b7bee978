//! One task's life: the pure part.
//!
//! ```text
//!  Recording ─► Pulling ─► Creating ─► Marking ─► Starting ─► Running ─────────► Ended ─► Over ─► Gone
//!   intent on    image      container   "may run"   start's     init held by       is it    told,   nothing
//!   disk                    made        on disk     answer      pidfd, exit        down,    being   is left
//!      │           │           │           │        awaited     subscribed         and how? removed
//!      └───────────┴───────────┴───────────┴── a kill: over at once ──────────────────────►
//!                                                      └───────────┴── a kill: Killing, beside the phase ─►
//!  Attaching (after a restart of ours) ─► any of them, by what the record says and what the container does
//! ```
//!
//! A kill is a small machine of its own beside the phase, see `step/kill.rs`. `Ended` is left only when the container is
//! verified down: its init is dead by pidfd or, where that cannot be held, by the engine's word.
//!
//! An engine that does not answer changes no phase: only the death of the init does.

use std::sync::Arc;
use std::time::Duration;

use longshore_health::CheckStatus;
use serde::{Deserialize, Serialize};

use crate::step::kill::Killing;
use crate::{Action, Condition, Details, Ending, Found, KillCause, Plan};

/// How far a task is, for its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Stage {
    /// It is to be launched; there may be a container, and none has been started.
    Intended,
    /// Its container is about to be started, and may run from now on.
    Starting,
    /// It runs.
    Running,
    /// It runs, and is being killed.
    Killing(KillCause),
    /// Its last status has been told.
    Over,
}

impl Stage {
    /// Whether nothing may go on before it is on disk.
    #[must_use]
    pub const fn is_awaited(self) -> bool {
        matches!(self, Self::Intended | Self::Starting)
    }
}

/// The state of one task. Knows no clock, does no I/O; see [`State::step`].
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) plan: Plan,
    pub(crate) phase: Phase,
    /// The container's id.
    pub(crate) container: Option<String>,
    pub(crate) init: Init,
    /// Its first process, where it was last seen.
    pub(crate) pid: Option<i32>,
    pub(crate) kill: Option<Killing>,
    /// Of a predecessor, until it is taken up.
    pub(crate) recorded_kill: Option<RecordedKill>,
    /// Which run of the container is ours.
    pub(crate) run: Option<i64>,
    /// When it had begun at the latest, while that is not known: what the engine answered to the start.
    pub(crate) started_by: Option<i64>,
    pub(crate) paused: bool,
    pub(crate) told_running: bool,
    pub(crate) details: Option<Arc<Details>>,
    /// The container's or the image's stop signal.
    pub(crate) stop_signal: Option<String>,
    pub(crate) healthy: Option<bool>,
    pub(crate) check: Option<CheckStatus>,
    /// What the health check said last.
    pub(crate) unhealthy: String,
    /// Why it is evicted.
    pub(crate) evicted: String,
    pub(crate) checking: bool,
    pub(crate) logging: bool,
    /// What others were seen to do.
    pub(crate) others: Others,
    /// Whether the exit is subscribed to.
    pub(crate) waiting: bool,
    pub(crate) inspecting: bool,
    /// The engine's events are not heard at the moment.
    pub(crate) deaf: bool,
    /// The last call of the engine was not answered.
    pub(crate) engine_silent: bool,
    /// What the engine's last call failed with, when it is tried again.
    pub(crate) problem: Option<String>,
    pub(crate) inspect_at: Option<Duration>,
    pub(crate) completion_at: Option<Duration>,
    /// When RUNNING is told though the container could not be looked at.
    pub(crate) running_by: Option<Duration>,
    /// When the launch is given up, if the engine cannot be reached until then.
    pub(crate) launch_by: Duration,
    /// When what failed for want of an engine is tried again.
    pub(crate) again: Option<(Duration, Action)>,
    pub(crate) remove_tries: u32,
    /// The name of the container is taken, in the engine's words.
    pub(crate) conflict: Option<String>,
}

/// Where the task is in its life.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Phase {
    Recording,
    Pulling,
    /// The bool: whether the creation's answer is awaited; otherwise it was lost, and the container is looked for.
    Creating(bool),
    Marking,
    /// Whether the start's answer is awaited; otherwise it was lost, and the container is looked at.
    Starting(bool),
    /// The engine did not start it. What may run all the same is being ended; then this is told.
    Refused(Ending),
    Running,
    Ended(Ended),
    /// The last status was told. Whether a creation is still under way.
    Over(bool),
    Gone,
    /// We were restarted: the stage on record, and when that was rebooted since.
    Attaching {
        stage: Stage,
        rebooted: bool,
    },
}

/// What is held of the container's first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Init {
    /// Not known yet.
    Unknown,
    /// Being opened.
    Asked,
    /// Held, and alive as far as we were told.
    Held,
    /// Cannot be held.
    Impossible,
    Dead,
}

/// The container has ended, or is said to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) since: Duration,
    /// The code that a subscription or an event told.
    pub(crate) code: Option<i64>,
    pub(crate) report: Report,
    /// When it is told without a report.
    pub(crate) settle_by: Duration,
    pub(crate) drained: bool,
    pub(crate) drain_by: Duration,
    /// When an init that should be dead, and is not, is killed.
    pub(crate) finish_init_at: Duration,
    /// Until when the events may tell who sent a signal; they have told all when they have told the exit.
    pub(crate) gossip_by: Duration,
    pub(crate) heard_die: bool,
    /// Until when events are waited for that cannot be heard, and whether some may have been missed.
    pub(crate) hear_by: Duration,
    pub(crate) missed: bool,
    /// When it is looked at once more, should the look that is under way have no answer.
    pub(crate) look_again_at: Duration,
    /// The engine has said how it is, since.
    pub(crate) answered: bool,
    /// It runs again, which is not what was launched, and is being removed by force.
    pub(crate) taking_down: bool,
    /// When this was last settled: what was due then is not due again.
    pub(crate) looked_at: Duration,
}

/// What the engine reports of an ended container.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Report {
    Nothing,
    Down {
        code: i64,
        out_of_memory: bool,
    },
    /// There is no such container any more.
    Removed,
}

/// What others were seen to do to the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    /// Signals that we have sent without wanting the end: the engine tells them as it tells those of others.
    pub(crate) sent_by_us: Vec<i32>,
    /// A signal, and when.
    pub(crate) signal: Option<(i32, Duration)>,
    pub(crate) stopped: bool,
    pub(crate) removed: bool,
    pub(crate) restarted: bool,
    pub(crate) out_of_memory: bool,
}

impl State {
    /// A task that is to be launched.
    #[must_use]
    pub fn launch(plan: Plan, now: Duration, actions: &mut Vec<Action>) -> Self {
        let state = Self::new(plan, Phase::Recording, now);
        actions.push(Action::Record(Stage::Intended));
        state
    }

    /// A task that is not launched, since it cannot be. Its one status says why.
    #[must_use]
    pub fn refused(plan: Plan, ending: Ending, now: Duration, actions: &mut Vec<Action>) -> Self {
        let mut state = Self::new(plan, Phase::Recording, now);
        state.end(ending, false, actions);
        state
    }

    /// A task of which a record was found. `rebooted`: the record is of an earlier boot. `pid`: its first process, where
    /// the record knows it.
    #[must_use]
    pub fn attach(plan: Plan, found: Recorded, now: Duration, actions: &mut Vec<Action>) -> Self {
        let mut state = Self::new(plan, Phase::Recording, now);
        state.container = found.container;
        state.run = found.run;
        state.started_by = found.started_by;
        state.told_running = found.told_running;
        state.healthy = found.healthy;
        state.recorded_kill = found.kill;
        if found.stage == Stage::Over {
            state.phase = Phase::Over(false);
            if state.plan.logs && state.plan.remove && state.container.is_some() {
                // We may have died before all of its output was read, which goes with the container.
                state.logging = true;
                actions.extend([Action::StartLogs, Action::DrainLogs]);
            }
            state.remove_or_finish(actions);
            return state;
        }
        state.phase = Phase::Attaching {
            stage: found.stage,
            rebooted: found.rebooted,
        };
        if let Some(pid) = found.pid.filter(|_| !found.rebooted) {
            state.init = Init::Asked;
            actions.push(Action::Hold(pid));
        }
        state.inspect(actions);
        state
    }

    fn new(plan: Plan, phase: Phase, now: Duration) -> Self {
        let completion_at = plan.completion.map(|limit| now.saturating_add(limit));
        let launch_by = now.saturating_add(plan.patience);
        Self {
            check: plan.check,
            plan,
            phase,
            container: None,
            init: Init::Unknown,
            pid: None,
            kill: None,
            recorded_kill: None,
            run: None,
            started_by: None,
            paused: false,
            told_running: false,
            details: None,
            stop_signal: None,
            healthy: None,
            unhealthy: String::new(),
            evicted: String::new(),
            checking: false,
            logging: false,
            others: Others::default(),
            waiting: false,
            inspecting: false,
            deaf: false,
            engine_silent: false,
            problem: None,
            inspect_at: None,
            completion_at,
            running_by: None,
            launch_by,
            again: None,
            remove_tries: 0,
            conflict: None,
        }
    }

    /// The container's id, once it has been made.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        self.container.as_deref()
    }

    /// When [`Event::Due`](crate::Event::Due) is to be fed; `None` when nothing is waited for but events.
    #[must_use]
    pub fn due(&self) -> Option<Duration> {
        let ended = match &self.phase {
            Phase::Ended(ended) => ended.due(self.init, self.deaf),
            _ => None,
        };
        [
            ended,
            self.inspect_at,
            self.completion_at,
            self.running_by,
            self.again.as_ref().map(|(at, _)| *at),
            self.kill.as_ref().and_then(Killing::due),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether the last status has been told.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over(_) | Phase::Gone)
    }

    /// Whether nothing is left to do.
    #[must_use]
    pub const fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// Whether somebody has frozen the container.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the engine was silent when it was last asked.
    #[must_use]
    pub const fn is_engine_silent(&self) -> bool {
        self.engine_silent
    }

    /// What the launch waits for, while it is tried again.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        let launching = matches!(
            self.phase,
            Phase::Pulling | Phase::Creating(_) | Phase::Starting(_)
        );
        self.problem.as_deref().filter(|_| launching)
    }

    /// Looks at the container, unless that is under way.
    pub(crate) fn inspect(&mut self, actions: &mut Vec<Action>) {
        self.inspect_at = None;
        if !std::mem::replace(&mut self.inspecting, true) {
            actions.push(Action::Inspect);
        }
    }

    /// Takes hold of the first process, once.
    pub(crate) fn hold(&mut self, found: &Found, actions: &mut Vec<Action>) {
        if self.init == Init::Unknown
            && let Some(pid) = found.pid
            && matches!(found.condition, Condition::Running | Condition::Paused)
        {
            self.init = Init::Asked;
            actions.push(Action::Hold(pid));
        }
    }
}

/// What the record of a task says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// How far it was.
    pub stage: Stage,
    /// The machine was restarted since.
    pub rebooted: bool,
    /// The container's id.
    pub container: Option<String>,
    /// Which run of it was the task's, in nanoseconds since 1970.
    pub run: Option<i64>,
    /// When that had begun at the latest, where it is not known which it was.
    pub started_by: Option<i64>,
    /// Its first process, if it is still that process.
    pub pid: Option<i32>,
    /// RUNNING has been told.
    pub told_running: bool,
    /// What was last told of its health.
    pub healthy: Option<bool>,
    /// The kill under way.
    pub kill: Option<RecordedKill>,
}

/// A kill under way, as its record tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedKill {
    /// What is left of its grace.
    pub left: Duration,
    /// The signal that was asked for, in place of the container's.
    pub signal: Option<String>,
}

impl State {
    /// What the record keeps beside the stage: which run is ours, whether RUNNING was told, and what of its health.
    pub(crate) const fn for_record(&self) -> (Option<i64>, bool, Option<bool>) {
        (self.run, self.told_running, self.healthy)
    }

    /// When our run had begun at the latest, for the record.
    pub(crate) const fn started_by_for_record(&self) -> Option<i64> {
        self.started_by
    }

    /// The kill under way, for the record.
    pub(crate) fn kill_for_record(&self, now: Duration) -> Option<RecordedKill> {
        self.kill.as_ref().map(|kill| kill.for_record(now))
    }
}

impl State {
    /// Paths that name the container's network namespace, the best first.
    pub(crate) fn network(&self) -> Vec<String> {
        let key = self.details.as_ref().and_then(|it| it.sandbox_key.clone());
        let key = key.filter(|key| !key.is_empty());
        let of_init = self.pid.map(|pid| format!("/proc/{pid}/ns/net"));
        of_init.into_iter().chain(key).collect()
    }
}
