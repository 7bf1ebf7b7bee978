//! Annotations of a pod that speak to plugins.
//!
//! A key can be narrowed to one container: `KEY/container.NAME` wins over `KEY/pod`, which wins
//! over the bare `KEY`.

use std::collections::BTreeMap;

use crate::PodSandbox;

/// The domain of annotations that plugins and runtimes share.
pub const DOMAIN: &str = "noderesource.dev";

/// The pod annotation that names the plugins a container must not start without: a YAML list.
pub const REQUIRED_PLUGINS: &str = "required-plugins.noderesource.dev";

/// The value of `key` that holds for the container named `container`.
///
/// ```
/// use longshore_nri_api::{PodSandbox, annotation};
///
/// let mut pod = PodSandbox::default();
/// pod.annotations.insert("key/pod".into(), "all".into());
/// pod.annotations.insert("key/container.db".into(), "one".into());
/// assert_eq!(annotation::effective(&pod, "key", "db"), Some("one"));
/// assert_eq!(annotation::effective(&pod, "key", "web"), Some("all"));
/// assert_eq!(annotation::effective(&pod, "other", "web"), None);
/// ```
#[must_use]
pub fn effective<'a>(pod: &'a PodSandbox, key: &str, container: &str) -> Option<&'a str> {
    effective_in(&pod.annotations, key, container)
}

/// As [`effective`], for annotations that stand alone.
#[must_use]
pub fn effective_in<'a>(
    annotations: &'a BTreeMap<String, String>,
    key: &str,
    container: &str,
) -> Option<&'a str> {
    [
        format!("{key}/container.{container}"),
        format!("{key}/pod"),
        key.to_owned(),
    ]
    .iter()
    .find_map(|key| annotations.get(key))
    .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_key_that_is_present_wins() {
        let keys = ["k/container.c", "k/pod", "k"];
        for from in 0..=keys.len() {
            let annotations: BTreeMap<String, String> = keys[from..]
                .iter()
                .map(|key| ((*key).to_owned(), (*key).to_owned()))
                .collect();
            assert_eq!(
                effective_in(&annotations, "k", "c"),
                keys.get(from).copied()
            );
        }
        let empty = BTreeMap::from([("k/container.c".to_owned(), String::new())]);
        assert_eq!(
            effective_in(&empty, "k", "c"),
            Some(""),
            "present and empty wins"
        );
    }
}
