//! The task of one container of an image: the same registry, with an [`ImageRuntime`] in the place of shim and records.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use longshore_paths::ContainerId;

use super::drive::Tell;
use super::launch::{self, Made, from_millis, internal, make_volume, millis, share_volume};
use super::plan;
use super::registry::{Answer, Event, Life};
use super::{Handle, Host, Inner, Shared, blocking};
use crate::images::{FoundImage, ImageContainer, ImageOrder, ImageRuntime};
use crate::record::Facts;
use crate::service::{LaunchError, LaunchErrorKind, LaunchRequest, Launched};

impl Shared {
    /// Begins a launch, whose end is told; false when the id is taken.
    pub(super) fn begin_image(
        self: &Arc<Self>,
        runtime: &Arc<dyn ImageRuntime>,
        request: LaunchRequest,
        tell: Tell,
    ) -> Result<bool, LaunchError> {
        let id = request.id.clone();
        if id.parent().is_some() {
            return Err(LaunchError {
                kind: LaunchErrorKind::BadRequest,
                message: "A container of an image cannot be nested: launch it by itself".to_owned(),
            });
        }
        runtime.check(&request)?;
        let now = SystemTime::now();
        let deferred = {
            let mut inner = self.lock();
            let (answer, actions) = inner.registry.step(&id, Event::Launch, now);
            match answer {
                Answer::Ok => {}
                Answer::AlreadyPresent | Answer::NotFound => return Ok(false),
                Answer::Refused(kind, message) => return Err(LaunchError { kind, message }),
            }
            let deferred = inner.apply(&self.host, actions);
            let mut handle = Handle::new(PathBuf::new(), from_millis(millis(now)));
            handle.facts = facts(&request);
            inner.handles.insert(id.clone(), handle);
            deferred
        };
        self.finish(deferred);
        let runtime = Arc::clone(runtime);
        self.spawn(|shared| shared.launch_image(runtime, request, tell));
        Ok(true)
    }

    async fn launch_image(
        self: Arc<Self>,
        runtime: Arc<dyn ImageRuntime>,
        request: LaunchRequest,
        tell: Tell,
    ) {
        let id = request.id.clone();
        let sandbox = self.host.sandboxes.path(&id);
        let ready = {
            let (shared, request) = (Arc::clone(&self), request.clone());
            blocking(move || {
                let mut made = Made::default();
                let ready = prepare(&shared.host, &request, &mut made);
                (made, ready)
            })
            .await
        };
        let made = match ready {
            Ok((made, Ok(()))) => made,
            Ok((made, Err(error))) => {
                self.undo(&id, made).await;
                return self.launch_failed(&id, error, tell);
            }
            Err(error) => {
                let error = internal("Failed to launch the container", &error);
                return self.launch_failed(&id, error, tell);
            }
        };
        let container = runtime.launch(ImageOrder { request, sandbox });
        if self.lock().take_image(&id, &container) {
            // A kill came before there was anything to be killed.
            container.signal(libc::SIGKILL);
        }
        match container.started().await {
            Ok(pid) => {
                self.image_started(&id, pid);
                // Whoever asked may be gone; the container stays.
                let _nobody_waits = tell.send(Ok(Launched::New));
                self.watch_image(id, container).await;
            }
            Err(error) => {
                container.forget();
                self.undo(&id, made).await;
                self.launch_failed(&id, error, tell);
            }
        }
    }

    /// Deletes what a failed launch has made on this host.
    async fn undo(self: &Arc<Self>, id: &ContainerId, made: Made) {
        let (shared, id) = (Arc::clone(self), id.clone());
        let _only_logged = blocking(move || launch::undo(&shared.host, &id, &made)).await;
    }

    fn image_started(self: &Arc<Self>, id: &ContainerId, pid: Option<u32>) {
        let deferred = {
            let mut inner = self.lock();
            if let Some(handle) = inner.handles.get_mut(id) {
                handle.image_pid = pid;
            }
            let (_, actions) = inner.registry.step(id, Event::Started, SystemTime::now());
            inner.apply(&self.host, actions)
        };
        self.finish(deferred);
    }

    async fn watch_image(self: Arc<Self>, id: ContainerId, container: Arc<dyn ImageContainer>) {
        let exit = container.ended().await;
        if let Some(handle) = self.lock().handles.get_mut(&id) {
            handle.image_pid = None;
        }
        self.ended(&id, exit);
    }

    /// Puts what the runtime has found into the registry and watches what lives. Process containers are there already.
    pub(super) fn adopt_images(self: &Arc<Self>, found: Vec<FoundImage>) {
        for found in found {
            let FoundImage {
                request,
                launched,
                exited,
                container,
            } = found;
            let id = request.id.clone();
            let lives = exited.is_none();
            {
                let mut inner = self.lock();
                match inner.registry.get(&id) {
                    None => {}
                    // That of a process, which was launched before it.
                    Some(Life::Exited { .. }) if lives => {
                        let now = SystemTime::now();
                        let (_, actions) = inner.registry.step(&id, Event::Launch, now);
                        let deferred = inner.apply(&self.host, actions);
                        self.finish(deferred);
                    }
                    Some(Life::Exited { .. }) => {
                        container.forget();
                        continue;
                    }
                    Some(_) => {
                        if lives {
                            tracing::error!(container = %id, "two containers of one id live; that of an image is ended");
                            container.signal(libc::SIGKILL);
                        }
                        continue;
                    }
                }
                let mut handle = Handle::new(PathBuf::new(), launched);
                handle.facts = facts(&request);
                handle.image = Some(Arc::clone(&container));
                let life = match exited {
                    Some((exit, at)) => {
                        handle.exit.send_replace(Some(exit.clone()));
                        Life::Exited { exit, at }
                    }
                    None => Life::Running { killed: false },
                };
                inner.registry.restore(id.clone(), life);
                inner.handles.insert(id.clone(), handle);
            }
            if lives {
                self.spawn(|shared| shared.watch_found_image(id, container));
            }
        }
    }

    /// It runs; an engine that is away may say its pid later.
    async fn watch_found_image(
        self: Arc<Self>,
        id: ContainerId,
        container: Arc<dyn ImageContainer>,
    ) {
        tokio::select! {
            started = container.started() => {
                if let Ok(pid) = started {
                    self.image_started(&id, pid);
                }
            }
            _ended = container.ended() => {}
        }
        self.watch_image(id, container).await;
    }
}

impl Inner {
    /// Its processes would have to be in the parent's image.
    pub(super) fn no_image_above(&self, id: &ContainerId) -> Result<(), LaunchError> {
        let above = id.parent().and_then(|parent| self.handles.get(parent));
        if above.is_some_and(|parent| parent.image.is_some()) {
            return Err(LaunchError {
                kind: LaunchErrorKind::BadRequest,
                message: "A container of an image has no nested ones: this agent does not run processes in it".to_owned(),
            });
        }
        Ok(())
    }

    /// A kill of a container that has no process yet is carried out as soon as it has; an image may be under way for minutes
    /// until then.
    pub(super) fn end_image_that_starts(&self, id: &ContainerId) {
        if let (Some(Life::Starting { kill: true }), Some(handle)) =
            (self.registry.get(id), self.handles.get(id))
            && let Some(image) = &handle.image
        {
            image.signal(libc::SIGKILL);
        }
    }

    /// Puts it in its place; true when it is to be killed at once.
    fn take_image(&mut self, id: &ContainerId, container: &Arc<dyn ImageContainer>) -> bool {
        if let Some(handle) = self.handles.get_mut(id) {
            handle.image = Some(Arc::clone(container));
        }
        matches!(
            self.registry.get(id),
            None | Some(Life::Starting { kill: true })
        )
    }
}

/// Makes the sandbox and the directories of volumes, and shares those whose mounts go both ways: an engine refuses a
/// volume that is not there, and one that is not shared.
fn prepare(host: &Host, request: &LaunchRequest, made: &mut Made) -> Result<(), LaunchError> {
    let id = &request.id;
    made.sandbox = host.sandboxes.make(id, None).map_err(|error| {
        let path = host.sandboxes.path(id);
        let what = format!("Failed to create sandbox {}", path.display());
        internal(&what, &error)
    })?;
    let volumes = request.container.iter().flat_map(|one| &one.volumes);
    // Volumes of other kinds are the engine's.
    for (path, shared) in volumes.filter_map(|volume| plan::host_path(volume).ok()) {
        make_volume(&path, &mut made.directories)?;
        if shared {
            share_volume(&path)?;
        }
    }
    Ok(())
}

/// What the agent tells of the container; an engine enforces its limits or refuses it.
fn facts(request: &LaunchRequest) -> Facts {
    let mut unenforced = Vec::new();
    let wanted = plan::resources(request, &mut unenforced);
    Facts {
        cpus: wanted.cpus,
        cpus_limit: wanted.cpus_limit,
        mem_bytes: wanted.mem,
        mem_limit_bytes: wanted.mem_limit,
        unenforced: Vec::new(),
    }
}
