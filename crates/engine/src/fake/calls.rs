//! The calls of [`Engine`] on the fake.

// long: every call of the trait, each a few lines.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::faults::{Call, Fault};
use super::world::{Exec, World, gone, has_labels};
use super::{FakeEngine, Shared, script};
use crate::check;
use crate::container::{ContainerInfo, ContainerSummary};
use crate::engine::{Created, Engine, EngineFuture, ListFilter, RemoveOptions};
use crate::error::{EngineError, Missing};
use crate::event::{EventFilter, EventStream};
use crate::exec::{ExecInfo, ExecSpec};
use crate::exit::{Exit, ExitWait, WaitUntil};
use crate::image::ImageInfo;
use crate::log::{LogFrame, LogOptions, LogStream};
use crate::pull::{Pull, PullPolicy, PullRequest};
use crate::spec::{ContainerSpec, Resources};
use crate::time::EngineTime;
use crate::version::{ApiVersion, EngineKind, EngineVersion};

/// What a call gets that is not answered, as from [`crate::Deadlines`].
const DEADLINE: Duration = Duration::from_secs(15);

impl FakeEngine {
    /// Counts the call, performs its fault, and `act`s. An effect and its record are one step.
    async fn call<T>(
        &self,
        call: Call,
        subject: &str,
        act: impl FnOnce(&mut World) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        let fault = self.change(|world| {
            world.log.push((call, subject.to_owned()));
            world.faults.next(call)
        });
        match fault {
            Some(Fault::Fail(error)) => return Err(error),
            Some(Fault::Hang) => {
                tokio::time::sleep(DEADLINE).await;
                return Err(EngineError::Timeout {
                    call: call.name(),
                    subject: subject.to_owned(),
                    deadline: DEADLINE,
                });
            }
            Some(Fault::LoseAnswer) | None => {}
        }
        let result = self.change(|world| {
            if world.is_down {
                return Err(EngineError::Unreachable {
                    call: call.name(),
                    socket: PathBuf::from("/fake/docker.sock"),
                    source: Arc::new(std::io::ErrorKind::ConnectionRefused.into()),
                });
            }
            act(world)
        });
        match fault {
            Some(Fault::LoseAnswer) => result.and_then(|_| Err(gone(call.name()))),
            _ => result,
        }
    }

    async fn look_for_image(&self, image: &str) -> Result<ImageInfo, EngineError> {
        self.call(Call::InspectImage, image, |world| {
            world
                .image(image)
                .cloned()
                .ok_or_else(|| no_image(Call::InspectImage, image))
        })
        .await
    }

    async fn pull_image(self, request: PullRequest) -> Result<ImageInfo, EngineError> {
        let image = &request.image;
        crate::image::ImageReference::parse(image)?;
        if request.policy != PullPolicy::Always {
            match self.look_for_image(image).await {
                Err(error) if error.is_no_such_image() && request.policy == PullPolicy::Missing => {
                }
                other => return other,
            }
        }
        let time = self
            .call(Call::Pull, image, |world| {
                let time = world.registry.get(&super::world::tagged(image)).copied();
                time.ok_or_else(|| no_image(Call::Pull, image))
            })
            .await?;
        if time > request.inactivity {
            tokio::time::sleep(request.inactivity).await;
            return Err(EngineError::PullStalled {
                image: image.clone(),
                after: request.inactivity,
            });
        }
        tokio::time::sleep(time).await;
        self.change(|world| world.add_image(image, ImageInfo::default()));
        self.look_for_image(image).await
    }

    async fn run(&self, id: &str) -> Result<(), EngineError> {
        let started = self.call(Call::Start, id, |world| {
            let id = world.wanted(Call::Start, id)?.id.clone();
            Ok((world.start(&id), id))
        });
        let (started, id) = match started.await {
            Ok((started, id)) => (started?, id),
            // It had its effect.
            Err(EngineError::Gone { .. }) => {
                self.arm_if_started(id);
                return Err(gone("start"));
            }
            Err(error) => return Err(error),
        };
        self.arm(&id, started);
        Ok(())
    }

    fn arm_if_started(&self, id: &str) {
        let found = self
            .world()
            .find(id)
            .map(|it| (it.id.clone(), it.script.clone(), it.run));
        if let Some((id, script, run)) = found {
            self.arm(&id, (script, run));
        }
    }

    fn arm(&self, id: &str, (script, run): (script::Script, u64)) {
        if let Some((delay, code)) = script.exit {
            self.exit_later(id, delay, code, run);
        }
    }

    /// Only the run that was meant ends.
    fn exit_later(&self, id: &str, delay: Duration, code: i64, run: u64) {
        let id = id.to_owned();
        let end = move |world: &mut World| {
            if world.find(&id).is_some_and(|it| it.run == run) {
                world.exit(&id, code, false);
            }
        };
        if delay.is_zero() {
            self.change(end);
        } else {
            self.later(delay, end);
        }
    }

    async fn send_signal(&self, call: Call, id: &str, signal: &str) -> Result<(), EngineError> {
        let sent = self
            .call(call, id, |world| world.signal(call, id, signal))
            .await?;
        self.die(id, sent);
        Ok(())
    }

    fn die(&self, id: &str, sent: Option<(Duration, i64, u64)>) {
        let id = self.world().find(id).map(|it| it.id.clone());
        if let (Some(id), Some((delay, code, run))) = (id, sent) {
            self.exit_later(&id, delay, code, run);
        }
    }

    async fn stop_it(&self, id: &str, grace: Duration) -> Result<(), EngineError> {
        let sent = self.call(Call::Stop, id, |world| {
            let container = world.wanted(Call::Stop, id)?;
            if !container.shown.status.may_have_process() {
                return Err(EngineError::NotModified {
                    call: "stop",
                    subject: id.to_owned(),
                });
            }
            let signal = container
                .spec
                .stop_signal
                .clone()
                .unwrap_or_else(|| "TERM".to_owned());
            world.signal(Call::Stop, id, &signal)
        });
        let sent = sent.await?;
        self.die(id, sent);
        if tokio::time::timeout(grace, self.until_down(id))
            .await
            .is_err()
        {
            let sent = self.change(|world| world.signal(Call::Stop, id, "KILL"));
            self.die(id, sent.unwrap_or_default());
            self.until_down(id).await;
        }
        Ok(())
    }

    async fn until_down(&self, id: &str) {
        let mut changes = self.shared.changes.subscribe();
        while (self.world().find(id)).is_some_and(|it| it.shown.status.may_have_process()) {
            drop(changes.changed().await);
        }
    }

    async fn subscribe(&self, id: &str, until: WaitUntil) -> Result<ExitWait, EngineError> {
        let (id, exits, daemon) = self
            .call(Call::Wait, id, |world| {
                let daemon = world.daemon;
                let container = world.wanted(Call::Wait, id)?;
                Ok((container.id.clone(), container.told_exits, daemon))
            })
            .await?;
        let shared = self.shared.clone();
        Ok(ExitWait::new(Box::pin(wait(
            shared, id, until, exits, daemon,
        ))))
    }

    async fn open_logs(&self, id: &str, options: &LogOptions) -> Result<LogStream, EngineError> {
        let (id, output) = self
            .call(Call::Logs, id, |world| {
                let container = world.wanted(Call::Logs, id)?;
                let begun = container.state.started_at.map_or(0, EngineTime::as_nanos);
                let has_run = container.run > 0;
                // Each message has a time of its own.
                let output = (begun..)
                    .map(EngineTime::from_nanos)
                    .zip(&container.script.output)
                    .enumerate()
                    .filter(|(nth, _)| {
                        !options.follow || !container.script.followers_miss.contains(nth)
                    })
                    .map(|(_, message)| message)
                    .filter(|(time, _)| has_run && options.since.is_none_or(|since| *time >= since))
                    .map(|(time, (source, text))| {
                        let text = if options.timestamps {
                            format!("{} {text}", time.to_rfc3339())
                        } else {
                            text.clone()
                        };
                        (*source, text)
                    });
                Ok((container.id.clone(), output.collect::<Vec<_>>()))
            })
            .await?;
        let (sender, receiver) = mpsc::channel(output.len().max(1));
        for (source, text) in output {
            let frame = LogFrame {
                source,
                data: text.into(),
                continues: false,
            };
            // It fits by the channel's size.
            drop(sender.try_send(Ok(frame)));
        }
        if options.follow {
            self.end_with(id, sender);
        }
        Ok(LogStream::fake(receiver))
    }

    /// Holds a stream open until its container is down.
    fn end_with(&self, id: String, sender: mpsc::Sender<Result<LogFrame, EngineError>>) {
        let engine = Arc::downgrade(&self.shared);
        let mut changes = self.shared.changes.subscribe();
        let mut timers = self
            .shared
            .timers
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        timers.spawn(async move {
            loop {
                let Some(shared) = engine.upgrade() else {
                    return;
                };
                let runs = (Self { shared }.world().find(&id))
                    .is_some_and(|it| it.state.status.may_have_process());
                if !runs || sender.is_closed() || changes.changed().await.is_err() {
                    return;
                }
            }
        });
    }

    async fn prepare(&self, id: &str, spec: &ExecSpec) -> Result<String, EngineError> {
        check::exec(spec)?;
        self.call(Call::ExecCreate, id, |world| {
            let exec = world.fresh_id();
            let container = world.wanted(Call::ExecCreate, id)?;
            if container.shown.status != crate::container::ContainerStatus::Running {
                let message = format!("Container {id} is not running");
                return Err(EngineError::Conflict {
                    call: "exec",
                    subject: id.to_owned(),
                    message,
                });
            }
            let made = Exec {
                container: container.id.clone(),
                running: false,
                code: None,
            };
            world.execs.insert(exec.clone(), made);
            Ok(exec)
        })
        .await
    }

    async fn run_exec(&self, exec: &str) -> Result<LogStream, EngineError> {
        let (sender, receiver) = mpsc::channel(1);
        let (delay, code) = self
            .call(Call::ExecStart, exec, |world| {
                let container = world.execs.get(exec).map(|it| it.container.clone());
                let Some(container) = container else {
                    return Err(no_exec(Call::ExecStart, exec));
                };
                let (delay, code) = world
                    .wanted(Call::ExecStart, &container)?
                    .script
                    .exec
                    .unwrap_or_default();
                if let Some(it) = world.execs.get_mut(exec) {
                    it.running = true;
                }
                Ok((delay, code))
            })
            .await?;
        let exec = exec.to_owned();
        self.later(delay, move |world| {
            if let Some(it) = world.execs.get_mut(&exec) {
                (it.running, it.code) = (false, Some(code));
            }
            drop(sender);
        });
        Ok(LogStream::fake(receiver))
    }
}

/// Ends with the exit, or with the daemon.
async fn wait(
    shared: Arc<Shared>,
    id: String,
    until: WaitUntil,
    exits: u64,
    daemon: u64,
) -> Result<Exit, EngineError> {
    let mut changes = shared.changes.subscribe();
    let engine = FakeEngine { shared };
    let mut last = 0;
    loop {
        {
            let world = engine.world();
            if world.daemon != daemon {
                return Err(gone("wait"));
            }
            let container = world.find(&id);
            last = container.map_or(last, |it| it.shown.exit_code);
            let is_over = match (until, container) {
                (WaitUntil::Removed, found) => found.is_none(),
                (_, None) => true,
                (WaitUntil::NextExit, Some(it)) => it.told_exits > exits,
                (WaitUntil::NotRunning, Some(it)) => {
                    it.told_exits > exits
                        || (it.told_exits == exits
                            && it.lose_exit.is_none()
                            && !it.shown.status.may_have_process())
                }
            };
            if is_over {
                return Ok(Exit {
                    code: last,
                    error: None,
                });
            }
        }
        drop(changes.changed().await);
    }
}

fn no_image(call: Call, image: &str) -> EngineError {
    EngineError::NotFound {
        call: call.name(),
        subject: image.to_owned(),
        what: Missing::Image,
        message: format!("No such image: {image}"),
    }
}

fn no_exec(call: Call, exec: &str) -> EngineError {
    EngineError::NotFound {
        call: call.name(),
        subject: exec.to_owned(),
        what: Missing::Exec,
        message: format!("No such exec instance: {exec}"),
    }
}

impl Engine for FakeEngine {
    fn version(&self) -> EngineFuture<'_, EngineVersion> {
        Box::pin(self.call(Call::Version, "", |_| {
            Ok(EngineVersion {
                version: "0.0.0-fake".to_owned(),
                api: ApiVersion::NEWEST,
                newest_api: ApiVersion::NEWEST,
                kind: EngineKind::Docker,
                os: "linux".to_owned(),
                arch: "amd64".to_owned(),
            })
        }))
    }

    fn pull(&self, request: PullRequest) -> Pull {
        let engine = self.clone();
        self.shared
            .pulls
            .join(request, |request, _| engine.pull_image(request))
    }

    fn inspect_image<'a>(&'a self, image: &'a str) -> EngineFuture<'a, ImageInfo> {
        Box::pin(self.look_for_image(image))
    }

    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> EngineFuture<'a, Created> {
        Box::pin(async move {
            check::spec(spec)?;
            let subject = spec.name.as_deref().unwrap_or(&spec.image);
            let id = self
                .call(Call::Create, subject, |world| world.create(spec))
                .await?;
            Ok(Created {
                id,
                warnings: Vec::new(),
            })
        })
    }

    fn start<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(self.run(id))
    }

    fn wait<'a>(&'a self, id: &'a str, until: WaitUntil) -> EngineFuture<'a, ExitWait> {
        Box::pin(self.subscribe(id, until))
    }

    fn kill<'a>(&'a self, id: &'a str, signal: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(self.send_signal(Call::Kill, id, signal))
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> EngineFuture<'a, ()> {
        Box::pin(self.stop_it(id, grace))
    }

    fn pause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(self.call(Call::Pause, id, |world| world.freeze(Call::Pause, id, true)))
    }

    fn unpause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(self.call(Call::Unpause, id, |world| {
            world.freeze(Call::Unpause, id, false)
        }))
    }

    fn remove<'a>(&'a self, id: &'a str, options: RemoveOptions) -> EngineFuture<'a, ()> {
        Box::pin(self.call(Call::Remove, id, move |world| {
            world.remove(id, options.force)
        }))
    }

    fn inspect<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ContainerInfo> {
        Box::pin(self.call(Call::Inspect, id, |world| world.info(id)))
    }

    fn list<'a>(&'a self, filter: &'a ListFilter) -> EngineFuture<'a, Vec<ContainerSummary>> {
        Box::pin(self.call(Call::List, "", |world| {
            let found = world.containers.iter().filter(|it| {
                (filter.all || it.shown.status.may_have_process())
                    && has_labels(&it.spec.labels, &filter.labels)
                    && (filter.names.is_empty()
                        || filter.names.iter().any(|name| it.name.contains(name)))
                    && (filter.ids.is_empty() || filter.ids.contains(&it.id))
            });
            Ok(found.map(World::summary).collect())
        }))
    }

    fn update<'a>(
        &'a self,
        id: &'a str,
        resources: &'a Resources,
    ) -> EngineFuture<'a, Vec<String>> {
        Box::pin(async move {
            check::update(resources)?;
            self.call(Call::Update, id, |world| {
                world.wanted(Call::Update, id)?.spec.resources = resources.clone();
                Ok(Vec::new())
            })
            .await
        })
    }

    fn logs<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> EngineFuture<'a, LogStream> {
        Box::pin(self.open_logs(id, options))
    }

    fn events<'a>(&'a self, filter: &'a EventFilter) -> EngineFuture<'a, EventStream> {
        Box::pin(async move {
            let opened = self
                .call(Call::Events, "", |world| Ok(world.read_events(filter)))
                .await?;
            Ok(EventStream::fake(opened))
        })
    }

    fn exec_create<'a>(&'a self, id: &'a str, spec: &'a ExecSpec) -> EngineFuture<'a, String> {
        Box::pin(self.prepare(id, spec))
    }

    fn exec_start<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, LogStream> {
        Box::pin(self.run_exec(exec))
    }

    fn exec_inspect<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, ExecInfo> {
        Box::pin(self.call(Call::ExecInspect, exec, |world| {
            let it = world
                .execs
                .get(exec)
                .ok_or_else(|| no_exec(Call::ExecInspect, exec))?;
            Ok(ExecInfo {
                running: it.running,
                exit_code: it.code,
                pid: None,
                container: it.container.clone(),
            })
        }))
    }
}
