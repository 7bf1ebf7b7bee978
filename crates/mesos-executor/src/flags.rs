//! The flags of Mesos' docker executor, read as Mesos reads flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use longshore_mesos_api::parse_duration;
use longshore_task_spec::DefaultDns;

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
Usage: mesos-docker-executor [--FLAG[=VALUE] ..]

The docker executor of a Mesos agent, by Longshore. Its agent starts it: the environment says where that is.

  --container=NAME             the container's name; otherwise one of its own
  --docker_socket=PATH         the engine's socket; otherwise DOCKER_HOST, or /var/run/docker.sock
  --sandbox_directory=PATH     the sandbox on this host; otherwise MESOS_DIRECTORY
  --mapped_directory=PATH      the sandbox in the container; /mnt/mesos/sandbox
  --task_environment=JSON      variables that win over those of the task
  --default_container_dns=JSON resolvers of tasks that name none (ContainerDNSInfo)
  --cgroups_enable_cfs         a request of cpus is a limit, too
  --stop_timeout=DURATION      least grace of a kill (deprecated)
  --logging_level=LEVEL        INFO, WARNING or ERROR
  --quiet                      log errors alone
  --docker, --launcher_dir, --log_dir, --logbufsecs, --initialize_driver_logging,
  --external_log_file          accepted, not needed
  --help, --version

Any of them can be a variable, too: MESOS_DOCKER_SOCKET is --docker_socket. An unknown flag is a warning.
";

/// The flags.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Flags {
    pub(crate) container: Option<String>,
    pub(crate) docker_socket: Option<String>,
    pub(crate) sandbox_directory: Option<PathBuf>,
    pub(crate) mapped_directory: String,
    pub(crate) task_environment: Vec<(String, String)>,
    pub(crate) default_container_dns: DefaultDns,
    pub(crate) cgroups_enable_cfs: bool,
    pub(crate) stop_timeout: Duration,
    pub(crate) logging_level: String,
    pub(crate) quiet: bool,
    pub(crate) help: bool,
    pub(crate) version: bool,
    /// What is to be said about the flags once there is a log.
    pub(crate) warnings: Vec<String>,
}

/// Those that take a value and mean something.
const VALUES: &[&str] = &[
    "container",
    "docker_socket",
    "sandbox_directory",
    "mapped_directory",
    "task_environment",
    "default_container_dns",
    "stop_timeout",
    "logging_level",
];
const SWITCHES: &[&str] = &["cgroups_enable_cfs", "quiet", "help", "version"];
/// Accepted and of no use here: nothing is run by the docker client, no helper is needed, the log goes to standard error.
const UNUSED: &[&str] = &[
    "docker",
    "launcher_dir",
    "log_dir",
    "logbufsecs",
    "initialize_driver_logging",
    "external_log_file",
];

impl Flags {
    /// Reads the arguments, and the variables `MESOS_*` for those that are not given.
    ///
    /// # Errors
    /// A value that cannot be used, with its flag.
    pub(crate) fn read(
        arguments: impl Iterator<Item = OsString>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, String> {
        let mut given = BTreeMap::new();
        let mut warnings = Vec::new();
        for name in VALUES.iter().chain(SWITCHES) {
            let value = variable(&format!("MESOS_{}", name.to_ascii_uppercase()));
            if let Some(value) = value.and_then(|value| value.into_string().ok()) {
                given.insert((*name).to_owned(), value);
            }
        }
        for argument in arguments {
            let text = argument.to_string_lossy().into_owned();
            let Some(flag) = text.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                warnings.push(format!(
                    "the argument {text:?} is passed over: it is no flag"
                ));
                continue;
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (flag, None),
            };
            let name = name.replace('-', "_");
            if let Some(value) = value.map(str::to_owned) {
                given.insert(name, value);
            } else if let Some(negated) = name.strip_prefix("no_").filter(|it| is_switch(it)) {
                given.insert(negated.to_owned(), "false".to_owned());
            } else if VALUES.contains(&name.as_str()) {
                return Err(format!("--{name} needs a value: --{name}=VALUE"));
            } else {
                given.insert(name, "true".to_owned());
            }
        }
        let known = |name: &str| {
            VALUES.contains(&name) || SWITCHES.contains(&name) || UNUSED.contains(&name)
        };
        for name in given.keys().filter(|name| !known(name)) {
            warnings.push(format!("the flag --{name} is unknown and passed over"));
        }
        let mut flags = Self::from_given(&given)?;
        flags.warnings = warnings;
        Ok(flags)
    }

    fn from_given(given: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |name: &str| given.get(name).filter(|value| !value.is_empty()).cloned();
        let switch = |name: &str| match given.get(name).map(String::as_str) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(format!("--{name}={other}: it is neither true nor false")),
        };
        let absolute = |name: &str| match text(name) {
            Some(path) if !path.starts_with('/') => {
                Err(format!("--{name}={path}: it is not an absolute path"))
            }
            other => Ok(other),
        };
        let level = text("logging_level").unwrap_or_else(|| "INFO".to_owned());
        if !["INFO", "WARNING", "ERROR"].contains(&level.as_str()) {
            return Err(format!(
                "--logging_level={level}: it is none of INFO, WARNING, ERROR"
            ));
        }
        Ok(Self {
            container: text("container"),
            docker_socket: absolute("docker_socket")?,
            sandbox_directory: absolute("sandbox_directory")?.map(PathBuf::from),
            mapped_directory: absolute("mapped_directory")?
                .unwrap_or_else(|| "/mnt/mesos/sandbox".to_owned()),
            task_environment: match text("task_environment") {
                Some(json) => environment(&json)?,
                None => Vec::new(),
            },
            default_container_dns: match text("default_container_dns") {
                Some(json) => DefaultDns::parse(&json).map_err(|error| crate::chain(&error))?,
                None => DefaultDns::default(),
            },
            cgroups_enable_cfs: switch("cgroups_enable_cfs")?,
            stop_timeout: match text("stop_timeout") {
                Some(text) => parse_duration(&text)
                    .map_err(|error| format!("--stop_timeout={text}: {error}"))?,
                None => Duration::ZERO,
            },
            logging_level: level,
            quiet: switch("quiet")?,
            help: switch("help")?,
            version: switch("version")?,
            warnings: Vec::new(),
        })
    }
}

fn is_switch(name: &str) -> bool {
    SWITCHES.contains(&name) || UNUSED.contains(&name)
}

/// An object of strings. Its values are in no error.
fn environment(json: &str) -> Result<Vec<(String, String)>, String> {
    let refuse = |what: &str| Err(format!("--task_environment: {what}"));
    let Ok(serde_json::Value::Object(members)) = serde_json::from_str(json) else {
        return refuse("it is no JSON object");
    };
    let mut variables = Vec::new();
    for (name, value) in members {
        match value {
            serde_json::Value::String(value) => variables.push((name, value)),
            _ => return refuse(&format!("the value of {name:?} is no string")),
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str]) -> Result<Flags, String> {
        Flags::read(arguments.iter().map(OsString::from), |_| None)
    }

    #[test]
    fn what_a_mesos_1_11_agent_passes_is_accepted_without_a_warning() {
        let flags = read(&[
            "--cgroups_enable_cfs=false",
            "--container=mesos-1234",
            "--docker=/usr/bin/docker",
            "--docker_socket=/run/d.sock",
            "--help=false",
            "--initialize_driver_logging=true",
            "--launcher_dir=/l",
            "--logbufsecs=0",
            "--logging_level=INFO",
            "--mapped_directory=/mnt/x",
            "--quiet=false",
            "--sandbox_directory=/var/slaves/x:y",
            "--stop_timeout=0ns",
        ])
        .unwrap();
        assert_eq!(flags.warnings, Vec::<String>::new());
        assert_eq!(flags.container.as_deref(), Some("mesos-1234"));
        assert_eq!(flags.docker_socket.as_deref(), Some("/run/d.sock"));
        assert_eq!(flags.mapped_directory, "/mnt/x");
        assert_eq!(flags.sandbox_directory, Some("/var/slaves/x:y".into()));
        assert!(!flags.cgroups_enable_cfs && !flags.help && !flags.quiet);
        assert_eq!(flags.stop_timeout, Duration::ZERO);
    }

    #[test]
    fn every_form_of_a_flag_is_read() {
        let flags = read(&[
            "--cgroups-enable-cfs",
            "--no-quiet",
            "--stop_timeout=30secs",
            "--logging_level=ERROR",
            r#"--task_environment={"A":"1","B":""}"#,
            r#"--default_container_dns={"docker":[{"network_mode":"BRIDGE","dns":{"nameservers":["10.0.0.1"]}}]}"#,
        ])
        .unwrap();
        assert!(flags.cgroups_enable_cfs && !flags.quiet);
        assert_eq!(flags.stop_timeout, Duration::from_secs(30));
        let expected = [("A", "1"), ("B", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(flags.task_environment, expected);
        assert_eq!(flags.default_container_dns.entries.len(), 1);
        assert!(read(&["--help"]).unwrap().help && read(&["--version"]).unwrap().version);
    }

    #[test]
    fn without_flags_there_are_defaults_and_variables() {
        let flags = read(&[]).unwrap();
        assert_eq!(flags.mapped_directory, "/mnt/mesos/sandbox");
        assert_eq!((flags.container, flags.docker_socket), (None, None));
        let variable = |name: &str| match name {
            "MESOS_DOCKER_SOCKET" => Some("/v.sock".into()),
            "MESOS_QUIET" => Some("true".into()),
            _ => None,
        };
        let flags = Flags::read(std::iter::empty(), variable).unwrap();
        assert_eq!(flags.docker_socket.as_deref(), Some("/v.sock"));
        assert!(flags.quiet);
        let given = ["--docker_socket=/f.sock"].map(OsString::from);
        let flags = Flags::read(given.into_iter(), variable).unwrap();
        assert_eq!(flags.docker_socket.as_deref(), Some("/f.sock"));
    }

    #[test]
    fn what_is_unknown_is_a_warning_that_names_it() {
        let flags = read(&["--future=1", "--fancy", "stray", "--", "-x"]).unwrap();
        let all = flags.warnings.join("\n");
        for name in ["--future", "--fancy", "\"stray\"", "\"--\"", "\"-x\""] {
            assert!(all.contains(name), "{name}: {all}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_by_its_flag_and_shows_no_variable() {
        for (argument, expected) in [
            (
                "--docker_socket=run/d.sock",
                "--docker_socket=run/d.sock: it is not an absolute",
            ),
            ("--sandbox_directory=x", "--sandbox_directory"),
            ("--mapped_directory=x", "--mapped_directory"),
            ("--container", "--container needs a value"),
            ("--quiet=maybe", "--quiet=maybe: it is neither"),
            ("--stop_timeout=5", "--stop_timeout=5: it has no unit"),
            ("--stop_timeout=-5secs", "negative"),
            ("--logging_level=LOUD", "none of INFO"),
            ("--task_environment=[]", "no JSON object"),
            (
                r#"--task_environment={"A":1,"B":"hunter2"}"#,
                "the value of \"A\"",
            ),
            ("--task_environment={\"A\":\"hunter2\"", "no JSON object"),
            ("--default_container_dns={}x", "--default_container_dns"),
        ] {
            let error = read(&[argument]).unwrap_err();
            assert!(error.contains(expected), "{argument}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
