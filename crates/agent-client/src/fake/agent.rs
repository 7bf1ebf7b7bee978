use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_mesos_api::v1::agent::Call;
use longshore_mesos_api::v1::agent::call::{LaunchContainer, Type};
use longshore_mesos_api::v1::agent::response::WaitContainer;
use longshore_mesos_api::{DecodeLimits, decode, json};
use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::dispatch::{Reply, logged};
use super::failpoint::Failpoint;
use super::http::{Request, answer, read_request};
use super::state::{Flavor, Logged, State};
use crate::{AgentClient, AgentClientConfig, AgentEndpoint};

/// A fake agent on a Unix socket. Dropping it closes the socket and every connection.
#[derive(Debug)]
pub struct FakeAgent {
    socket: PathBuf,
    shared: Arc<Shared>,
    server: Option<JoinSet<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Its number changes with the state; waiting calls look again.
    changed: watch::Sender<u64>,
    /// Set when the agent has aborted.
    aborted: watch::Sender<bool>,
}

impl FakeAgent {
    /// Starts an agent on `socket`. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn start(socket: impl Into<PathBuf>) -> io::Result<Self> {
        let mut agent = Self {
            socket: socket.into(),
            shared: Arc::new(Shared {
                state: Mutex::default(),
                changed: watch::Sender::new(0),
                aborted: watch::Sender::new(false),
            }),
            server: None,
        };
        agent.restart()?;
        Ok(agent)
    }

    /// As [`Self::start`], behaving like `flavor`.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn start_as(flavor: Flavor, socket: impl Into<PathBuf>) -> io::Result<Self> {
        let agent = Self::start(socket)?;
        agent.state().flavor = flavor;
        Ok(agent)
    }

    /// Stops serving: connections are cut, new ones refused. Containers live on.
    pub fn stop(&mut self) {
        self.server = None;
        drop(std::fs::remove_file(&self.socket));
    }

    /// Serves again, after [`Self::stop`] or an abort; cuts the connections there are.
    ///
    /// # Errors
    /// When the socket cannot be bound.
    pub fn restart(&mut self) -> io::Result<()> {
        self.stop();
        let listener = UnixListener::bind(&self.socket)?;
        self.shared.aborted.send_replace(false);
        let shared = Arc::clone(&self.shared);
        let mut server = JoinSet::new();
        server.spawn(serve(listener, shared));
        self.server = Some(server);
        Ok(())
    }

    /// Its address.
    #[must_use]
    pub fn endpoint(&self) -> AgentEndpoint {
        AgentEndpoint::unix(&self.socket)
    }

    /// Its socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// A client of it with the default configuration.
    ///
    /// # Panics
    /// Never: the default configuration is valid.
    #[must_use]
    pub fn client(&self) -> AgentClient {
        match AgentClient::new(AgentClientConfig::new(self.endpoint())) {
            Ok(client) => client,
            Err(error) => unreachable!("the default configuration is valid: {error}"),
        }
    }

    /// Makes the `nth` call of type `kind` from now (1 is the next) go wrong, once.
    pub fn fail(&self, kind: Type, nth: usize, failpoint: Failpoint) {
        self.state().failpoints.arm(Some(kind), nth, failpoint);
    }

    /// Makes the `nth` call of any type from now go wrong, once.
    pub fn fail_any(&self, nth: usize, failpoint: Failpoint) {
        self.state().failpoints.arm(None, nth, failpoint);
    }

    /// Disarms all failpoints.
    pub fn fail_no_more(&self) {
        self.state().failpoints.clear();
    }

    /// While true every call is answered 503.
    pub fn set_recovering(&self, recovering: bool) {
        self.state().recovering = recovering;
    }

    /// The id that GET_AGENT answers; `fake-agent` at first.
    pub fn set_agent_id(&self, id: &str) {
        self.state().agent_id = id.to_owned();
    }

    /// Answers 401 to calls whose `Authorization` header is not this.
    pub fn require_authorization(&self, value: &str) {
        self.state().authorization = Some(value.to_owned());
    }

    /// Called for each container that is really started (answered 200), while the state is
    /// locked: it must not call this agent. A test starts the fake plugin here.
    pub fn on_launch(&self, hook: impl Fn(&LaunchContainer) + Send + Sync + 'static) {
        self.state().on_launch = Some(Arc::new(hook));
    }

    /// Makes a container survive every signal but 9.
    pub fn ignore_term(&self, container: &str) {
        self.state().ignores_term.insert(container.to_owned());
    }

    /// Puts a running container there, as one of an earlier life of the agent.
    pub fn put(&self, launch: LaunchContainer) {
        let call = Call {
            r#type: Some(Type::LaunchContainer.into()),
            launch_container: Some(launch),
            ..Call::default()
        };
        self.state().dispatch(&call);
        self.shared.touch();
    }

    /// Puts a file there for READ_FILE, which answers with at most 64 KiB of it; of flavor Mesos
    /// it answers 404 all the same.
    pub fn put_file(&self, path: &str, content: &[u8]) {
        self.state().files.insert(path.to_owned(), content.to_vec());
    }

    /// Takes a running container's pid away: it is listed as one that is being destroyed, until
    /// [`Self::exit`].
    pub fn set_destroying(&self, container: &str) {
        if let Some(fake) = self.state().containers.get_mut(container) {
            fake.pid = None;
        }
    }

    /// Ends a container with a raw `wait(2)` status (exit 1 is 256, SIGKILL 9), and what is
    /// nested in it; waiters are answered. False if it is not running.
    pub fn exit(&self, container: &str, status: i32) -> bool {
        self.exit_with(
            container,
            &WaitContainer {
                exit_status: Some(status),
                ..WaitContainer::default()
            },
        )
    }

    /// As [`Self::exit`] with reason, message and so on.
    pub fn exit_with(&self, container: &str, wait: &WaitContainer) -> bool {
        let ended = self.state().exit(container, wait);
        self.shared.touch();
        ended
    }

    /// Forgets a container as if it had never been: WAIT is answered 404.
    pub fn forget(&self, container: &str) {
        self.state().containers.remove(container);
        self.shared.touch();
    }

    /// The ids of the running containers, as `parent.child`, sorted.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let state = self.state();
        let running = state.containers.iter().filter(|(_, c)| c.ended.is_none());
        running.map(|(id, _)| id.clone()).collect()
    }

    /// The request that a container was last launched with.
    #[must_use]
    pub fn launched(&self, container: &str) -> Option<LaunchContainer> {
        let state = self.state();
        state.containers.get(container).map(|c| c.launch.clone())
    }

    /// How often a container was really started; 0 if it is not known (any more).
    #[must_use]
    pub fn launches(&self, container: &str) -> u32 {
        let state = self.state();
        state.containers.get(container).map_or(0, |c| c.launches)
    }

    /// The pid that GET_CONTAINERS shows; no such process exists.
    #[must_use]
    pub fn pid(&self, container: &str) -> Option<u64> {
        self.state().containers.get(container).and_then(|c| c.pid)
    }

    /// Every call so far, failed ones too.
    #[must_use]
    pub fn log(&self) -> Vec<Logged> {
        self.state().log.clone()
    }

    /// How many calls of this type there were.
    #[must_use]
    pub fn count(&self, kind: Type) -> usize {
        self.state().log.iter().filter(|l| l.kind == kind).count()
    }

    /// How many connections were accepted.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state().connections
    }

    /// Waits until the agent's log satisfies `condition`. Give it a deadline of your own.
    pub async fn wait_log(&self, mut condition: impl FnMut(&[Logged]) -> bool) {
        let mut changed = self.shared.changed.subscribe();
        while !condition(&self.log()) {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.changed.send_modify(|number| *number += 1);
    }
}

async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    let mut aborted = shared.aborted.subscribe();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                shared.lock().connections += 1;
                connections.spawn(converse(stream, Arc::clone(&shared)));
            }
            _ = aborted.wait_for(|aborted| *aborted) => return,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

/// Serves one connection until the client closes it or a failpoint does.
async fn converse(mut stream: UnixStream, shared: Arc<Shared>) {
    let mut buffer = Vec::new();
    while let Ok(Some(request)) = read_request(&mut stream, &mut buffer).await {
        if !respond(&mut stream, &request, &shared).await {
            return;
        }
    }
}

/// Answers one request; false ends the connection.
async fn respond(stream: &mut UnixStream, request: &Request, shared: &Shared) -> bool {
    let call = match read_call(request) {
        Ok(call) => call,
        Err(text) => return write(stream, &text_answer(400, &text)).await,
    };
    let failpoint = {
        let mut state = shared.lock();
        state.log.push(logged(&call));
        if let Some(wanted) = &state.authorization
            && request.authorization.as_ref() != Some(wanted)
        {
            Some(Failpoint::status(401, "401 Unauthorized."))
        } else if state.recovering {
            Some(Failpoint::status(503, "Agent has not finished recovery"))
        } else {
            state.failpoints.hit(call.r#type())
        }
    };
    shared.touch();
    let whole = match &failpoint {
        Some(failpoint) if !failpoint.performs() => Vec::new(),
        _ => match perform(&call, &request.accept, shared).await {
            Some(whole) => whole,
            None => return false,
        },
    };
    match failpoint {
        None => write(stream, &whole).await,
        Some(Failpoint::Status(status, text)) => write(stream, &text_answer(status, &text)).await,
        Some(Failpoint::Hang | Failpoint::HangAfter) => std::future::pending().await,
        Some(Failpoint::Close | Failpoint::CloseAfter) => false,
        Some(Failpoint::CutAfter(bytes)) => {
            write(stream, &whole[..bytes.min(whole.len())]).await;
            false
        }
        Some(Failpoint::Announce(length)) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\nabc");
            write(stream, head.as_bytes()).await && std::future::pending().await
        }
        Some(Failpoint::Flood(length)) => {
            let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
            write(stream, head).await && flood(stream, length).await
        }
        Some(Failpoint::Raw(bytes)) => {
            write(stream, &bytes).await;
            false
        }
    }
}

fn read_call(request: &Request) -> Result<Call, String> {
    let limits = DecodeLimits::default();
    match request.content_type.as_str() {
        "application/json" => {
            json::from_slice(&request.body, &limits).map_err(|error| error.to_string())
        }
        "application/x-protobuf" => {
            decode(&request.body, &limits).map_err(|error| error.to_string())
        }
        _ => Err("Expecting 'Content-Type' to be present".to_owned()),
    }
}

/// Performs `call` and writes down the answer, waiting as long as it takes; `None` when the
/// agent has aborted.
async fn perform(call: &Call, accept: &str, shared: &Shared) -> Option<Vec<u8>> {
    let mut changed = shared.changed.subscribe();
    loop {
        changed.borrow_and_update();
        let reply = shared.lock().dispatch(call);
        match reply {
            Reply::Text(status, text) => {
                shared.touch();
                return Some(text_answer(status, &text));
            }
            Reply::Message(response) => {
                forget_as_mesos_does(call, shared);
                return Some(if accept == "application/x-protobuf" {
                    answer(200, Some(accept), &response.encode_to_vec())
                } else {
                    let body = json::to_vec(&*response).unwrap_or_default();
                    answer(200, Some("application/json"), &body)
                });
            }
            Reply::Later => changed.changed().await.ok()?,
            Reply::Abort => {
                shared.aborted.send_replace(true);
                return None;
            }
        }
    }
}

/// The exit status of a top-level container is told once.
fn forget_as_mesos_does(call: &Call, shared: &Shared) {
    let mut state = shared.lock();
    if let Some(wait) = &call.wait_container
        && state.flavor == Flavor::Mesos
        && wait.container_id.parent.is_none()
    {
        let below = format!("{}.", wait.container_id.value);
        state
            .containers
            .retain(|id, _| *id != wait.container_id.value && !id.starts_with(&below));
    }
}

fn text_answer(status: u16, text: &str) -> Vec<u8> {
    let content_type = (!text.is_empty()).then_some("text/plain; charset=utf-8");
    answer(status, content_type, text.as_bytes())
}

async fn write(stream: &mut UnixStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).await.is_ok()
}

async fn flood(stream: &mut UnixStream, length: u64) -> bool {
    let block = vec![b'x'; 16 << 10];
    let mut left = length;
    while left > 0 {
        let now = usize::try_from(left)
            .unwrap_or(block.len())
            .min(block.len());
        if !write(stream, &block[..now]).await {
            return false;
        }
        left -= u64::try_from(now).unwrap_or(left);
    }
    false
}
