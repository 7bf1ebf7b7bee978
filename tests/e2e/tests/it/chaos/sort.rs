//! Sorts of tasks: what they run, what is done to them, and how they must end after that.

use std::time::Duration;

use crate::random::Random;

/// What a task does by itself, and what is done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    /// Ends by itself with this code.
    Exits(i64),
    NotFound,
    OutOfMemory,
    /// Healthy to its end.
    Healthy,
    Unhealthy,
    /// Ends with 3 when it is asked to; we stop it.
    Stopped,
    /// Does not hear TERM; we stop it.
    StubbornStopped,
    /// We kill it.
    Killed,
    /// Somebody else freezes it; then we stop it.
    PausedStopped,
    StoppedByOther,
    KilledByOther,
    RemovedByOther,
    RestartedByOther,
    /// Its first process gets KILL from outside.
    Slain,
}

/// In the order in which they are drawn; those that come twice are the more frequent ones.
const ALL: [Sort; 18] = [
    Sort::Exits(0),
    Sort::Exits(0),
    Sort::Exits(7),
    Sort::Exits(7),
    Sort::NotFound,
    Sort::OutOfMemory,
    Sort::Healthy,
    Sort::Unhealthy,
    Sort::Stopped,
    Sort::Stopped,
    Sort::StubbornStopped,
    Sort::Killed,
    Sort::PausedStopped,
    Sort::StoppedByOther,
    Sort::KilledByOther,
    Sort::RemovedByOther,
    Sort::RestartedByOther,
    Sort::Slain,
];

/// With this one that hears TERM ends.
pub(super) const ON_TERM: i64 = 3;
const OBEDIENT: &str = "trap 'exit 3' TERM; while :; do sleep 1 & wait $!; done";
const STUBBORN: &str = "trap '' TERM; while :; do sleep 1; done";

impl Sort {
    /// The sort of the task of this number: each comes in turn.
    pub(super) fn of(number: usize) -> Self {
        ALL[number % ALL.len()]
    }

    /// Flags of `task run` beside the usual ones, and the command.
    pub(super) fn command(self, random: &mut Random) -> (Vec<&'static str>, Vec<String>) {
        let shell = |script: &str| vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
        let seconds = random.below(7);
        match self {
            Self::Exits(code) => (
                vec![],
                shell(&format!(
                    "echo begin; sleep {seconds}; echo end; exit {code}"
                )),
            ),
            Self::NotFound => (vec![], vec!["/no/such/program".to_owned()]),
            Self::OutOfMemory => (
                vec!["-m", "32m"],
                shell("x=0123456789abcdef; while :; do x=$x$x; done"),
            ),
            Self::Healthy => (
                vec![
                    "--health-cmd=true",
                    "--health-interval=1s",
                    "--health-retries=2",
                    "--health-timeout=4s",
                ],
                shell("sleep 15; exit 0"),
            ),
            Self::Unhealthy => (
                vec![
                    "--health-cmd=exit 1",
                    "--health-interval=1s",
                    "--health-retries=2",
                ],
                shell(OBEDIENT),
            ),
            Self::StubbornStopped => (vec![], shell(STUBBORN)),
            _ => (vec![], shell(OBEDIENT)),
        }
    }

    /// Whether it can be done to it at any moment, also while it is launched.
    pub(super) const fn is_ours(self) -> bool {
        matches!(self, Self::Stopped | Self::StubbornStopped | Self::Killed)
    }

    pub(super) const fn ends_by_itself(self) -> bool {
        matches!(
            self,
            Self::Exits(_) | Self::NotFound | Self::OutOfMemory | Self::Healthy | Self::Unhealthy
        )
    }
}

/// An ending, and the exit codes that may go with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) word: &'static str,
    pub(super) codes: Vec<i64>,
}

fn ending(word: &'static str, codes: &[i64]) -> Ending {
    Ending {
        word,
        codes: codes.to_vec(),
    }
}

/// What a task has met beside what was done to it on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    /// The daemon was away when it ended, or was about to: nobody saw who did it.
    pub(super) unseen: bool,
    /// The engine was killed while it may have run.
    pub(super) outage: bool,
    /// And did not keep its containers.
    pub(super) swept: bool,
    /// For longer than the daemon waits for an exit status.
    pub(super) long_silence: bool,
    /// The engine was told to have refused its start.
    pub(super) refused: bool,
    /// The engine was killed while it started it, and knew nothing of that when it came back.
    pub(super) forgotten: bool,
    /// Its launch took so long that it may have been given up.
    pub(super) slow_launch: bool,
}

/// How long the engine must have been silent for an exit status to be given up.
pub(super) const STATUS: Duration = Duration::from_secs(9);
/// How long a launch must have taken to be given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(50);

/// All endings that are right.
pub(super) fn right(sort: Sort, met: Met) -> Vec<Ending> {
    let mut all = match sort {
        Sort::Exits(code) => vec![ending("exited", &[code])],
        Sort::NotFound => vec![ending("program-not-found", &[127])],
        Sort::OutOfMemory => vec![ending("out-of-memory", &[137])],
        Sort::Healthy => vec![ending("exited", &[0])],
        Sort::Unhealthy => vec![ending("killed-by-health-check", &[ON_TERM, 137])],
        Sort::Stopped => vec![
            ending("killed", &[ON_TERM, 137]),
            ending("killed-during-launch", &[137]),
        ],
        Sort::StubbornStopped | Sort::Killed => vec![
            ending("killed", &[137]),
            ending("killed-during-launch", &[137]),
        ],
        Sort::PausedStopped => vec![ending("killed", &[ON_TERM, 137])],
        Sort::StoppedByOther => vec![ending("stopped-by-other", &[ON_TERM, 137])],
        Sort::KilledByOther => vec![ending("stopped-by-other", &[137])],
        Sort::RemovedByOther => vec![ending("removed-by-other", &[137])],
        // Between the two it may have been told, and removed.
        Sort::RestartedByOther => vec![
            ending("restarted-by-other", &[125]),
            ending("stopped-by-other", &[ON_TERM, 137]),
        ],
        Sort::Slain => vec![ending("signaled", &[137])],
    };
    // Who did it is told by events, which are not kept for whoever comes later.
    let by_others = matches!(
        sort,
        Sort::StoppedByOther | Sort::KilledByOther | Sort::RemovedByOther | Sort::RestartedByOther
    );
    if by_others && (met.unseen || met.outage) {
        all.push(ending("exited", &[ON_TERM]));
        all.push(ending("signaled", &[137]));
        all.push(ending("stopped-by-other", &[ON_TERM, 137]));
    }
    if sort == Sort::OutOfMemory && met.outage {
        all.push(ending("signaled", &[137]));
    }
    if met.outage {
        // What dockerd says of a container that ended while it was away, when its containerd does not know it any more.
        for ending in &mut all {
            ending.codes.extend([0, 255]);
        }
        all.push(ending("exited", &[0, 255]));
    }
    if met.swept {
        // One that does not hear the engine's TERM may end by itself in the grace.
        let own = match sort {
            Sort::Exits(code) => code,
            _ => 0,
        };
        all.push(ending("stopped-by-other", &[ON_TERM, 137, 143, own]));
        // An engine that comes back ends what it did not keep before it answers anybody: nobody is told who did it.
        all.push(ending("exited", &[ON_TERM]));
        all.push(ending("signaled", &[137, 143]));
    }
    if met.long_silence {
        all.push(ending("engine-gone", &[125]));
        // A removal by force kills first, and that it is gone may be heard too late.
        if sort == Sort::RemovedByOther {
            all.push(ending("stopped-by-other", &[137]));
        }
    }
    if met.refused || met.forgotten {
        all.push(ending("not-started", &[125]));
    }
    if met.slow_launch {
        for word in ["not-started", "not-created", "pull-failed"] {
            all.push(ending(word, &[125]));
        }
    }
    all
}

/// The state that goes with an ending.
pub(super) fn state(word: &str, code: i64) -> &'static str {
    match (word, code) {
        ("exited", 0) => "TASK_FINISHED",
        ("killed" | "killed-during-launch" | "killed-by-health-check", _) => "TASK_KILLED",
        _ => "TASK_FAILED",
    }
}

#[test]
fn what_is_right_follows_from_what_was_done() {
    let calm = Met::default();
    for number in 0..ALL.len() {
        let sort = Sort::of(number);
        let words: Vec<_> = right(sort, calm).iter().map(|it| it.word).collect();
        assert!(words.len() <= 2, "{sort:?}: {words:?}");
        assert!(!words.contains(&"engine-gone"), "{sort:?}");
    }
    let swept = Met {
        swept: true,
        outage: true,
        ..calm
    };
    let exits = right(Sort::Exits(0), swept);
    assert_eq!(
        exits,
        [
            ending("exited", &[0, 0, 255]),
            ending("exited", &[0, 255]),
            ending("stopped-by-other", &[ON_TERM, 137, 143, 0]),
            ending("exited", &[ON_TERM]),
            ending("signaled", &[137, 143]),
        ]
    );
    assert_eq!(state("exited", 0), "TASK_FINISHED");
    assert_eq!(state("exited", 7), "TASK_FAILED");
}
