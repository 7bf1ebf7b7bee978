//! A spec as the body of `POST /containers/create`.

mod mounts;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::spec::{ContainerSpec, DeviceRequest, EnvVar, NetworkEndpoint, Resources};
use crate::version::ApiVersion;
use crate::{EngineError, check};

/// The body for an engine that speaks `api`.
pub(super) fn body(spec: &ContainerSpec, api: ApiVersion) -> Result<Value, EngineError> {
    check::spec(spec)?;
    let mut host = host_config(spec, api)?;
    merge(&mut host, "HostConfig", &spec.extra_host_config)?;
    let mut body = Map::new();
    body.insert("Image".to_owned(), json!(spec.image));
    put(&mut body, "Entrypoint", &entrypoint(spec));
    put_list(&mut body, "Cmd", spec.cmd.as_deref().unwrap_or_default());
    let mut variables = env(&spec.env);
    variables.extend(spec.unset_env.iter().cloned());
    put_list(&mut body, "Env", &variables);
    put_map(&mut body, "Labels", &spec.labels);
    put(&mut body, "User", &spec.user);
    put(&mut body, "WorkingDir", &spec.working_dir);
    put(&mut body, "Hostname", &spec.hostname);
    put(&mut body, "Domainname", &spec.domain_name);
    put_true(&mut body, "Tty", spec.tty);
    put_true(&mut body, "OpenStdin", spec.open_stdin);
    put(&mut body, "StopSignal", &spec.stop_signal);
    put(
        &mut body,
        "StopTimeout",
        &spec.stop_timeout.map(whole_seconds),
    );
    if spec.no_healthcheck {
        body.insert("Healthcheck".to_owned(), json!({"Test": ["NONE"]}));
    }
    let exposed: Map<String, Value> = (spec.ports.iter())
        .map(|port| (port.container_port, port.protocol))
        .chain(spec.exposed_ports.iter().copied())
        .map(|(port, protocol)| (format!("{port}/{protocol}"), json!({})))
        .collect();
    put_object(&mut body, "ExposedPorts", exposed);
    if spec.endpoint != NetworkEndpoint::default() {
        let network = spec.network.to_api().unwrap_or("default".to_owned());
        let place = endpoint(&spec.endpoint);
        body.insert(
            "NetworkingConfig".to_owned(),
            json!({"EndpointsConfig": {network: place}}),
        );
        // Only later engines read it from the endpoint.
        if api < ApiVersion::new(1, 44) {
            put(&mut body, "MacAddress", &spec.endpoint.mac_address);
        }
    }
    body.insert("HostConfig".to_owned(), Value::Object(host));
    merge(&mut body, "Config", &spec.extra_config)?;
    Ok(Value::Object(body))
}

/// The body of `POST /containers/ID/update`.
pub(super) fn update_body(resources: &Resources) -> Result<Value, EngineError> {
    check::update(resources)?;
    let mut body = Map::new();
    limits(&mut body, resources);
    Ok(Value::Object(body))
}

fn host_config(spec: &ContainerSpec, api: ApiVersion) -> Result<Map<String, Value>, EngineError> {
    let mut host = Map::new();
    mounts::put(&mut host, spec, api)?;
    put(&mut host, "VolumeDriver", &spec.volume_driver);
    put_list(&mut host, "VolumesFrom", &spec.volumes_from);
    put_map(&mut host, "Tmpfs", &spec.tmpfs);
    put(&mut host, "ShmSize", &spec.shm_size);
    put_true(&mut host, "ReadonlyRootfs", spec.read_only_root);
    put_map(&mut host, "StorageOpt", &spec.storage_options);
    put_list(&mut host, "GroupAdd", &spec.group_add);

    put(&mut host, "NetworkMode", &spec.network.to_api());
    put_list(&mut host, "Dns", &spec.dns);
    put_list(&mut host, "DnsSearch", &spec.dns_search);
    put_list(&mut host, "DnsOptions", &spec.dns_options);
    put_list(&mut host, "ExtraHosts", &spec.extra_hosts);
    put_object(&mut host, "PortBindings", port_bindings(spec));
    put_true(&mut host, "PublishAllPorts", spec.publish_all_ports);

    limits(&mut host, &spec.resources);
    devices(&mut host, &spec.resources);
    put(&mut host, "OomScoreAdj", &spec.oom_score_adj);
    put(&mut host, "Init", &spec.init);
    put(&mut host, "Runtime", &spec.runtime);
    put(&mut host, "CgroupParent", &spec.cgroup_parent);

    put_true(&mut host, "Privileged", spec.privileged);
    put_list(&mut host, "CapAdd", &spec.cap_add);
    put_list(&mut host, "CapDrop", &spec.cap_drop);
    put_list(&mut host, "SecurityOpt", &spec.security_options);
    put_map(&mut host, "Sysctls", &spec.sysctls);
    put(&mut host, "PidMode", &spec.pid_mode);
    put(&mut host, "IpcMode", &spec.ipc_mode);
    put(&mut host, "UTSMode", &spec.uts_mode);
    put(&mut host, "UsernsMode", &spec.userns_mode);
    put(&mut host, "CgroupnsMode", &spec.cgroupns_mode);
    put(&mut host, "MaskedPaths", &spec.masked_paths);
    put(&mut host, "ReadonlyPaths", &spec.read_only_paths);

    if let Some(log) = &spec.log {
        let config = json!({"Type": log.driver, "Config": log.options});
        host.insert("LogConfig".to_owned(), config);
    }
    put_true(&mut host, "AutoRemove", spec.auto_remove);
    if !spec.annotations.is_empty() {
        need(api, "HostConfig.Annotations", "1.43")?;
        put_map(&mut host, "Annotations", &spec.annotations);
    }
    // Whoever keeps a container running does so by itself.
    host.insert("RestartPolicy".to_owned(), json!({"Name": "no"}));
    Ok(host)
}

fn limits(host: &mut Map<String, Value>, resources: &Resources) {
    put(host, "CpuShares", &resources.cpu_shares);
    put(host, "CpuPeriod", &resources.cpu_period);
    put(host, "CpuQuota", &resources.cpu_quota);
    put(host, "NanoCpus", &resources.nano_cpus);
    put(host, "CpuRealtimePeriod", &resources.cpu_realtime_period);
    put(host, "CpuRealtimeRuntime", &resources.cpu_realtime_runtime);
    put(host, "CpusetCpus", &resources.cpuset_cpus);
    put(host, "CpusetMems", &resources.cpuset_mems);
    put(host, "Memory", &resources.memory);
    put(host, "MemoryReservation", &resources.memory_reservation);
    put(host, "MemorySwap", &resources.memory_swap);
    put(host, "PidsLimit", &resources.pids_limit);
    put(host, "BlkioWeight", &resources.blkio_weight);
}

fn devices(host: &mut Map<String, Value>, resources: &Resources) {
    put(host, "MemorySwappiness", &resources.memory_swappiness);
    put(host, "OomKillDisable", &resources.oom_kill_disable);
    let ulimits = resources.ulimits.iter();
    let ulimits: Vec<_> = ulimits
        .map(|limit| json!({"Name": limit.name, "Soft": limit.soft, "Hard": limit.hard}))
        .collect();
    put_list(host, "Ulimits", &ulimits);
    let devices = resources.devices.iter().map(|device| {
        json!({
            "PathOnHost": device.path_on_host,
            "PathInContainer": device.path_in_container,
            "CgroupPermissions": device.permissions,
        })
    });
    put_list(host, "Devices", &devices.collect::<Vec<_>>());
    put_list(host, "DeviceCgroupRules", &resources.device_cgroup_rules);
    let requests: Vec<_> = resources
        .device_requests
        .iter()
        .map(device_request)
        .collect();
    put_list(host, "DeviceRequests", &requests);
}

fn device_request(request: &DeviceRequest) -> Value {
    let mut body = Map::new();
    put(&mut body, "Driver", &request.driver);
    put(&mut body, "Count", &request.count);
    put_list(&mut body, "DeviceIDs", &request.device_ids);
    put_list(&mut body, "Capabilities", &request.capabilities);
    put_map(&mut body, "Options", &request.options);
    Value::Object(body)
}

fn endpoint(place: &NetworkEndpoint) -> Value {
    let mut ipam = Map::new();
    put(&mut ipam, "IPv4Address", &place.ipv4_address);
    put(&mut ipam, "IPv6Address", &place.ipv6_address);
    put_list(&mut ipam, "LinkLocalIPs", &place.link_local_ips);
    let mut body = Map::new();
    put_list(&mut body, "Aliases", &place.aliases);
    put(&mut body, "MacAddress", &place.mac_address);
    put_map(&mut body, "DriverOpts", &place.driver_options);
    put_object(&mut body, "IPAMConfig", ipam);
    Value::Object(body)
}

fn port_bindings(spec: &ContainerSpec) -> Map<String, Value> {
    let mut bindings: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for port in &spec.ports {
        let text = |value: Option<String>| value.unwrap_or_default();
        let key = format!("{}/{}", port.container_port, port.protocol);
        bindings.entry(key).or_default().push(json!({
            "HostIp": text(port.host_ip.map(|ip| ip.to_string())),
            "HostPort": text(port.host_port.map(|port| port.to_string())),
        }));
    }
    let bindings = bindings.into_iter();
    bindings
        .map(|(key, list)| (key, Value::Array(list)))
        .collect()
}

/// One empty word resets the image's entrypoint; an empty list would leave it.
fn entrypoint(spec: &ContainerSpec) -> Option<Vec<String>> {
    match &spec.entrypoint {
        Some(words) if words.is_empty() => Some(vec![String::new()]),
        other => other.clone(),
    }
}

/// Engines take the last of two variables with one name only by accident.
pub(super) fn env(variables: &[EnvVar]) -> Vec<String> {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, variable) in variables.iter().enumerate() {
        last.insert(&variable.name, index);
    }
    let kept = variables.iter().enumerate();
    kept.filter(|(index, variable)| last[variable.name.as_str()] == *index)
        .map(|(_, variable)| format!("{}={}", variable.name, variable.value))
        .collect()
}

/// Rounded up: a grace is never cut.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

fn need(api: ApiVersion, field: &'static str, needed: &'static str) -> Result<(), EngineError> {
    if needed.parse().is_ok_and(|needed: ApiVersion| api >= needed) {
        return Ok(());
    }
    Err(EngineError::Unsupported {
        field,
        needed,
        engine: api.to_string(),
    })
}

/// Adds `extra`; what is there already was said by a field of the spec.
fn merge(
    body: &mut Map<String, Value>,
    place: &'static str,
    extra: &BTreeMap<String, Value>,
) -> Result<(), EngineError> {
    for (key, value) in extra {
        if body.contains_key(key) {
            return Err(check::invalid(
                place,
                key,
                "is set by a field of the spec already",
            ));
        }
        body.insert(key.clone(), value.clone());
    }
    Ok(())
}

fn put<T: serde::Serialize>(body: &mut Map<String, Value>, key: &str, value: &Option<T>) {
    if let Some(value) = value {
        body.insert(key.to_owned(), json!(value));
    }
}

fn put_true(body: &mut Map<String, Value>, key: &str, value: bool) {
    if value {
        body.insert(key.to_owned(), Value::Bool(true));
    }
}

fn put_list<T: serde::Serialize>(body: &mut Map<String, Value>, key: &str, values: &[T]) {
    if !values.is_empty() {
        body.insert(key.to_owned(), json!(values));
    }
}

fn put_map(body: &mut Map<String, Value>, key: &str, values: &BTreeMap<String, String>) {
    if !values.is_empty() {
        body.insert(key.to_owned(), json!(values));
    }
}

fn put_object(body: &mut Map<String, Value>, key: &str, values: Map<String, Value>) {
    if !values.is_empty() {
        body.insert(key.to_owned(), Value::Object(values));
    }
}

#[cfg(test)]
mod tests;
