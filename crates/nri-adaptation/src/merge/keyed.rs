//! The fields that are collections with a key: what a reply adds, removes and replaces.
//!
//! | in one reply | owner | result | view |
//! |---|---|---|---|
//! | add | claim | the value | set |
//! | remove | released | the key with a dash | gone |
//! | remove and add, in any order | taken over | the value alone | replaced |

use std::collections::{BTreeMap, BTreeSet};

use longshore_nri_api::{
    Conflict, Field, KeyValue, LinuxDevice, LinuxNamespace, Mount, OwningPlugins, mark_for_removal,
    removed_key,
};

/// Who asks, about which container.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimant<'a> {
    pub(super) plugin: &'a str,
    pub(super) container: &'a str,
}

impl Claimant<'_> {
    /// Claims a key that the same reply may also remove.
    pub(super) fn claim(
        self,
        owners: &mut OwningPlugins,
        field: Field,
        key: &str,
        removed: bool,
    ) -> Result<(), Conflict> {
        if removed {
            owners.clear(self.container, field, Some(key), self.plugin);
        }
        owners.claim(self.container, field, Some(key), self.plugin)
    }

    /// Claims a field that has no keys.
    pub(super) fn claim_simple(
        self,
        owners: &mut OwningPlugins,
        field: Field,
    ) -> Result<(), Conflict> {
        owners.claim(self.container, field, None, self.plugin)
    }

    /// Nobody has the key any more.
    fn release(self, owners: &mut OwningPlugins, field: Field, key: &str) {
        owners.release(self.container, field, key);
    }
}

/// An item of a list with a key.
pub(super) trait Keyed {
    /// What is unique in the list.
    fn key(&self) -> &str;

    /// The item that stands for the removal of a key.
    fn removal(key: &str) -> Self;
}

impl Keyed for Mount {
    fn key(&self) -> &str {
        &self.destination
    }

    fn removal(key: &str) -> Self {
        Self {
            destination: mark_for_removal(key),
            ..Self::default()
        }
    }
}

impl Keyed for KeyValue {
    fn key(&self) -> &str {
        &self.key
    }

    fn removal(key: &str) -> Self {
        Self {
            key: mark_for_removal(key),
            value: String::new(),
        }
    }
}

impl Keyed for LinuxDevice {
    fn key(&self) -> &str {
        &self.path
    }

    fn removal(key: &str) -> Self {
        Self {
            path: mark_for_removal(key),
            ..Self::default()
        }
    }
}

impl Keyed for LinuxNamespace {
    fn key(&self) -> &str {
        &self.r#type
    }

    fn removal(key: &str) -> Self {
        Self {
            r#type: mark_for_removal(key),
            path: String::new(),
        }
    }
}

/// Merges a list of items into the result; calls `show` with the key and, unless it is only
/// removed, the item, so that the view follows.
pub(super) fn merge_list<T: Keyed>(
    who: Claimant<'_>,
    field: Field,
    items: Vec<T>,
    result: &mut Vec<T>,
    owners: &mut OwningPlugins,
    mut show: impl FnMut(&str, Option<&T>),
) -> Result<(), Conflict> {
    let removed: BTreeSet<String> = items
        .iter()
        .filter_map(|item| removed_key(item.key()))
        .map(str::to_owned)
        .collect();
    for key in &removed {
        let marked = mark_for_removal(key);
        result.retain(|item| item.key() != key && item.key() != marked);
        who.release(owners, field, key);
        show(key, None);
    }
    let mut only_removed = removed.clone();
    let mut added = Vec::new();
    for item in items
        .into_iter()
        .filter(|item| removed_key(item.key()).is_none())
    {
        let first = only_removed.remove(item.key());
        who.claim(owners, field, item.key(), first)?;
        show(item.key(), Some(&item));
        added.push(item);
    }
    result.extend(only_removed.iter().map(|key| T::removal(key)));
    // An earlier removal of the key stays before it: the original goes, then this one comes.
    result.extend(added);
    Ok(())
}

/// As [`merge_list`], for maps.
pub(super) fn merge_map<V: Clone + Default>(
    who: Claimant<'_>,
    field: Field,
    entries: BTreeMap<String, V>,
    result: &mut BTreeMap<String, V>,
    view: &mut BTreeMap<String, V>,
    owners: &mut OwningPlugins,
) -> Result<(), Conflict> {
    let (removed, added): (BTreeMap<_, _>, BTreeMap<_, _>) = entries
        .into_iter()
        .partition(|(key, _)| removed_key(key).is_some());
    for marked in removed.keys() {
        let key = removed_key(marked).unwrap_or_default();
        result.remove(key);
        view.remove(key);
        who.release(owners, field, key);
        if !added.contains_key(key) {
            result.insert(marked.clone(), V::default());
        }
    }
    for (key, value) in added {
        let marked = mark_for_removal(&key);
        who.claim(owners, field, &key, removed.contains_key(&marked))?;
        // Setting a key replaces it: there is nothing left to remove first.
        result.remove(&marked);
        view.insert(key.clone(), value.clone());
        result.insert(key, value);
    }
    Ok(())
}
