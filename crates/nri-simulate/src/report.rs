//! What became of a case.

use std::time::Duration;

use longshore_nri_adaptation::Changes;
use longshore_nri_api::{
    ContainerAdjustment, ContainerUpdate, Field, FieldOwners, LinuxResources, OwningPlugins,
    cost::Message,
};
use serde_json::{Value, json};

/// The version of the JSON form.
const VERSION: u32 = 1;

/// What became of a case.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// The runtime that was imitated, as `containerd v2.1.99`.
    pub runtime: String,
    /// The plugins, in the order in which they are asked.
    pub plugins: Vec<PluginReport>,
    /// The steps, in their order.
    pub steps: Vec<StepReport>,
}

/// One plugin, at the end.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PluginReport {
    /// Full name.
    pub name: String,
    /// The process, where the system tells.
    pub pid: Option<u32>,
    /// The events that it gets, printed.
    pub events: String,
    /// The version of the protocol that it named, or empty.
    pub nri_version: String,
    /// It knows StateChange alone.
    pub state_change_only: bool,
    /// How many requests it has answered.
    pub requests: u64,
    /// How long the last answer took.
    pub last_latency: Option<Duration>,
    /// Its last failure.
    pub last_error: Option<String>,
}

/// One step.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StepReport {
    /// Which step of the case, from 1.
    pub step: usize,
    /// Such as `CreateContainer ctr0`.
    pub name: String,
    /// How long it took, all plugins together.
    pub took: Duration,
    /// What came of it.
    pub outcome: Outcome,
    /// What is not as expected; see also [`Self::losses`].
    pub problems: Vec<String>,
    /// Why it says nothing: it was left out, or what it tries did not come about.
    pub skipped: Option<String>,
    /// Plugins that were closed or ended, which nobody can expect.
    pub losses: Vec<String>,
    /// What deserves a look and is not wrong.
    pub notes: Vec<String>,
    /// What plugins wanted changed by themselves since the step before.
    pub unsolicited: Vec<Changes>,
}

/// What came of a step.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// All plugins were told; they have no say.
    Told,
    /// Nothing: the container could not be created.
    Skipped,
    /// A container is created.
    Created {
        /// The merged adjustment.
        adjustment: Box<ContainerAdjustment>,
        /// Updates of other containers.
        updates: Vec<ContainerUpdate>,
        /// Plugin and container of each eviction.
        evictions: Vec<(String, String)>,
        /// Who set what.
        owners: OwningPlugins,
        /// The OCI spec before, as JSON.
        before: Value,
        /// The OCI spec after, as JSON.
        after: Value,
    },
    /// Resources are changed.
    Changed {
        /// What the runtime asked for, where the step is an update of a container: it is the first of
        /// the updates, as plugins changed it.
        requested: Option<Box<LinuxResources>>,
        /// Updates: of the container itself first.
        updates: Vec<ContainerUpdate>,
        /// Plugin and container of each eviction.
        evictions: Vec<(String, String)>,
    },
    /// A request of a record was made again.
    Answered {
        /// The answer of the record: a `message`, a `failure`, or the `problem` with it.
        recorded: Value,
        /// The answer that came.
        answered: Value,
    },
    /// The request fails.
    Failed {
        /// What the runtime would say.
        error: String,
    },
}

impl Report {
    /// Whether everything is as expected.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.steps.iter().all(StepReport::ok)
    }

    /// With what was not as expected as notes: once [`updated`](crate::updated) is written down, it is.
    #[must_use]
    pub fn accepted(mut self) -> Self {
        for step in &mut self.steps {
            step.notes.append(&mut step.problems);
        }
        self
    }

    /// The whole of it as JSON, messages in the JSON form of the protocol. See `docs/json.md`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "version": VERSION,
            "ok": self.ok(),
            "runtime": self.runtime,
            "plugins": self.plugins.iter().map(plugin).collect::<Vec<_>>(),
            "steps": self.steps.iter().map(step).collect::<Vec<_>>(),
        })
    }
}

impl StepReport {
    /// Whether everything is as expected.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.problems.is_empty() && self.losses.is_empty()
    }

    /// All that is wrong.
    pub(crate) fn wrong(&self) -> impl Iterator<Item = &str> {
        let all = self.problems.iter().chain(&self.losses);
        all.map(String::as_str)
    }
}

impl PluginReport {
    /// As in the report.
    #[must_use]
    pub fn to_json(&self) -> Value {
        plugin(self)
    }
}

impl StepReport {
    /// As in the report.
    #[must_use]
    pub fn to_json(&self) -> Value {
        step(self)
    }
}

fn plugin(plugin: &PluginReport) -> Value {
    json!({
        "name": plugin.name,
        "pid": plugin.pid,
        "events": plugin.events,
        "nri_version": plugin.nri_version,
        "state_change_only": plugin.state_change_only,
        "requests": plugin.requests,
        "last_latency_us": plugin.last_latency.map(micros),
        "last_error": plugin.last_error,
    })
}

fn step(step: &StepReport) -> Value {
    let mut value = json!({
        "step": step.step,
        "name": step.name,
        "took_us": micros(step.took),
        "problems": step.wrong().collect::<Vec<_>>(),
        "skipped": step.skipped,
        "notes": step.notes,
        "unsolicited": step.unsolicited.iter().map(|changes| json!({
            "plugin": changes.plugin.to_string(),
            "updates": changes.updates.iter().map(message).collect::<Vec<_>>(),
            "evictions": changes.evictions.iter().map(message).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    });
    let outcome = match &step.outcome {
        Outcome::Told => json!({}),
        Outcome::Skipped => json!({ "skipped": true }),
        Outcome::Created {
            adjustment,
            updates,
            evictions,
            owners,
            before,
            after,
        } => json!({
            "adjustment": message(&**adjustment),
            "updates": updates.iter().map(message).collect::<Vec<_>>(),
            "evictions": self::evictions(evictions),
            "owners": self::owners(owners),
            "spec_before": before,
            "spec_after": after,
        }),
        Outcome::Changed {
            requested,
            updates,
            evictions,
        } => json!({
            "requested": requested.as_deref().map(message),
            "updates": updates.iter().map(message).collect::<Vec<_>>(),
            "evictions": self::evictions(evictions),
        }),
        Outcome::Answered { recorded, answered } => json!({
            "recorded": recorded,
            "answered": answered,
        }),
        Outcome::Failed { error } => json!({ "error": error }),
    };
    value["outcome"] = outcome;
    value
}

/// For each container the fields, by their names in the `.proto`, and who set them; of those with keys
/// who set each. A leading dash stands before who only removed one.
fn owners(owners: &OwningPlugins) -> Value {
    let name = |field: &i32| match Field::try_from(*field) {
        Ok(field) => field.as_str_name().to_owned(),
        Err(_) => field.to_string(),
    };
    let of_container = |fields: &FieldOwners| -> Value {
        let simple = fields.simple.iter();
        let simple = simple.map(|(field, plugin)| (name(field), plugin.as_str().into()));
        let compound = fields.compound.iter();
        let compound = compound.map(|(field, keys)| (name(field), json!(keys.owners)));
        Value::Object(simple.chain(compound).collect())
    };
    let containers = owners.owners.iter();
    let containers = containers.map(|(id, fields)| (id.clone(), of_container(fields)));
    Value::Object(containers.collect())
}

fn evictions(evictions: &[(String, String)]) -> Vec<Value> {
    let entries = evictions.iter();
    entries
        .map(|(plugin, container)| json!({"plugin": plugin, "container": container}))
        .collect()
}

/// A message in its JSON form; every message of the protocol has one.
pub(crate) fn message<M: Message>(message: &M) -> Value {
    longshore_nri_json::to_value(message).unwrap_or(Value::Null)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
