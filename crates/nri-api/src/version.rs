//! Which level of the protocol a runtime speaks, from what it says of itself.
//!
//! Runtimes from before the `NRI_version` fields are known by their own version. Versions here
//! are `v` and up to three numbers, then perhaps a pre-release; missing numbers count as zero.

use std::cmp::Ordering;

/// Versions of containerd, ascending, each with the protocol it and its followers speak.
const CONTAINERD: &[(&str, &str)] = &[
    ("v1.7.0", "v0.3.0"),
    ("v1.7.7", "v0.4.0"),
    ("v1.7.14", "v0.6.0"),
    ("v1.7.16", "v0.6.1"),
    ("v1.7.26", "v0.8.0"),
    ("v2.0.0", "v0.8.0"),
    ("v2.1.0", "v0.8.0"),
    ("v2.2.0", "v0.10.0"),
    ("v2.2.1", "v0.11.0"),
];

/// Versions of CRI-O, as above.
const CRIO: &[(&str, &str)] = &[
    ("v1.26.0", "v0.2.0"),
    ("v1.26.2", "v0.3.0"),
    ("v1.26.4", "v0.3.1-0.20230504231226-94185418e253"),
    ("v1.27.0", "v0.3.0"),
    ("v1.27.1", "v0.3.1-0.20230504231226-94185418e253"),
    ("v1.28.0", "v0.3.1-0.20230504231226-94185418e253"),
    ("v1.29.0", "v0.5.0"),
    ("v1.29.2", "v0.6.0"),
    ("v1.30.0", "v0.6.0"),
    ("v1.31.0", "v0.6.1"),
    ("v1.32.0", "v0.9.0"),
    ("v1.33.0", "v0.9.1-0.20250219030224-e597e7849f24"),
    ("v1.34.0", "v0.10.0"),
    ("v1.35.0", "v0.11.0"),
];

/// The level of the protocol that a release of a runtime (`containerd`, `cri-o`) speaks: that of
/// the closest listed release not newer than `version`. `None` for other runtimes and for
/// versions older than all listed ones.
#[must_use]
pub fn infer_nri_version(runtime: &str, version: &str) -> Option<&'static str> {
    let table = match runtime {
        "containerd" => CONTAINERD,
        "cri-o" | "crio" => CRIO,
        _ => return None,
    };
    let closest = closest_version(version, table.iter().map(|(release, _)| *release))?;
    table
        .iter()
        .find(|(release, _)| *release == closest)
        .map(|(_, nri)| *nri)
}

/// The newest candidate that is not newer than `version`, of which a suffix of `git describe` is
/// ignored. `None` when there is none, or `version` is no version.
#[must_use]
pub fn closest_version<'a>(
    version: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let wanted = Version::parse(strip_git_suffix(version))?;
    candidates
        .into_iter()
        .filter_map(|candidate| Some((Version::parse(candidate)?, candidate)))
        .filter(|(parsed, _)| parsed.cmp(&wanted) != Ordering::Greater)
        .max_by(|(a, _), (b, _)| a.cmp(b))
        .map(|(_, candidate)| candidate)
}

/// The version without what `git describe` adds: `-N-gSHA`, perhaps `.m` behind it.
#[must_use]
pub fn strip_git_suffix(version: &str) -> &str {
    let described = version.strip_suffix(".m").unwrap_or(version);
    let Some((rest, sha)) = described.rsplit_once("-g") else {
        return version;
    };
    let Some((base, commits)) = rest.rsplit_once('-') else {
        return version;
    };
    let hex = !sha.is_empty() && sha.bytes().all(|b| b.is_ascii_hexdigit());
    let number = !commits.is_empty() && commits.bytes().all(|b| b.is_ascii_digit());
    if hex && number { base } else { version }
}

/// A parsed version: numbers, and the pre-release without its dash.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version<'a> {
    numbers: [u64; 3],
    pre: Option<&'a str>,
}

impl<'a> Version<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        // Behind `+` is the build; behind `~` is what Debian adds to upstream's version.
        let text = text
            .split_once(['+', '~'])
            .map_or(text, |(version, _build)| version);
        let (core, pre) = match text.split_once('-') {
            Some((core, pre)) => (core, Some(pre)),
            None => (text, None),
        };
        let mut numbers = [0; 3];
        let mut parts = core.split('.');
        for (place, part) in numbers.iter_mut().zip(&mut parts) {
            *place = part.parse().ok()?;
        }
        let complete = parts.next().is_none() && !core.is_empty();
        complete.then_some(Self { numbers, pre })
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| match (self.pre, other.pre) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (Some(a), Some(b)) => cmp_pre_release(a, b),
            })
    }
}

/// By the rules of semantic versioning: numbers by value and before words, then the longer wins.
fn cmp_pre_release(a: &str, b: &str) -> Ordering {
    let mut theirs = b.split('.');
    for part in a.split('.') {
        let Some(other) = theirs.next() else {
            return Ordering::Greater;
        };
        let order = match (part.parse::<u64>(), other.parse::<u64>()) {
            (Ok(a), Ok(b)) => a.cmp(&b),
            (Ok(_), Err(_)) => Ordering::Less,
            (Err(_), Ok(_)) => Ordering::Greater,
            (Err(_), Err(_)) => part.cmp(other),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    if theirs.next().is_some() {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_197_to_205_git_suffix() {
        for (version, stripped) in [
            ("", ""),
            ("v1.2.3", "v1.2.3"),
            ("v1.2", "v1.2"),
            ("v1", "v1"),
            ("v1.2.3-alpha.1", "v1.2.3-alpha.1"),
            ("v0.11.0-37-g41b9c58", "v0.11.0"),
            ("v0.11.0-37-g41b9c58.m", "v0.11.0"),
            ("v1.2.3-45-g", "v1.2.3-45-g"),
            ("v1.2.3-45-gz", "v1.2.3-45-gz"),
        ] {
            assert_eq!(strip_git_suffix(version), stripped);
        }
    }

    #[test]
    fn rows_206_to_216_closest_version() {
        let candidates = [
            "v0.0.10", "v0.1.0", "v0.1.1", "v0.2.0", "v0.10.9", "v1.0", "v1.2.3", "v2", "v2.0.5",
            "v2.1", "v2.1.2", "v3.0.5", "v4",
        ];
        assert_eq!(closest_version("v1.2.3", []), None);
        for (version, closest) in [
            ("v1.2.3", Some("v1.2.3")),
            ("v1.1.1", Some("v1.0")),
            ("v2.0.6", Some("v2.0.5")),
            ("v3.1", Some("v3.0.5")),
            ("v5", Some("v4")),
            ("v1.2.4-alpha.1", Some("v1.2.3")),
            ("v1.2.3-alpha.1", Some("v1.0")),
            ("v0.10.9-37-g41b9c58", Some("v0.10.9")),
            ("v0.0.1", None),
            ("", None),
            ("nonsense", None),
        ] {
            assert_eq!(closest_version(version, candidates), closest, "{version}");
        }
    }

    #[test]
    fn releases_of_runtimes_tell_the_protocol() {
        for (runtime, version, nri) in [
            ("containerd", "v1.7.24", Some("v0.6.1")),
            ("containerd", "1.7.28", Some("v0.8.0")),
            ("containerd", "v2.1.9", Some("v0.8.0")),
            ("containerd", "1.7.24~ds1", Some("v0.6.1")),
            ("containerd", "2.1.9+unknown", Some("v0.8.0")),
            ("containerd", "v2.2.3-3-gabcdef0.m", Some("v0.11.0")),
            ("containerd", "v1.6.36", None),
            ("cri-o", "1.32.4", Some("v0.9.0")),
            ("cri-o", "1.27.0", Some("v0.3.0")),
            ("dockerd", "28.5.2", None),
        ] {
            assert_eq!(
                infer_nri_version(runtime, version),
                nri,
                "{runtime} {version}"
            );
        }
    }

    #[test]
    fn pre_releases_order_as_semantic_versions_do() {
        let ascending = [
            "v1.0.0-1",
            "v1.0.0-2",
            "v1.0.0-10",
            "v1.0.0-alpha",
            "v1.0.0-alpha.1",
            "v1.0.0-beta",
            "v1.0.0",
        ];
        for pair in ascending.windows(2) {
            let (a, b) = (
                Version::parse(pair[0]).unwrap(),
                Version::parse(pair[1]).unwrap(),
            );
            assert_eq!(a.cmp(&b), Ordering::Less, "{pair:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let closest = closest_version(&text, [text.as_str()]);
            proptest::prop_assert!(closest.is_none_or(|found| found == text));
            proptest::prop_assert_eq!(infer_nri_version("dockerd", &text), None);
        }
    }
}
