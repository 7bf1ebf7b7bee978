//! A task as it may be shown: without what may be a secret.

use longshore_mesos_api::v1::{CommandInfo, TaskInfo, environment};

/// In place of a value.
const HIDDEN: &str = "<hidden>";

/// Docker's flags whose values are shown whole; of all others only what stands before the first `=`.
const SHOWN: &[&str] = &[
    "add-host",
    "blkio-weight",
    "cap-add",
    "cap-drop",
    "cgroup-parent",
    "cgroupns",
    "cpu-period",
    "cpu-quota",
    "cpu-rt-period",
    "cpu-rt-runtime",
    "cpu-shares",
    "cpus",
    "cpuset-cpus",
    "cpuset-mems",
    "device",
    "device-cgroup-rule",
    "dns",
    "dns-opt",
    "dns-option",
    "dns-search",
    "domainname",
    "entrypoint",
    "expose",
    "gpus",
    "group-add",
    "hostname",
    "init",
    "ip",
    "ip6",
    "ipc",
    "label",
    "log-driver",
    "memory",
    "memory-reservation",
    "memory-swap",
    "memory-swappiness",
    "net",
    "net-alias",
    "network",
    "network-alias",
    "oom-kill-disable",
    "oom-score-adj",
    "pid",
    "pids-limit",
    "platform",
    "privileged",
    "publish",
    "publish-all",
    "read-only",
    "runtime",
    "shm-size",
    "stop-signal",
    "stop-timeout",
    "sysctl",
    "tmpfs",
    "tty",
    "ulimit",
    "user",
    "userns",
    "uts",
    "volume",
    "volume-driver",
    "volumes-from",
    "workdir",
];

/// `task` without the values of variables, secrets, driver options and flags that may hold one, and without its data.
#[must_use]
pub fn redacted(task: &TaskInfo) -> TaskInfo {
    let mut task = task.clone();
    task.data = None;
    let commands = [
        task.command.as_mut(),
        task.health_check
            .as_mut()
            .and_then(|check| check.command.as_mut()),
        task.check
            .as_mut()
            .and_then(|check| check.command.as_mut())
            .map(|check| &mut check.command),
    ];
    for command in commands.into_iter().flatten() {
        hide_command(command);
    }
    if let Some(executor) = &mut task.executor {
        executor.data = None;
        if let Some(command) = &mut executor.command {
            hide_command(command);
        }
        if let Some(container) = &mut executor.container {
            hide_container(container);
        }
    }
    if let Some(container) = &mut task.container {
        hide_container(container);
    }
    task
}

fn hide_command(command: &mut CommandInfo) {
    for variable in command
        .environment
        .iter_mut()
        .flat_map(|environment| &mut environment.variables)
    {
        hide_variable(variable);
    }
}

fn hide_variable(variable: &mut environment::Variable) {
    if let Some(value) = &mut variable.value {
        HIDDEN.clone_into(value);
    }
    if let Some(secret) = &mut variable.secret {
        hide_secret(secret);
    }
}

fn hide_secret(secret: &mut longshore_mesos_api::v1::Secret) {
    if let Some(value) = &mut secret.value {
        value.data = HIDDEN.as_bytes().to_vec();
    }
}

fn hide_container(container: &mut longshore_mesos_api::v1::ContainerInfo) {
    for parameter in container
        .docker
        .iter_mut()
        .flat_map(|docker| &mut docker.parameters)
    {
        if !SHOWN.contains(&parameter.key.as_str()) {
            parameter.value = match parameter.value.split_once('=') {
                Some((name, _)) => format!("{name}={HIDDEN}"),
                None => HIDDEN.to_owned(),
            };
        }
    }
    for source in container
        .volumes
        .iter_mut()
        .filter_map(|volume| volume.source.as_mut())
    {
        if let Some(secret) = &mut source.secret {
            hide_secret(secret);
        }
        for option in source
            .docker_volume
            .iter_mut()
            .filter_map(|volume| volume.driver_options.as_mut())
            .flat_map(|options| &mut options.parameter)
        {
            HIDDEN.clone_into(&mut option.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use longshore_mesos_api::json;

    use super::*;

    #[test]
    fn nothing_that_may_be_a_secret_is_shown() {
        let text = br#"{
            "name": "t", "task_id": {"value": "t"}, "agent_id": {"value": "a"}, "data": "c2VjcmV0",
            "command": {"shell": false, "arguments": ["sh"], "environment": {"variables": [
                {"name": "A", "value": "hunter2"},
                {"name": "B", "type": "SECRET", "secret": {"type": "VALUE", "value": {"data": "c2VjcmV0"}}}]}},
            "health_check": {"type": "COMMAND", "command": {"value": "x", "environment": {"variables": [
                {"name": "C", "value": "hunter2"}]}}},
            "check": {"type": "COMMAND", "command": {"command": {"value": "x", "environment": {"variables": [
                {"name": "C", "value": "hunter2"}]}}}},
            "executor": {"executor_id": {"value": "e"}, "data": "c2VjcmV0", "command": {"value": "x",
                "environment": {"variables": [{"name": "D", "value": "hunter2"}]}}},
            "container": {"type": "DOCKER", "docker": {"image": "i", "parameters": [
                {"key": "env", "value": "E=hunter2"}, {"key": "log-opt", "value": "token=hunter2"},
                {"key": "mount", "value": "type=volume,target=/x,volume-opt=password=hunter2"},
                {"key": "no-such", "value": "hunter2"}, {"key": "cpus", "value": "1.5"}]},
                "volumes": [{"mode": "RW", "container_path": "/v", "source": {"type": "DOCKER_VOLUME", "docker_volume":
                    {"name": "v", "driver_options": {"parameter": [{"key": "password", "value": "hunter2"}]}}}},
                    {"mode": "RW", "container_path": "/w", "source": {"type": "SECRET", "secret":
                    {"type": "VALUE", "value": {"data": "c2VjcmV0"}}}}]}
        }"#;
        let task: TaskInfo =
            json::from_slice(text, &longshore_mesos_api::DecodeLimits::default()).unwrap();
        let shown = String::from_utf8(json::to_vec(&redacted(&task)).unwrap()).unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(!shown.contains("c2VjcmV0"), "{shown}");
        for kept in ["\"A\"", "E=<hidden>", "\"1.5\"", "\"sh\""] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }
}
