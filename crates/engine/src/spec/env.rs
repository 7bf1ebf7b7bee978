use std::fmt;

/// One environment variable. `Debug` shows its name alone: values are secrets more often than not.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// Its name: not empty, without `=` and NUL.
    pub name: String,
    /// Its value: without NUL.
    pub value: String,
}

impl EnvVar {
    /// `NAME=VALUE`.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }

    /// From `NAME=VALUE`, as engines write it; without `=` the value is empty.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        Self::new(name, value)
    }
}

impl fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=..", self.name)
    }
}
