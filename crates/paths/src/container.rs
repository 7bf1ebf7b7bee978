//! Container ids, with Mesos' rules.

use std::fmt;
use std::str::FromStr;

use crate::PathsError;
use crate::error::Shown;

/// The longest value of a container id in bytes (Mesos' `MAX_CONTAINER_ID_LENGTH`).
pub const CONTAINER_ID_MAX: usize = 242;

/// A container id: a value and, for a nested container, its parent.
///
/// The value is what a Mesos agent accepts: 1 to 242 bytes, without `.`, space, `/`, `\` and control
/// characters. Written `parent.child`, which is unambiguous since no value holds a dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId {
    parent: Option<Box<Self>>,
    value: Box<str>,
}

/// How deep containers nest at most; Mesos allows 32 as well.
const DEPTH_MAX: usize = 32;

const WHAT: &str = "container id";

impl ContainerId {
    /// The id of a top-level container.
    ///
    /// # Errors
    /// When the value breaks one of Mesos' rules.
    pub fn new(value: impl AsRef<str>) -> Result<Self, PathsError> {
        let value = value.as_ref();
        check_value(value)?;
        Ok(Self {
            parent: None,
            value: value.into(),
        })
    }

    /// The id of a container nested in `parent`.
    ///
    /// # Errors
    /// When the value breaks one of Mesos' rules, or the id would be over 32 levels deep.
    pub fn nested(parent: &Self, value: impl AsRef<str>) -> Result<Self, PathsError> {
        let mut id = Self::new(value)?;
        let depth = parent.depth() + 1;
        if depth > DEPTH_MAX {
            return Err(PathsError::TooLong {
                what: "nesting of the container id",
                value: Shown::new(&id.value),
                length: depth,
                max: DEPTH_MAX,
            });
        }
        id.parent = Some(Box::new(parent.clone()));
        Ok(id)
    }

    /// The id's own part, without its parents.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The container that this one is nested in.
    #[must_use]
    pub fn parent(&self) -> Option<&Self> {
        self.parent.as_deref()
    }

    /// The top-level container that this one belongs to: itself when it is not nested.
    #[must_use]
    pub fn root(&self) -> &Self {
        let mut id = self;
        while let Some(parent) = id.parent() {
            id = parent;
        }
        id
    }

    /// The values from the top-level container down to this one.
    #[must_use]
    pub fn values(&self) -> Vec<&str> {
        let mut values = vec![self.value()];
        let mut id = self;
        while let Some(parent) = id.parent() {
            values.push(parent.value());
            id = parent;
        }
        values.reverse();
        values
    }

    /// The number of levels: 1 for a top-level container.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut depth = 1;
        let mut id = self;
        while let Some(parent) = id.parent() {
            depth += 1;
            id = parent;
        }
        depth
    }
}

fn check_value(value: &str) -> Result<(), PathsError> {
    if value.is_empty() {
        return Err(PathsError::Empty { what: WHAT });
    }
    if value == "." || value == ".." {
        return Err(PathsError::Reserved {
            what: WHAT,
            value: Shown::new(value),
        });
    }
    let forbidden = |c: &char| matches!(c, '.' | ' ' | '/' | '\\') || c.is_control();
    if let Some(character) = value.chars().find(forbidden) {
        return Err(PathsError::Forbidden {
            what: WHAT,
            value: Shown::new(value),
            character,
        });
    }
    if value.len() > CONTAINER_ID_MAX {
        return Err(PathsError::TooLong {
            what: WHAT,
            value: Shown::new(value),
            length: value.len(),
            max: CONTAINER_ID_MAX,
        });
    }
    Ok(())
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent() {
            write!(f, "{parent}.")?;
        }
        f.write_str(&self.value)
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContainerId({:?})", self.to_string())
    }
}

impl FromStr for ContainerId {
    type Err = PathsError;

    fn from_str(text: &str) -> Result<Self, PathsError> {
        let mut values = text.split('.');
        let mut id = Self::new(values.next().unwrap_or_default())?;
        for value in values {
            id = Self::nested(&id, value)?;
        }
        Ok(id)
    }
}
