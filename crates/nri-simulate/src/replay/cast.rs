//! Who plays which plugin of a record.

use std::collections::BTreeMap;

use longshore_nri_api::PluginId;

use crate::{Command, Plugins, Replay, SimulateError};

/// Who plays which plugin of a record.
#[derive(Debug, Clone)]
pub(super) enum Cast {
    /// By recorded name; started when the plugin registered.
    Commands(BTreeMap<String, Command>),
    /// Whoever comes to the socket under the recorded name, or under any if there is one name only.
    Listen { any_name: bool },
}

impl Cast {
    pub(super) fn new(replay: &Replay, plugins: &Plugins) -> Result<Self, SimulateError> {
        match plugins {
            Plugins::Listen(_) => Ok(Self::Listen {
                any_name: replay.recorded.len() == 1,
            }),
            Plugins::Commands(commands) => match fit(&replay.recorded, commands) {
                Ok(cast) => Ok(Self::Commands(cast)),
                Err(why) => Err(SimulateError::NothingToRepeat {
                    path: replay.path.clone(),
                    why,
                }),
            },
            Plugins::Site(_) => Err(SimulateError::NothingToRepeat {
                path: replay.path.clone(),
                why: "a runtime on a socket repeats nothing".to_owned(),
            }),
        }
    }

    /// Whether somebody plays this one.
    pub(super) fn plays(&self, recorded: &str) -> bool {
        match self {
            Self::Commands(cast) => cast.contains_key(recorded),
            Self::Listen { .. } => true,
        }
    }
}

/// By full name, else by base name, else the only one plays the only one.
fn fit(recorded: &[String], commands: &[Command]) -> Result<BTreeMap<String, Command>, String> {
    let mut cast = BTreeMap::new();
    for command in commands {
        let full = command.id.to_string();
        let base = |name: &&String| {
            let id: Option<PluginId> = name.parse().ok();
            id.is_some_and(|id| id.base() == command.id.base())
        };
        let found = recorded.iter().find(|name| **name == full);
        let found = found.or_else(|| recorded.iter().find(base));
        let only = match (recorded, commands) {
            ([only], [_]) => Some(only),
            _ => None,
        };
        let Some(name) = found.or(only) else {
            let names = recorded.join(", ");
            return Err(format!(
                "{full:?} is none of its plugins, which are {names}: choose one with --index and --name"
            ));
        };
        let mut command = command.clone();
        // It is told who it is: as whom it is recorded.
        if let Ok(id) = name.parse() {
            command.id = id;
        }
        if cast.insert(name.clone(), command).is_some() {
            return Err(format!("two of the plugins given are its {name}"));
        }
    }
    Ok(cast)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(name: &str) -> Command {
        Command {
            id: name.parse().unwrap(),
            program: "/bin/true".into(),
            args: Vec::new(),
        }
    }

    fn cast(recorded: &[&str], given: &[&str]) -> Result<Vec<(String, String)>, String> {
        let recorded: Vec<String> = recorded.iter().map(ToString::to_string).collect();
        let commands: Vec<Command> = given.iter().map(|name| command(name)).collect();
        let cast = fit(&recorded, &commands)?;
        let pairs = cast.into_iter();
        Ok(pairs
            .map(|(name, command)| (name, command.id.to_string()))
            .collect())
    }

    #[test]
    fn names_decide_and_one_plays_one_whatever_it_is_called() {
        let pair = |name: &str| (name.to_owned(), name.to_owned());
        for (recorded, given, expected) in [
            (&["10-a"][..], &["10-a"][..], vec![pair("10-a")]),
            (&["10-a"], &["20-a"], vec![pair("10-a")]),
            (&["10-a"], &["10-other"], vec![pair("10-a")]),
            (&["10-a", "20-b"], &["10-b"], vec![pair("20-b")]),
            (&["10-a", "20-a"], &["20-a"], vec![pair("20-a")]),
            (
                &["10-a", "20-b"],
                &["20-b", "10-a"],
                vec![pair("10-a"), pair("20-b")],
            ),
        ] {
            assert_eq!(
                cast(recorded, given),
                Ok(expected),
                "{recorded:?} {given:?}"
            );
        }
    }

    #[test]
    fn who_is_not_recorded_is_refused_with_who_is() {
        for (recorded, given, named) in [
            (&["10-a", "20-b"][..], &["10-c"][..], "10-a, 20-b"),
            (&["10-a"], &["10-b", "10-c"], "10-a"),
            (&["10-a"], &["10-a", "20-a"], "two of the plugins"),
        ] {
            let error = cast(recorded, given).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
