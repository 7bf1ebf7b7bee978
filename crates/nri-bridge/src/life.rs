//! Which events the moments of one container mean: the pure part.
//!
//! ```text
//!            create            accepted          created          starting         started        stopped
//!   Absent ────────► Asked ──────────► Accepted ────────► Created ───────► Starting ──────► Running ───────► Stopped
//!     ▲    RunPod,     │ refused:                PostCreate        Start          PostStart          Stop        │
//!     │    Create      │ StopPod, RemovePod                                                                      │
//!     └────────────────┴───────────────────── removed, from everywhere ─────────────────────────────────────────┘
//!                        (Stop unless told,) Remove, StopPod, RemovePod
//! ```
//!
//! A moment that is skipped is made up for: a container that is started was created, one that is removed has stopped.
//! A start is not made up for when it has ended already: nobody knows whether there was one.

#[cfg(test)]
mod tests;

/// What is told to plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "NRI's own names")]
pub enum Told {
    RunPodSandbox,
    CreateContainer,
    PostCreateContainer,
    StartContainer,
    PostStartContainer,
    UpdateContainer,
    PostUpdateContainer,
    StopContainer,
    RemoveContainer,
    StopPodSandbox,
    RemovePodSandbox,
}

/// What happens to a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It is to be made.
    Create,
    /// Plugins have taken it; whoever runs it goes on.
    Accepted,
    /// A plugin has not, or none could be asked: it is not made.
    Refused,
    /// It was made.
    Created,
    /// It is about to be started.
    Starting,
    /// It runs.
    Started,
    /// Its resources are to be changed.
    Updating,
    /// They were.
    Updated,
    /// It has ended.
    Stopped,
    /// It is gone, or never came to be.
    Removed,
}

/// How far plugins were told of one container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Not at all, or to its end.
    #[default]
    Absent,
    /// They are being asked whether it may be made.
    Asked,
    /// They took it.
    Accepted,
    /// It was made.
    Created,
    /// It is about to run.
    Starting,
    /// It runs.
    Running,
    /// It has ended.
    Stopped,
}

impl Life {
    /// Takes one moment, and says what is to be told, in this order.
    #[must_use]
    pub fn step(&mut self, moment: Moment) -> Vec<Told> {
        let before = *self;
        match moment {
            Moment::Create => {
                // What was there of it is no more.
                let mut told = end(before);
                told.extend([Told::RunPodSandbox, Told::CreateContainer]);
                *self = Self::Asked;
                told
            }
            Moment::Accepted if before == Self::Asked => {
                *self = Self::Accepted;
                Vec::new()
            }
            Moment::Refused if before == Self::Asked => {
                *self = Self::Absent;
                end(before)
            }
            Moment::Created => self.advance(Self::Created),
            Moment::Starting => self.advance(Self::Starting),
            Moment::Started => self.advance(Self::Running),
            Moment::Updating if before.is_there() => vec![Told::UpdateContainer],
            Moment::Updated if before.is_there() => vec![Told::PostUpdateContainer],
            Moment::Stopped if before >= Self::Accepted && before < Self::Stopped => {
                *self = Self::Stopped;
                vec![Told::StopContainer]
            }
            Moment::Removed => {
                *self = Self::Absent;
                end(before)
            }
            Moment::Accepted
            | Moment::Refused
            | Moment::Updating
            | Moment::Updated
            | Moment::Stopped => Vec::new(),
        }
    }

    /// Whether plugins that come now are told of it.
    #[must_use]
    pub fn is_known(self) -> bool {
        self >= Self::Accepted
    }

    /// Whether its resources can be changed.
    #[must_use]
    pub fn is_there(self) -> bool {
        self >= Self::Created && self < Self::Stopped
    }

    /// On to `stage`, with what lies between; never back, and never from nothing.
    fn advance(&mut self, stage: Self) -> Vec<Told> {
        if *self < Self::Accepted {
            return Vec::new();
        }
        let steps = [
            (Self::Created, Told::PostCreateContainer),
            (Self::Starting, Told::StartContainer),
            (Self::Running, Told::PostStartContainer),
        ];
        let passed = steps
            .into_iter()
            .filter(|(step, _)| *self < *step && *step <= stage);
        let told = passed.map(|(_, told)| told).collect();
        *self = (*self).max(stage);
        told
    }
}

/// What is left to tell of one that is gone.
fn end(life: Life) -> Vec<Told> {
    let mut told = Vec::new();
    if life == Life::Absent {
        return told;
    }
    if life > Life::Asked {
        if life < Life::Stopped {
            told.push(Told::StopContainer);
        }
        told.push(Told::RemoveContainer);
    }
    told.extend([Told::StopPodSandbox, Told::RemovePodSandbox]);
    told
}
