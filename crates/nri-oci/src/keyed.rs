//! Members with a key and a removal marker: removals first, then additions.

use std::collections::HashMap;
use std::path::{Component, Path};

use longshore_nri_api::removed_key;

use crate::ApplyError;

/// Whether an entry removes or adds, and the key without its marker.
pub(crate) enum Change<'a> {
    Remove(&'a str),
    Add(&'a str),
}

/// Reads a key; the empty key is none.
pub(crate) fn change<'a>(field: &'static str, key: &'a str) -> Result<Change<'a>, ApplyError> {
    let (bare, change) = match removed_key(key) {
        Some(bare) => (bare, Change::Remove(bare)),
        None => (key, Change::Add(key)),
    };
    if bare.is_empty() {
        return Err(ApplyError::invalid(field, key, "names nothing"));
    }
    text(field, bare)?;
    Ok(change)
}

/// Applies the entries of a map.
pub(crate) fn apply<'a, V>(
    field: &'static str,
    entries: impl IntoIterator<Item = (&'a String, V)>,
    map: &mut Option<HashMap<String, V>>,
) -> Result<(), ApplyError> {
    let mut added = Vec::new();
    for (key, value) in entries {
        match change(field, key)? {
            Change::Remove(key) => {
                if let Some(map) = map {
                    map.remove(key);
                }
            }
            Change::Add(key) => added.push((key.to_owned(), value)),
        }
    }
    if !added.is_empty() {
        map.get_or_insert_default().extend(added);
    }
    Ok(())
}

/// Text that the kernel takes: without NUL.
pub(crate) fn text(field: &'static str, text: &str) -> Result<(), ApplyError> {
    if text.contains('\0') {
        return Err(ApplyError::invalid(field, text, "holds a NUL"));
    }
    Ok(())
}

/// A path within the container: absolute, and it does not climb.
pub(crate) fn path(field: &'static str, path: &str) -> Result<(), ApplyError> {
    text(field, path)?;
    let parsed = Path::new(path);
    if !parsed.is_absolute() {
        return Err(ApplyError::invalid(field, path, "is not an absolute path"));
    }
    if parsed.components().any(|part| part == Component::ParentDir) {
        return Err(ApplyError::invalid(field, path, "climbs with .."));
    }
    Ok(())
}
