//! Who a plugin is, and what its environment says.

use std::ffi::OsString;
use std::path::Path;

use longshore_nri_api::service::{ENV_PLUGIN_INDEX, ENV_PLUGIN_NAME, ENV_PLUGIN_SOCKET};
use longshore_nri_api::{InvalidName, PluginId};

use crate::error::StubError;

/// The variable that names the runtime's socket, for plugins that connect themselves.
pub const ENV_SOCKET: &str = "NRI_SOCKET";

/// What a process learns from how it was started. An empty variable counts as absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `NRI_PLUGIN_NAME`, set by a runtime that launches plugins.
    pub name: Option<String>,
    /// `NRI_PLUGIN_IDX`, likewise.
    pub index: Option<String>,
    /// `NRI_PLUGIN_SOCKET`, likewise: the number of an inherited descriptor.
    pub inherited_socket: Option<String>,
    /// `NRI_SOCKET`: the path to connect to.
    pub socket: Option<OsString>,
    /// The first argument: the path of the program.
    pub program: Option<OsString>,
}

impl Environment {
    /// That of this process.
    #[must_use]
    pub fn of_process() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let text = |name| variable(name).map(|value| value.to_string_lossy().into_owned());
        Self {
            name: text(ENV_PLUGIN_NAME),
            index: text(ENV_PLUGIN_INDEX),
            inherited_socket: text(ENV_PLUGIN_SOCKET),
            socket: variable(ENV_SOCKET),
            program: std::env::args_os().next(),
        }
    }

    fn program_name(&self) -> Option<String> {
        let name = Path::new(self.program.as_ref()?).file_name()?;
        Some(name.to_string_lossy().into_owned())
    }
}

/// The environment comes first; a name that is given replaces its name, an index that is given
/// must not; what is still missing is taken from the name of the program.
pub(crate) fn resolve(
    environment: &Environment,
    name: Option<&str>,
    index: Option<&str>,
) -> Result<PluginId, StubError> {
    let index = match (environment.index.as_deref(), index) {
        (Some(set), Some(given)) => {
            return Err(StubError::IndexAlreadySet {
                set: set.to_owned(),
                given: given.to_owned(),
            });
        }
        (set, given) => set.or(given),
    };
    if let (Some(set), Some(given)) = (environment.name.as_deref(), name)
        && set != given
    {
        tracing::info!(
            set,
            given,
            "the plugin's own name replaces that of the environment"
        );
    }
    let name = name.or(environment.name.as_deref());
    let program = environment.program_name().unwrap_or_default();
    let id = match (index, name) {
        (Some(index), Some(name)) => PluginId::new(index, name),
        (Some(index), None) => PluginId::new(index, &program),
        (None, _) => match PluginId::from_file_name(&program) {
            // A name without an index is worth more in the message than the program's.
            Err(InvalidName::File { .. } | InvalidName::Index { .. }) if name.is_some() => {
                Err(InvalidName::Index {
                    index: String::new(),
                })
            }
            id => id,
        },
    };
    id.map_err(|source| StubError::Identity { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(index: &str, name: &str, program: &str) -> Environment {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Environment {
            index: given(index),
            name: given(name),
            program: given(program).map(Into::into),
            ..Environment::default()
        }
    }

    #[test]
    fn environment_options_and_program_name_are_asked_in_this_order() {
        // Environment (index, name, program), options (name, index), expected.
        let table = [
            (("10", "env", "/p/20-prog"), (None, None), Some("10-env")),
            (
                ("10", "env", "/p/20-prog"),
                (Some("opt"), None),
                Some("10-opt"),
            ),
            (("10", "", "/p/prog"), (None, None), Some("10-prog")),
            (("10", "", "/p/20-prog"), (None, None), Some("10-20-prog")),
            (("", "", "/p/20-prog-x"), (None, None), Some("20-prog-x")),
            (("", "env", "/p/20-prog"), (None, None), Some("20-prog")),
            (("", "", "/p/20-prog"), (Some("opt"), None), Some("20-prog")),
            (
                ("", "", "/p/prog"),
                (Some("opt"), Some("07")),
                Some("07-opt"),
            ),
            (("", "env", "/p/prog"), (None, Some("07")), Some("07-env")),
            (("", "", "/p/prog"), (Some("opt"), None), None),
            (("", "", "/p/prog"), (None, None), None),
            (("", "", ""), (None, None), None),
            (("1", "env", "/p/20-prog"), (None, None), None),
            (("10", "e v", "/p/20-prog"), (None, None), None),
        ];
        for ((index, name, program), (option_name, option_index), expected) in table {
            let environment = environment(index, name, program);
            let id = resolve(&environment, option_name, option_index).ok();
            let id = id.map(|id| id.to_string());
            assert_eq!(
                id.as_deref(),
                expected,
                "{environment:?} {option_name:?} {option_index:?}"
            );
        }
    }

    #[test]
    fn an_index_that_is_set_twice_is_refused() {
        let environment = environment("10", "env", "prog");
        let refused = resolve(&environment, None, Some("10")).unwrap_err();
        assert!(
            matches!(refused, StubError::IndexAlreadySet { .. }),
            "{refused}"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let refused = resolve(&environment("", "", "/usr/bin/logger"), Some("x"), None);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("two digits"), "{text}");
    }
}
