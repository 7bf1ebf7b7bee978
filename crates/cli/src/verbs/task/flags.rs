//! The flags of `docker run` as one table: for the parser, the help, the completions and the manual pages.
//!
//! What a value means is said by `longshore_task_spec::flags` alone. Flags of docker's that cannot be served are in the table, too, and
//! are refused by name with the reason.
// long: one table, which is read as a whole

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind};
use longshore_engine::ContainerSpec;
use longshore_task_spec::flags::{FlagProblem, FlagTarget, apply};

/// The flags of a command line by their long names, in the order in which they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DockerFlags(Vec<(String, String)>);

impl DockerFlags {
    /// Takes out all flags of this name, in their order.
    pub(super) fn take(&mut self, name: &str) -> Vec<String> {
        let all = std::mem::take(&mut self.0);
        let (taken, left): (Vec<_>, _) = all.into_iter().partition(|(known, _)| known == name);
        self.0 = left;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// Takes out the last value of this name, which is the one that counts.
    pub(super) fn take_last(&mut self, name: &str) -> Option<String> {
        self.take(name).pop()
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
        )
    }
}

/// One flag.
struct Flag {
    long: &'static str,
    short: Option<char>,
    /// What its value is called; none for a switch, which takes `=false` all the same.
    value: Option<&'static str>,
    help: &'static str,
}

const fn flag(
    long: &'static str,
    short: Option<char>,
    value: Option<&'static str>,
    help: &'static str,
) -> Flag {
    Flag {
        long,
        short,
        value,
        help,
    }
}

/// Those that are served, in docker's order.
const SERVED: &[Flag] = &[
    flag(
        "add-host",
        None,
        Some("NAME:ADDRESS"),
        "Add a line to the container's /etc/hosts",
    ),
    flag(
        "annotation",
        None,
        Some("KEY=VALUE"),
        "Annotate the container for its runtime",
    ),
    flag(
        "blkio-weight",
        None,
        Some("WEIGHT"),
        "Weight of block I/O, 10 to 1000",
    ),
    flag(
        "cap-add",
        None,
        Some("CAPABILITY"),
        "Add a Linux capability",
    ),
    flag(
        "cap-drop",
        None,
        Some("CAPABILITY"),
        "Drop a Linux capability",
    ),
    flag(
        "cgroup-parent",
        None,
        Some("CGROUP"),
        "Cgroup above the container's",
    ),
    flag(
        "cgroupns",
        None,
        Some("MODE"),
        "Cgroup namespace: host or private",
    ),
    flag(
        "cpu-period",
        None,
        Some("MICROSECONDS"),
        "Period of the processor quota",
    ),
    flag(
        "cpu-quota",
        None,
        Some("MICROSECONDS"),
        "Processor time within a period",
    ),
    flag(
        "cpu-rt-period",
        None,
        Some("MICROSECONDS"),
        "Period of real-time processor time",
    ),
    flag(
        "cpu-rt-runtime",
        None,
        Some("MICROSECONDS"),
        "Real-time processor time within a period",
    ),
    flag(
        "cpu-shares",
        Some('c'),
        Some("SHARES"),
        "Weight of processor time",
    ),
    flag("cpus", None, Some("NUMBER"), "Number of processors"),
    flag(
        "cpuset-cpus",
        None,
        Some("LIST"),
        "Processors that may be used, as 0-3 or 0,1",
    ),
    flag(
        "cpuset-mems",
        None,
        Some("LIST"),
        "Memory nodes that may be used",
    ),
    flag(
        "device",
        None,
        Some("HOST[:CONTAINER][:rwm]"),
        "Add a device of the host",
    ),
    flag(
        "device-cgroup-rule",
        None,
        Some("RULE"),
        "Add a rule to the device cgroup",
    ),
    flag("dns", None, Some("ADDRESS"), "Name server"),
    flag(
        "dns-option",
        None,
        Some("OPTION"),
        "Option of resolv.conf(5)",
    ),
    flag("dns-search", None, Some("DOMAIN"), "Search domain"),
    flag(
        "domainname",
        None,
        Some("NAME"),
        "The container's NIS domain",
    ),
    flag(
        "entrypoint",
        None,
        Some("PROGRAM"),
        "In place of the image's entrypoint; empty for none",
    ),
    flag(
        "env",
        Some('e'),
        Some("NAME[=VALUE]"),
        "Set an environment variable; without a value as it is here",
    ),
    flag(
        "env-file",
        None,
        Some("FILE"),
        "Read environment variables from a file",
    ),
    flag(
        "expose",
        None,
        Some("PORT"),
        "Expose a port or a range of ports",
    ),
    flag("gpus", None, Some("GPUS"), "GPU devices to add"),
    flag("group-add", None, Some("GROUP"), "Add a group to join"),
    flag(
        "health-cmd",
        None,
        Some("COMMAND"),
        "Shell command that tells whether the task is healthy",
    ),
    flag(
        "health-interval",
        None,
        Some("TIME"),
        "From one check to the next (30s)",
    ),
    flag(
        "health-retries",
        None,
        Some("COUNT"),
        "Failures in a row that make the task unhealthy, and end it (3)",
    ),
    flag(
        "health-start-period",
        None,
        Some("TIME"),
        "At the start failures do not count for so long (0s)",
    ),
    flag(
        "health-timeout",
        None,
        Some("TIME"),
        "How long one check may take (30s)",
    ),
    flag(
        "hostname",
        Some('h'),
        Some("NAME"),
        "The container's host name",
    ),
    flag(
        "init",
        None,
        None,
        "Run an init that forwards signals and reaps processes",
    ),
    flag(
        "ip",
        None,
        Some("ADDRESS"),
        "IPv4 address in a user network",
    ),
    flag(
        "ip6",
        None,
        Some("ADDRESS"),
        "IPv6 address in a user network",
    ),
    flag("ipc", None, Some("MODE"), "IPC namespace"),
    flag(
        "label",
        Some('l'),
        Some("KEY[=VALUE]"),
        "Label the container",
    ),
    flag(
        "log-driver",
        None,
        Some("DRIVER"),
        "Log driver of the engine",
    ),
    flag(
        "log-opt",
        None,
        Some("KEY=VALUE"),
        "Option of the log driver",
    ),
    flag(
        "memory",
        Some('m'),
        Some("SIZE"),
        "Limit of memory, as 512m or 2g",
    ),
    flag(
        "memory-reservation",
        None,
        Some("SIZE"),
        "Soft limit of memory",
    ),
    flag(
        "memory-swap",
        None,
        Some("SIZE"),
        "Limit of memory and swap together; -1 for none",
    ),
    flag("memory-swappiness", None, Some("PERCENT"), "0 to 100"),
    flag(
        "mount",
        None,
        Some("MOUNT"),
        "Mount, as type=bind,source=/host,target=/path",
    ),
    flag(
        "name",
        None,
        Some("NAME"),
        "Id of the task and name of the container",
    ),
    flag(
        "network",
        None,
        Some("NETWORK"),
        "Network to join: bridge, host, none, or one by name",
    ),
    flag(
        "network-alias",
        None,
        Some("NAME"),
        "Further name in a user network",
    ),
    flag(
        "no-healthcheck",
        None,
        None,
        "Heed no health check of the image (it never is)",
    ),
    flag(
        "oom-kill-disable",
        None,
        None,
        "Do not kill for lack of memory",
    ),
    flag("oom-score-adj", None, Some("SCORE"), "-1000 to 1000"),
    flag(
        "pid",
        None,
        Some("MODE"),
        "PID namespace: host, or container:NAME",
    ),
    flag(
        "pids-limit",
        None,
        Some("COUNT"),
        "Limit of processes; -1 for none",
    ),
    flag(
        "platform",
        None,
        Some("PLATFORM"),
        "Platform of the image, as linux/arm64",
    ),
    flag(
        "privileged",
        None,
        None,
        "Give the container all privileges of the host",
    ),
    flag(
        "publish",
        Some('p'),
        Some("[IP:][HOST:]CONTAINER"),
        "Publish a port on the host",
    ),
    flag(
        "publish-all",
        Some('P'),
        None,
        "Publish all exposed ports on ports of the engine's choice",
    ),
    flag(
        "pull",
        None,
        Some("WHEN"),
        "Pull the image: always, or when it is missing (the default)",
    ),
    flag(
        "read-only",
        None,
        None,
        "Mount the root file system read-only",
    ),
    flag("runtime", None, Some("NAME"), "OCI runtime of the engine"),
    flag("security-opt", None, Some("OPTION"), "Security option"),
    flag("shm-size", None, Some("SIZE"), "Size of /dev/shm"),
    flag(
        "stop-signal",
        None,
        Some("SIGNAL"),
        "The signal that asks the task to end",
    ),
    flag(
        "stop-timeout",
        None,
        Some("SECONDS"),
        "From that signal to KILL (10)",
    ),
    flag(
        "storage-opt",
        None,
        Some("KEY=VALUE"),
        "Option of the storage driver",
    ),
    flag(
        "sysctl",
        None,
        Some("KEY=VALUE"),
        "Kernel parameter of the container's namespaces",
    ),
    flag(
        "tmpfs",
        None,
        Some("PATH[:OPTIONS]"),
        "Mount a file system in memory",
    ),
    flag(
        "tty",
        Some('t'),
        None,
        "Give the task a terminal for its output",
    ),
    flag("ulimit", None, Some("NAME=SOFT[:HARD]"), "Resource limit"),
    flag(
        "user",
        Some('u'),
        Some("USER[:GROUP]"),
        "Who runs the program",
    ),
    flag("userns", None, Some("MODE"), "User namespace: host"),
    flag("uts", None, Some("MODE"), "UTS namespace: host"),
    flag(
        "volume",
        Some('v'),
        Some("[SOURCE:]TARGET[:OPTIONS]"),
        "Mount a volume or a directory of the host",
    ),
    flag(
        "volume-driver",
        None,
        Some("DRIVER"),
        "Driver of the volumes",
    ),
    flag(
        "volumes-from",
        None,
        Some("CONTAINER"),
        "Mount the volumes of another container",
    ),
    flag(
        "workdir",
        Some('w'),
        Some("PATH"),
        "Working directory in the container",
    ),
];

/// Docker's flags that cannot be served; whether they take a value.
const REFUSED: &[(&str, Option<char>, bool)] = &[
    ("attach", Some('a'), true),
    ("blkio-weight-device", None, true),
    ("cidfile", None, true),
    ("cpu-count", None, true),
    ("cpu-percent", None, true),
    ("detach-keys", None, true),
    ("device-read-bps", None, true),
    ("device-read-iops", None, true),
    ("device-write-bps", None, true),
    ("device-write-iops", None, true),
    ("disable-content-trust", None, false),
    ("health-start-interval", None, true),
    ("interactive", Some('i'), false),
    ("io-maxbandwidth", None, true),
    ("io-maxiops", None, true),
    ("isolation", None, true),
    ("kernel-memory", None, true),
    ("label-file", None, true),
    ("link", None, true),
    ("link-local-ip", None, true),
    ("mac-address", None, true),
    ("restart", None, true),
    ("rm", None, false),
    ("sig-proxy", None, false),
    ("use-api-socket", None, false),
];

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
        for (name, _, _) in REFUSED {
            if !given(name).is_empty() {
                let why = problem(name, "").map_or_else(String::new, |why| why.to_string());
                return Err(clap::Error::raw(
                    ErrorKind::UnknownArgument,
                    format!("{why}\n"),
                ));
            }
        }
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
                let error = parse(&line).unwrap_err().to_string();
                let named = format!("--{name} cannot be served: ");
                assert!(error.contains(&named), "{flag}: {error}");
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
