//! Settings of the embedded agent.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::http::HttpLimits;
use crate::images::ImageRuntime;

/// Settings of [`Agent::start`](crate::Agent::start).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentOptions {
    /// What GET_AGENT answers as the agent's id; when `None`, a random one that is drawn once and
    /// kept in `state_dir`.
    pub agent_id: Option<String>,
    /// Holds the sandboxes, in `containers/`. Made with mode 0711 when missing.
    pub state_dir: PathBuf,
    /// Holds what is known of each container. It cannot outlive a reboot, so it belongs on a
    /// tmpfs; made with mode 0700 when missing.
    pub run_dir: PathBuf,
    /// The Unix socket that is served, mode 0600. Its directory must be ours alone.
    pub socket: PathBuf,
    /// A TCP listener besides the socket; never without a token.
    pub tcp: Option<TcpOptions>,
    /// Bounds and deadlines of the API.
    pub http: HttpLimits,
    /// The program that becomes the parent of each container.
    pub shim: ShimCommand,
    /// Whether, from the first launch on, one shim is kept that was started ahead of its container: a launch then
    /// need not wait for one. It ends with the agent, however that ends.
    pub spare_shim: bool,
    /// How many containers may exist at a time; one more is refused. At least 1.
    pub max_containers: usize,
    /// How long the exit status of a top-level container stays available after its end.
    pub exit_retention: Duration,
    /// How long a shim may take from its start to its container's first process.
    pub start_timeout: Duration,
    /// When sandboxes of ended containers are deleted.
    pub sandbox_gc: SandboxGc,
    /// How the output files of containers are rotated.
    pub logs: LogOptions,
    /// Where the cgroup file systems are; `/sys/fs/cgroup` when `None`.
    pub cgroup_root: Option<PathBuf>,
    /// Whether containers get cgroups at all.
    pub cgroups: bool,
    /// The soft and the hard limit of open files (RLIMIT_NOFILE) of a container whose request sets
    /// none; the agent's own when `None`. For a program that has raised its own.
    pub open_files: Option<(u64, u64)>,
    /// What runs containers of images; without it they are refused.
    pub images: Option<Arc<dyn ImageRuntime>>,
    /// Whether the containers end with the agent, however it ends: for a program that leaves nothing behind. They
    /// are killed then.
    pub leash: bool,
}

impl AgentOptions {
    /// Settings with their defaults: exit statuses kept for an hour, 4,096 containers, sandboxes
    /// for a week and up to 2 GiB, output files of 10 MiB with one older one kept.
    pub fn new(
        state_dir: impl Into<PathBuf>,
        run_dir: impl Into<PathBuf>,
        socket: impl Into<PathBuf>,
        shim: ShimCommand,
    ) -> Self {
        Self {
            agent_id: None,
            state_dir: state_dir.into(),
            run_dir: run_dir.into(),
            socket: socket.into(),
            tcp: None,
            http: HttpLimits::default(),
            shim,
            spare_shim: true,
            max_containers: 4096,
            exit_retention: Duration::from_secs(3600),
            start_timeout: Duration::from_secs(30),
            sandbox_gc: SandboxGc::default(),
            logs: LogOptions::default(),
            cgroup_root: None,
            cgroups: true,
            open_files: None,
            images: None,
            leash: false,
        }
    }
}

/// A TCP listener of the agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TcpOptions {
    /// Where to listen; an address that is not loopback needs TLS.
    pub address: std::net::SocketAddr,
    /// A file, mode 0600, with the bearer token: at least 32 random bytes.
    pub token_file: PathBuf,
    /// Served over TLS with these; needs the feature `tls`.
    pub tls: Option<TlsFiles>,
}

/// What a TLS server shows and holds, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and, after it, those that vouch for it.
    pub certificates: PathBuf,
    /// The private key of the first certificate.
    pub key: PathBuf,
}

impl TcpOptions {
    /// Listens on `address` for whoever shows the token in `token_file`.
    pub fn new(address: std::net::SocketAddr, token_file: impl Into<PathBuf>) -> Self {
        Self {
            address,
            token_file: token_file.into(),
            tls: None,
        }
    }
}

/// How a shim is started: `program args.. <container directory>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShimCommand {
    /// An absolute path; `/proc/self/exe` will do.
    pub program: PathBuf,
    /// What comes before the shim's own arguments, such as a hidden subcommand.
    pub args: Vec<OsString>,
}

impl ShimCommand {
    /// `program args..`
    pub fn new(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
        }
    }
}

/// When sandboxes of ended containers are deleted; mounts below them never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxGc {
    /// Older ones go.
    pub max_age: Duration,
    /// When they hold more than this together, the oldest go first. In bytes of disk blocks.
    pub max_bytes: u64,
    /// How often it is looked after. At least a second.
    pub interval: Duration,
}

impl Default for SandboxGc {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(7 * 24 * 3600),
            max_bytes: 2 << 30,
            interval: Duration::from_secs(600),
        }
    }
}

/// How the output files `stdout` and `stderr` of a sandbox are rotated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// A file that has reached this size, in bytes, is renamed to `stdout.1` and begun anew.
    pub max_bytes: u64,
    /// How many older files are kept (`stdout.1` is the newest); 0 to 99.
    pub keep: u32,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            max_bytes: 10 << 20,
            keep: 1,
        }
    }
}
