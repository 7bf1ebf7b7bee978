use crate::spec::EnvVar;

/// A command to run in a container: the body of `POST /containers/ID/exec`. Its standard input is
/// at its end, and it has no terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecSpec {
    /// `Cmd`: program and arguments; no shell is involved.
    pub cmd: Vec<String>,
    /// `Env`: on top of the container's.
    pub env: Vec<EnvVar>,
    /// `User`; otherwise the container's.
    pub user: Option<String>,
    /// `WorkingDir`; otherwise the container's.
    pub working_dir: Option<String>,
    /// `Privileged`.
    pub privileged: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecInfo {
    /// `Running`.
    pub running: bool,
    /// `ExitCode`, once it has ended: 126 and 127 also when it could not be started.
    pub exit_code: Option<i64>,
    /// `Pid`: of its process on the host, while it runs; it is what a timeout has to kill, since the API
    /// has no call for that.
    pub pid: Option<i32>,
    /// `ContainerID`.
    pub container: String,
}
