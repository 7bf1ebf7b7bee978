//! How a container ended.

use std::fmt;

use longshore_mesos_api::v1::agent::response::WaitContainer;
use longshore_mesos_api::v1::task_status::Reason;

/// The end of one run of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    /// Raw wait(2) status; `None` when the agent no longer knew the container (WAIT answered 404,
    /// as a Mesos agent does for every top-level container that ended before the call).
    pub status: Option<i32>,
    /// The agent's reason, by its protobuf name (`REASON_CONTAINER_LIMITATION_MEMORY`).
    pub reason: Option<String>,
    /// The agent's message.
    pub message: Option<String>,
}

impl Exit {
    /// The container was not known any more.
    #[must_use]
    pub fn unknown() -> Self {
        Self::default()
    }

    /// From the body of a WAIT_CONTAINER answer.
    #[must_use]
    pub fn from_wait(answer: &WaitContainer) -> Self {
        Self {
            status: answer.exit_status,
            reason: answer
                .reason
                .and_then(|number| Reason::try_from(number).ok())
                .map(|reason| reason.as_str_name().to_owned()),
            message: answer.message.clone().filter(|message| !message.is_empty()),
        }
    }

    /// The exit code, when it ended by exit(3).
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status
            .filter(|status| status & 0x7f == 0)
            .map(|status| (status >> 8) & 0xff)
    }

    /// The signal, when it ended by one.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status
            .map(|status| status & 0x7f)
            .filter(|signal| (1..0x7f).contains(signal))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code(), self.signal(), self.status) {
            (Some(code), _, _) => write!(f, "exited with {code}")?,
            (_, Some(signal), _) => write!(f, "ended by signal {signal}")?,
            (_, _, Some(status)) => write!(f, "ended with wait status {status}")?,
            (_, _, None) => write!(f, "ended, its exit status is lost")?,
        }
        if let Some(reason) = &self.reason {
            write!(f, ", {reason}")?;
        }
        if let Some(message) = &self.message {
            write!(f, ": {}", message.lines().next().unwrap_or_default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(status: i32) -> Exit {
        Exit {
            status: Some(status),
            ..Exit::default()
        }
    }

    #[test]
    fn says_how_it_ended() {
        for (exit, expected) in [
            (raw(0), "exited with 0"),
            (raw(768), "exited with 3"),
            (raw(9), "ended by signal 9"),
            (raw(15 | 0x80), "ended by signal 15"),
            // What a Mesos agent says of a program that it did not find.
            (raw(256_256), "exited with 233"),
            (raw(0x7f), "ended with wait status 127"),
            (Exit::unknown(), "ended, its exit status is lost"),
        ] {
            assert_eq!(exit.to_string(), expected);
        }
        let limited = Exit {
            status: Some(9),
            reason: Some("REASON_CONTAINER_LIMITATION_MEMORY".to_owned()),
            message: Some("Memory limit exceeded\n\nMEMORY STATISTICS: ...".to_owned()),
        };
        assert_eq!(
            limited.to_string(),
            "ended by signal 9, REASON_CONTAINER_LIMITATION_MEMORY: Memory limit exceeded"
        );
    }
}
