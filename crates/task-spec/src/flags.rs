//! Docker's own flags of `run`, one by one: those of a task's `parameters`, and those of a command line.
//!
//! A flag that is given twice adds to a list and replaces a value, as with docker. One that cannot be served is refused
//! by its name. Nothing here is passed over.
// long: one table of flags, which is read as a whole

mod mounts;
mod values;

use std::fmt::Display;

use longshore_engine::spec::{LogDriver, Ulimit};
use longshore_engine::{ContainerSpec, EnvVar, PullPolicy};

pub use values::{bytes, port};

use crate::error::clip;

/// Where a flag comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagTarget {
    /// A parameter of a task: the container's name and life belong to the executor.
    Task,
    /// A command line: as a task, but for the name.
    CommandLine,
}

/// Why a flag is refused. It shows no value of an environment variable or of an option that may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlagProblem {
    /// It is no flag of `docker run`.
    #[error("--{name} is no flag of `docker run`")]
    Unknown {
        /// The flag, without dashes.
        name: String,
    },
    /// It is one that cannot be served.
    #[error("--{name} cannot be served: {why}")]
    Unsupported {
        /// The flag, without dashes.
        name: String,
        /// Why, and what to do instead.
        why: &'static str,
    },
    /// Its value cannot be used.
    #[error("--{name} {value:?}: {problem}")]
    Value {
        /// The flag, without dashes.
        name: String,
        /// The value, clipped; its part before the `=` where the rest may be a secret.
        value: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Applies the long flag `name` (without dashes) with its value.
///
/// # Errors
/// [`FlagProblem`]; the spec is as it was before.
pub fn apply(
    spec: &mut ContainerSpec,
    target: FlagTarget,
    name: &str,
    value: &str,
) -> Result<(), FlagProblem> {
    let flag = Flag { name, value };
    if value.contains('\0') {
        return Err(flag.wrong_pair("it has a NUL byte"));
    }
    if name == "name" && target == FlagTarget::CommandLine {
        spec.name = Some(flag.text()?);
        return Ok(());
    }
    let done = process(spec, &flag)?
        || files(spec, &flag)?
        || network(spec, &flag)?
        || resources(spec, &flag)?
        || security(spec, &flag)?;
    if done { Ok(()) } else { Err(unserved(name)) }
}

/// The value of docker's `pull` flag.
///
/// # Errors
/// It is none of the three.
pub fn pull_policy(value: &str) -> Result<PullPolicy, FlagProblem> {
    match value {
        "always" => Ok(PullPolicy::Always),
        "missing" => Ok(PullPolicy::Missing),
        "never" => Ok(PullPolicy::Never),
        _ => Err(Flag {
            name: "pull",
            value,
        }
        .wrong("it must be always, missing or never")),
    }
}

/// Why a flag of docker's is none of ours.
fn unserved(name: &str) -> FlagProblem {
    let why = match name {
        "name" => "the executor names the container, and finds it by that name",
        "rm" => {
            "a container that is gone takes its exit status with it; it is removed once its end is recorded"
        }
        "restart" => "a task has one life: whoever launched it decides about the next",
        "detach" | "d" | "attach" | "sig-proxy" | "detach-keys" => "nothing is attached to a task",
        "interactive" => "the standard input of a task is /dev/null",
        "cidfile" | "label-file" | "env-file" => {
            "files of this host are not read or written for a task: give the values"
        }
        "health-cmd"
        | "health-interval"
        | "health-retries"
        | "health-start-period"
        | "health-start-interval"
        | "health-timeout" => {
            "the task's own health check is the one that is heeded: use `health_check`"
        }
        "pull" => "it is about the image, not the container",
        "disable-content-trust" | "quiet" | "use-api-socket" => {
            "it is about docker's command line alone"
        }
        "kernel-memory" => "no kernel limits it any more",
        "isolation" | "cpu-count" | "cpu-percent" | "io-maxbandwidth" | "io-maxiops" => {
            "it is for Windows alone"
        }
        "link" => "links are deprecated: put both into one user network",
        "link-local-ip" | "mac-address" => {
            "it is not mapped: use an address of a user network (`ip`)"
        }
        "blkio-weight-device"
        | "device-read-bps"
        | "device-read-iops"
        | "device-write-bps"
        | "device-write-iops" => "it is not mapped: limit the device by the cgroup of the engine",
        _ => {
            return FlagProblem::Unknown { name: clip(name) };
        }
    };
    FlagProblem::Unsupported {
        name: name.to_owned(),
        why,
    }
}

/// A flag and its value.
pub(crate) struct Flag<'a> {
    name: &'a str,
    value: &'a str,
}

impl Flag<'_> {
    pub(crate) fn wrong(&self, problem: impl Display) -> FlagProblem {
        FlagProblem::Value {
            name: self.name.to_owned(),
            value: clip(self.value),
            problem: problem.to_string(),
        }
    }

    /// The value may hold a secret behind its first `=`.
    pub(crate) fn wrong_pair(&self, problem: impl Display) -> FlagProblem {
        FlagProblem::Value {
            name: self.name.to_owned(),
            value: clip(self.value.split('=').next().unwrap_or_default()),
            problem: problem.to_string(),
        }
    }

    fn text(&self) -> Result<String, FlagProblem> {
        if self.value.is_empty() {
            return Err(self.wrong("it needs a value"));
        }
        Ok(self.value.to_owned())
    }

    fn switch(&self) -> Result<bool, FlagProblem> {
        match self.value {
            "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            _ => Err(self.wrong("it is either true or false")),
        }
    }

    fn number<T: std::str::FromStr>(&self, what: &str) -> Result<T, FlagProblem> {
        self.value
            .trim()
            .parse()
            .map_err(|_| self.wrong(format!("it must be {what}")))
    }

    fn bytes(&self) -> Result<u64, FlagProblem> {
        bytes(self.value).ok_or_else(|| self.wrong("it must be a size, as 512m or 2g"))
    }

    /// `KEY=VALUE`, where the value may be a secret.
    fn pair(&self) -> Result<(String, String), FlagProblem> {
        match self.value.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(self.wrong_pair("it must be KEY=VALUE")),
        }
    }

    fn one_of(&self, known: &[&str]) -> Result<String, FlagProblem> {
        let (kind, rest) = self.value.split_once(':').unwrap_or((self.value, ""));
        let container = kind == "container" && !rest.is_empty() && known.contains(&"container");
        if container || (rest.is_empty() && kind != "container" && known.contains(&self.value)) {
            return Ok(self.value.to_owned());
        }
        Err(self.wrong(format!("it must be one of {}", known.join(", "))))
    }
}

fn process(spec: &mut ContainerSpec, flag: &Flag<'_>) -> Result<bool, FlagProblem> {
    match flag.name {
        "entrypoint" if flag.value.is_empty() => spec.entrypoint = Some(Vec::new()),
        "entrypoint" => spec.entrypoint = Some(vec![flag.text()?]),
        "env" => {
            let (name, value) = flag.pair().map_err(|_| {
                flag.wrong_pair(
                    "it must be NAME=VALUE: nothing of our own environment is passed on",
                )
            })?;
            spec.env.push(EnvVar::new(name, value));
        }
        "label" => {
            let (key, value) = flag.value.split_once('=').unwrap_or((flag.value, ""));
            if key.is_empty() {
                return Err(flag.wrong_pair("it must be KEY or KEY=VALUE"));
            }
            spec.labels.insert(key.to_owned(), value.to_owned());
        }
        "annotation" => {
            let (key, value) = flag.pair()?;
            spec.annotations.insert(key, value);
        }
        "user" => spec.user = Some(flag.text()?),
        "group-add" => spec.group_add.push(flag.text()?),
        "workdir" => {
            if !flag.value.starts_with('/') {
                return Err(flag.wrong("it must be an absolute path"));
            }
            spec.working_dir = Some(flag.text()?);
        }
        "tty" => spec.tty = flag.switch()?,
        "init" => spec.init = Some(flag.switch()?),
        "stop-signal" => spec.stop_signal = Some(flag.text()?),
        "stop-timeout" => {
            let seconds: u32 = flag.number("a number of seconds")?;
            spec.stop_timeout = Some(std::time::Duration::from_secs(seconds.into()));
        }
        "no-healthcheck" => spec.no_healthcheck = flag.switch()?,
        "platform" => spec.platform = Some(flag.text()?),
        "runtime" => spec.runtime = Some(flag.text()?),
        "log-driver" => spec.log.get_or_insert_with(LogDriver::default).driver = flag.text()?,
        "log-opt" => {
            let (key, value) = flag.pair()?;
            let log = spec.log.get_or_insert_with(LogDriver::default);
            log.options.insert(key, value);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn files(spec: &mut ContainerSpec, flag: &Flag<'_>) -> Result<bool, FlagProblem> {
    match flag.name {
        "volume" => spec.mounts.push(mounts::volume(flag)?),
        "mount" => spec.mounts.push(mounts::mount(flag)?),
        "tmpfs" => {
            let (path, options) = flag.value.split_once(':').unwrap_or((flag.value, ""));
            if !path.starts_with('/') {
                return Err(flag.wrong("it must be an absolute path, with options behind a colon"));
            }
            spec.tmpfs.insert(path.to_owned(), options.to_owned());
        }
        "volume-driver" => {
            let driver = flag.text()?;
            if let Some(first) = spec
                .volume_driver
                .as_ref()
                .filter(|first| **first != driver)
            {
                return Err(flag.wrong(format!(
                    "the volumes have the driver {first:?} already, and one is possible"
                )));
            }
            spec.volume_driver = Some(driver);
        }
        "volumes-from" => spec.volumes_from.push(flag.text()?),
        "read-only" => spec.read_only_root = flag.switch()?,
        "shm-size" => spec.shm_size = Some(flag.bytes()?),
        "storage-opt" => {
            let (key, value) = flag.pair()?;
            spec.storage_options.insert(key, value);
        }
        "device" => spec.resources.devices.push(mounts::device(flag)?),
        "device-cgroup-rule" => spec.resources.device_cgroup_rules.push(flag.text()?),
        "gpus" => spec.resources.device_requests.push(values::gpus(flag)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn network(spec: &mut ContainerSpec, flag: &Flag<'_>) -> Result<bool, FlagProblem> {
    match flag.name {
        "net" | "network" => spec.network = values::network(flag)?,
        "hostname" => spec.hostname = Some(flag.text()?),
        "domainname" => spec.domain_name = Some(flag.text()?),
        "dns" => {
            let address: std::net::IpAddr = flag.number("an address")?;
            spec.dns.push(address.to_string());
        }
        "dns-search" => spec.dns_search.push(flag.text()?),
        "dns-opt" | "dns-option" => spec.dns_options.push(flag.text()?),
        "add-host" => {
            let (name, address) = flag.value.split_once([':', '=']).unwrap_or_default();
            if name.is_empty() || address.is_empty() {
                return Err(flag.wrong("it must be NAME:ADDRESS"));
            }
            spec.extra_hosts.push(format!("{name}:{address}"));
        }
        "publish" => spec
            .ports
            .extend(port(flag.value).map_err(|problem| flag.wrong(problem))?),
        "publish-all" => spec.publish_all_ports = flag.switch()?,
        "expose" => spec.exposed_ports.extend(values::expose(flag)?),
        "ip" => {
            let address: std::net::Ipv4Addr = flag.number("an IPv4 address")?;
            spec.endpoint.ipv4_address = Some(address.to_string());
        }
        "ip6" => {
            let address: std::net::Ipv6Addr = flag.number("an IPv6 address")?;
            spec.endpoint.ipv6_address = Some(address.to_string());
        }
        "net-alias" | "network-alias" => spec.endpoint.aliases.push(flag.text()?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn resources(spec: &mut ContainerSpec, flag: &Flag<'_>) -> Result<bool, FlagProblem> {
    let resources = &mut spec.resources;
    match flag.name {
        "cpus" => {
            // A quota says the same in another way, and an engine refuses both.
            resources.nano_cpus = Some(values::nano_cpus(flag)?);
            (resources.cpu_quota, resources.cpu_period) = (None, None);
        }
        "cpu-shares" => resources.cpu_shares = Some(flag.number("a whole number")?),
        "cpu-period" => {
            resources.cpu_period = Some(flag.number("a number of microseconds")?);
            resources.nano_cpus = None;
        }
        "cpu-quota" => {
            resources.cpu_quota = Some(flag.number("a number of microseconds")?);
            resources.nano_cpus = None;
        }
        "cpu-rt-period" => {
            resources.cpu_realtime_period = Some(flag.number("a number of microseconds")?);
        }
        "cpu-rt-runtime" => {
            resources.cpu_realtime_runtime = Some(flag.number("a number of microseconds")?);
        }
        "cpuset-cpus" => resources.cpuset_cpus = Some(flag.text()?),
        "cpuset-mems" => resources.cpuset_mems = Some(flag.text()?),
        "memory" => resources.memory = Some(flag.bytes()?),
        "memory-reservation" => resources.memory_reservation = Some(flag.bytes()?),
        "memory-swap" if flag.value == "-1" => resources.memory_swap = Some(-1),
        "memory-swap" => {
            let bytes = i64::try_from(flag.bytes()?).map_err(|_| flag.wrong("it is too large"))?;
            resources.memory_swap = Some(bytes);
        }
        "memory-swappiness" => {
            let percent: u8 = flag.number("a number from 0 to 100")?;
            if percent > 100 {
                return Err(flag.wrong("it must be a number from 0 to 100"));
            }
            resources.memory_swappiness = Some(percent);
        }
        "oom-kill-disable" => resources.oom_kill_disable = Some(flag.switch()?),
        "oom-score-adj" => {
            let score: i32 = flag.number("a number from -1000 to 1000")?;
            if !(-1000..=1000).contains(&score) {
                return Err(flag.wrong("it must be a number from -1000 to 1000"));
            }
            spec.oom_score_adj = Some(score);
        }
        "pids-limit" => resources.pids_limit = Some(flag.number("a whole number")?),
        "blkio-weight" => {
            let weight: u16 = flag.number("a number from 10 to 1000")?;
            if !(10..=1000).contains(&weight) {
                return Err(flag.wrong("it must be a number from 10 to 1000"));
            }
            resources.blkio_weight = Some(weight);
        }
        "ulimit" => {
            let limit = values::ulimit(flag)?;
            resources
                .ulimits
                .retain(|known: &Ulimit| known.name != limit.name);
            resources.ulimits.push(limit);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn security(spec: &mut ContainerSpec, flag: &Flag<'_>) -> Result<bool, FlagProblem> {
    match flag.name {
        "privileged" => spec.privileged = flag.switch()?,
        "cap-add" => spec.cap_add.push(flag.text()?),
        "cap-drop" => spec.cap_drop.push(flag.text()?),
        "security-opt" => {
            if let Some(path) = flag.value.strip_prefix("seccomp=")
                && !matches!(path, "unconfined" | "builtin")
                && !path.starts_with('{')
            {
                return Err(flag.wrong(
                    "files of this host are not read for a task: give the profile itself, as JSON",
                ));
            }
            spec.security_options.push(flag.text()?);
        }
        "sysctl" => {
            let (key, value) = flag.pair()?;
            spec.sysctls.insert(key, value);
        }
        "pid" => spec.pid_mode = Some(flag.one_of(&["host", "container"])?),
        "ipc" => {
            let known = ["none", "private", "shareable", "host", "container"];
            spec.ipc_mode = Some(flag.one_of(&known)?);
        }
        "uts" => spec.uts_mode = Some(flag.one_of(&["host"])?),
        "userns" => spec.userns_mode = Some(flag.one_of(&["host"])?),
        "cgroupns" => spec.cgroupns_mode = Some(flag.one_of(&["private", "host"])?),
        "cgroup-parent" => spec.cgroup_parent = Some(flag.text()?),
        _ => return Ok(false),
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
