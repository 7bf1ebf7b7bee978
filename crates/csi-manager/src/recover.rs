//! What becomes of what an earlier life left behind: the decision table. Pure.
//!
//! The rows are those of Mesos' `ServiceManagerProcess::recover` with its faults repaired: nothing
//! fails recovery as a whole, a container is stopped with grace, its whole launch request is
//! compared, and nothing is stopped while a volume is mounted below the plugin's mount root.
//!
//! | row | the agent lists it | record | wanted today | becomes |
//! |---|---|---|---|---|
//! | 6 | running | damaged | yes, hash in its environment equal | adopted (damaged record set aside) |
//! | 6 | running | damaged | any other | stopped (damaged record set aside) |
//! | 7 | running | hash equal | yes | kept, untouched |
//! | 8, 10 | running | empty or missing | yes, hash in its environment equal | adopted |
//! | 8, 10 | running | empty or missing | any other | stopped |
//! | 9 | running | hash differs | yes | stopped |
//! | 11 | running | any | no | stopped |
//! | 12 | without a pid (ending or starting) | any | any | awaited, with a bound, then stopped |
//! | 13 | no | any | any | its files are removed |
//! | 14 | running, no directory | - | yes, hash in its environment equal | adopted |
//! | 14 | running, no directory | - | yes, hash unknown or differs | stopped |
//! | 14 | any, no directory | - | no | reported, never touched |
//!
//! Row 1 (unmanaged) has nothing to recover; rows 2 (the agent does not answer) and 3 (a directory
//! cannot be listed) are retried; row 4 (a path that is none of ours) is reported; row 5 (a record
//! of another plugin) is a damaged record.

use crate::launch::LaunchHash;

#[cfg(test)]
mod tests;

/// What the agent says of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    No,
    /// Being destroyed, or starting.
    WithoutPid,
    Running,
}

/// What its directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// There is no directory.
    NoDirectory,
    Missing,
    Empty,
    /// Torn, corrupt, newer, of another kind or of another plugin.
    Damaged,
    Hash(LaunchHash),
}

/// The facts about one container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) listed: Listed,
    pub(crate) held: Held,
    /// The hash of today's configuration, when it is wanted today.
    pub(crate) wanted: Option<LaunchHash>,
    /// The hash in the environment of its process; only looked for where it matters.
    pub(crate) environment: Option<LaunchHash>,
    /// A volume is mounted below the plugin's mount root.
    pub(crate) mounted: bool,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Row 7: left as it is, supervised when somebody asks.
    Keep,
    /// Rows 6, 8, 10 and 14: recorded anew, then as if kept.
    Adopt,
    /// Stopped with grace, cleaned; launched anew when wanted.
    Stop(&'static str),
    /// To be stopped, but only when the mount is gone.
    StopLater(&'static str),
    /// Row 12.
    AwaitEnd,
    /// Row 13.
    CleanFiles,
    /// Reported and never touched.
    Stray(&'static str),
}

/// The table.
pub(crate) fn decide(facts: &Facts) -> Verdict {
    let differs = "its launch request is not today's";
    let why = match (facts.listed, facts.held, facts.wanted) {
        (Listed::No, Held::NoDirectory, _) | (_, Held::NoDirectory, None) => {
            return Verdict::Stray("no plugin of the configuration has this id");
        }
        (Listed::No, _, _) => return Verdict::CleanFiles,
        (Listed::WithoutPid, _, _) => return Verdict::AwaitEnd,
        // The record is lost, and the process itself tells that it was launched as today.
        (
            Listed::Running,
            Held::NoDirectory | Held::Damaged | Held::Empty | Held::Missing,
            Some(wanted),
        ) if facts.environment == Some(wanted) => return Verdict::Adopt,
        (Listed::Running, Held::NoDirectory, Some(_)) => {
            "it has no record, and nothing tells that it was launched as today"
        }
        (Listed::Running, Held::Hash(held), Some(wanted)) => {
            if held == wanted {
                return Verdict::Keep;
            }
            differs
        }
        (Listed::Running, Held::Damaged, _) => "its record is damaged",
        (Listed::Running, Held::Empty, _) => "its record is empty",
        (Listed::Running, Held::Missing, _) => "its record is missing",
        (Listed::Running, Held::Hash(_), None) => "no plugin of the configuration wants it",
    };
    if facts.mounted {
        Verdict::StopLater(why)
    } else {
        Verdict::Stop(why)
    }
}
