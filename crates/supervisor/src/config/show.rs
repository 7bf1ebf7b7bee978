//! The settings in force, each with its origin: `longshore config show`; and the defaults.

use toml::{Table, Value};

use super::locate::quoted;
use super::{Config, Origin};

/// One key in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Dotted, as in the file.
    pub key: String,
    /// Its value.
    pub value: Value,
    /// Where the value comes from.
    pub origin: Origin,
}

pub(super) fn settings(
    table: &Table,
    origin: &dyn Fn(&str) -> Origin,
    config: &Config,
) -> Vec<Setting> {
    let mut found = Vec::new();
    let directory = |key: &str, path: &std::path::Path| Setting {
        key: key.to_owned(),
        value: Value::String(path.to_string_lossy().into_owned()),
        origin: origin(key),
    };
    found.push(directory("state_dir", &config.state_dir));
    found.push(directory("runtime_dir", &config.runtime_dir));
    for (key, value) in table {
        if key != "state_dir" && key != "runtime_dir" {
            leaves(key.clone(), value, origin, &mut found);
        }
    }
    found
}

/// Every key that has a default, with it.
pub(super) fn defaults() -> Vec<Setting> {
    let table: Table = toml::from_str(super::DEFAULT_TOML).unwrap_or_default();
    let mut found = Vec::new();
    for (key, value) in &table {
        leaves(key.clone(), value, &|_| Origin::Default, &mut found);
    }
    found
}

fn leaves(key: String, value: &Value, origin: &dyn Fn(&str) -> Origin, found: &mut Vec<Setting>) {
    match value {
        Value::Table(table) => {
            for (name, value) in table {
                let key = format!("{key}.{}", quoted(name));
                leaves(key, value, origin, found);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_table) => {
            for (index, item) in items.iter().enumerate() {
                leaves(format!("{key}[{index}]"), item, origin, found);
            }
        }
        leaf => {
            let origin = origin(&key);
            found.push(Setting {
                key,
                value: leaf.clone(),
                origin,
            });
        }
    }
}
