//! What is wrong with the main file, gathered: an operator is told all of it at once.

use super::error::ConfigError;
use super::sources::Origins;

/// The errors so far.
#[derive(Debug)]
pub(super) struct Problems<'a> {
    pub(super) origins: &'a Origins,
    found: Vec<ConfigError>,
    /// Where the text alone was wrong: what is missing there may have been left out for that.
    misshapen: Vec<String>,
}

impl<'a> Problems<'a> {
    /// Goes on after the errors of the text.
    pub(super) fn new(origins: &'a Origins, found: Vec<ConfigError>) -> Self {
        let key = |error: &ConfigError| match error {
            ConfigError::Syntax { key, .. } | ConfigError::Invalid { key, .. } => Some(scope(key)),
            _ => None,
        };
        Self {
            origins,
            misshapen: found.iter().filter_map(key).collect(),
            found,
        }
    }

    /// Notes what is wrong with a key.
    pub(super) fn note(&mut self, key: impl Into<String>, message: impl Into<String>) {
        let error = self.origins.invalid(key, message);
        let known = |key: &str| self.misshapen.contains(&scope(key));
        if !matches!(&error, ConfigError::Invalid { key, .. } if known(key)) {
            self.found.push(error);
        }
    }

    /// The good value; another is noted.
    pub(super) fn keep<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(ConfigError::Invalid { key, message, .. }) => {
                self.note(key, message);
                None
            }
            Err(error) => {
                self.found.push(error);
                None
            }
        }
    }

    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        self.found
    }
}

/// What is judged as one: a plugin, else a table or key of the top level.
fn scope(key: &str) -> String {
    let (mut quoted, mut dots) = (false, 0);
    let plugin = key.starts_with("plugins.");
    let end = key.find(|c| {
        quoted ^= c == '"';
        dots += usize::from(c == '.' && !quoted);
        !quoted && (c == '[' || (c == '.' && dots > usize::from(plugin)))
    });
    key[..end.unwrap_or(key.len())].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_judged_as_one_and_so_is_a_table() {
        for (key, expected) in [
            ("log", "log"),
            ("csi.restart.max", "csi"),
            ("plugins.a", "plugins.a"),
            ("plugins.a.containers[0].command", "plugins.a"),
            ("plugins.\"a.b\".type", "plugins.\"a.b\""),
        ] {
            assert_eq!(scope(key), expected, "{key}");
        }
    }
}
