use std::collections::BTreeMap;

use crate::EngineError;
use crate::spec::EnvVar;
use crate::time::EngineTime;

/// What `GET /images/NAME/json` says of an image: of its configuration `Config`, never the
/// `ContainerConfig` that engines dropped with API 1.45.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageInfo {
    /// `Id`.
    pub id: String,
    /// `RepoTags`.
    pub tags: Vec<String>,
    /// `RepoDigests`.
    pub digests: Vec<String>,
    /// `Created`.
    pub created: Option<EngineTime>,
    /// `Size`, in bytes.
    pub size: u64,
    /// `Os`.
    pub os: String,
    /// `Architecture`, as Go names it.
    pub arch: String,
    /// `Config.Env`. A name may be there twice.
    pub env: Vec<EnvVar>,
    /// `Config.Entrypoint`.
    pub entrypoint: Vec<String>,
    /// `Config.Cmd`.
    pub cmd: Vec<String>,
    /// `Config.User`.
    pub user: String,
    /// `Config.WorkingDir`.
    pub working_dir: String,
    /// `Config.Labels`.
    pub labels: BTreeMap<String, String>,
    /// `Config.StopSignal`.
    pub stop_signal: Option<String>,
    /// Names in `Config.Volumes`.
    pub volumes: Vec<String>,
    /// Names in `Config.ExposedPorts`, as `80/tcp`.
    pub exposed_ports: Vec<String>,
    /// Whether `Config.Healthcheck` has a test.
    pub has_healthcheck: bool,
}

/// The reference of an image, taken apart: `[registry/]repository[:tag][@digest]`, or an id.
///
/// `Display` is the full form, which leaves no default to the engine: an untagged name has the tag
/// `latest`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageReference {
    /// The registry's host and port; `docker.io` where the text names none.
    pub registry: String,
    /// The path within it; `library/NAME` on docker.io where the text has one part only.
    pub repository: String,
    /// The tag; none when there is a digest alone.
    pub tag: Option<String>,
    /// The digest, as `sha256:..`.
    pub digest: Option<String>,
}

/// The registry of names without one.
pub const DEFAULT_REGISTRY: &str = "docker.io";

impl ImageReference {
    /// Takes `text` apart, by the grammar of the distribution project.
    ///
    /// # Errors
    /// [`EngineError::Reference`].
    pub fn parse(text: &str) -> Result<Self, EngineError> {
        let fail = |reason| EngineError::Reference {
            given: text.chars().take(300).collect(),
            reason,
        };
        if text.is_empty() {
            return Err(fail("it is empty"));
        }
        if text.len() > 1024 {
            return Err(fail("it is longer than 1024 bytes"));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        // A colon after the last slash begins a tag; before it, it is that of a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        let (registry, path) = match name.split_once('/') {
            Some((first, path))
                if first.contains(['.', ':'])
                    || first == "localhost"
                    || first.bytes().any(|byte| byte.is_ascii_uppercase()) =>
            {
                (first, path)
            }
            _ => (DEFAULT_REGISTRY, name),
        };
        let registry = if registry == "index.docker.io" {
            DEFAULT_REGISTRY
        } else {
            registry
        };
        if !is_registry(registry) {
            return Err(fail("its registry is not HOST or HOST:PORT"));
        }
        if path.is_empty() {
            return Err(fail("it has no repository"));
        }
        if path.len() > 255 {
            return Err(fail("its repository is longer than 255 bytes"));
        }
        if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(fail("its repository has upper-case letters"));
        }
        if !path.split('/').all(is_component) {
            return Err(fail(
                "a part of its repository is not letters and digits, joined by `.`, `_`, `__` or `-`",
            ));
        }
        if digest.is_none() && tag.is_none() && path.len() == 64 && path.bytes().all(is_hex) {
            return Err(fail("it reads as the id of an image, write sha256:ID"));
        }
        if let Some(tag) = tag
            && !is_tag(tag)
        {
            return Err(fail(
                "its tag is not up to 128 letters, digits, `_`, `.` and `-`",
            ));
        }
        if let Some(digest) = digest
            && !is_digest(digest)
        {
            return Err(fail("its digest is not ALGORITHM:HEX"));
        }
        let repository = if registry == DEFAULT_REGISTRY && !path.contains('/') {
            format!("library/{path}")
        } else {
            path.to_owned()
        };
        let tag = match (tag, digest) {
            (Some(tag), _) => Some(tag.to_owned()),
            (None, Some(_)) => None,
            (None, None) => Some("latest".to_owned()),
        };
        Ok(Self {
            registry: registry.to_owned(),
            repository,
            tag,
            digest: digest.map(str::to_owned),
        })
    }

    /// The name without tag and digest (`fromImage`).
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The form that engines show: without `docker.io/` and `library/`.
    #[must_use]
    pub fn familiar(&self) -> String {
        let full = self.to_string();
        let short = full.strip_prefix("docker.io/").unwrap_or(&full);
        short.strip_prefix("library/").unwrap_or(short).to_owned()
    }
}

impl std::fmt::Display for ImageReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

/// True for `sha256:HEX`: the id of an image that is here, which is not pulled.
pub(crate) fn is_image_id(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|hex| (6..=64).contains(&hex.len()) && hex.bytes().all(is_hex))
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn is_registry(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            return rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let good_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    host.split('.').all(good_label) && port.is_none_or(is_port)
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
fn is_component(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends =
        bytes.first().copied().is_some_and(plain) && bytes.last().copied().is_some_and(plain);
    ends && text
        .split(|c: char| c.is_ascii() && plain(u8::try_from(c).unwrap_or_default()))
        .filter(|gap| !gap.is_empty())
        .all(|gap| matches!(gap, "." | "_" | "__") || gap.bytes().all(|byte| byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text
            .bytes()
            .all(|byte| word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    let algorithm_is_good = algorithm.starts_with(|c: char| c.is_ascii_alphabetic())
        && algorithm
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+.-_".contains(&byte));
    algorithm_is_good
        && hex.len() >= 32
        && hex.len() <= 256
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn dx34_references_are_taken_apart_and_completed() {
        let long_tag = "a".repeat(129);
        for (text, full) in [
            ("busybox", Some("docker.io/library/busybox:latest")),
            ("busybox:1.36", Some("docker.io/library/busybox:1.36")),
            (
                "docker.io/busybox",
                Some("docker.io/library/busybox:latest"),
            ),
            (
                "index.docker.io/library/busybox",
                Some("docker.io/library/busybox:latest"),
            ),
            ("a/b", Some("docker.io/a/b:latest")),
            ("localhost/b", Some("localhost/b:latest")),
            ("host:5000/a/b:c", Some("host:5000/a/b:c")),
            ("[::1]:5000/a", Some("[::1]:5000/a:latest")),
            ("quay.io/a__b/c.d-e", Some("quay.io/a__b/c.d-e:latest")),
            (
                &format!("busybox@{DIGEST}"),
                Some(&*format!("docker.io/library/busybox@{DIGEST}")),
            ),
            (
                &format!("busybox:1@{DIGEST}"),
                Some(&*format!("docker.io/library/busybox:1@{DIGEST}")),
            ),
            ("", None),
            ("UPPER", None),
            ("a b", None),
            ("a:", None),
            (":tag", None),
            ("a//b", None),
            ("/a", None),
            ("a/", None),
            ("-a", None),
            ("a..b", None),
            ("a___b", None),
            ("host:port/a", None),
            ("a@sha256:12", None),
            ("a@", None),
            ("a:b c", None),
            (&format!("a:{long_tag}"), None),
            (DIGEST.trim_start_matches("sha256:"), None),
            ("http://host/a", None),
            ("\u{e9}", None),
        ] {
            let parsed = ImageReference::parse(text);
            assert_eq!(
                parsed.as_ref().map(ToString::to_string).ok().as_deref(),
                full,
                "{text}"
            );
        }
        assert_eq!(
            ImageReference::parse("busybox").unwrap().familiar(),
            "busybox:latest"
        );
        assert!(is_image_id(DIGEST) && !is_image_id("busybox") && !is_image_id("sha256:xyz123"));
    }

    proptest! {
        #[test]
        fn the_full_form_means_the_same(text in "[a-zA-Z0-9./:@_-]{0,60}") {
            if let Ok(parsed) = ImageReference::parse(&text) {
                prop_assert_eq!(ImageReference::parse(&parsed.to_string()).unwrap(), parsed);
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,80}") {
            drop(ImageReference::parse(&text));
        }
    }
}
