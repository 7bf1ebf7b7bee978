//! A status as Mesos' message.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use longshore_engine::{ContainerInfo, ContainerStatus};
use longshore_health::mesos::check_status;
use longshore_mesos_api::v1::network_info::{IpAddress, Protocol};
use longshore_mesos_api::v1::task_status::{Reason, Source};
use longshore_mesos_api::v1::{
    ContainerStatus as MesosContainerStatus, Label, Labels, NetworkInfo, Resource, TaskId,
    TaskInfo, TaskResourceLimitation, TaskStatus,
};

use crate::{Condition, Details, Ending, Found, News, Update, labels};

/// The longest description of a container in a status, in bytes; a longer one is cut down to what names the container.
pub const MAX_DATA: usize = 64 << 10;
/// The most characters of a message.
const MAX_MESSAGE: usize = 1024;

/// The status with its id and time.
pub(crate) fn of_update(task: &TaskInfo, update: &Update) -> TaskStatus {
    let mut status = TaskStatus {
        task_id: TaskId {
            value: task.task_id.value.clone(),
        },
        agent_id: Some(task.agent_id.clone()),
        executor_id: task.executor.as_ref().map(|it| it.executor_id.clone()),
        state: update.state.into(),
        source: Some(Source::Executor.into()),
        uuid: Some(uuid().to_vec()),
        timestamp: Some(now_seconds()),
        healthy: update.healthy,
        check_status: update.check.map(check_status),
        ..TaskStatus::default()
    };
    if let Some(details) = &update.details {
        if !details.data.is_empty() {
            status.data = Some(details.data.clone());
        }
        status.container_status = network(task, details);
    }
    let (message, reason) = match &update.news {
        News::State => (None, None),
        News::Health(reason) => (
            Some(reason.clone()).filter(|reason| !reason.is_empty()),
            Some(Reason::TaskHealthCheckStatusUpdated),
        ),
        News::Check => (None, Some(Reason::TaskCheckStatusUpdated)),
        News::Ended(ending) => {
            status.labels = Some(Labels {
                labels: vec![
                    label(labels::ENDING, ending.word()),
                    label(labels::EXIT_CODE, ending.exit_code()),
                ],
            });
            status.limitation = limitation(task, ending);
            (Some(ending.to_string()), ending.reason())
        }
    };
    status.message = message.map(|text| clip(&text));
    status.reason = reason.map(Into::into);
    status
}

fn label(key: &str, value: impl ToString) -> Label {
    Label {
        key: key.to_owned(),
        value: Some(value.to_string()),
    }
}

/// What was exceeded: the memory that the task has.
fn limitation(task: &TaskInfo, ending: &Ending) -> Option<TaskResourceLimitation> {
    if !matches!(ending, Ending::OutOfMemory(_)) {
        return None;
    }
    let is_memory = |resource: &&Resource| resource.name == "mem";
    Some(TaskResourceLimitation {
        resources: task.resources.iter().filter(is_memory).cloned().collect(),
    })
}

/// The addresses in a copy of the task's own network.
fn network(task: &TaskInfo, details: &Details) -> Option<MesosContainerStatus> {
    if details.addresses.is_empty() {
        return None;
    }
    let infos = task.container.as_ref().map(|info| &info.network_infos);
    let mut info = infos
        .and_then(|infos| infos.first())
        .cloned()
        .unwrap_or_else(NetworkInfo::default);
    info.ip_addresses = details
        .addresses
        .iter()
        .map(|address| IpAddress {
            protocol: Some(match address {
                IpAddr::V4(_) => Protocol::IPv4.into(),
                IpAddr::V6(_) => Protocol::IPv6.into(),
            }),
            ip_address: Some(address.to_string()),
        })
        .collect();
    Some(MesosContainerStatus {
        network_infos: vec![info],
        ..MesosContainerStatus::default()
    })
}

/// What an inspection says, as far as it matters here. `limit`: of its description, in bytes.
pub(crate) fn found(info: &ContainerInfo, limit: usize) -> Found {
    let state = &info.state;
    let condition = match state.status {
        ContainerStatus::Created => Condition::Created,
        ContainerStatus::Paused => Condition::Paused,
        ContainerStatus::Restarting => Condition::Restarting,
        ContainerStatus::Removing => Condition::Removing,
        ContainerStatus::Exited | ContainerStatus::Dead => Condition::Down,
        // A word that we do not know may have a process.
        _ => Condition::Running,
    };
    Found {
        id: info.id.clone(),
        condition,
        pid: state.pid,
        run: state.started_at.map(longshore_engine::EngineTime::as_nanos),
        code: state.exit_code,
        out_of_memory: state.oom_killed,
        error: state.error.clone(),
        stop_signal: info.stop_signal.clone().filter(|it| !it.is_empty()),
        details: std::sync::Arc::new(Details {
            data: data(info, limit),
            addresses: addresses(info),
            sandbox_key: info.sandbox_key.clone(),
            terminal: info.tty,
        }),
    }
}

/// As `docker inspect` prints it: an array of one.
fn data(info: &ContainerInfo, limit: usize) -> Vec<u8> {
    let whole = format!("[{}]", info.redacted_json());
    if whole.len() <= limit {
        return whole.into_bytes();
    }
    let short = serde_json::json!([{
        "Id": info.id,
        "Name": format!("/{}", info.name),
        "Image": info.image_id,
        "State": {"Pid": info.state.pid.unwrap_or_default()},
        "Truncated": format!("the description has {} bytes, more than {limit}", whole.len()),
    }]);
    short.to_string().into_bytes()
}

/// Those of its own network first, v4 before v6; no dot in a network's name means anything.
fn addresses(info: &ContainerInfo) -> Vec<IpAddr> {
    let own = info.networks.get(&info.network_mode);
    let others = info
        .networks
        .iter()
        .filter(|(name, _)| **name != info.network_mode)
        .map(|(_, network)| network);
    let mut all: Vec<_> = own
        .into_iter()
        .chain(others)
        .flat_map(|network| {
            let v4 = network.ipv4.map(IpAddr::V4);
            let v6 = network.ipv6.map(IpAddr::V6);
            [v4, v6]
        })
        .flatten()
        .collect();
    all.sort_by_key(IpAddr::is_ipv6);
    all
}

/// A random id (version 4); nothing but its being another one each time matters.
fn uuid() -> [u8; 16] {
    let mut bytes = random();
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    bytes
}

/// From the kernel; where it has none, from the clock and a counter.
pub(crate) fn random() -> [u8; 16] {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let nanos = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos();
        let count = u128::from(COUNT.fetch_add(1, Ordering::Relaxed));
        bytes = (nanos << 20 | count).to_le_bytes();
    }
    bytes
}

/// In nanoseconds since 1970, as the engine tells when a container began to run.
pub(crate) fn now_nanos() -> i64 {
    let passed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX)
}

pub(crate) fn now_ms() -> u64 {
    let passed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

fn now_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

/// One line.
fn clip(text: &str) -> String {
    let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = line.clone().take(MAX_MESSAGE).collect();
    if line.count() > MAX_MESSAGE {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longshore_engine::fake::FakeEngine;
    use longshore_engine::{ContainerSpec, Engine as _, EnvVar};
    use longshore_mesos_api::v1::{ContainerInfo as MesosContainerInfo, TaskState};

    use super::*;

    fn update(details: Details) -> Update {
        Update {
            state: TaskState::TaskRunning,
            news: News::State,
            healthy: None,
            check: None,
            details: Some(Arc::new(details)),
        }
    }

    #[test]
    fn dx_01_addresses_of_both_families_are_told_in_a_copy_of_the_tasks_network() {
        let own = NetworkInfo {
            name: Some("mesh.with.dots".to_owned()),
            ..NetworkInfo::default()
        };
        let task = TaskInfo {
            container: Some(MesosContainerInfo {
                network_infos: vec![own],
                ..MesosContainerInfo::default()
            }),
            ..TaskInfo::default()
        };
        let details = Details {
            addresses: vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()],
            ..Details::default()
        };
        let status = of_update(&task, &update(details));
        let infos = status.container_status.unwrap().network_infos;
        assert_eq!(infos[0].name(), "mesh.with.dots");
        let told: Vec<_> = infos[0]
            .ip_addresses
            .iter()
            .map(|it| (it.protocol(), it.ip_address()))
            .collect();
        assert_eq!(
            told,
            [(Protocol::IPv4, "10.0.0.2"), (Protocol::IPv6, "fd00::2")]
        );
        // Without an address there is nothing to say, and that is no error.
        let status = of_update(&task, &update(Details::default()));
        assert_eq!(status.container_status, None);
        assert_eq!(status.data, None);
    }

    #[test]
    fn two_statuses_never_have_one_id_and_messages_are_one_bounded_line() {
        let ending = Ending::PullFailed("no\nway ".repeat(1000));
        let update = Update {
            state: ending.state(),
            news: News::Ended(ending),
            ..update(Details::default())
        };
        let (one, other) = (
            of_update(&TaskInfo::default(), &update),
            of_update(&TaskInfo::default(), &update),
        );
        assert_ne!(one.uuid, other.uuid);
        assert_eq!(one.uuid().len(), 16);
        assert!(one.message().chars().count() <= MAX_MESSAGE + 1);
        assert!(!one.message().contains('\n'));
    }

    #[tokio::test]
    async fn a_description_is_bounded_and_without_values_of_the_environment() {
        let engine = FakeEngine::with_image("busybox");
        for (length, is_whole) in [(10, true), (MAX_DATA, false)] {
            let spec = ContainerSpec {
                env: vec![EnvVar::new("TOKEN", "hunter2")],
                labels: [("long".to_owned(), "x".repeat(length))].into(),
                ..ContainerSpec::new("busybox")
            };
            let id = engine.create(&spec).await.unwrap().id;
            let found = found(&engine.inspect(&id).await.unwrap(), MAX_DATA);
            let data = &found.details.data;
            assert!(data.len() <= MAX_DATA, "{}", data.len());
            let data: serde_json::Value = serde_json::from_slice(data).unwrap();
            assert_eq!(data[0]["Id"], id);
            assert_eq!(data[0]["Truncated"].is_null(), is_whole);
            assert!(!data.to_string().contains("hunter2"));
        }
    }
}
