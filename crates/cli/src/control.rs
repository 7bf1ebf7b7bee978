//! The daemon's control service, from the outside.

use std::error::Error as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod named;

use anyhow::Result;
use hyper_util::rt::TokioIo;
use longshore_control_api::MAX_MESSAGE;
use longshore_control_api::v1::{control_client::ControlClient, nri_client::NriClient};
use longshore_supervisor::{Config, Flags, Sources};
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::transport::Endpoint;
use tonic::{Code, Status};

use self::named::Broken;
pub(crate) use self::named::Named;
use crate::fault::{Exit, Fault};

pub(crate) type Control = ControlClient<Named>;

/// For connecting, and for an answer that comes from memory.
const DEADLINE: Duration = Duration::from_secs(10);

/// While an answer is awaited the daemon is asked so often whether it is there, and may take so long to say so:
/// one that hangs is not waited for as long as a request may take.
const PING: Duration = Duration::from_secs(5);
const PONG: Duration = Duration::from_secs(10);

/// The first and the longest pause between looks for a daemon that is not there yet.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Which daemon is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DaemonArgs {
    /// The daemon's configuration file, for its `runtime_dir`.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The daemon's runtime directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) runtime_dir: Option<PathBuf>,
}

impl DaemonArgs {
    /// The runtime directory, also when the configuration is not valid at the moment.
    pub(crate) fn runtime(&self) -> Result<longshore_paths::RuntimeDir> {
        let flags = Flags {
            runtime_dir: self.runtime_dir.clone(),
            ..Flags::default()
        };
        let dir = Config::runtime_dir(&Sources::of_process(self.config.clone(), flags))?;
        Ok(longshore_paths::RuntimeDir::new(dir))
    }

    /// A connection to the daemon.
    pub(crate) async fn connect(&self) -> Result<Control> {
        let channel = self.channel().await?;
        Ok(ControlClient::new(channel).max_decoding_message_size(MAX_MESSAGE))
    }

    /// The same, for another of its services.
    pub(crate) async fn channel(&self) -> Result<Named> {
        channel(&self.runtime()?.control_socket(), no_daemon).await
    }

    /// A connection to the daemon, which may take until `deadline` to be there.
    pub(crate) async fn connect_until(&self, deadline: Instant) -> Result<Control> {
        let mut pause = FIRST_PAUSE;
        loop {
            let connected = self.connect().await;
            let now = Instant::now();
            if !connected.as_ref().is_err_and(is_no_daemon) || now >= deadline {
                return connected;
            }
            tokio::time::sleep_until(deadline.min(now + pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// A connection to what this process serves itself.
pub(crate) async fn own_channel(socket: &Path) -> Result<Named> {
    channel(socket, no_daemon).await
}

/// Whether there is just no daemon.
pub(crate) fn is_no_daemon(error: &anyhow::Error) -> bool {
    let fault = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Fault>());
    fault.is_some_and(|fault| fault.exit() == Exit::NoDaemon)
}

/// Whose NRI plugins are meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NriArgs {
    /// The control socket of `longshore nri serve`, in place of a daemon's.
    #[arg(long, value_name = "SOCKET", conflicts_with_all = ["config", "runtime_dir"])]
    control: Option<PathBuf>,
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl NriArgs {
    /// A connection to whoever has the plugins.
    pub(crate) async fn connect(&self) -> Result<NriClient<Named>> {
        let channel = match &self.control {
            Some(socket) => channel(socket, no_runtime).await?,
            None => channel(&self.daemon.runtime()?.control_socket(), no_daemon).await?,
        };
        Ok(NriClient::new(channel).max_decoding_message_size(MAX_MESSAGE))
    }
}

async fn channel(
    socket: &Path,
    failed: fn(&Path, &std::io::Error) -> anyhow::Error,
) -> Result<Named> {
    // The first connection is made here: its error says more than a transport's.
    let stream = UnixStream::connect(socket)
        .await
        .map_err(|error| failed(socket, &error))?;
    let first = std::sync::Mutex::new(Some(stream));
    let path = socket.to_owned();
    let connector = tower::service_fn(move |_: http::Uri| {
        let first = first.lock().ok().and_then(|mut first| first.take());
        let path = path.clone();
        async move {
            let stream = match first {
                Some(stream) => stream,
                None => UnixStream::connect(path).await?,
            };
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let connected = Endpoint::from_static("http://localhost")
        .connect_timeout(DEADLINE)
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .connect_with_connector(connector)
        .await;
    match connected {
        Ok(channel) => Ok(Named::new(channel, socket)),
        Err(error) => Err(not_a_daemon(socket, &causes(&error))),
    }
}

/// Somebody listens, and what they say is not what a daemon says, or they have ended meanwhile.
fn not_a_daemon(socket: &Path, text: &str) -> anyhow::Error {
    let at = socket.display();
    Fault::new(
        Exit::Failure,
        format!("what listens at {at} does not answer as a daemon does: {text}"),
    )
    .hint("a daemon serves root and its own user only; is it one that listens there, and has it not just ended?")
    .into()
}

fn no_daemon(socket: &Path, error: &std::io::Error) -> anyhow::Error {
    let at = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Fault::new(
            Exit::NoDaemon,
            format!("no daemon answers at {at}"),
        )
        .hint(
            "start one with `longshore daemon`, or name its configuration with --config FILE or its \
                     directory with --runtime-dir",
        )
        .into(),
        ErrorKind::PermissionDenied => Fault::new(
            Exit::Failure,
            format!("the daemon at {at} serves root and its own user only"),
        )
        .hint("run this as that user, or name another daemon with --config FILE or --runtime-dir")
        .into(),
        _ => Fault::new(Exit::Failure, format!("cannot connect to {at}: {error}")).into(),
    }
}

fn no_runtime(socket: &Path, error: &std::io::Error) -> anyhow::Error {
    let at = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            Fault::new(Exit::NoDaemon, format!("nobody answers at {at}"))
                .hint(format!(
                    "start a runtime with `longshore nri serve NRI_SOCKET --control {at}`"
                ))
                .into()
        }
        ErrorKind::PermissionDenied => Fault::new(
            Exit::Failure,
            format!("the runtime at {at} serves root and its own user only"),
        )
        .hint("run this as that user")
        .into(),
        _ => Fault::new(Exit::Failure, format!("cannot connect to {at}: {error}")).into(),
    }
}

/// A unary call that the daemon answers from memory.
pub(crate) async fn call<T>(
    future: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T> {
    call_within(DEADLINE, future).await
}

/// A unary call that may take as long as `deadline` says.
pub(crate) async fn call_within<T>(
    deadline: Duration,
    future: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T> {
    match tokio::time::timeout(deadline, future).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(refused(&status)),
        Err(_) => Err(Fault::new(
            Exit::Failure,
            format!("the daemon has not answered within {}s", deadline.as_secs()),
        )
        .into()),
    }
}

const ENDED: &str = "the daemon ended before it had answered";

/// Whether an error says that the daemon ended in the middle of an answer.
pub(crate) fn is_ended(error: &anyhow::Error) -> bool {
    let fault = error.downcast_ref::<Fault>();
    fault.is_some_and(|fault| fault.to_string() == ENDED)
}

/// What a status of the control service means for the exit code.
pub(crate) fn refused(status: &Status) -> anyhow::Error {
    let exit = match status.code() {
        Code::DeadlineExceeded | Code::FailedPrecondition => Exit::NotReady,
        Code::InvalidArgument => Exit::Config,
        _ => Exit::Failure,
    };
    if status.code() == Code::Unimplemented && status.message().is_empty() {
        return Fault::new(
            exit,
            "the daemon is of a release that does not know this verb",
        )
        .into();
    }
    // A status that did not come from the daemon has the connection's error behind it.
    let Some(cause) = status.source() else {
        return Fault::new(exit, status.message()).into();
    };
    let text = causes(cause);
    if text.contains("keep-alive timed out") {
        let silent = format!(
            "the daemon has been silent for {}s",
            (PING + PONG).as_secs()
        );
        return Fault::new(Exit::Failure, silent)
            .hint("it is stopped or cannot go on; what was asked of it may still be done when it does")
            .into();
    }
    match Broken::in_chain(cause) {
        Some(broken) => not_a_daemon(broken.socket(), &text),
        // In the middle of a stream: it has been one that answers.
        None => {
            tracing::debug!(text, "the connection broke");
            Fault::new(Exit::Failure, ENDED)
                .hint("what was asked of it may be done all the same: the next daemon goes on with what is on record")
                .into()
        }
    }
}

/// The error and what is behind it.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
