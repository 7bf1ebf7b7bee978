//! The flags of `docker run` as one table: for the parser, the help, the completions and the manual pages.
//!
//! What a value means is said by `longshore_task_spec::flags` alone. Flags of docker's that cannot be served are in the table, too, and
//! are refused by name with the reason.

mod table;

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command};
use longshore_engine::ContainerSpec;
use longshore_task_spec::flags::{FlagProblem, FlagTarget, apply};

use table::{REFUSED, SERVED};

/// The flags of a command line by their long names, in the order in which they were given; and why one of them is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DockerFlags(Vec<(String, String)>, Option<String>);

impl DockerFlags {
    /// Why a flag that was given is not served. It is no matter of the parser's, which would add its usage.
    pub(super) fn refused(&self) -> Option<&str> {
        self.1.as_deref()
    }

    /// What is left.
    pub(super) fn into_rest(self) -> Vec<(String, String)> {
        self.0
    }

    #[cfg(test)]
    pub(super) fn of(flags: &[(&str, &str)]) -> Self {
        Self(
            flags
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            None,
        )
    }
}

/// Why a flag is not served, in the words of the table that serves the others.
pub(super) fn problem(name: &str, value: &str) -> Option<FlagProblem> {
    let mut nowhere = ContainerSpec::default();
    apply(&mut nowhere, FlagTarget::CommandLine, name, value).err()
}

impl clap::FromArgMatches for DockerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let given = |name: &str| -> Vec<(usize, String)> {
            let places = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten();
            places.zip(values.cloned()).collect()
        };
        self.1 = REFUSED
            .iter()
            .filter(|(name, _, _)| !given(name).is_empty())
            .find_map(|(name, _, _)| Some(problem(name, "")?.to_string()));
        let mut all = BTreeMap::new();
        for flag in SERVED {
            for (place, value) in given(flag.long) {
                all.insert(place, (flag.long.to_owned(), value));
            }
        }
        self.0 = all.into_values().collect();
        Ok(())
    }
}

impl clap::Args for DockerFlags {
    fn augment_args(command: Command) -> Command {
        let served = SERVED.iter().map(|flag| {
            let arg = Arg::new(flag.long)
                .long(flag.long)
                .help(flag.help)
                .help_heading("As docker's");
            let arg = match flag.short {
                Some(letter) => arg.short(letter),
                None => arg,
            };
            let arg = match flag.long {
                "network" => arg.alias("net"),
                "dns-option" => arg.alias("dns-opt"),
                "network-alias" => arg.alias("net-alias"),
                _ => arg,
            };
            valued(arg, flag.value)
        });
        let refused = REFUSED.iter().map(|(long, short, value)| {
            let arg = Arg::new(*long).long(*long).hide(true);
            let arg = match short {
                Some(letter) => arg.short(*letter),
                None => arg,
            };
            valued(arg, value.then_some("VALUE"))
        });
        command.args(served).args(refused)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn valued(arg: Arg, value: Option<&'static str>) -> Arg {
    let arg = arg.action(ArgAction::Append);
    match value {
        Some(name) => arg.value_name(name).num_args(1).allow_hyphen_values(true),
        None => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_possible_values(true),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    fn parse(line: &[&str]) -> Result<DockerFlags, clap::Error> {
        let command = DockerFlags::augment_args(Command::new("run").no_binary_name(true))
            .disable_help_flag(true)
            .arg(Arg::new("words").trailing_var_arg(true).num_args(0..));
        DockerFlags::from_arg_matches(&command.try_get_matches_from(line)?)
    }

    #[test]
    fn the_order_of_the_command_line_is_kept() {
        let line = [
            "-e",
            "A=1",
            "--cpus=2",
            "-eB=2",
            "-Pt",
            "--init=false",
            "image",
            "-e",
            "C=3",
        ];
        let expected = DockerFlags::of(&[
            ("env", "A=1"),
            ("cpus", "2"),
            ("env", "B=2"),
            ("publish-all", "true"),
            ("tty", "true"),
            ("init", "false"),
        ]);
        assert_eq!(parse(&line).unwrap(), expected);
    }

    #[test]
    fn every_served_flag_is_known_to_the_table_of_values() {
        // Dealt with on the command line's own side.
        let own = ["env-file", "pull"];
        for flag in SERVED {
            if own.contains(&flag.long) || flag.long.starts_with("health-") {
                continue;
            }
            let found = problem(flag.long, "");
            assert!(
                !matches!(
                    found,
                    Some(FlagProblem::Unknown { .. } | FlagProblem::Unsupported { .. })
                ),
                "{}: {found:?}",
                flag.long
            );
        }
    }

    #[test]
    fn every_refused_flag_is_refused_by_name_with_a_reason() {
        for (name, short, value) in REFUSED {
            let mut lines = vec![format!("--{name}")];
            lines.extend(short.map(|letter| format!("-{letter}")));
            for flag in lines {
                let mut line = vec![flag.as_str()];
                line.extend(value.then_some("x"));
                line.push("image");
                let parsed = parse(&line).unwrap();
                let why = parsed.refused().unwrap_or_default();
                let named = format!("--{name} cannot be served: ");
                assert!(why.starts_with(&named), "{flag}: {why}");
            }
        }
        let error = parse(&["--no-such-flag", "image"]).unwrap_err().to_string();
        assert!(error.contains("--no-such-flag"), "{error}");
    }

    #[test]
    fn what_follows_the_image_belongs_to_the_task() {
        for tail in [
            &["-e", "X=1"][..],
            &["--", "sh"],
            &["--no-such-flag"],
            &["-h"],
        ] {
            let mut line = vec!["--cpus", "1", "image"];
            line.extend(tail);
            assert_eq!(
                parse(&line).unwrap(),
                DockerFlags::of(&[("cpus", "1")]),
                "{tail:?}"
            );
        }
    }
}
