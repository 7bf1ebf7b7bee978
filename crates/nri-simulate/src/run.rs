//! Plays a case.
//!
//! ```text
//!  start runtime -> idle peers -> plugins -> step, step, .. -> plugins end -> runtime ends -> report
//!        ^------------- restart-runtime ---------'
//! ```

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use longshore_nri_adaptation::{
    Adaptation, OnFailure, PluginKind, PluginPolicy, PluginState, RequestError, RequestOptions,
};
use longshore_nri_api::{
    Container, ContainerState, ContainerUpdate, CreateContainerRequest, Event, PodSandbox,
    StopContainerRequest, UpdateContainerRequest, UpdatePodSandboxRequest, event_name,
};
use longshore_nri_oci::oci_spec::runtime::Spec;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::peers::{Crew, Plugins};
use crate::report::{Outcome, PluginReport, Report, StepReport};
use crate::rival::{self, Rival};
use crate::scene::{Scene, known_by};
use crate::{
    Action, Case, Expected, Move, Node, Profile, SimulateError, Step, case, compare, spec, wait,
};

/// What is played, and to whom.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Play {
    /// The case.
    pub case: Case,
    /// The plugins.
    pub plugins: Plugins,
    /// The runtime that is imitated.
    pub profile: Profile,
    /// How long plugins may take until they are active; at most a year.
    pub wait: Duration,
    /// Called when plugins from outside are waited for, with the socket and how long.
    pub waiting: fn(&Path, Duration),
}

impl Play {
    /// A play in which plugins have 10 s to come.
    ///
    /// # Errors
    /// [`SimulateError`]: a step or message of the case makes no sense, its runtime is not known, or two plugins
    /// have one name.
    pub fn new(case: Case, plugins: Plugins) -> Result<Self, SimulateError> {
        case.check()?;
        if let Plugins::Commands(commands) = &plugins {
            let mut names = BTreeSet::new();
            if let Some(twin) = commands
                .iter()
                .find(|command| !names.insert(command.id.to_string()))
            {
                return Err(SimulateError::Twins {
                    name: twin.id.to_string(),
                });
            }
        }
        Ok(Self {
            profile: Profile::parse(&case.runtime)?,
            case,
            plugins,
            wait: Duration::from_secs(10),
            waiting: |_, _| {},
        })
    }
}

/// Plays a case to its end. Dropping the future kills the plugins that were started.
///
/// # Errors
/// [`SimulateError`]: plugins that cannot be started or do not come, a step that makes no sense. What
/// plugins do wrong after that is in the report.
pub async fn run(play: &Play) -> Result<Report, SimulateError> {
    let mut stage = Stage::new(play.clone())?;
    stage.open().await?;
    let mut steps = Vec::new();
    for (index, step) in play.case.steps.iter().enumerate() {
        for time in 1..=step.times.unwrap_or(1) {
            steps.push(Box::pin(stage.step(index + 1, step, time)).await?);
        }
    }
    let report = Report {
        runtime: play.profile.to_string(),
        plugins: stage.plugins(),
        steps,
    };
    stage.close().await;
    Ok(report)
}

/// The case with the expectations that this report fulfils, in place of those that it had. `None` when a
/// plugin was lost: what comes without it is not what is expected.
#[must_use]
pub fn updated(case: &Case, report: &Report) -> Option<Case> {
    if report.steps.iter().any(|step| !step.losses.is_empty()) {
        return None;
    }
    let mut case = case.clone();
    for (index, step) in case.steps.iter_mut().enumerate() {
        let first = report.steps.iter().find(|done| done.step == index + 1);
        if step.event.is_some() {
            step.expect = first.and_then(|done| compare::fulfilled(&done.outcome));
        }
    }
    Some(case)
}

/// The runtime, its plugins and the table while a case is played.
pub(crate) struct Stage {
    play: Play,
    node: Node,
    rival: Option<Rival>,
    crew: Crew,
    /// `None` while it is restarted.
    runtime: watch::Sender<Option<Adaptation>>,
    /// Containers that could not be created.
    never: BTreeSet<String>,
}

impl Stage {
    pub(crate) fn new(play: Play) -> Result<Self, SimulateError> {
        let node = Node::default();
        for pod in &play.case.pods {
            node.put_pod(case::message(pod, "pods")?);
        }
        for container in &play.case.containers {
            node.put_container(case::message(container, "containers")?, None);
        }
        fill(&node, &play.case)?;
        Ok(Self {
            node,
            rival: play.case.rival.then(Rival::default),
            crew: Crew::new(play.plugins.clone(), play.wait, play.waiting)?,
            runtime: watch::Sender::new(None),
            never: BTreeSet::new(),
            play,
        })
    }

    /// The adaptation that is up, whenever another one is.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Adaptation>> {
        self.runtime.subscribe()
    }

    fn runtime(&self) -> Option<Adaptation> {
        self.runtime.borrow().clone()
    }

    /// Starts the runtime, and has the plugins come.
    pub(crate) async fn open(&mut self) -> Result<(), SimulateError> {
        let profile = &self.play.profile;
        let mut builder = Adaptation::builder(&profile.name, &profile.version)
            .nri_version(&profile.nri_version)
            .imitate(profile.imitation())
            .default_policy(policy(&self.play.case.policy));
        if let Plugins::Commands(commands) = &self.play.plugins
            && self.play.case.policy.required
        {
            for command in commands {
                builder = builder.policy(command.id.to_string(), policy(&self.play.case.policy));
            }
        }
        if let Some(rival) = &self.rival {
            builder = builder.builtin(rival::NAME.0, rival::NAME.1, rival.clone());
        }
        if let Plugins::Site(site) = &self.play.plugins {
            builder = site.apply(builder);
        }
        let runtime = builder.start(self.node.clone()).await?;
        self.crew.idle(&runtime, self.play.case.idle_peers)?;
        self.runtime.send_replace(Some(runtime.clone()));
        self.crew.start(&runtime).await
    }

    pub(crate) async fn close(&mut self) {
        self.crew.end().await;
        if let Some(runtime) = self.runtime.send_replace(None) {
            runtime.shutdown().await;
        }
    }

    pub(crate) async fn step(
        &mut self,
        number: usize,
        step: &Step,
        time: usize,
    ) -> Result<StepReport, SimulateError> {
        let began = Instant::now();
        // Whoever runs the play can stop it, also where no plugin is waited for.
        tokio::task::yield_now().await;
        let (name, outcome) = match step.what(number)? {
            Move::Action(action) => self.act(action, step).await?,
            Move::Event(event) => match &step.container {
                Some(Value::String(id)) if self.never.contains(id) => {
                    (format!("{} {id}", event_name(event)), Outcome::Skipped)
                }
                _ => Box::pin(self.tell(number, step, time, event)).await?,
            },
        };
        if let (Outcome::Failed { .. }, Some(Value::Object(described))) =
            (&outcome, &step.container)
            && let Some(id) = described.get("id").and_then(Value::as_str)
        {
            self.never.insert(id.to_owned());
        }
        let took = began.elapsed();
        let expected = step.expect.clone().unwrap_or_default();
        let mut skipped = matches!(outcome, Outcome::Skipped)
            .then(|| "the container could not be created".to_owned());
        let expected = match &self.rival {
            Some(rival) if step.expect.is_none() && rival.claimed() => Expected {
                error: Some("99-rival".to_owned()),
                ..expected
            },
            Some(_) if step.expect.is_none() && matches!(outcome, Outcome::Created { .. }) => {
                let why = "nothing was adjusted, so that there was nothing to conflict with";
                skipped = Some(why.to_owned());
                expected
            }
            _ => expected,
        };
        let problems = compare::problems(&expected, &outcome)?;
        let losses = match step.action {
            None => self.losses(),
            Some(_) => Vec::new(),
        };
        let (unsolicited, left_out) = self.node.take_changes();
        let mut notes = Vec::new();
        if left_out > 0 {
            notes.push(format!(
                "{left_out} more times plugins asked by themselves, which was too much to be kept"
            ));
        }
        Ok(StepReport {
            step: number,
            name,
            took,
            outcome,
            problems,
            skipped,
            losses,
            notes,
            unsolicited,
        })
    }

    async fn act(
        &mut self,
        action: Action,
        step: &Step,
    ) -> Result<(String, Outcome), SimulateError> {
        let Some(runtime) = self.runtime() else {
            return Ok(("nothing".to_owned(), Outcome::Told));
        };
        let done = match action {
            Action::RestartRuntime => {
                self.close().await;
                self.open().await?;
                "the runtime restarts"
            }
            Action::KillPlugins => {
                self.crew.kill(&runtime).await;
                "the plugins are killed"
            }
            Action::StartPlugins => {
                self.crew.start(&runtime).await?;
                "the plugins are started"
            }
            Action::Sleep
            | Action::WaitForPlugin
            | Action::WaitUntilGone
            | Action::RemovePlugin => {
                return Ok(wait::act(action, step, &runtime, self.play.wait).await);
            }
        };
        Ok((done.to_owned(), Outcome::Told))
    }

    /// Plugins of the case that are not active although nothing was done to them.
    fn losses(&self) -> Vec<String> {
        let Some(runtime) = self.runtime() else {
            return Vec::new();
        };
        let Plugins::Commands(commands) = &self.play.plugins else {
            return Vec::new();
        };
        let here = runtime.plugins();
        let active = |name: &str| {
            let mut plugins = here.iter();
            plugins.any(|plugin| plugin.name == name && plugin.state == PluginState::Active)
        };
        let lost = commands.iter().map(|command| command.id.to_string());
        lost.filter(|name| self.crew.started(name) && !active(name))
            .map(|name| {
                let plugin = here.iter().find(|plugin| plugin.name == name);
                let closed = plugin.and_then(|plugin| plugin.closed.as_ref());
                let why = closed.map_or("it is not active", |closed| &closed.reason);
                let end = self.crew.end_of(&name);
                format!("plugin {name:?} was closed: {why}{end}")
            })
            .collect()
    }

    pub(crate) fn plugins(&self) -> Vec<PluginReport> {
        let runtime = self.runtime();
        let plugins = runtime.iter().flat_map(Adaptation::plugins);
        let ours = plugins.filter(|plugin| {
            plugin.kind.is_some_and(|kind| kind != PluginKind::Builtin)
                && plugin.state == PluginState::Active
        });
        ours.map(|plugin| PluginReport {
            pid: plugin.pid.or_else(|| self.crew.pid(&plugin.name)),
            name: plugin.name,
            events: plugin.events.to_string(),
            nri_version: plugin.nri_version,
            state_change_only: plugin.state_change_only,
            requests: plugin.requests,
            last_latency: plugin.last_latency,
            last_error: plugin.last_error,
        })
        .collect()
    }

    async fn tell(
        &self,
        number: usize,
        step: &Step,
        time: usize,
        event: Event,
    ) -> Result<(String, Outcome), SimulateError> {
        let Some(runtime) = &self.runtime() else {
            return Ok((String::new(), Outcome::Told));
        };
        let scene = Scene::new(&self.node, number, step, time, event)?;
        let name = scene.name(event);
        let options = RequestOptions::default();
        let (pod, container) = (&scene.pod, &scene.container);
        let told = match event {
            Event::RunPodSandbox => {
                self.node.put_pod(pod.clone());
                runtime.run_pod_sandbox(pod, &options).await
            }
            Event::PostUpdatePodSandbox => runtime.post_update_pod_sandbox(pod, &options).await,
            Event::StopPodSandbox => runtime.stop_pod_sandbox(pod, &options).await,
            Event::RemovePodSandbox => {
                let told = runtime.remove_pod_sandbox(pod, &options).await;
                self.node.remove_pod(&pod.id);
                told
            }
            Event::UpdatePodSandbox => {
                let request = UpdatePodSandboxRequest {
                    pod: Some(pod.clone()),
                    overhead_linux_resources: None,
                    linux_resources: scene.resources,
                };
                runtime.update_pod_sandbox(request, &options).await
            }
            Event::CreateContainer => {
                return Ok((name, Box::pin(self.create(runtime, scene)).await?));
            }
            Event::PostCreateContainer => {
                runtime
                    .post_create_container(pod, container, &options)
                    .await
            }
            Event::StartContainer => runtime.start_container(pod, container, &options).await,
            Event::PostStartContainer => {
                let running = with_state(container, ContainerState::ContainerRunning);
                self.node.put_container(running.clone(), scene.spec);
                runtime.post_start_container(pod, &running, &options).await
            }
            Event::PostUpdateContainer => {
                runtime
                    .post_update_container(pod, container, &options)
                    .await
            }
            Event::RemoveContainer => {
                let told = runtime.remove_container(pod, container, &options).await;
                self.node.remove_container(&container.id);
                told
            }
            Event::UpdateContainer => return Ok((name, self.update(runtime, scene).await)),
            Event::StopContainer => return Ok((name, self.stop(runtime, scene).await)),
            _ => Ok(()),
        };
        Ok((name, told.map_or_else(failed, |()| Outcome::Told)))
    }

    async fn create(&self, runtime: &Adaptation, scene: Scene) -> Result<Outcome, SimulateError> {
        let before = scene.spec.unwrap_or_default();
        if let Some(rival) = &self.rival {
            rival.expect(&scene.container);
        }
        let request = CreateContainerRequest {
            pod: Some(scene.pod),
            container: Some(scene.container.clone()),
        };
        let creation = match runtime
            .create_container(request, &RequestOptions::default())
            .await
        {
            Ok(creation) => creation,
            Err(error) => return Ok(failed(error)),
        };
        let mut after = before.clone();
        if let Err(error) = spec::adjuster().apply(&mut after, &creation.adjustment) {
            return Ok(Outcome::Failed {
                error: format!("the adjustment cannot be applied: {error}"),
            });
        }
        let created = known_by(spec::seen(&after)?, &scene.container);
        let created = with_state(&created, ContainerState::ContainerCreated);
        self.node.put_container(created, Some(after.clone()));
        let json = |spec: &Spec| serde_json::to_value(spec).unwrap_or(Value::Null);
        Ok(Outcome::Created {
            adjustment: Box::new(creation.adjustment),
            updates: creation.updates,
            evictions: evictions(creation.evictions),
            owners: creation.owners,
            before: json(&before),
            after: json(&after),
        })
    }

    async fn update(&self, runtime: &Adaptation, scene: Scene) -> Outcome {
        let requested = scene.resources.unwrap_or_default();
        let request = UpdateContainerRequest {
            pod: Some(scene.pod),
            container: Some(scene.container.clone()),
            linux_resources: Some(requested.clone()),
        };
        let change = match runtime
            .update_container(request, &RequestOptions::default())
            .await
        {
            Ok(change) => change,
            Err(error) => return failed(error),
        };
        let mut container = scene.container;
        container.linux.get_or_insert_default().resources = Some(change.requested.clone());
        let mut own = ContainerUpdate::new(&container.id);
        *own.resources_mut() = change.requested;
        self.node.put_container(container, scene.spec);
        Outcome::Changed {
            requested: Some(Box::new(requested)),
            updates: std::iter::once(own).chain(change.updates).collect(),
            evictions: evictions(change.evictions),
        }
    }

    async fn stop(&self, runtime: &Adaptation, scene: Scene) -> Outcome {
        let stopped = with_state(&scene.container, ContainerState::ContainerStopped);
        let request = StopContainerRequest {
            pod: Some(scene.pod),
            container: Some(scene.container),
        };
        let outcome = runtime
            .stop_container(request, &RequestOptions::default())
            .await;
        self.node.put_container(stopped, scene.spec);
        match outcome {
            Ok(change) => Outcome::Changed {
                requested: None,
                updates: change.updates,
                evictions: evictions(change.evictions),
            },
            Err(error) => failed(error),
        }
    }
}

fn with_state(container: &Container, state: ContainerState) -> Container {
    let mut container = container.clone();
    container.state = state.into();
    container
}

fn failed(error: RequestError) -> Outcome {
    Outcome::Failed {
        error: error.to_string(),
    }
}

fn evictions(evictions: Vec<longshore_nri_adaptation::merge::Eviction>) -> Vec<(String, String)> {
    let entries = evictions.into_iter();
    entries
        .map(|entry| (entry.plugin, entry.eviction.container_id))
        .collect()
}

fn policy(given: &case::Policy) -> PluginPolicy {
    let mut policy = PluginPolicy::default();
    policy.request_timeout = given.request_timeout_ms.map(Duration::from_millis);
    policy.strikes = given.strikes.unwrap_or(policy.strikes);
    if given.required {
        policy.on_failure = OnFailure::FailUntilBack;
    }
    policy
}

/// The containers that are there to be many.
fn fill(node: &Node, case: &Case) -> Result<(), SimulateError> {
    let pod = match case.pods.first() {
        Some(pod) => case::message::<PodSandbox>(pod, "pods")?.id,
        None => String::new(),
    };
    for number in 0..case.filler {
        let mut container = Container {
            id: format!("filler{number}"),
            name: format!("filler{number}"),
            pod_sandbox_id: pod.clone(),
            state: ContainerState::ContainerRunning.into(),
            ..Container::default()
        };
        container.env = (0..32)
            .map(|n| format!("VARIABLE_{n:02}={}", "x".repeat(240)))
            .collect();
        node.put_container(container, None);
    }
    Ok(())
}
