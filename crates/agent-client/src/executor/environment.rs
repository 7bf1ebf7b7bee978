use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderValue;
use longshore_mesos_api::parse_duration;

use crate::{AgentEndpoint, AgentError, TlsOptions};

/// What an agent tells its executor in the environment.
///
/// | variable | field | without it |
/// |---|---|---|
/// | `MESOS_FRAMEWORK_ID`, `MESOS_EXECUTOR_ID` | the ids | an error |
/// | `MESOS_SLAVE_ID` | `agent_id` | the agent fills it in |
/// | `MESOS_AGENT_ENDPOINT` (`ADDRESS:PORT`), else the address in `MESOS_SLAVE_PID` | `endpoint` | an error, unless there is a domain socket |
/// | `MESOS_SLAVE_PID` (`slave(N)@ADDRESS:PORT`) | the path of `endpoint`: `/slave(N)/api/v1/executor` | `slave(1)` |
/// | `MESOS_DOMAIN_SOCKET` | `endpoint`, in place of the address | |
/// | `MESOS_DIRECTORY`, `MESOS_SANDBOX` | the sandbox on the host, and as the executor sees it | none |
/// | `MESOS_CHECKPOINT` (`1` or `0`) | `checkpoint` | no checkpoints |
/// | `MESOS_RECOVERY_TIMEOUT`, `MESOS_SUBSCRIPTION_BACKOFF_MAX` | `checkpoint` | with checkpoints an error |
/// | `MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD` | `shutdown_grace` | 5 s |
/// | `MESOS_EXECUTOR_AUTHENTICATION_TOKEN` | `token` | no authentication |
/// | `MESOS_HTTP_COMMAND_EXECUTOR` (`1` or `0`) | `http_command_executor` | false |
/// | `MESOS_LOCAL` (anything) | `local` | false |
/// | `LIBPROCESS_SSL_ENABLED` (`1`, `true`), `LIBPROCESS_SSL_CA_FILE` | `https`, `tls` | plain TCP |
///
/// `LIBPROCESS_IP`, `LIBPROCESS_PORT`, `MESOS_NATIVE_LIBRARY`, `MESOS_NATIVE_JAVA_LIBRARY` are for Mesos' own library
/// and passed over, as is every other variable. An empty variable counts as absent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecutorEnvironment {
    /// Id of the framework that the executor belongs to.
    pub framework_id: String,
    /// Id of the executor.
    pub executor_id: String,
    /// Id of the agent.
    pub agent_id: Option<String>,
    /// Where the agent's executor API is.
    pub endpoint: AgentEndpoint,
    /// Certificates of an agent with TLS.
    pub tls: TlsOptions,
    /// The sandbox, on the host.
    pub directory: Option<PathBuf>,
    /// The sandbox, as the executor sees it.
    pub sandbox: Option<PathBuf>,
    /// How the framework's checkpoints let the executor outlive its agent; `None` without them.
    pub checkpoint: Option<Checkpoint>,
    /// From SHUTDOWN to the end of the executor.
    pub shutdown_grace: Duration,
    /// Proves who the executor is.
    pub token: Option<ExecutorToken>,
    /// Whether it stands for the agent's command executor.
    pub http_command_executor: bool,
    /// Whether agent and executor are one process (tests of frameworks): nothing is ended by SHUTDOWN's grace.
    pub local: bool,
}

/// What an executor of a framework with checkpoints may do while its agent is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// How long it waits for an agent before it stops.
    pub recovery_timeout: Duration,
    /// Most time between two attempts to subscribe.
    pub backoff_max: Duration,
}

/// The executor's token. Its text is shown nowhere.
#[derive(Clone)]
pub struct ExecutorToken(HeaderValue);

impl fmt::Debug for ExecutorToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExecutorToken(..)")
    }
}

impl ExecutorToken {
    /// `None` when the text cannot be sent in a header.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value = HeaderValue::try_from(format!("Bearer {text}")).ok()?;
        value.set_sensitive(true);
        is_plain.then_some(Self(value))
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

const FRAMEWORK_ID: &str = "MESOS_FRAMEWORK_ID";
const EXECUTOR_ID: &str = "MESOS_EXECUTOR_ID";
const AGENT_ID: &str = "MESOS_SLAVE_ID";
const AGENT_ENDPOINT: &str = "MESOS_AGENT_ENDPOINT";
const AGENT_PID: &str = "MESOS_SLAVE_PID";
const DOMAIN_SOCKET: &str = "MESOS_DOMAIN_SOCKET";
const DIRECTORY: &str = "MESOS_DIRECTORY";
const SANDBOX: &str = "MESOS_SANDBOX";
const CHECKPOINT: &str = "MESOS_CHECKPOINT";
const RECOVERY_TIMEOUT: &str = "MESOS_RECOVERY_TIMEOUT";
const BACKOFF_MAX: &str = "MESOS_SUBSCRIPTION_BACKOFF_MAX";
const SHUTDOWN_GRACE: &str = "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD";
const TOKEN: &str = "MESOS_EXECUTOR_AUTHENTICATION_TOKEN";
const HTTP_COMMAND_EXECUTOR: &str = "MESOS_HTTP_COMMAND_EXECUTOR";
const LOCAL: &str = "MESOS_LOCAL";
const SSL_ENABLED: &str = "LIBPROCESS_SSL_ENABLED";
const SSL_CA_FILE: &str = "LIBPROCESS_SSL_CA_FILE";

const DEFAULT_GRACE: Duration = Duration::from_secs(5);
const DEFAULT_PROCESS: &str = "slave(1)";

impl ExecutorEnvironment {
    /// Reads `variables`, usually [`std::env::vars_os`].
    ///
    /// # Errors
    /// [`AgentError::Variable`], which names the first variable that is missing or cannot be used.
    pub fn from_variables<K, V>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, AgentError>
    where
        K: AsRef<OsStr>,
        V: Into<OsString>,
    {
        let variables = variables
            .into_iter()
            .map(|(name, value)| (name.as_ref().to_owned(), value.into()))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Variables(variables).read()
    }
}

struct Variables(std::collections::HashMap<OsString, OsString>);

impl Variables {
    fn read(&self) -> Result<ExecutorEnvironment, AgentError> {
        let tls = self.flag(SSL_ENABLED)?;
        Ok(ExecutorEnvironment {
            framework_id: self.required(FRAMEWORK_ID)?,
            executor_id: self.required(EXECUTOR_ID)?,
            agent_id: self.text(AGENT_ID)?.map(str::to_owned),
            endpoint: self.endpoint(tls)?,
            tls: TlsOptions {
                ca_file: self.path(SSL_CA_FILE).filter(|_| tls),
            },
            directory: self.path(DIRECTORY),
            sandbox: self.path(SANDBOX),
            checkpoint: self.checkpoint()?,
            shutdown_grace: self.duration(SHUTDOWN_GRACE)?.unwrap_or(DEFAULT_GRACE),
            token: match self.text(TOKEN)? {
                None => None,
                Some(text) => Some(ExecutorToken::new(text).ok_or_else(|| {
                    secret(
                        TOKEN,
                        "it has a space or another character that no header can carry",
                    )
                })?),
            },
            http_command_executor: self.flag(HTTP_COMMAND_EXECUTOR)?,
            local: self.0.contains_key(OsStr::new(LOCAL)),
        })
    }

    fn endpoint(&self, tls: bool) -> Result<AgentEndpoint, AgentError> {
        // `slave(N)@ADDRESS:PORT`
        let pid = match self.text(AGENT_PID)? {
            None => None,
            Some(text) => Some(text.split_once('@').ok_or_else(|| {
                wrong(
                    AGENT_PID,
                    text,
                    "it is not of the form slave(1)@ADDRESS:PORT",
                )
            })?),
        };
        let process = pid.map_or(DEFAULT_PROCESS, |(process, _)| process);
        let path = format!("/{process}/api/v1/executor");
        if path.parse::<http::uri::PathAndQuery>().is_err() || process.contains(['/', '?', '#']) {
            return Err(wrong(AGENT_PID, process, "it is no name of a process"));
        }
        if let Some(socket) = self.path(DOMAIN_SOCKET) {
            if !socket.is_absolute() {
                return Err(wrong(
                    DOMAIN_SOCKET,
                    &socket.to_string_lossy(),
                    "it is not an absolute path",
                ));
            }
            return Ok(AgentEndpoint::unix(socket).with_path(path));
        }
        let (variable, address) = match (self.text(AGENT_ENDPOINT)?, pid) {
            (Some(address), _) => (AGENT_ENDPOINT, address),
            (None, Some((_, address))) => (AGENT_PID, address),
            (None, None) => return Err(missing(AGENT_ENDPOINT)),
        };
        let scheme = if tls { "https" } else { "http" };
        match format!("{scheme}://{address}").parse::<AgentEndpoint>() {
            Ok(endpoint) => Ok(endpoint.with_path(path)),
            Err(AgentError::Endpoint { reason, .. }) => Err(wrong(variable, address, reason)),
            Err(other) => Err(other),
        }
    }

    fn checkpoint(&self) -> Result<Option<Checkpoint>, AgentError> {
        if !self.flag(CHECKPOINT)? {
            return Ok(None);
        }
        let required = |name| self.duration(name)?.ok_or_else(|| missing(name));
        Ok(Some(Checkpoint {
            recovery_timeout: required(RECOVERY_TIMEOUT)?,
            backoff_max: required(BACKOFF_MAX)?,
        }))
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.get(OsStr::new(name)).map(PathBuf::from)
    }

    fn text(&self, name: &'static str) -> Result<Option<&str>, AgentError> {
        let Some(value) = self.0.get(OsStr::new(name)) else {
            return Ok(None);
        };
        let printable = std::str::from_utf8(value.as_bytes())
            .ok()
            .filter(|text| !text.chars().any(char::is_control));
        match printable {
            Some(text) => Ok(Some(text)),
            None => Err(secret(
                name,
                "it is not UTF-8 text without control characters",
            )),
        }
    }

    fn required(&self, name: &'static str) -> Result<String, AgentError> {
        let text = self.text(name)?.ok_or_else(|| missing(name))?;
        Ok(text.to_owned())
    }

    fn duration(&self, name: &'static str) -> Result<Option<Duration>, AgentError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        parse_duration(text)
            .map(Some)
            .map_err(|error| wrong(name, text, error))
    }

    fn flag(&self, name: &'static str) -> Result<bool, AgentError> {
        match self.text(name)? {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(other) => Err(wrong(name, other, "it is neither 1 nor 0")),
        }
    }
}

fn missing(name: &'static str) -> AgentError {
    secret(
        name,
        "it is not set; an agent sets it for the executors that it starts",
    )
}

/// About a variable whose value is not shown.
fn secret(name: &'static str, reason: &str) -> AgentError {
    AgentError::Variable {
        name,
        given: None,
        reason: reason.to_owned(),
    }
}

fn wrong(name: &'static str, given: &str, reason: impl fmt::Display) -> AgentError {
    AgentError::Variable {
        name,
        given: Some(given.chars().take(200).collect()),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests;
