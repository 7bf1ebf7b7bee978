//! What is wrong, and what to do.

use serde::Serialize;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It works, and something will not, or could be lost.
    Warning,
    /// Something does not work.
    Problem,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check found it: a word, stable for programs.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, with the path or name.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    pub(crate) fn problem(check: &'static str, what: String, advice: impl Into<String>) -> Self {
        Self {
            check,
            severity: Severity::Problem,
            what,
            advice: advice.into(),
        }
    }

    pub(crate) fn warning(check: &'static str, what: String, advice: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::problem(check, what, advice)
        }
    }
}
