//! What cannot be done, and whose wish it was.

use longshore_nri_api::{Field, OwningPlugins, removed_key};

/// A part of an adjustment that this kind of container cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{plugin} set {field}{}, which this container cannot have: {why}", in_quotes(.key))]
pub struct Refusal {
    /// `plugin "10-logger"`; of what has no owner the plugins that it may come from.
    pub plugin: String,
    /// The member of the message, as `linux.io_priority`.
    pub field: &'static str,
    /// The key within it, or its value; may be empty.
    pub key: String,
    /// Why, and what to do.
    pub why: String,
}

fn in_quotes(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!(" {key:?}")
    }
}

/// Knows who set what.
#[derive(Clone, Copy, Debug)]
pub struct Judge<'a> {
    by: By<'a>,
}

#[derive(Clone, Copy, Debug)]
enum By<'a> {
    /// The chain's owners of a container.
    Owners(&'a OwningPlugins, &'a str),
    /// One plugin alone.
    Plugin(&'a str),
    /// Nobody says.
    Unknown,
}

impl<'a> Judge<'a> {
    /// By the owners of the fields of `container`.
    #[must_use]
    pub const fn of_chain(owners: &'a OwningPlugins, container: &'a str) -> Self {
        Self {
            by: By::Owners(owners, container),
        }
    }

    /// All of it comes from the plugin of this full name.
    #[must_use]
    pub const fn of_plugin(plugin: &'a str) -> Self {
        Self {
            by: By::Plugin(plugin),
        }
    }

    /// It is not known whose a wish is.
    #[must_use]
    pub const fn of_nobody() -> Self {
        Self { by: By::Unknown }
    }

    /// What is refused, with whoever set it.
    pub(crate) fn refuse(
        &self,
        place: Place,
        key: impl Into<String>,
        why: impl Into<String>,
    ) -> Refusal {
        let key = key.into();
        Refusal {
            plugin: self.whose(place, &key),
            field: place.name,
            key,
            why: why.into(),
        }
    }

    fn whose(&self, place: Place, key: &str) -> String {
        let (owners, container) = match self.by {
            By::Plugin(plugin) => return format!("plugin {plugin:?}"),
            By::Unknown => return "a plugin".to_owned(),
            By::Owners(owners, container) => (owners, container),
        };
        let Some(fields) = owners.owners.get(container) else {
            return "a plugin".to_owned();
        };
        let number = place.field as i32;
        let bare = removed_key(key).unwrap_or(key);
        let keyed = fields.compound.get(&number).map(|keys| &keys.owners);
        let found = keyed
            .and_then(|keys| keys.get(bare))
            .or_else(|| fields.simple.get(&number));
        if let Some(owner) = found {
            // The owner of what was only removed has a dash before it.
            return format!("plugin {:?}", removed_key(owner).unwrap_or(owner));
        }
        // Some have no owner: one of those that adjusted it at all.
        let simple = fields.simple.values();
        let compound = fields
            .compound
            .values()
            .flat_map(|keys| keys.owners.values());
        let mut all: Vec<&str> = simple
            .chain(compound)
            .map(|owner| removed_key(owner).unwrap_or(owner))
            .collect();
        all.sort_unstable();
        all.dedup();
        match all.as_slice() {
            [] => "a plugin".to_owned(),
            [one] => format!("plugin {one:?}"),
            several => format!("one of the plugins {several:?}"),
        }
    }
}

/// A member of the messages, by its name and by the number under which it has an owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    pub(crate) field: Field,
}

/// The place of this name and field.
pub(crate) const fn at(name: &'static str, field: Field) -> Place {
    Place { name, field }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_plugin_and_the_field() {
        let mut owners = OwningPlugins::default();
        owners
            .claim("c", Field::Rlimits, Some("RLIMIT_CPU"), "10-a")
            .unwrap();
        owners.clear("c", Field::Namespace, Some("network"), "20-b");
        let judge = Judge::of_chain(&owners, "c");
        let of = |name, field, key: &str| judge.refuse(at(name, field), key, "no").to_string();
        assert_eq!(
            of("rlimits", Field::Rlimits, "RLIMIT_CPU"),
            r#"plugin "10-a" set rlimits "RLIMIT_CPU", which this container cannot have: no"#
        );
        assert!(of("n", Field::Namespace, "-network").starts_with(r#"plugin "20-b" set n"#));
        assert!(
            of("d", Field::None, "").starts_with(r#"one of the plugins ["10-a", "20-b"] set d, "#)
        );
        let other = Judge::of_chain(&owners, "other");
        assert_eq!(
            other.refuse(at("x", Field::Args), "", "").plugin,
            "a plugin"
        );
        let one = Judge::of_plugin("30-c").refuse(at("x", Field::Args), "", "");
        assert_eq!(one.plugin, r#"plugin "30-c""#);
    }
}
