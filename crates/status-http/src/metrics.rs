//! Metrics in Prometheus' text form, version 0.0.4. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use crate::time::since_epoch;
use crate::{Latency, NriPlugin, Plugin, Snapshot, State, not_ready};

/// All metrics of a snapshot. Families come in a fixed order, series in the order of the snapshot; labels are names of the
/// configuration, words of a fixed set, and names of connected NRI plugins.
#[must_use]
pub fn render(snapshot: &Snapshot) -> String {
    let mut text = Text::default();
    daemon(snapshot, &mut text);
    plugins(&snapshot.plugins, &mut text);
    tasks(snapshot, &mut text);
    if let Some(plugins) = &snapshot.nri {
        nri(plugins, &mut text);
    }
    process(snapshot, &mut text);
    text.0
}

/// The text so far.
#[derive(Default)]
struct Text(String);

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Summary,
}

impl Text {
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Summary => "summary",
        };
        // A String takes all that it is given.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.0.push(if index == 0 { '{' } else { ',' });
            let _ = write!(self.0, "{label}=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    other => self.0.push(other),
                }
            }
            self.0.push('"');
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family of one sample without labels.
    fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn flag(holds: bool) -> u8 {
    u8::from(holds)
}

fn daemon(snapshot: &Snapshot, text: &mut Text) {
    text.family(
        "longshore_build_info",
        Kind::Gauge,
        "The version of the daemon; always 1.",
    );
    text.sample("longshore_build_info", &[("version", &snapshot.version)], 1);
    text.one(
        "longshore_ready",
        Kind::Gauge,
        "1 while /readyz answers 200.",
        flag(not_ready(snapshot).is_empty()),
    );
    text.one(
        "longshore_recovered",
        Kind::Gauge,
        "1 once the first recovery after the start is done.",
        flag(snapshot.recovered),
    );
    text.one(
        "longshore_config_valid",
        Kind::Gauge,
        "1 while the newest configuration is in force, 0 while an older one is.",
        flag(snapshot.config_error.is_empty()),
    );
    text.one(
        "longshore_config_loaded_timestamp_seconds",
        Kind::Gauge,
        "Since when the configuration has been in force.",
        seconds(since_epoch(snapshot.config_loaded)),
    );
    text.one(
        "longshore_agent_up",
        Kind::Gauge,
        "1 while the agent that runs the containers of plugins answers.",
        flag(snapshot.agent.silent.is_none()),
    );
    let since = |silent: &Option<(std::time::SystemTime, String)>| {
        let since = silent.as_ref().map(|(since, _)| *since);
        since.map_or(0.0, |since| seconds(since_epoch(since)))
    };
    text.one(
        "longshore_agent_silent_since_timestamp_seconds",
        Kind::Gauge,
        "Since when the agent has not answered; 0 while it does.",
        since(&snapshot.agent.silent),
    );
    if let Some(engine) = &snapshot.engine {
        text.one(
            "longshore_engine_up",
            Kind::Gauge,
            "1 while the engine of tasks answers.",
            flag(engine.silent.is_none()),
        );
        text.one(
            "longshore_engine_silent_since_timestamp_seconds",
            Kind::Gauge,
            "Since when the engine of tasks has not answered; 0 while it does.",
            since(&engine.silent),
        );
    }
    let set_aside = snapshot.set_aside;
    text.one(
        "longshore_records_set_aside",
        Kind::Gauge,
        "Damaged records that were set aside and are still there.",
        set_aside,
    );
    text.one(
        "longshore_stray_containers",
        Kind::Gauge,
        "Containers of this instance that no configuration names.",
        snapshot.strays,
    );
}

/// The name, kind and help of a family, and its value for one plugin.
type Count<'a, T> = (&'a str, Kind, &'a str, &'a dyn Fn(&T) -> u64);

/// A family with one sample for each plugin.
fn each<T>(
    text: &mut Text,
    (name, kind, help): (&str, Kind, &str),
    plugins: &[T],
    name_of: impl Fn(&T) -> &str,
    value: impl Fn(&T) -> u64,
) {
    if plugins.is_empty() {
        return;
    }
    text.family(name, kind, help);
    for plugin in plugins {
        text.sample(name, &[("plugin", name_of(plugin))], value(plugin));
    }
}

fn plugins(plugins: &[Plugin], text: &mut Text) {
    if plugins.is_empty() {
        return;
    }
    let name = "longshore_csi_plugin_info";
    text.family(
        name,
        Kind::Gauge,
        "What is known of a plugin; always 1. csi_version is empty until it has answered.",
    );
    for plugin in plugins {
        let labels = [
            ("plugin", plugin.name.as_str()),
            ("type", &plugin.plugin_type),
            ("csi_version", &plugin.version),
        ];
        text.sample(name, &labels, 1);
    }
    let name = "longshore_csi_plugin_state";
    text.family(
        name,
        Kind::Gauge,
        "1 for the state that a plugin is in, 0 for all others.",
    );
    for plugin in plugins {
        for state in State::ALL {
            let labels = [("plugin", plugin.name.as_str()), ("state", state.word())];
            text.sample(name, &labels, flag(plugin.state == state));
        }
    }
    let name = "longshore_csi_plugin_state_since_timestamp_seconds";
    text.family(
        name,
        Kind::Gauge,
        "Since when a plugin has been in its state.",
    );
    for plugin in plugins {
        let since = seconds(since_epoch(plugin.since));
        text.sample(name, &[("plugin", &plugin.name)], since);
    }
    let name = "longshore_csi_endpoint_ready";
    text.family(
        name,
        Kind::Gauge,
        "1 while a service of a plugin is handed out.",
    );
    for plugin in plugins {
        for endpoint in &plugin.endpoints {
            let labels = [
                ("plugin", plugin.name.as_str()),
                ("service", &endpoint.service),
            ];
            text.sample(name, &labels, flag(endpoint.uri.is_some()));
        }
    }
    let wanted: Vec<_> = plugins
        .iter()
        .filter_map(|plugin| Some((plugin.name.as_str(), plugin.registered?)))
        .collect();
    if !wanted.is_empty() {
        let name = "longshore_csi_plugin_kubelet_registered";
        let help = "1 while kubelet has a plugin registered that is to be.";
        text.family(name, Kind::Gauge, help);
        for (plugin, registered) in wanted {
            text.sample(name, &[("plugin", plugin)], flag(registered));
        }
    }
    let of = |plugin: &Plugin| plugin.mounts as u64;
    let counts: [Count<'_, Plugin>; 5] = [
        (
            "longshore_csi_plugin_launches_total",
            Kind::Counter,
            "Starts of a plugin's containers, under earlier daemons, too.",
            &|plugin| plugin.launches,
        ),
        (
            "longshore_csi_plugin_restarts_total",
            Kind::Counter,
            "Starts of a plugin's containers after the first, under earlier daemons, too.",
            &|plugin| plugin.restarts,
        ),
        (
            "longshore_csi_plugin_container_terminations_total",
            Kind::Counter,
            "Containers of a plugin that ended, since the daemon started.",
            &|plugin| plugin.probes.terminations,
        ),
        (
            "longshore_csi_plugin_mounts",
            Kind::Gauge,
            "Mount points below a plugin's mount root.",
            &of,
        ),
        (
            "longshore_csi_plugin_rpcs_pending",
            Kind::Gauge,
            "Calls to a plugin that are under way; a whole probe is one, and so is a description.",
            &|plugin| plugin.probes.pending,
        ),
    ];
    for (name, kind, help, value) in counts {
        each(text, (name, kind, help), plugins, |it| &it.name, value);
    }
    let name = "longshore_csi_plugin_rpcs_total";
    text.family(name, Kind::Counter, "Calls to a plugin that have ended, since the daemon started. Of liveness probes those that failed, and the first good one after.");
    for plugin in plugins {
        for (outcome, count) in [
            ("finished", plugin.probes.finished),
            ("failed", plugin.probes.failed),
            ("cancelled", plugin.probes.cancelled),
        ] {
            text.sample(
                name,
                &[("plugin", &plugin.name), ("outcome", outcome)],
                count,
            );
        }
    }
    let timed: Vec<_> = plugins
        .iter()
        .filter_map(|plugin| Some((plugin.name.as_str(), plugin.probes.latency?)))
        .collect();
    latencies(
        text,
        "longshore_csi_probe_duration_seconds",
        "How long the answered liveness probes of a plugin took, since the daemon started.",
        &timed,
    );
}

/// A summary, and the longest beside it.
fn latencies(text: &mut Text, name: &str, help: &str, timed: &[(&str, Latency)]) {
    if timed.is_empty() {
        return;
    }
    text.family(name, Kind::Summary, help);
    for (plugin, latency) in timed {
        if let Some(median) = latency.median {
            text.sample(
                name,
                &[("plugin", plugin), ("quantile", "0.5")],
                seconds(median),
            );
        }
        if let Some((count, total)) = latency.total {
            text.sample(
                &format!("{name}_sum"),
                &[("plugin", plugin)],
                seconds(total),
            );
            text.sample(&format!("{name}_count"), &[("plugin", plugin)], count);
        }
    }
    let stem = name.strip_suffix("_seconds").unwrap_or(name);
    let max = format!("{stem}_max_seconds");
    text.family(&max, Kind::Gauge, "The longest of them.");
    for (plugin, latency) in timed {
        text.sample(&max, &[("plugin", plugin)], seconds(latency.max));
    }
}

fn tasks(snapshot: &Snapshot, text: &mut Text) {
    let name = "longshore_tasks";
    text.family(
        name,
        Kind::Gauge,
        "Tasks on record by their last state, those that have ended until they are forgotten.",
    );
    // Always the same series, so that a rate over one that comes up is right.
    for state in TASK_STATES {
        let count = snapshot.tasks.states.get(state).copied().unwrap_or(0);
        text.sample(name, &[("state", state)], count);
    }
    let known = |state: &&String| !TASK_STATES.contains(&state.as_str());
    let other: u64 = snapshot
        .tasks
        .states
        .keys()
        .filter(known)
        .map(|state| snapshot.tasks.states[state])
        .sum();
    text.sample(name, &[("state", "other")], other);
    let name = "longshore_declared_tasks";
    text.family(
        name,
        Kind::Gauge,
        "Declared tasks: those that are to run and do not, and the others.",
    );
    let declared = &snapshot.tasks.declared;
    let waiting = declared.iter().filter(|it| it.waits).count();
    text.sample(name, &[("waits", "no")], declared.len() - waiting);
    text.sample(name, &[("waits", "yes")], waiting);
}

/// Those that a task of ours can have.
const TASK_STATES: [&str; 10] = [
    "TASK_STAGING",
    "TASK_STARTING",
    "TASK_RUNNING",
    "TASK_KILLING",
    "TASK_FINISHED",
    "TASK_FAILED",
    "TASK_KILLED",
    "TASK_ERROR",
    "TASK_LOST",
    "TASK_GONE",
];

fn nri(plugins: &[NriPlugin], text: &mut Text) {
    // Closed ones are remembered for a while, and are nobody's business here.
    let mut plugins: Vec<_> = plugins.iter().filter(|it| it.state != "closed").collect();
    // Names come from plugins, and two may have one: a series is told once.
    let mut named = std::collections::BTreeSet::new();
    plugins.retain(|it| named.insert(it.name.as_str()));
    text.one(
        "longshore_nri_plugins_active",
        Kind::Gauge,
        "NRI plugins that are asked about containers.",
        plugins.iter().filter(|it| it.state == "active").count(),
    );
    let counts: [Count<'_, &NriPlugin>; 4] = [
        (
            "longshore_nri_plugin_active",
            Kind::Gauge,
            "1 while an NRI plugin is asked about containers.",
            &|plugin| u64::from(plugin.state == "active"),
        ),
        (
            "longshore_nri_plugin_requests_total",
            Kind::Counter,
            "Requests that an NRI plugin has answered since it came.",
            &|plugin| plugin.requests,
        ),
        (
            "longshore_nri_plugin_failures_total",
            Kind::Counter,
            "Requests to an NRI plugin that failed since it came, those that it answered with a failure included.",
            &|plugin| plugin.failures,
        ),
        (
            "longshore_nri_plugin_queued_requests",
            Kind::Gauge,
            "Requests that wait for an NRI plugin.",
            &|plugin| plugin.queued,
        ),
    ];
    for (name, kind, help, value) in counts {
        each(text, (name, kind, help), &plugins, |it| &it.name, value);
    }
    let timed: Vec<_> = plugins
        .iter()
        .filter_map(|plugin| Some((plugin.name.as_str(), plugin.latency?)))
        .collect();
    latencies(
        text,
        "longshore_nri_request_duration_seconds",
        "How long an NRI plugin took to answer since it came, failures included, without waiting.",
        &timed,
    );
}

fn process(snapshot: &Snapshot, text: &mut Text) {
    text.one(
        "process_start_time_seconds",
        Kind::Gauge,
        "When the daemon was started.",
        seconds(since_epoch(snapshot.started)),
    );
    let Some(process) = snapshot.process else {
        return;
    };
    text.one(
        "process_cpu_seconds_total",
        Kind::Counter,
        "Processor time of the daemon, user and system.",
        seconds(process.cpu),
    );
    text.one(
        "process_resident_memory_bytes",
        Kind::Gauge,
        "Resident memory of the daemon.",
        process.resident,
    );
    text.one(
        "process_open_fds",
        Kind::Gauge,
        "Open descriptors of the daemon.",
        process.descriptors,
    );
    text.one(
        "process_threads",
        Kind::Gauge,
        "Threads of the daemon.",
        process.threads,
    );
}
