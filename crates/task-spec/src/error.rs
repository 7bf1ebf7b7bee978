//! Why a task cannot be run as it was meant.

/// The most characters of a value that are shown.
const MAX_SHOWN: usize = 128;

/// Why a task is refused. The text is a fragment that fits after "failed to …:".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskSpecError {
    /// A field that must be there is not.
    #[error("{field} is missing: {problem}")]
    Missing {
        /// The field, as a path such as `container.docker.image`.
        field: String,
        /// What it is needed for.
        problem: String,
    },
    /// A field has a value that cannot be served.
    #[error("{field} {value:?}: {problem}")]
    Refused {
        /// The field, as a path such as `container.docker.image`.
        field: String,
        /// The value, clipped; never one that may be a secret.
        value: String,
        /// What is wrong with it, and what to do.
        problem: String,
    },
}

impl TaskSpecError {
    /// The field that is at fault.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::Missing { field, .. } | Self::Refused { field, .. } => field,
        }
    }
}

pub(crate) fn missing(field: impl Into<String>, problem: impl Into<String>) -> TaskSpecError {
    TaskSpecError::Missing {
        field: field.into(),
        problem: problem.into(),
    }
}

pub(crate) fn refused(
    field: impl Into<String>,
    value: impl std::fmt::Display,
    problem: impl Into<String>,
) -> TaskSpecError {
    TaskSpecError::Refused {
        field: field.into(),
        value: clip(&value.to_string()),
        problem: problem.into(),
    }
}

/// At most 128 characters of a value.
pub(crate) fn clip(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
