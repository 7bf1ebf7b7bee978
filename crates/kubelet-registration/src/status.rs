//! What is told about registrations; always answered from memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// All registrations that are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrarStatus {
    /// Grows by one with every change.
    pub generation: u64,
    /// By the operator's name of the plugin.
    pub plugins: BTreeMap<String, Registration>,
}

/// How far a plugin's registration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// How far.
    pub state: RegistrationState,
    /// Why it is not registered; empty when it is.
    pub reason: String,
    /// In this state since.
    pub since: SystemTime,
    /// When it is tried again.
    pub next_retry: Option<SystemTime>,
    /// The socket that kubelet calls, once the driver's name is known.
    pub socket: Option<PathBuf>,
    /// How often kubelet has said that it is registered: once more after each restart of kubelet.
    pub confirmed: u64,
}

impl Registration {
    pub(crate) fn new(now: SystemTime) -> Self {
        Self {
            state: RegistrationState::Waiting,
            reason: String::new(),
            since: now,
            next_retry: None,
            socket: None,
            confirmed: 0,
        }
    }
}

/// How far a registration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegistrationState {
    /// The plugin does not answer, so there is nothing to register.
    Waiting,
    /// It answers, and kubelet has no use for it.
    Unfit,
    /// The socket cannot be made.
    Blocked,
    /// The socket is there; kubelet has not said anything yet.
    Offered,
    /// Kubelet said that it is.
    Registered,
    /// Kubelet said that it is not.
    Refused,
}

impl RegistrationState {
    /// Lower-case name, as shown to operators.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Unfit => "unfit",
            Self::Blocked => "blocked",
            Self::Offered => "offered",
            Self::Registered => "registered",
            Self::Refused => "refused",
        }
    }
}
