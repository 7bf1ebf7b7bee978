//! The state of the fake engine. No call waits in here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::faults::{Call, Faults, LostExit};
use super::script::{self, Script};
use crate::container::{ContainerInfo, ContainerState, ContainerStatus, ContainerSummary, RawJson};
use crate::error::{EngineError, Missing};
use crate::event::{Event, EventFilter, EventItem};
use crate::image::ImageInfo;
use crate::spec::ContainerSpec;
use crate::time::EngineTime;

/// Events that a reader may leave unread.
pub(super) const UNREAD: usize = 4096;
/// No process has such an id: the kernel's limit is 2^22.
const FIRST_PID: i32 = 1 << 28;

#[derive(Debug)]
pub(super) struct World {
    pub(super) images: BTreeMap<String, ImageInfo>,
    pub(super) registry: BTreeMap<String, Duration>,
    pub(super) containers: Vec<Container>,
    pub(super) execs: BTreeMap<String, Exec>,
    pub(super) scripts: VecDeque<Script>,
    pub(super) faults: Faults,
    pub(super) log: Vec<(Call, String)>,
    pub(super) is_down: bool,
    /// Counts the starts of the daemon: what was opened before breaks off.
    pub(super) daemon: u64,
    readers: Vec<(EventFilter, mpsc::Sender<EventItem>)>,
    broken: bool,
    started: Instant,
    made: u64,
}

#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) spec: ContainerSpec,
    pub(super) state: ContainerState,
    /// How it was when the engine last learnt of it.
    pub(super) shown: ContainerState,
    pub(super) script: Script,
    pub(super) lose_exit: Option<LostExit>,
    /// Exits that were told to clients.
    pub(super) told_exits: u64,
    pub(super) run: u64,
    pub(super) signals: Vec<String>,
    created: EngineTime,
    number: i32,
}

#[derive(Debug, Clone)]
pub(super) struct Exec {
    pub(super) container: String,
    pub(super) running: bool,
    pub(super) code: Option<i64>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            images: BTreeMap::new(),
            registry: BTreeMap::new(),
            containers: Vec::new(),
            execs: BTreeMap::new(),
            scripts: VecDeque::new(),
            faults: Faults::default(),
            log: Vec::new(),
            is_down: false,
            daemon: 0,
            readers: Vec::new(),
            broken: false,
            started: Instant::now(),
            made: 0,
        }
    }

    pub(super) fn now(&self) -> EngineTime {
        // 2026-01-01, so that times look like times.
        const EPOCH: i64 = 1_767_225_600_000_000_000;
        let passed = i64::try_from(self.started.elapsed().as_nanos()).unwrap_or(i64::MAX);
        EngineTime::from_nanos(EPOCH.saturating_add(passed))
    }

    pub(super) fn add_image(&mut self, name: &str, mut image: ImageInfo) {
        self.made += 1;
        if image.id.is_empty() {
            image.id = format!("sha256:{:064x}", self.made);
        }
        self.images.insert(tagged(name), image);
    }

    pub(super) fn image(&self, name: &str) -> Option<&ImageInfo> {
        let by_id = || self.images.values().find(|image| image.id == name);
        self.images.get(&tagged(name)).or_else(by_id)
    }

    pub(super) fn find(&self, id: &str) -> Option<&Container> {
        self.containers
            .iter()
            .find(|it| it.id == id || it.name == id)
    }

    pub(super) fn find_mut(&mut self, id: &str) -> Option<&mut Container> {
        self.containers
            .iter_mut()
            .find(|it| it.id == id || it.name == id)
    }

    pub(super) fn wanted(&mut self, call: Call, id: &str) -> Result<&mut Container, EngineError> {
        self.find_mut(id).ok_or_else(|| EngineError::NotFound {
            call: call.name(),
            subject: id.to_owned(),
            what: Missing::Container,
            message: format!("No such container: {id}"),
        })
    }

    pub(super) fn fresh_id(&mut self) -> String {
        self.made += 1;
        format!("{:064x}", self.made)
    }

    pub(super) fn create(&mut self, spec: &ContainerSpec) -> Result<String, EngineError> {
        let subject = spec.name.as_deref().unwrap_or(&spec.image).to_owned();
        if self.image(&spec.image).is_none() {
            return Err(EngineError::NotFound {
                call: Call::Create.name(),
                subject,
                what: Missing::Image,
                message: format!("No such image: {}", tagged(&spec.image)),
            });
        }
        let id = self.fresh_id();
        let name = spec
            .name
            .clone()
            .unwrap_or_else(|| format!("fake-{}", self.made));
        if self.find(&name).is_some() {
            let message = format!("Conflict. The container name \"/{name}\" is already in use");
            return Err(EngineError::Conflict {
                call: Call::Create.name(),
                subject,
                message,
            });
        }
        let state = ContainerState {
            status: ContainerStatus::Created,
            pid: None,
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            started_at: None,
            finished_at: None,
            health: None,
        };
        let container = Container {
            id: id.clone(),
            name,
            spec: spec.clone(),
            shown: state.clone(),
            state,
            script: self.scripts.pop_front().unwrap_or_default(),
            lose_exit: None,
            told_exits: 0,
            run: 0,
            signals: Vec::new(),
            created: self.now(),
            number: i32::try_from(self.made).unwrap_or(0),
        };
        self.containers.push(container);
        self.tell(&id, "create", &[]);
        Ok(id)
    }

    /// Starts it; returns its script and the number of this run.
    pub(super) fn start(&mut self, id: &str) -> Result<(Script, u64), EngineError> {
        let now = self.now();
        let container = self.wanted(Call::Start, id)?;
        if container.state.status.may_have_process() {
            return Err(EngineError::NotModified {
                call: Call::Start.name(),
                subject: id.to_owned(),
            });
        }
        if let Some(error) = container.script.start_error.clone() {
            container.state.error = error.message().unwrap_or_default().to_owned();
            container.state.exit_code = i64::from(error.start_exit_code());
            container.shown = container.state.clone();
            return Err(error);
        }
        container.run += 1;
        container.state = ContainerState {
            status: ContainerStatus::Running,
            pid: Some(container.script.pid.unwrap_or(FIRST_PID + container.number)),
            exit_code: 0,
            oom_killed: false,
            error: String::new(),
            started_at: Some(now),
            finished_at: None,
            health: None,
        };
        container.shown = container.state.clone();
        let (script, run) = (container.script.clone(), container.run);
        self.tell(id, "start", &[]);
        Ok((script, run))
    }

    /// Its process exits; false when there is none.
    pub(super) fn exit(&mut self, id: &str, code: i64, oom: bool) -> bool {
        let now = self.now();
        let Some(container) = self.find_mut(id) else {
            return false;
        };
        if !container.state.status.may_have_process() {
            return false;
        }
        container.state = ContainerState {
            status: ContainerStatus::Exited,
            pid: None,
            exit_code: code,
            oom_killed: oom,
            finished_at: Some(now),
            ..container.state.clone()
        };
        let lost = container.lose_exit.take();
        if lost != Some(LostExit::Engine) {
            container.shown = container.state.clone();
        }
        if lost.is_none() {
            container.told_exits += 1;
            let id = container.id.clone();
            if oom {
                self.tell(&id, "oom", &[]);
            }
            self.tell(&id, "die", &[("exitCode", code.to_string())]);
        }
        true
    }

    /// Sends a signal; returns the code to exit with and after what time, if it dies of it.
    pub(super) fn signal(
        &mut self,
        call: Call,
        id: &str,
        name: &str,
    ) -> Result<Option<(Duration, i64, u64)>, EngineError> {
        let container = self.wanted(call, id)?;
        if !container.shown.status.may_have_process() {
            let message = format!("Container {id} is not running");
            return Err(EngineError::Conflict {
                call: call.name(),
                subject: id.to_owned(),
                message,
            });
        }
        let Some((number, bare)) = script::signal(name) else {
            let message = format!("Invalid signal: {name}");
            return Err(EngineError::Status {
                call: call.name(),
                subject: id.to_owned(),
                status: 400,
                message,
            });
        };
        container.signals.push(name.to_owned());
        let script = &container.script;
        let ignored = bare != "KILL" && script.ignores.contains(&bare);
        let harmless = matches!(bare.as_str(), "CONT" | "STOP" | "WINCH");
        // A frozen process gets none but KILL until it is thawed.
        let frozen = container.state.status == ContainerStatus::Paused && bare != "KILL";
        let dies = (!ignored && !harmless && !frozen).then(|| {
            let code = script.code_on_signal.filter(|_| bare != "KILL");
            let delay = if bare == "KILL" {
                Duration::ZERO
            } else {
                script.dies_after
            };
            (delay, code.unwrap_or(128 + number), container.run)
        });
        self.tell(id, "kill", &[("signal", number.to_string())]);
        Ok(dies)
    }

    /// With which code a process ends that is sent a signal, if it does; `None` when there is no process.
    pub(super) fn code_by_kernel(&self, id: &str, name: &str) -> Option<Option<i64>> {
        let container = self.find(id)?;
        if !container.state.status.may_have_process() {
            return None;
        }
        let (number, bare) = script::signal(name)?;
        let is_kill = bare == "KILL";
        let frozen = container.state.status == ContainerStatus::Paused && !is_kill;
        let harmless = matches!(bare.as_str(), "CONT" | "STOP" | "WINCH");
        if frozen || harmless || (!is_kill && container.script.ignores.contains(&bare)) {
            return Some(None);
        }
        let code = container.script.code_on_signal.filter(|_| !is_kill);
        Some(Some(code.unwrap_or(128 + number)))
    }

    pub(super) fn freeze(&mut self, call: Call, id: &str, freeze: bool) -> Result<(), EngineError> {
        let container = self.wanted(call, id)?;
        let (from, to, action) = if freeze {
            (ContainerStatus::Running, ContainerStatus::Paused, "pause")
        } else {
            (ContainerStatus::Paused, ContainerStatus::Running, "unpause")
        };
        if container.shown.status != from {
            let message = format!("Container {id} cannot be changed by {action}");
            return Err(EngineError::Conflict {
                call: call.name(),
                subject: id.to_owned(),
                message,
            });
        }
        container.state.status = to;
        container.shown = container.state.clone();
        self.tell(id, action, &[]);
        Ok(())
    }

    pub(super) fn remove(&mut self, id: &str, force: bool) -> Result<(), EngineError> {
        let container = self.wanted(Call::Remove, id)?;
        if container.shown.status.may_have_process() {
            if !force {
                let message = "You cannot remove a running container".to_owned();
                return Err(EngineError::Conflict {
                    call: Call::Remove.name(),
                    subject: id.to_owned(),
                    message,
                });
            }
            self.exit(id, 137, false);
        }
        self.tell(id, "destroy", &[]);
        self.containers.retain(|it| it.id != id && it.name != id);
        Ok(())
    }

    pub(super) fn info(&mut self, id: &str) -> Result<ContainerInfo, EngineError> {
        let image = self
            .find(id)
            .and_then(|it| self.image(&it.spec.image))
            .cloned()
            .unwrap_or_default();
        let container = self.wanted(Call::Inspect, id)?;
        let spec = &container.spec;
        let env: Vec<_> = spec
            .env
            .iter()
            .map(|it| format!("{}={}", it.name, it.value))
            .collect();
        let raw = json!({
            "Id": container.id,
            "Name": format!("/{}", container.name),
            "State": {"Pid": container.shown.pid.unwrap_or(0), "ExitCode": container.shown.exit_code},
            "Config": {"Image": spec.image, "Labels": spec.labels, "Env": env},
        });
        Ok(ContainerInfo {
            id: container.id.clone(),
            name: container.name.clone(),
            created: Some(container.created),
            image_id: image.id,
            image: spec.image.clone(),
            state: container.shown.clone(),
            restart_count: 0,
            labels: spec.labels.clone(),
            env: spec.env.clone(),
            entrypoint: spec.entrypoint.clone().unwrap_or(image.entrypoint),
            cmd: spec.cmd.clone().unwrap_or(image.cmd),
            working_dir: spec.working_dir.clone().unwrap_or(image.working_dir),
            user: spec.user.clone().unwrap_or(image.user),
            tty: spec.tty,
            stop_signal: spec.stop_signal.clone().or(image.stop_signal),
            stop_timeout: None,
            network_mode: spec.network.to_api().unwrap_or_default(),
            log_driver: spec
                .log
                .as_ref()
                .map_or("json-file", |log| &log.driver)
                .to_owned(),
            log_path: None,
            sandbox_key: None,
            networks: BTreeMap::new(),
            ports: Vec::new(),
            mounts: Vec::new(),
            raw: RawJson(Bytes::from(raw.to_string())),
        })
    }

    pub(super) fn summary(container: &Container) -> ContainerSummary {
        ContainerSummary {
            id: container.id.clone(),
            names: vec![container.name.clone()],
            image: container.spec.image.clone(),
            status: container.shown.status.clone(),
            labels: container.spec.labels.clone(),
            created: Some(container.created),
        }
    }

    pub(super) fn read_events(&mut self, filter: &EventFilter) -> mpsc::Receiver<EventItem> {
        let (sender, receiver) = mpsc::channel(UNREAD);
        self.readers.push((filter.clone(), sender));
        receiver
    }

    pub(super) fn break_events(&mut self) {
        self.broken = true;
        self.send(|_| Some(EventItem::Lost(gone("events"))));
    }

    pub(super) fn mend_events(&mut self) {
        self.broken = false;
        self.send(|_| Some(EventItem::Resumed));
    }

    pub(super) fn go_down(&mut self) {
        self.is_down = true;
        self.daemon += 1;
        self.break_events();
    }

    pub(super) fn come_up(&mut self, live_restore: bool) {
        self.is_down = false;
        self.mend_events();
        let ids: Vec<_> = self.containers.iter().map(|it| it.id.clone()).collect();
        for id in ids {
            if !live_restore {
                self.exit(&id, 255, false);
            }
        }
    }

    fn tell(&mut self, id: &str, action: &str, more: &[(&str, String)]) {
        let Some(container) = self.find(id) else {
            return;
        };
        let mut attributes = container.spec.labels.clone();
        attributes.insert("name".to_owned(), container.name.clone());
        attributes.insert("image".to_owned(), container.spec.image.clone());
        attributes.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
        let event = Event {
            kind: "container".to_owned(),
            action: action.to_owned(),
            id: container.id.clone(),
            attributes,
            time: self.now(),
        };
        if !self.broken {
            self.send(|filter| wants(filter, &event).then(|| EventItem::Event(event.clone())));
        }
    }

    fn send(&mut self, item: impl Fn(&EventFilter) -> Option<EventItem>) {
        self.readers.retain(|(filter, reader)| match item(filter) {
            // One that reads nothing loses what does not fit.
            Some(item) => !matches!(
                reader.try_send(item),
                Err(mpsc::error::TrySendError::Closed(_))
            ),
            None => !reader.is_closed(),
        });
    }
}

fn wants(filter: &EventFilter, event: &Event) -> bool {
    let named = |id: &String| *id == event.id || event.attributes.get("name") == Some(id);
    (filter.kinds.is_empty() || filter.kinds.contains(&event.kind))
        && has_labels(&event.attributes, &filter.labels)
        && (filter.containers.is_empty() || filter.containers.iter().any(named))
}

/// Each as `key` or `key=value`.
pub(super) fn has_labels(labels: &BTreeMap<String, String>, wanted: &[String]) -> bool {
    wanted.iter().all(|text| match text.split_once('=') {
        Some((key, value)) => labels.get(key).is_some_and(|found| found == value),
        None => labels.contains_key(text),
    })
}

pub(super) fn gone(call: &'static str) -> EngineError {
    EngineError::Gone {
        call,
        subject: String::new(),
        source: None,
    }
}

/// The full reference, where it is one.
pub(super) fn tagged(name: &str) -> String {
    crate::image::ImageReference::parse(name).map_or_else(|_| name.to_owned(), |it| it.to_string())
}
