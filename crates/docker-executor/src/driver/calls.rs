//! What is asked of the engine, of the kernel and of hooks.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use longshore_engine::{ContainerSpec, Engine, EngineError, EngineKind, RemoveOptions, WaitUntil};
use longshore_task_spec::hooks::{Draft, HookContainer, HookError, HookFuture};
use tokio::sync::mpsc;

use super::Driver;
use crate::executor::Core;
use crate::prepare::{Prepared, log_driver_of_podman};
use crate::processes::Holding;
use crate::record::StateRecord;
use crate::{
    CreateFailure, Event, Found, Held, HeldProcess, Processes, PulledImage, labels, status,
};

/// How long a hook may take.
pub(crate) const HOOK: Duration = Duration::from_secs(10);
/// How long processes that the engine does not know are waited for.
const SWEEP: Duration = Duration::from_secs(10);
/// How long the engine may take to say whether an image is there before that is shown, and in which words.
const SOON: Duration = Duration::from_secs(3);
const SLOW: &str = "it has not answered for 3s";
/// How long a removal waits for the rest of the output.
pub(super) const REST: Duration = Duration::from_secs(300);

impl Driver {
    /// Starts a call; what it answers comes as an event.
    fn call(
        &mut self,
        call: impl Future<Output = Event> + Send + 'static,
    ) -> tokio::task::AbortHandle {
        let answers = self.answers();
        self.calls.spawn(async move {
            let event = call.await;
            let _ended = answers.send(event).await;
        })
    }

    pub(super) fn answers(&self) -> mpsc::Sender<Event> {
        self.mailbox.sender().clone()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.core.engine)
    }

    /// The container's id, else its name.
    fn subject(&self) -> String {
        self.state
            .container()
            .unwrap_or(&self.record.name)
            .to_owned()
    }

    /// The task itself, and then how far it is.
    pub(super) fn record_task(&self, change: impl FnOnce(&mut StateRecord) + Send + 'static) {
        let (records, record) = (self.core.records.clone(), self.record.clone());
        let shared = Arc::clone(&self.shared);
        let answers = self.answers();
        let write = async move {
            match records.write_task(&shared.key, record).await {
                Ok(()) => shared.outbox.change(true, change),
                Err(error) => {
                    shared.outbox.set_unrecorded();
                    let problem = crate::publisher::chain(&error);
                    let _ended = answers.send(Event::Recorded(Err(problem))).await;
                }
            }
        };
        drop(tokio::spawn(write));
    }

    pub(super) fn pull(&mut self) {
        let mut pull = self.core.engine.pull(self.prepared.pull.clone());
        let shared = Arc::clone(&self.shared);
        let handle = self.call(async move {
            let mut progress = pull.progress();
            let slow = tokio::time::sleep(SOON);
            tokio::pin!(slow);
            let result = loop {
                tokio::select! {
                    biased;
                    result = pull.done() => break result,
                    Ok(()) = progress.changed() => {
                        let now = progress.borrow_and_update().clone();
                        shared.outbox.show(|view| {
                            view.problem = view.problem.take().filter(|it| it != SLOW);
                            view.pull = Some(now);
                        });
                    }
                    // It is known only later whether it will ever answer; whoever looks is told before.
                    () = &mut slow, if !slow.is_elapsed() => {
                        shared.outbox.show(|view| {
                            if view.pull.is_none() && view.problem.is_none() {
                                view.problem = Some(SLOW.to_owned());
                            }
                        });
                    }
                }
            };
            shared.outbox.show(|view| view.pull = None);
            Event::Pulled(result.map(|image| PulledImage {
                stop_signal: image.stop_signal.filter(|signal| !signal.is_empty()),
            }))
        });
        self.pull = Some(handle);
    }

    pub(super) fn create(&mut self) {
        let (core, prepared) = (Arc::clone(&self.core), Arc::clone(&self.prepared));
        let (order, shared) = (Arc::clone(&self.hooks), Arc::clone(&self.shared));
        self.call(async move {
            let turn = order.lock_owned().await;
            let draft = Draft::Engine(Box::new(prepared.spec.clone()));
            let answer = tokio::time::timeout(HOOK, core.hooks.create(&prepared.hook, draft)).await;
            let problem = match answer {
                // It was killed while hooks were asked.
                Ok(Ok(_)) if shared.outbox.view().borrow().over => "it is over".to_owned(),
                Ok(Ok(Draft::Engine(spec))) => {
                    let result = made(core.as_ref(), &prepared, *spec).await;
                    drop(turn);
                    return Event::Created(result);
                }
                Ok(Ok(_)) => "it made another kind of container of it".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {HOOK:?}"),
            };
            heed(core.hooks.removed(&prepared.hook)).await;
            drop(turn);
            Event::Created(Err(CreateFailure::Hook(problem)))
        });
    }

    /// The exit is subscribed to before the start.
    pub(super) fn start(&mut self) {
        let (core, prepared) = (Arc::clone(&self.core), Arc::clone(&self.prepared));
        let order = Arc::clone(&self.hooks);
        let (id, answers) = (self.subject(), self.answers());
        self.calls.spawn(async move {
            let exit = match core.engine.wait(&id, WaitUntil::NextExit).await {
                Ok(exit) => Ok(exit),
                // Without an answer nothing is known, and without a container there is nothing to start.
                Err(error) if error.is_engine_absent() || error.is_no_such_container() => {
                    let _ended = answers.send(Event::Started(Err(error))).await;
                    return;
                }
                // An exit can be seen otherwise, too.
                Err(error) => Err(error),
            };
            let turn = order.lock_owned().await;
            heed(core.hooks.starting(&prepared.hook)).await;
            drop(turn);
            let started = core.engine.start(&id).await;
            let started = started.map(|()| crate::status::now_nanos());
            let may_run = match &started {
                Ok(_) | Err(EngineError::NotModified { .. }) => true,
                Err(error) => error.is_engine_absent(),
            };
            if answers.send(Event::Started(started)).await.is_err() || !may_run {
                return;
            }
            let exit = match exit {
                Ok(exit) => exit.await.map(|exit| exit.code),
                Err(error) => Err(error),
            };
            let _ended = answers.send(Event::Exited(exit)).await;
        });
    }

    pub(super) fn wait(&mut self) {
        let (engine, id) = (self.engine(), self.subject());
        self.call(async move {
            let exit = match engine.wait(&id, WaitUntil::NotRunning).await {
                Ok(exit) => exit.await,
                Err(error) => Err(error),
            };
            Event::Exited(exit.map(|exit| exit.code))
        });
    }

    pub(super) fn inspect(&mut self) {
        let (engine, id) = (self.engine(), self.subject());
        let key = self.shared.key.clone();
        self.call(async move { Event::Inspected(look(engine.as_ref(), &id, &key).await) });
    }

    pub(super) fn hold(&mut self, pid: i32) {
        let recorded = self.shared.outbox.record();
        // A process that is on record is that one and no other.
        let start = recorded
            .process
            .filter(|(known, _)| *known == pid && recorded.boot_id == self.core.boot_id)
            .map(|(_, start)| start);
        let holding = self.core.processes.hold(pid, start, &self.subject());
        let held = match holding {
            Holding::Held(process) => {
                self.keep(process);
                Held::Yes
            }
            Holding::Ended => Held::Ended,
            Holding::Impossible(error) => {
                self.hook_started(pid);
                tracing::info!(task = self.record.id, pid, %error, "the container's first process cannot be held");
                Held::Impossible
            }
        };
        self.call(async move { Event::Held(held) });
    }

    fn keep(&mut self, process: Arc<dyn HeldProcess>) {
        let id = process.id();
        self.shared
            .outbox
            .change(false, |record| record.process = Some((id.pid, id.start)));
        self.shared.outbox.show(|view| view.init = Some(id));
        self.init = Some(Arc::clone(&process));
        self.call(async move {
            process.died().await;
            Event::InitDied
        });
        self.hook_started(id.pid);
    }

    fn hook_started(&mut self, pid: i32) {
        if !std::mem::replace(&mut self.started, true) {
            let pid = u32::try_from(pid).unwrap_or_default();
            self.hook(move |hooks, container| {
                Box::pin(async move { hooks.started(container, pid).await })
            });
        }
    }

    pub(super) fn signal(&mut self, signal: String) {
        let (engine, id) = (self.engine(), self.subject());
        self.call(async move {
            let result = engine.kill(&id, &signal).await;
            Event::Signalled { signal, result }
        });
    }

    /// By the pidfd that is held; else the first process is looked for by its cgroup.
    pub(super) fn signal_init(&mut self, signal: String) {
        let task = self.record.id.clone();
        if let Some(init) = &self.init {
            if let Err(error) = init.signal(&signal) {
                tracing::info!(task, signal, %error, "the container's first process was not signalled");
            }
            return;
        }
        let Some(container) = self.state.container().map(str::to_owned) else {
            return;
        };
        let processes = Arc::clone(&self.core.processes);
        self.calls.spawn(async move {
            if let Some(process) = first_process(&processes, Some(&container)).await
                && let Err(error) = process.signal(&signal)
            {
                tracing::info!(task, signal, %error, "the container's first process was not signalled");
            }
        });
    }

    /// Ends the container's processes as long as there are any.
    pub(super) fn sweep(&mut self) {
        let processes = Arc::clone(&self.core.processes);
        let container = self.state.container().map(str::to_owned);
        let task = self.record.id.clone();
        self.call(async move {
            let sweep = async {
                while let Some(process) = first_process(&processes, container.as_deref()).await {
                    tracing::warn!(
                        task,
                        pid = process.id().pid,
                        "it runs, and its engine does not know: it is killed"
                    );
                    if process.signal("SIGKILL").is_ok() {
                        process.died().await;
                    }
                }
            };
            if tokio::time::timeout(SWEEP, sweep).await.is_err() {
                tracing::warn!(task, "a process of its container does not end");
            }
            Event::Swept
        });
    }

    pub(super) fn unpause(&mut self) {
        let (engine, id) = (self.engine(), self.subject());
        self.call(async move { Event::Unpaused(engine.unpause(&id).await) });
    }

    pub(super) fn remove(&mut self) {
        let Some(id) = self.state.container().map(str::to_owned) else {
            return;
        };
        let (core, prepared) = (Arc::clone(&self.core), Arc::clone(&self.prepared));
        let order = Arc::clone(&self.hooks);
        // The engine's log goes with the container: what is still being read is read first.
        let rest = self.drain.clone().filter(|_| self.state.is_over());
        self.call(async move {
            if let Some(rest) = rest {
                let _too_long = tokio::time::timeout(REST, rest.closed()).await;
            }
            let options = RemoveOptions {
                force: true,
                volumes: true,
            };
            let result = core.engine.remove(&id, options).await;
            let gone = match &result {
                Ok(()) => true,
                Err(error) => error.is_no_such_container(),
            };
            if gone {
                let turn = order.lock_owned().await;
                heed(core.hooks.removed(&prepared.hook)).await;
                drop(turn);
            }
            Event::Removed(result)
        });
    }

    pub(super) fn hook_stopped(&mut self) {
        self.hook(|hooks, container| Box::pin(async move { hooks.stopped(container).await }));
    }

    pub(super) fn hook_removed(&mut self) {
        self.hook(|hooks, container| Box::pin(async move { hooks.removed(container).await }));
    }

    /// A moment that is only told.
    fn hook(
        &mut self,
        moment: impl for<'a> FnOnce(
            &'a dyn longshore_task_spec::hooks::ContainerHooks,
            &'a HookContainer,
        ) -> HookFuture<'a, ()>
        + Send
        + 'static,
    ) {
        let (core, prepared) = (Arc::clone(&self.core), Arc::clone(&self.prepared));
        let order = Arc::clone(&self.hooks);
        self.calls.spawn(async move {
            let turn = order.lock_owned().await;
            heed(moment(core.hooks.as_ref(), &prepared.hook)).await;
            drop(turn);
        });
    }
}

/// The first process of a container, found without its engine.
async fn first_process(
    processes: &Arc<dyn Processes>,
    container: Option<&str>,
) -> Option<Arc<dyn HeldProcess>> {
    let (processes, container) = (Arc::clone(processes), container?.to_owned());
    // It reads all of /proc.
    let found = tokio::task::spawn_blocking(move || {
        let pid = processes.find(&container)?;
        match processes.hold(pid, None, &container) {
            Holding::Held(process) => Some(process),
            Holding::Ended | Holding::Impossible(_) => None,
        }
    });
    found.await.ok().flatten()
}

/// Waits for a moment that is only told; its failure changes nothing.
pub(crate) async fn heed(moment: HookFuture<'_, ()>) {
    let problem: Option<HookError> = match tokio::time::timeout(HOOK, moment).await {
        Ok(result) => result.err(),
        Err(_) => Some(HookError::Unavailable {
            reason: format!("no answer within {HOOK:?}"),
        }),
    };
    if let Some(problem) = problem {
        tracing::warn!(%problem, "a hook");
    }
}

/// Makes the container as hooks have left it.
async fn made(
    core: &Core,
    prepared: &Prepared,
    mut spec: ContainerSpec,
) -> Result<String, CreateFailure> {
    // Whatever a hook has made of it, it stays ours.
    spec.name.clone_from(&prepared.spec.name);
    spec.labels.extend(prepared.spec.labels.clone());
    if core.engine_kind().await == Some(EngineKind::Podman) {
        log_driver_of_podman(&mut spec);
    }
    match core.engine.create(&spec).await {
        Ok(created) => {
            heed(core.hooks.created(&prepared.hook)).await;
            for warning in created.warnings {
                let container = &prepared.spec.name;
                tracing::info!(container, warning, "the engine remarks");
            }
            Ok(created.id)
        }
        Err(error) => {
            // An answer that was lost says nothing of the container.
            if !error.is_engine_absent() && !matches!(error, EngineError::Conflict { .. }) {
                heed(core.hooks.removed(&prepared.hook)).await;
            }
            Err(CreateFailure::Engine(error))
        }
    }
}

/// Looks at the container; at one that is not ours as if there were none.
async fn look(engine: &dyn Engine, id: &str, key: &str) -> Result<Found, EngineError> {
    let info = engine.inspect(id).await?;
    if info.labels.get(labels::KEY).is_none_or(|it| it != key) {
        return Err(labels::stranger(id));
    }
    Ok(status::found(&info, status::MAX_DATA))
}
