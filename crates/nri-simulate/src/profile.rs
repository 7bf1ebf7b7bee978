//! Other runtimes, as far as a plugin can tell them from Longshore.

use longshore_nri_adaptation::Imitation;
use longshore_nri_api::{EventMask, infer_nri_version};

use crate::SimulateError;

/// How a runtime shows itself to plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// Its name, as plugins are told.
    pub name: String,
    /// Its version, as plugins are told.
    pub version: String,
    /// The version of the protocol, empty where the runtime does not say it.
    pub nri_version: String,
    /// The nine events that only tell something come as StateChange.
    pub state_change_only: bool,
    /// Plugins are told of the timeouts.
    pub tells_timeouts: bool,
    /// What does not fit into one Synchronize is sent in parts.
    pub splits_synchronize: bool,
    /// The events that it knows: it refuses plugins that want others.
    pub events: EventMask,
}

/// Bits of the events up to RemoveContainer, which every runtime has.
const OLD: i32 = 0x07ff;

impl Profile {
    /// What [`Self::parse`] takes, for people.
    pub const KNOWN: &str = "containerd@1.7, containerd@2.0, containerd@2.1, containerd@2.2, \
                             cri-o@1.26 to cri-o@1.35, or longshore";

    /// Longshore itself.
    #[must_use]
    pub fn longshore() -> Self {
        Self {
            name: "longshore".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            nri_version: longshore_nri_api::NRI_VERSION.to_owned(),
            state_change_only: false,
            tells_timeouts: true,
            splits_synchronize: true,
            events: EventMask::ALL,
        }
    }

    /// What plugins are to see.
    pub(crate) fn imitation(&self) -> Imitation {
        let mut imitation = Imitation::default();
        imitation.state_change_only = self.state_change_only;
        imitation.tells_timeouts = self.tells_timeouts;
        imitation.splits_synchronize = self.splits_synchronize;
        imitation.events = self.events;
        imitation
    }

    /// The runtime that is meant by `containerd@2.1`, `cri-o@1.32.4` and the like; empty for Longshore.
    /// Without a patch number it is the last of that series.
    ///
    /// # Errors
    /// [`SimulateError::Runtime`] for a name or version that no NRI level is known of.
    pub fn parse(given: &str) -> Result<Self, SimulateError> {
        if given.is_empty() || given == "longshore" {
            return Ok(Self::longshore());
        }
        let refuse = || SimulateError::Runtime {
            given: given.to_owned(),
            known: Self::KNOWN,
        };
        let (name, version) = given.split_once('@').ok_or_else(refuse)?;
        let name = match name {
            "containerd" => "containerd",
            "cri-o" | "crio" => "cri-o",
            _ => return Err(refuse()),
        };
        let version = version.trim_start_matches('v');
        let numbers: Vec<u32> = version
            .split('.')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| refuse())?;
        let (series, patch) = match *numbers.as_slice() {
            [major, minor] => ((major, minor), 99),
            [major, minor, patch] => ((major, minor), patch),
            _ => return Err(refuse()),
        };
        let known = match name {
            "containerd" => [(1, 7), (2, 0), (2, 1), (2, 2)].contains(&series),
            _ => series.0 == 1 && (26..=35).contains(&series.1),
        };
        let full = format!("v{}.{}.{patch}", series.0, series.1);
        let level = infer_nri_version(name, &full)
            .filter(|_| known)
            .ok_or_else(refuse)?;
        Ok(Self::of(name, &full, level))
    }

    fn of(name: &str, version: &str, level: &str) -> Self {
        // What `api.proto` and the adaptation of each level have: 0.8 the timeouts and parts, 0.10 updates of
        // pods and validation, 0.12 a method for each event and the version.
        let number = minor(level);
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            nri_version: if number >= 12 {
                level.to_owned()
            } else {
                String::new()
            },
            state_change_only: number < 12,
            tells_timeouts: number >= 8,
            splits_synchronize: number >= 8,
            events: EventMask::from_bits(if number >= 10 {
                EventMask::ALL.bits()
            } else {
                OLD
            }),
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// The second number of `v0.10.0`.
fn minor(level: &str) -> u32 {
    level
        .split('.')
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use longshore_nri_api::Event;

    use super::*;

    #[test]
    fn runtimes_are_told_apart() {
        let old = Profile::parse("containerd@1.7").unwrap();
        assert!(old.state_change_only && old.nri_version.is_empty());
        assert!(!old.events.contains(Event::ValidateContainerAdjustment));
        let new = Profile::parse("containerd@v2.2.1").unwrap();
        assert!(new.state_change_only && new.tells_timeouts);
        assert!(new.events.contains(Event::ValidateContainerAdjustment));
        assert_eq!(Profile::parse("crio@1.32").unwrap().name, "cri-o");
        assert_eq!(Profile::parse("").unwrap(), Profile::longshore());
    }

    #[test]
    fn every_runtime_that_is_said_to_be_known_is() {
        let words = Profile::KNOWN.split([',', ' ']);
        let named: Vec<&str> = words
            .filter(|word| word.contains('@') || *word == "longshore")
            .collect();
        assert_eq!(named.len(), 7, "{named:?}");
        for name in named {
            Profile::parse(name).unwrap();
        }
    }

    #[test]
    fn unknown_runtimes_are_refused_with_what_there_is() {
        for given in [
            "docker@28",
            "containerd",
            "containerd@3.0",
            "containerd@x",
            "cri-o@1.2.3.4",
        ] {
            let error = Profile::parse(given).unwrap_err().to_string();
            assert!(error.contains("containerd@1.7"), "{error}");
        }
    }
}
