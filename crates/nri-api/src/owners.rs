//! Who set what: the ownership by which conflicts between plugins are found.
//!
//! ```text
//!                claim(P)               clear(P)
//!   free ───────────────────▶ P ───────────────────▶ -P ──claim(P)──▶ P
//!                             │ claim(any)            │ claim(Q)
//!                             ▼                       ▼
//!                          Conflict                Conflict
//! ```
//!
//! Hooks never conflict: their owners accumulate as `A,B,C`.

use std::collections::BTreeMap;

use crate::{Field, OwningPlugins, mark_for_removal, removed_key};

/// Two claims to one field, or to one key of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugins {owner:?} and {claimant:?} both tried to set {}", self.what())]
pub struct Conflict {
    /// The container.
    pub container: String,
    /// The field.
    pub field: Field,
    /// The key within it, such as the name of an environment variable; `None` for simple fields.
    pub key: Option<String>,
    /// Who has it: a full plugin name, with a leading dash when it only cleared the key.
    pub owner: String,
    /// Who asked for it.
    pub claimant: String,
}

impl Conflict {
    fn what(&self) -> String {
        let field = self.field.as_str_name();
        self.key
            .as_ref()
            .map_or_else(|| field.to_owned(), |key| format!("{field} {key:?}"))
    }
}

impl OwningPlugins {
    /// Makes `plugin` the owner of a simple field, or with `key` of one key of a compound one.
    ///
    /// # Errors
    /// [`Conflict`] when the place has an owner, `plugin` itself included, or was cleared by
    /// somebody else. Nothing is changed then.
    pub fn claim(
        &mut self,
        container: &str,
        field: Field,
        key: Option<&str>,
        plugin: &str,
    ) -> Result<(), Conflict> {
        let place = self.place(container, field, key);
        if place.is_empty() || removed_key(place) == Some(plugin) {
            plugin.clone_into(place);
            return Ok(());
        }
        Err(Conflict {
            container: container.to_owned(),
            field,
            key: key.map(str::to_owned),
            owner: place.clone(),
            claimant: plugin.to_owned(),
        })
    }

    /// Notes that `plugin` took the place away, whoever had it: `plugin` may claim it again.
    pub fn clear(&mut self, container: &str, field: Field, key: Option<&str>, plugin: &str) {
        *self.place(container, field, key) = mark_for_removal(plugin);
    }

    /// Forgets the owner of a key: whoever comes next may claim it.
    pub fn release(&mut self, container: &str, field: Field, key: &str) {
        let fields = self.owners.get_mut(container);
        if let Some(keys) = fields.and_then(|fields| fields.compound.get_mut(&(field as i32))) {
            keys.owners.remove(key);
        }
    }

    /// Adds `plugin` to the owners of the container's hooks.
    pub fn claim_hooks(&mut self, container: &str, plugin: &str) {
        let owners = self.place(container, Field::OciHooks, None);
        if !owners.is_empty() {
            owners.push(',');
        }
        owners.push_str(plugin);
    }

    /// The owner of a field or key; `None` when nobody set it or its last owner cleared it.
    #[must_use]
    pub fn owner(&self, container: &str, field: Field, key: Option<&str>) -> Option<&str> {
        let fields = self.owners.get(container)?;
        let owner = match key {
            None => fields.simple.get(&(field as i32))?,
            Some(key) => fields.compound.get(&(field as i32))?.owners.get(key)?,
        };
        (!owner.starts_with('-')).then_some(owner)
    }

    /// Where the owner stands; empty when there is none.
    fn place(&mut self, container: &str, field: Field, key: Option<&str>) -> &mut String {
        let fields = entry(&mut self.owners, container);
        let Some(key) = key else {
            return fields.simple.entry(field as i32).or_default();
        };
        entry(
            &mut fields.compound.entry(field as i32).or_default().owners,
            key,
        )
    }
}

/// The value of a key, made when missing.
fn entry<'a, V: Default>(map: &'a mut BTreeMap<String, V>, key: &str) -> &'a mut V {
    map.entry(key.to_owned()).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_163_compound_claims() {
        let mut owners = OwningPlugins::default();
        let mut claim = |key: &str, container: &str, plugin: &str| {
            owners
                .claim(container, Field::Env, Some(key), plugin)
                .is_ok()
        };
        assert!(claim("VAR0", "ctr0", "test0"));
        assert!(claim("VAR1", "ctr0", "test0"));
        assert!(claim("VAR0", "ctr1", "test1"));
        assert!(!claim("VAR1", "ctr0", "test1"));
        owners.clear("ctr0", Field::Env, Some("VAR1"), "test1");
        assert!(
            owners
                .claim("ctr0", Field::Env, Some("VAR1"), "test1")
                .is_ok()
        );
        owners.clear("ctr0", Field::Env, Some("VAR1"), "test0");
        assert!(
            owners
                .claim("ctr0", Field::Env, Some("VAR1"), "test1")
                .is_err()
        );
        assert_eq!(
            owners.owner("ctr0", Field::Env, Some("VAR1")),
            None,
            "cleared by test0"
        );
        assert_eq!(Field::Annotations.as_str_name(), "Annotations");
    }

    #[test]
    fn row_164_hooks_accumulate() {
        let mut owners = OwningPlugins::default();
        for plugin in ["plugin0", "plugin1", "plugin2"] {
            owners.claim_hooks("ctr0", plugin);
        }
        let hooks = owners.owner("ctr0", Field::OciHooks, None);
        assert_eq!(hooks, Some("plugin0,plugin1,plugin2"));
    }

    #[test]
    fn a_conflict_names_both_plugins_the_field_and_the_key() {
        let mut owners = OwningPlugins::default();
        owners
            .claim("c", Field::Mounts, Some("/mnt"), "00-a")
            .unwrap();
        let before = owners.clone();
        let conflict = owners
            .claim("c", Field::Mounts, Some("/mnt"), "10-b")
            .unwrap_err();
        assert_eq!(owners, before, "a conflict changes nothing");
        assert_eq!(
            conflict.to_string(),
            r#"plugins "00-a" and "10-b" both tried to set Mounts "/mnt""#
        );
        assert!(
            owners
                .claim("c", Field::Mounts, Some("/mnt"), "00-a")
                .is_err(),
            "also itself"
        );
        owners.claim("c", Field::CpuShares, None, "00-a").unwrap();
        let simple = owners
            .claim("c", Field::CpuShares, None, "10-b")
            .unwrap_err();
        assert_eq!(
            simple.to_string(),
            r#"plugins "00-a" and "10-b" both tried to set CPUShares"#
        );
    }
}
