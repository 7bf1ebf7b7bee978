//! A case: what runs when plugins come, and what happens then. Read from YAML or JSON.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use longshore_nri_api::{
    Container, ContainerAdjustment, ContainerUpdate, Event, EventMask, LinuxResources, PodSandbox,
    cost::Message,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{SimulateError, wait};

/// The longest case file, in bytes.
const MAX: u64 = 16 << 20;
/// The longest timeout of a request, in milliseconds: an hour.
const TIMEOUT_MS_MAX: usize = 3_600_000;

/// What is played to plugins. Messages are in the JSON form of the protocol, members as in its `.proto`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Case {
    /// The runtime that is imitated, such as `containerd@2.1`; Longshore itself when empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// How plugins are treated.
    #[serde(skip_serializing_if = "is_default")]
    pub policy: Policy,
    /// Pods (`PodSandbox`) that exist when plugins connect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<Value>,
    /// Containers (`Container`) that exist when plugins connect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Value>,
    /// That many more containers of 8 KiB each, in the first pod; at most [`Self::FILLER_MAX`].
    #[serde(skip_serializing_if = "is_default")]
    pub filler: usize,
    /// That many connections that say nothing, made before plugins connect; at most
    /// [`Self::IDLE_PEERS_MAX`].
    #[serde(skip_serializing_if = "is_default")]
    pub idle_peers: usize,
    /// Another plugin, last in the chain, sets what plugins before it have set: everything conflicts.
    #[serde(skip_serializing_if = "is_default")]
    pub rival: bool,
    /// What happens, one after another.
    pub steps: Vec<Step>,
}

/// How plugins are treated.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Milliseconds for each request, 1 to 3,600,000; 2,000 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout_ms: Option<u64>,
    /// How many requests in a row may time out before a plugin is closed, at least 1, which it is when
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strikes: Option<u32>,
    /// No container is created while a plugin of the case is not there.
    #[serde(skip_serializing_if = "is_default")]
    pub required: bool,
}

/// One thing that happens: an `event` with its pod and container, or an `action`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// A pretty name of the protocol, such as `CreateContainer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Something that befalls plugins or the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// A pod of the case by its id, or a new one (`PodSandbox`). Of a container that is known its pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<Value>,
    /// A container by its id, or a new one (`Container`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Value>,
    /// New resources (`LinuxResources`), of UpdateContainer and UpdatePodSandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Value>,
    /// The OCI spec of a new container, to which its own fields are applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<Value>,
    /// The plugin of an action, by its full or base name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Milliseconds of an action, at most an hour; a wait takes as long as plugins have to come when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// How often, at most [`Case::TIMES_MAX`] for all steps together; once when absent. Containers after the first get `-2`, `-3` .. behind their id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<usize>,
    /// What must come of it; without it everything but an error is fine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expected>,
}

/// What befalls plugins or the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// The runtime ends and starts again. Plugins that it started are started again, others have to
    /// connect again.
    RestartRuntime,
    /// Plugins that were started are killed, the connections of others are cut.
    KillPlugins,
    /// Plugins that were started are started again; others are waited for.
    StartPlugins,
    /// Nothing, for `ms` milliseconds.
    Sleep,
    /// Waits until `plugin` is active, or any from outside when none is named; at most `ms` milliseconds.
    WaitForPlugin,
    /// Waits until no `plugin` is active, or none from outside; at most `ms` milliseconds.
    WaitUntilGone,
    /// Closes `plugin`, as an operator does; one that was launched is not started again.
    RemovePlugin,
}

/// What must come of a step; what is absent is not looked at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expected {
    /// The merged adjustment (`ContainerAdjustment`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adjustment: Option<Value>,
    /// Updates (`ContainerUpdate`), of the container itself first where the step is an update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates: Option<Vec<Value>>,
    /// Containers that are to be evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evictions: Option<Vec<String>>,
    /// The step fails, and the error has this text in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A step, understood.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Move {
    /// An event of the protocol.
    Event(Event),
    /// Something else.
    Action(Action),
}

impl Case {
    /// The most containers of [`Self::filler`]: 800 MB.
    pub const FILLER_MAX: usize = 100_000;
    /// The most connections of [`Self::idle_peers`].
    pub const IDLE_PEERS_MAX: usize = 1_000;
    /// The most that happens in a case.
    pub const TIMES_MAX: usize = 100_000;

    /// Reads a case from YAML, of which JSON is a part. `origin` is named in errors.
    ///
    /// # Errors
    /// [`SimulateError`]: malformed, a member that does not exist, a step that makes no sense.
    pub fn parse(text: &str, origin: &str) -> Result<Self, SimulateError> {
        let case: Self = parse(text, origin)?;
        case.check()?;
        Ok(case)
    }

    /// Refuses a case in which nothing happens: nobody means that everything is as expected then.
    ///
    /// # Errors
    /// [`SimulateError::NoSteps`].
    pub fn with_steps(self, origin: &str) -> Result<Self, SimulateError> {
        if self.steps.is_empty() {
            return Err(SimulateError::NoSteps {
                origin: origin.to_owned(),
            });
        }
        Ok(self)
    }

    /// Reads a file of at most 16 MiB.
    ///
    /// # Errors
    /// As [`Self::parse`], or the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, SimulateError> {
        Self::parse(&read(path)?, &path.display().to_string())
    }

    /// The text of a file for this case: JSON where its name says so, else YAML.
    ///
    /// # Errors
    /// [`SimulateError::Malformed`] where YAML cannot say it.
    pub fn to_text(&self, path: &Path) -> Result<String, SimulateError> {
        let malformed = |why: String| SimulateError::Malformed {
            origin: path.display().to_string(),
            why,
        };
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let text = serde_json::to_string_pretty(self);
            return text
                .map(|text| text + "\n")
                .map_err(|error| malformed(error.to_string()));
        }
        serde_saphyr::to_string(self).map_err(|error| malformed(error.to_string()))
    }

    /// Whether every step and message is understood: before anything is started.
    pub(crate) fn check(&self) -> Result<(), SimulateError> {
        for pod in &self.pods {
            message::<PodSandbox>(pod, "pods")?;
        }
        for container in &self.containers {
            message::<Container>(container, "containers")?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            step.check(index + 1)?;
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), SimulateError> {
        let of_case = |name, value, most| range("the case", name, value, 0, most);
        of_case("filler", self.filler, Self::FILLER_MAX)?;
        of_case("idle_peers", self.idle_peers, Self::IDLE_PEERS_MAX)?;
        let policy = &self.policy;
        if let Some(timeout) = policy.request_timeout_ms {
            let value = usize::try_from(timeout).unwrap_or(usize::MAX);
            range("policy", "request_timeout_ms", value, 1, TIMEOUT_MS_MAX)?;
        }
        if let Some(strikes) = policy.strikes {
            let value = usize::try_from(strikes).unwrap_or(usize::MAX);
            range("policy", "strikes", value, 1, usize::MAX)?;
        }
        let mut all = 0_usize;
        for (index, step) in self.steps.iter().enumerate() {
            let place = format!("step {} of the case", index + 1);
            all = all.saturating_add(step.times.unwrap_or(1));
            range(&place, "times with those before", all, 1, Self::TIMES_MAX)?;
        }
        Ok(())
    }
}

impl Step {
    /// A step for one event.
    #[must_use]
    pub fn event(event: &str, pod: &str) -> Self {
        Self {
            event: Some(event.to_owned()),
            pod: Some(pod.into()),
            ..Self::default()
        }
    }

    /// Reads one step from YAML, of which JSON is a part. `origin` is named in errors.
    ///
    /// # Errors
    /// [`SimulateError`]: malformed, a member that does not exist, a step that makes no sense.
    pub fn parse(text: &str, origin: &str, number: usize) -> Result<Self, SimulateError> {
        let step: Self = parse(text, origin)?;
        step.check(number)?;
        Ok(step)
    }

    /// Whether it is understood, its messages and numbers too.
    fn check(&self, number: usize) -> Result<(), SimulateError> {
        let what = self.what(number)?;
        let place = format!("step {number} of the case");
        range(&place, "times", self.times.unwrap_or(1), 1, Case::TIMES_MAX)?;
        described::<PodSandbox>(self.pod.as_ref(), &format!("{place}: pod"))?;
        described::<Container>(self.container.as_ref(), &format!("{place}: container"))?;
        if let Some(resources) = &self.resources {
            if !matches!(
                what,
                Move::Event(Event::UpdateContainer | Event::UpdatePodSandbox)
            ) {
                return Err(SimulateError::Step {
                    step: number,
                    why: "`resources` are for UpdateContainer and UpdatePodSandbox: those of a new container are \
                          in its `container.linux.resources`"
                        .to_owned(),
                });
            }
            message::<LinuxResources>(resources, &format!("{place}: resources"))?;
        }
        let Some(expected) = &self.expect else {
            return Ok(());
        };
        if let Some(adjustment) = &expected.adjustment {
            message::<ContainerAdjustment>(adjustment, &format!("{place}: expect.adjustment"))?;
        }
        for update in expected.updates.iter().flatten() {
            message::<ContainerUpdate>(update, &format!("{place}: expect.updates"))?;
        }
        Ok(())
    }

    /// What it is.
    ///
    /// # Errors
    /// [`SimulateError::Step`] when it is nothing, or two things.
    pub fn what(&self, number: usize) -> Result<Move, SimulateError> {
        let refuse = |why: String| Err(SimulateError::Step { step: number, why });
        let name = match (&self.event, self.action) {
            (None, Some(action)) => {
                return match wait::problem(action, self) {
                    Some(problem) => refuse(problem),
                    None => Ok(Move::Action(action)),
                };
            }
            (Some(_), None) if self.plugin.is_some() || self.ms.is_some() => {
                return refuse("`plugin` and `ms` are for actions".into());
            }
            (Some(name), None) => name,
            (Some(_), Some(_)) => {
                return refuse("it has an event and an action: make it two".into());
            }
            (None, None) => return refuse("it has neither an event nor an action".into()),
        };
        let mask = name.parse::<EventMask>();
        let mut events = mask.into_iter().flat_map(EventMask::iter);
        match (events.next(), events.next()) {
            (Some(Event::ValidateContainerAdjustment), _) => {
                refuse("validation is a part of CreateContainer: name that".into())
            }
            (Some(event), None) => Ok(Move::Event(event)),
            _ => refuse(format!(
                "{name:?} is no event: use one of {}",
                EventMask::ALL
            )),
        }
    }
}

fn range(
    place: &str,
    name: &'static str,
    value: usize,
    min: usize,
    max: usize,
) -> Result<(), SimulateError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(SimulateError::Range {
        place: place.to_owned(),
        name,
        value: value as u64,
        min: min as u64,
        max: max as u64,
    })
}

/// A message that is described rather than named by its id.
fn described<M: Message>(value: Option<&Value>, place: &str) -> Result<(), SimulateError> {
    match value {
        None | Some(Value::String(_)) => Ok(()),
        Some(value) => message::<M>(value, place).map(drop),
    }
}

/// A message in its JSON form. `place` is named in errors.
pub(crate) fn message<M: Message>(value: &Value, place: &str) -> Result<M, SimulateError> {
    longshore_nri_json::from_value(value.clone()).map_err(|error| SimulateError::Malformed {
        origin: place.to_owned(),
        why: match &error {
            longshore_nri_json::JsonError::Malformed { source, .. } => format!("{error}: {source}"),
            _ => error.to_string(),
        },
    })
}

/// YAML or JSON as `T`, within the limits of the parser on depth, aliases and size.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    text: &str,
    origin: &str,
) -> Result<T, SimulateError> {
    serde_saphyr::from_str(text).map_err(|error| SimulateError::Malformed {
        origin: origin.to_owned(),
        why: one_line(&error.to_string()),
    })
}

/// Parsers draw the place over several lines.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

pub(crate) fn read(path: &Path) -> Result<String, SimulateError> {
    let failed = |source| SimulateError::File {
        path: path.to_owned(),
        source,
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    let length = file
        .take(MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if length as u64 > MAX {
        return Err(SimulateError::TooLong {
            path: path.to_owned(),
            max: MAX,
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_read_from_yaml_and_json_and_written_back() {
        let yaml = "pods: [{id: p0}]\nsteps:\n  - {event: CreateContainer, pod: p0, container: {id: c0}}\n";
        let case = Case::parse(yaml, "case.yaml").unwrap();
        assert_eq!(
            case.steps[0].what(1).unwrap(),
            Move::Event(Event::CreateContainer)
        );
        for name in ["again.yaml", "again.json"] {
            let text = case.to_text(Path::new(name)).unwrap();
            assert_eq!(Case::parse(&text, name).unwrap(), case, "{text}");
        }
    }

    /// A line of a script is judged as a step of a case is.
    #[test]
    fn a_step_alone_is_judged_as_one_of_a_case() {
        for (text, named) in [
            (
                "{event: StopContainer, container: c, times: 0}",
                "times is 0",
            ),
            (
                "{event: StopContainer, container: c, times: 100001}",
                "times is 100001",
            ),
            ("{event: RunPodSandbox, pod: [p]}", "pod"),
        ] {
            let error = Step::parse(text, "line 3", 3).unwrap_err().to_string();
            assert!(error.contains("step 3") && error.contains(named), "{error}");
        }
        Step::parse(
            "{event: StopContainer, container: c, times: 100000}",
            "line 1",
            1,
        )
        .unwrap();
    }

    #[test]
    fn a_case_in_which_nothing_happens_is_none() {
        for text in ["", "{}", "steps: []", "pods: [{id: p}]"] {
            let case = Case::parse(text, "case.yaml").unwrap();
            let error = case.with_steps("case.yaml").unwrap_err().to_string();
            assert!(error.starts_with("case.yaml has no steps"), "{error}");
        }
    }

    #[test]
    fn numbers_at_their_bounds_are_taken() {
        let text = "filler: 100000\nidle_peers: 1000\npolicy: {request_timeout_ms: 3600000}\n\
                    steps: [{action: kill-plugins, times: 99999}, {action: kill-plugins}]";
        Case::parse(text, "case.yaml").unwrap();
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        for (text, named) in [
            ("stpes: []", "stpes"),
            ("pods: [{idd: p}]", "idd"),
            ("steps: [{}]", "step 1 of the case: it has neither"),
            ("steps: [{event: Creat}]", "\"Creat\" is no event"),
            ("steps: [{event: all}]", "\"all\" is no event"),
            (
                "steps: [{event: ValidateContainerAdjustment}]",
                "CreateContainer",
            ),
            (
                "steps: [{event: StopContainer, action: kill-plugins}]",
                "make it two",
            ),
            ("steps: [{action: explode}]", "explode"),
            ("steps: [{action: sleep}]", "`ms`"),
            ("steps: [{action: sleep, ms: 3600001}]", "an hour"),
            ("steps: [{action: sleep, ms: 1, plugin: x}]", "`plugin`"),
            ("steps: [{action: remove-plugin}]", "name the `plugin`"),
            ("steps: [{action: restart-runtime, ms: 1}]", "`ms`"),
            ("steps: [{event: StopContainer, ms: 1}]", "for actions"),
            ("steps: {", "case.yaml"),
            (
                "steps: [{event: RunPodSandbox, pod: {idd: p}}]",
                "step 1 of the case: pod",
            ),
            (
                "steps: [{event: StopContainer, container: c}, {event: StopContainer, container: [c]}]",
                "step 2 of the case: container",
            ),
            (
                "steps: [{event: UpdateContainer, container: c, resources: {cpus: 1}}]",
                "step 1 of the case: resources",
            ),
            (
                "steps: [{event: CreateContainer, pod: p, container: {id: c}, resources: {}}]",
                "UpdateContainer and UpdatePodSandbox",
            ),
            (
                "steps: [{event: StopContainer, container: c, expect: {adjustment: {envs: []}}}]",
                "step 1 of the case: expect.adjustment",
            ),
            (
                "steps: [{event: StopContainer, container: c, expect: {updates: [{id: c}]}}]",
                "step 1 of the case: expect.updates",
            ),
            (
                "filler: 100001",
                "the case: filler is 100001, and may be 0 to 100000",
            ),
            ("filler: -1", "line 1 column 9"),
            (
                "idle_peers: 1001",
                "idle_peers is 1001, and may be 0 to 1000",
            ),
            ("policy: {request_timeout_ms: 0}", "may be 1 to 3600000"),
            (
                "policy: {request_timeout_ms: 3600001}",
                "policy: request_timeout_ms",
            ),
            ("policy: {strikes: 0}", "strikes"),
            (
                "steps: [{action: kill-plugins, times: 100001}]",
                "step 1 of the case: times is 100001",
            ),
            (
                "steps: [{action: kill-plugins, times: 0}]",
                "may be 1 to 100000",
            ),
            (
                "steps: [{action: kill-plugins, times: 100000}, {action: kill-plugins}]",
                "step 2 of the case: times with those before is 100001",
            ),
        ] {
            let error = Case::parse(text, "case.yaml").unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
            assert!(!error.contains('\n'), "{error:?}");
        }
    }
}
