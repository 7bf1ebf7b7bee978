//! Containers in memory: ids say what becomes of a launch, the test ends them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use longshore_agent::service::{
    ContainerService, ContainerView, ExitInfo, KillError, LaunchError, LaunchErrorKind,
    LaunchRequest, Launched, NotFound, Output, Phase, ReadError, RemoveError, Slice,
};
use longshore_paths::ContainerId;
use tokio::sync::{Semaphore, watch};

/// A launch of `bad` is the caller's fault, of `broken` the host's, of `panics` panics, and of `held` waits for a
/// permit of `gate`. Signals over 64 are invalid.
#[derive(Debug)]
pub(crate) struct FakeContainers {
    containers: Mutex<BTreeMap<ContainerId, watch::Sender<Option<ExitInfo>>>>,
    pub(crate) launches: Mutex<Vec<LaunchRequest>>,
    pub(crate) begun: AtomicUsize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) gate: Semaphore,
}

impl Default for FakeContainers {
    fn default() -> Self {
        Self {
            containers: Mutex::default(),
            launches: Mutex::default(),
            begun: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            gate: Semaphore::new(0),
        }
    }
}

/// Counts a waiter for as long as it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeContainers {
    pub(crate) fn end(&self, id: &str, exit: ExitInfo) {
        let containers = self.containers.lock().unwrap();
        let (_, container) = containers
            .iter()
            .find(|(known, _)| known.to_string() == id)
            .expect("it was launched");
        container.send_replace(Some(exit));
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }
}

impl ContainerService for FakeContainers {
    async fn launch(&self, request: LaunchRequest) -> Result<Launched, LaunchError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let failed = |kind, message: &str| {
            Err(LaunchError {
                kind,
                message: message.into(),
            })
        };
        match request.id.value() {
            "bad" => return failed(LaunchErrorKind::BadRequest, "the image cannot be run here"),
            "broken" => return failed(LaunchErrorKind::Internal, "Failed to create sandbox"),
            "panics" => panic!("as the test wants it"),
            "held" => self.gate.acquire().await.unwrap().forget(),
            _ => {}
        }
        let mut containers = self.containers.lock().unwrap();
        if let Some(parent) = request.id.parent()
            && !containers.contains_key(parent)
        {
            let text = format!("Parent container {parent} does not exist");
            return failed(LaunchErrorKind::BadRequest, &text);
        }
        if containers
            .get(&request.id)
            .is_some_and(|known| known.borrow().is_none())
        {
            return Ok(Launched::AlreadyPresent);
        }
        containers.insert(request.id.clone(), watch::Sender::new(None));
        self.launches.lock().unwrap().push(request);
        Ok(Launched::New)
    }

    async fn wait(&self, id: &ContainerId) -> Result<ExitInfo, NotFound> {
        let known = self
            .containers
            .lock()
            .unwrap()
            .get(id)
            .map(watch::Sender::subscribe);
        let mut known = known.ok_or(NotFound)?;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        let exit = known
            .wait_for(Option::is_some)
            .await
            .map_err(|_| NotFound)?;
        Ok(exit.clone().unwrap_or_default())
    }

    async fn kill(&self, id: &ContainerId, signal: i32) -> Result<(), KillError> {
        let containers = self.containers.lock().unwrap();
        let known = containers.get(id).filter(|known| known.borrow().is_none());
        let known = known.ok_or(KillError::NotFound)?;
        if !(0..=64).contains(&signal) {
            let text = "Unable to send signal to container: Invalid argument";
            return Err(KillError::Failed(text.into()));
        }
        if signal == 9 {
            known.send_replace(Some(ExitInfo {
                status: Some(9),
                ..ExitInfo::default()
            }));
        }
        Ok(())
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), RemoveError> {
        let mut containers = self.containers.lock().unwrap();
        let failed = |message: &str| {
            Err(RemoveError {
                message: message.into(),
            })
        };
        if !containers.contains_key(id.root()) {
            return failed("Unknown root container");
        }
        if containers
            .get(id)
            .is_some_and(|known| known.borrow().is_none())
        {
            return failed("Nested container has not terminated yet");
        }
        containers.remove(id);
        Ok(())
    }

    async fn read(&self, output: &Output, offset: u64, length: u64) -> Result<Slice, ReadError> {
        let known = self.containers.lock().unwrap().contains_key(&output.id);
        match output.id.value() {
            "broken" => Err(ReadError::Failed("Failed to read: bad disk".into())),
            _ if !known => Err(ReadError::NotFound),
            _ => Ok(Slice {
                size: 12,
                data: format!("{} {offset} {length}", output.stream.as_str()).into_bytes(),
            }),
        }
    }

    fn list(&self) -> Vec<ContainerView> {
        let containers = self.containers.lock().unwrap();
        let running = containers
            .iter()
            .filter(|(_, known)| known.borrow().is_none());
        running
            .map(|(id, _)| ContainerView {
                id: id.clone(),
                pid: Some(31_756),
                phase: Phase::Running,
                started: SystemTime::UNIX_EPOCH,
                cpus: Some(0.1),
                cpus_limit: Some(0.2),
                mem_bytes: Some(16 << 20),
                mem_limit_bytes: Some(32 << 20),
                unenforced: Vec::new(),
            })
            .collect()
    }
}
