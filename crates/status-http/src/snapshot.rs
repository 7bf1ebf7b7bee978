//! What is told, as one value. Made by whoever knows it, rendered here.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// All of a daemon at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The daemon's version.
    pub version: String,
    /// Which state directory it serves.
    pub instance: String,
    /// Its pid.
    pub pid: u32,
    /// When it was started.
    pub started: SystemTime,
    /// Grows with each change.
    pub generation: u64,
    /// The first recovery is done.
    pub recovered: bool,
    /// What is wrong with the newest configuration; empty when it is in force.
    pub config_error: String,
    /// What deserves a look in the one in force.
    pub warnings: Vec<String>,
    /// Since when it has been in force.
    pub config_loaded: SystemTime,
    /// The filter of its log.
    pub log: String,
    /// Who runs the containers of plugins.
    pub agent: Agent,
    /// Who runs tasks; `None` where there are none.
    pub engine: Option<Engine>,
    /// CSI plugins, by name.
    pub plugins: Vec<Plugin>,
    /// Tasks.
    pub tasks: Tasks,
    /// NRI plugins in the order in which they are asked; `None` where NRI is not served.
    pub nri: Option<Vec<NriPlugin>>,
    /// Records that were damaged and set aside.
    pub set_aside: usize,
    /// Containers of this instance that nothing explains.
    pub strays: usize,
    /// What the process takes; `None` where the system does not tell.
    pub process: Option<Process>,
}

/// An agent.
#[derive(Debug, Clone, Default)]
pub struct Agent {
    /// `embedded`, or its address.
    pub address: String,
    /// Since when it has not answered, and why.
    pub silent: Option<(SystemTime, String)>,
}

/// A container engine.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// Its address.
    pub address: String,
    /// Its version, once it has told it.
    pub version: String,
    /// Since when it has not answered, and why.
    pub silent: Option<(SystemTime, String)>,
    /// Something depends on it.
    pub wanted: bool,
}

/// The state of a CSI plugin, an endpoint of one included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Every wanted service answers.
    Ready,
    /// Nobody has asked for it yet.
    Idle,
    /// No longer configured, kept for what is mounted below it.
    Kept,
    /// Stopped by request.
    Stopped,
    /// Being stopped.
    Stopping,
    /// Being looked for after a start of the daemon.
    Recovering,
    /// Launched, not answering yet.
    Starting,
    /// It answered once and does not now.
    Unhealthy,
    /// Waiting for its next start.
    Backoff,
    /// Tried slowly.
    Failing,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Ready,
        Self::Idle,
        Self::Kept,
        Self::Stopped,
        Self::Stopping,
        Self::Recovering,
        Self::Starting,
        Self::Unhealthy,
        Self::Backoff,
        Self::Failing,
    ];

    /// In a lower-case word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Idle => "idle",
            Self::Kept => "kept",
            Self::Stopped => "stopped",
            Self::Stopping => "stopping",
            Self::Recovering => "recovering",
            Self::Starting => "starting",
            Self::Unhealthy => "unhealthy",
            Self::Backoff => "backoff",
            Self::Failing => "failing",
        }
    }
}

/// A CSI plugin.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// The operator's name.
    pub name: String,
    /// Its `CSIPluginInfo.type`.
    pub plugin_type: String,
    /// Its state.
    pub state: State,
    /// Why; empty when there is nothing to say.
    pub reason: String,
    /// In this state since.
    pub since: SystemTime,
    /// The next start.
    pub next_retry: Option<SystemTime>,
    /// `v0` or `v1`; empty until it is known.
    pub version: String,
    /// How often a container of it was started, under earlier daemons, too.
    pub launches: u64,
    /// How often a container of it was started again, under earlier daemons, too.
    pub restarts: u64,
    /// What is wanted of it.
    pub endpoints: Vec<Endpoint>,
    /// Pids of its containers.
    pub pids: Vec<u32>,
    /// Mount points below its mount root.
    pub mounts: usize,
    /// Whether kubelet has it registered; `None` where nobody wants that.
    pub registered: Option<bool>,
    /// What was counted since the daemon started.
    pub probes: Probes,
}

/// What one service of a plugin is reached by.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `controller` or `node`.
    pub service: String,
    /// `unix:///...`; `None` while there is no good one.
    pub uri: Option<String>,
}

/// Counters of a plugin. A whole probe is one call, and so is a description.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    /// Containers that ended.
    pub terminations: u64,
    /// Calls under way.
    pub pending: u64,
    /// Calls that went well.
    pub finished: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Calls that were cut off.
    pub cancelled: u64,
    /// How long answered liveness probes took; `None` before the first.
    pub latency: Option<Latency>,
}

/// How long something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latency {
    /// The last time.
    pub last: Duration,
    /// The longest.
    pub max: Duration,
    /// The median, where it is known.
    pub median: Option<Duration>,
    /// All of them together, where that is known.
    pub total: Option<(u64, Duration)>,
}

/// Tasks in numbers and, the first of them, one by one.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    /// How many are in each state, such as `TASK_RUNNING`. Of those on record.
    pub states: BTreeMap<String, u64>,
    /// How many there are at all.
    pub total: usize,
    /// The unfinished ones and the last of the others; at most as many as a page should have.
    pub shown: Vec<Task>,
    /// Declared tasks, by name.
    pub declared: Vec<DeclaredTask>,
}

/// A task that is kept running.
#[derive(Debug, Clone)]
pub struct DeclaredTask {
    /// Its name.
    pub name: String,
    /// One word, such as `running`, `backoff`.
    pub state: String,
    /// It is to run and does not.
    pub waits: bool,
    /// Why it is so; empty when the word says it.
    pub reason: String,
    /// `no`, `on-failure`, `always`.
    pub restart: String,
    /// How often it was started.
    pub attempts: u64,
    /// How the last attempt that has ended did so; empty when none has.
    pub last_reason: String,
    /// When the next attempt begins, where time alone decides.
    pub next_try: Option<SystemTime>,
    /// What its health check found last.
    pub healthy: Option<bool>,
}

/// One task.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// Its image.
    pub image: String,
    /// Its state, as Mesos names it.
    pub state: String,
    /// How it ended, or why it waits; empty when there is nothing to say.
    pub message: String,
    /// When it was launched.
    pub launched: SystemTime,
    /// When it ended.
    pub ended: Option<SystemTime>,
    /// What its health check found last.
    pub healthy: Option<bool>,
}

/// An NRI plugin.
#[derive(Debug, Clone)]
pub struct NriPlugin {
    /// In full, such as `10-logger`.
    pub name: String,
    /// `active`, ...
    pub state: String,
    /// `launched`, `external`, ...; empty for a missing one.
    pub kind: String,
    /// In this state since.
    pub since: Option<SystemTime>,
    /// Its pid, where the system tells.
    pub pid: Option<u32>,
    /// Requests that it answered.
    pub requests: u64,
    /// Those that failed.
    pub failures: u64,
    /// Requests that wait for it.
    pub queued: u64,
    /// How long it takes to answer.
    pub latency: Option<Latency>,
    /// Why it is not there, or what failed last.
    pub last_error: String,
}

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Resident memory in bytes.
    pub resident: u64,
    /// Processor time so far.
    pub cpu: Duration,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
}
