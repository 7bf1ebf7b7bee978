//! The removal marker: a dash before a key asks for the key to be taken away.
//!
//! It marks annotation, environment and sysctl keys, mount destinations, device paths, net device
//! names and namespace types.

/// The key with the marker before it. An empty key is not marked.
#[must_use]
pub fn mark_for_removal(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("-{key}")
    }
}

/// The key that a marked key asks to remove; `None` when it is not marked.
#[must_use]
pub fn removed_key(key: &str) -> Option<&str> {
    key.strip_prefix('-')
}

/// Whether the key is marked.
#[must_use]
pub fn is_removal(key: &str) -> bool {
    key.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marking_and_clearing_strip_exactly_one_dash() {
        assert_eq!(mark_for_removal("key"), "-key");
        assert_eq!(mark_for_removal(""), "");
        assert_eq!(removed_key("--key"), Some("-key"));
        assert_eq!(removed_key("key"), None);
        assert!(is_removal("-key") && !is_removal("key"));
    }
}
