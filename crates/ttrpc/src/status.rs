//! Status codes and the status of an answer.

use std::fmt;

/// Why a call failed at the other end: the codes of gRPC that Go's ttrpc uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The handler was cancelled.
    Cancelled,
    /// An error that says no more of itself.
    Unknown,
    /// The request is malformed, or its stream id is.
    InvalidArgument,
    /// The deadline passed at the other end.
    DeadlineExceeded,
    /// What was asked for does not exist.
    NotFound,
    /// What was to be made exists.
    AlreadyExists,
    /// The caller may not do this.
    PermissionDenied,
    /// A limit: message size, memory, calls in flight.
    ResourceExhausted,
    /// The state does not allow it.
    FailedPrecondition,
    /// Given up half-way.
    Aborted,
    /// Past the end.
    OutOfRange,
    /// No such service or method.
    Unimplemented,
    /// A fault of the implementation, or a payload that cannot be decoded.
    Internal,
    /// Not at this time.
    Unavailable,
    /// Data is lost.
    DataLoss,
    /// Who the caller is, is not known.
    Unauthenticated,
    /// A number that is none of the codes.
    Other(i32),
}

const CODES: [(i32, Code); 16] = [
    (1, Code::Cancelled),
    (2, Code::Unknown),
    (3, Code::InvalidArgument),
    (4, Code::DeadlineExceeded),
    (5, Code::NotFound),
    (6, Code::AlreadyExists),
    (7, Code::PermissionDenied),
    (8, Code::ResourceExhausted),
    (9, Code::FailedPrecondition),
    (10, Code::Aborted),
    (11, Code::OutOfRange),
    (12, Code::Unimplemented),
    (13, Code::Internal),
    (14, Code::Unavailable),
    (15, Code::DataLoss),
    (16, Code::Unauthenticated),
];

impl Code {
    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Other(number) => number,
            code => CODES
                .iter()
                .find(|(_, known)| *known == code)
                .map_or(2, |(number, _)| *number),
        }
    }
}

impl From<i32> for Code {
    fn from(number: i32) -> Self {
        CODES
            .iter()
            .find(|(known, _)| *known == number)
            .map_or(Self::Other(number), |(_, code)| *code)
    }
}

/// The failure that a server answers with. There is no status for success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What kind of failure.
    pub code: Code,
    /// A sentence for people.
    pub message: String,
}

impl Status {
    /// A failure of this kind.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The answer to a method that a service does not have. Peers of NRI fall back to an older
    /// method on this code alone.
    #[must_use]
    pub fn unimplemented(service: &str, method: &str) -> Self {
        // Names come from the peer, and go back to it: no more of them than a person reads.
        let cut = |name: &str| name.chars().take(128).collect::<String>();
        let (service, method) = (cut(service), cut(method));
        Self::new(
            Code::Unimplemented,
            format!("method {method:?} of service {service:?}"),
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (status {} {:?})",
            self.message,
            self.code.number(),
            self.code
        )
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_numbers_are_inverse() {
        for number in -1..20 {
            assert_eq!(Code::from(number).number(), number);
        }
        assert_eq!(Code::Unimplemented.number(), 12);
        assert_eq!(Code::from(17), Code::Other(17));
    }
}
