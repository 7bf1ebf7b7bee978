use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Why a call failed. `call` is the name of the call (`start`), `subject` what it was about (the
/// id or name of a container, the reference of an image); an error never holds a secret.
///
/// It can be cloned: the waiters of one pull share its failure.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The text is not the address of an engine.
    #[error("`{given}` is not the address of a container engine: {reason}")]
    Endpoint {
        /// The text, and where it is from.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The address is that of an engine on another machine.
    #[error(
        "the engine `{given}` (from {origin}) is not on this machine; only unix:// sockets are \
         served, since checks, process ids and sandboxes need this host"
    )]
    Remote {
        /// The address.
        given: String,
        /// The variable, file or setting that named it.
        origin: String,
    },
    /// The engine's program speaks no version of the API that we speak.
    #[error("the engine speaks API {engine} at most; {needed} or later is needed")]
    ApiTooOld {
        /// The newest version it has.
        engine: String,
        /// The oldest we use.
        needed: String,
    },
    /// The request needs a later version of the API than the engine speaks.
    #[error("{field} needs API {needed}, the engine speaks {engine}")]
    Unsupported {
        /// The field of the spec, in the Engine API's name.
        field: &'static str,
        /// The first version that has it.
        needed: &'static str,
        /// What was negotiated.
        engine: String,
    },
    /// The spec holds a value that no engine could take; nothing was sent.
    #[error("{field}: `{value}` {reason}")]
    InvalidSpec {
        /// The field of the spec, in the Engine API's name.
        field: &'static str,
        /// The value.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No connection: no such socket, refused, no permission. Nothing was sent.
    #[error("{call}: cannot connect to the engine at {}", socket.display())]
    Unreachable {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: Arc<io::Error>,
    },
    /// The connection ended before the whole answer was there, or the answer was not HTTP: the
    /// engine was stopped or killed. It may or may not have done what it was asked.
    #[error(
        "{}: the connection ended before the answer did",
        Subject(call, subject)
    )]
    Gone {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
        /// What was seen, if more than the end.
        #[source]
        source: Option<Arc<hyper::Error>>,
    },
    /// The call's deadline passed. The engine may still do what it was asked.
    #[error("{} not answered within {deadline:?}", Subject(call, subject))]
    Timeout {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
        /// The deadline.
        deadline: Duration,
    },
    /// Something that the call names does not exist (404).
    #[error("{}: no such {what}{}", Subject(call, subject), Shown(message))]
    NotFound {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
        /// What is missing.
        what: Missing,
        /// The engine's explanation.
        message: String,
    },
    /// The state of things forbids the call (409): the name is taken, the container is not
    /// running, it is being removed.
    #[error("{}: conflict{}", Subject(call, subject), Shown(message))]
    Conflict {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
        /// The engine's explanation.
        message: String,
    },
    /// It is so already (304): started when `start` was called, stopped when `stop` was.
    #[error("{}: it is so already", Subject(call, subject))]
    NotModified {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
    },
    /// Any other answer that is an error.
    #[error("{} answered {status}{}", Subject(call, subject), Shown(message))]
    Status {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
        /// HTTP status.
        status: u16,
        /// The engine's explanation, at most [`MAX_MESSAGE`] bytes of it.
        message: String,
    },
    /// The answer, or one message of it, is longer than its limit.
    #[error("{} answered with more than {limit} bytes", Subject(call, subject))]
    TooLarge {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer cannot be understood.
    #[error(
        "{}: the answer cannot be understood: {reason}",
        Subject(call, subject)
    )]
    Decode {
        /// The call.
        call: &'static str,
        /// What it was about.
        subject: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The engine reported a failure in the course of a pull or an import.
    #[error("pull of image {image} failed{}", Shown(message))]
    Pull {
        /// The full reference.
        image: String,
        /// The engine's explanation.
        message: String,
    },
    /// A pull said nothing for so long that it was given up.
    #[error("pull of image {image} made no progress for {after:?} and was given up")]
    PullStalled {
        /// The full reference.
        image: String,
        /// How long it was silent.
        after: Duration,
    },
    /// The name of the image is not a reference.
    #[error("`{given}` is not the reference of an image: {reason}")]
    Reference {
        /// The text.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file of the docker client's configuration cannot be used.
    #[error("cannot use the docker client's configuration in {}: {reason}", path.display())]
    ClientConfig {
        /// The file.
        path: PathBuf,
        /// What is wrong; never a value of the file.
        reason: String,
    },
    /// A credential helper failed.
    #[error("credential helper docker-credential-{helper} for {registry}: {reason}")]
    CredentialHelper {
        /// The part of its name after `docker-credential-`.
        helper: String,
        /// What it was asked for.
        registry: String,
        /// What is wrong; never what it printed on standard output.
        reason: String,
    },
}

/// Most bytes that are kept of an engine's explanation.
pub const MAX_MESSAGE: usize = 4096;

/// What a 404 is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// The container.
    Container,
    /// The image.
    Image,
    /// A network.
    Network,
    /// A volume, or the driver of one.
    Volume,
    /// The exec instance.
    Exec,
    /// The engine does not know the path that was called, or names something else.
    Other,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Container => "container",
            Self::Image => "image",
            Self::Network => "network",
            Self::Volume => "volume",
            Self::Exec => "exec instance",
            Self::Other => "thing",
        })
    }
}

impl EngineError {
    /// True when nobody answered: no connection, a broken one, or a deadline that passed. What the
    /// call was about may be as it was before or as it would be after.
    #[must_use]
    pub fn is_engine_absent(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Gone { .. } | Self::Timeout { .. }
        )
    }

    /// True when the same call may succeed later without anything being changed: nobody answered,
    /// or the engine answered with a 5xx.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status { status, .. } => *status >= 500,
            other => other.is_engine_absent(),
        }
    }

    /// True when the container that the call names does not exist.
    #[must_use]
    pub fn is_no_such_container(&self) -> bool {
        matches!(
            self,
            Self::NotFound {
                what: Missing::Container,
                ..
            }
        )
    }

    /// True when the image that the call names is not there.
    #[must_use]
    pub fn is_no_such_image(&self) -> bool {
        matches!(
            self,
            Self::NotFound {
                what: Missing::Image,
                ..
            }
        )
    }

    /// The HTTP status, when the engine answered with one that is an error.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::NotFound { .. } => Some(404),
            Self::Conflict { .. } => Some(409),
            Self::NotModified { .. } => Some(304),
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The engine's own explanation, if it gave one.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::NotFound { message, .. }
            | Self::Conflict { message, .. }
            | Self::Status { message, .. }
            | Self::Pull { message, .. } => Some(message),
            _ => None,
        }
    }

    /// The exit code that the docker command line gives for a container that could not be created
    /// or started: 127 when the program was not found, 126 when it cannot be executed, else 125.
    #[must_use]
    pub fn start_exit_code(&self) -> u8 {
        const NOT_FOUND: &[&str] = &[
            "executable file not found",
            "not found in $path",
            "no such file or directory",
            "system cannot find the file specified",
        ];
        const NOT_EXECUTABLE: &[&str] = &[
            "permission denied",
            "is a directory",
            "exec format error",
            "not a directory",
        ];
        // Only what the runtime says of the program: a bind source that is missing reads alike.
        let Some(message) = self.message().map(str::to_ascii_lowercase) else {
            return 125;
        };
        if !is_about_the_program(&message) {
            return 125;
        }
        let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
        if has(NOT_FOUND) {
            127
        } else if has(NOT_EXECUTABLE) {
            126
        } else {
            125
        }
    }
}

/// runc: `exec: "x": executable file not found in $PATH`, `exec /x: permission denied`; crun:
/// `executable file `x` not found`, `open executable: Permission denied`.
fn is_about_the_program(message: &str) -> bool {
    message.contains("exec: ") || message.contains("exec /") || message.contains("executable")
}

/// `CALL of SUBJECT`, or just `CALL`.
struct Subject<'a>(&'a str, &'a str);

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1.is_empty() {
            return f.write_str(self.0);
        }
        write!(f, "{} of {}", self.0, self.1)
    }
}

/// A text on one line, without control characters, cut at a length that fits a log line.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 600;
        let text = self.0.trim();
        if text.is_empty() {
            return Ok(());
        }
        f.write_str(": ")?;
        for (index, c) in text.chars().enumerate() {
            if index == LONGEST {
                return f.write_str("...");
            }
            fmt::Write::write_char(f, if c.is_control() { ' ' } else { c })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(message: &str) -> EngineError {
        EngineError::Status {
            call: "start",
            subject: "c1".into(),
            status: 400,
            message: message.into(),
        }
    }

    #[test]
    fn an_error_is_one_line_with_call_subject_status_and_message() {
        assert_eq!(
            status("no\nway\u{1b}x \n").to_string(),
            "start of c1 answered 400: no way x"
        );
        let long = status(&"x".repeat(4000)).to_string();
        assert!(long.len() < 700 && long.ends_with("..."));
    }

    #[test]
    fn exit_codes_of_a_failed_start_are_those_of_the_docker_command() {
        let runc = "failed to create shim task: OCI runtime create failed: runc create failed: \
                    unable to start container process: exec: ";
        for (message, code) in [
            (format!("{runc}\"nosuch\": executable file not found in $PATH: unknown"), 127),
            (format!("{runc}\"/nosuch\": stat /nosuch: no such file or directory: unknown"), 127),
            (format!("{runc}\"/etc\": is a directory: unknown"), 126),
            (format!("{runc}\"/etc/passwd\": permission denied: unknown"), 126),
            ("crun: open executable: Permission denied: OCI permission denied".to_owned(), 126),
            ("crun: executable file `nosuch` not found in $PATH: No such file or directory".to_owned(), 127),
            ("driver failed programming external connectivity: port is already allocated".to_owned(), 125),
            ("error while creating mount source path '/proc/x': mkdir: no such file or directory".to_owned(), 125),
        ] {
            assert_eq!(status(&message).start_exit_code(), code, "{message}");
        }
    }
}
