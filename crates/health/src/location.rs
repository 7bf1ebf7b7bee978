//! Where a redirect leads: RFC 3986, section 5.2, as far as HTTP needs it.

use http::Uri;
use http::uri::PathAndQuery;

use crate::{HttpProbe, Scheme};

/// One place to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) scheme: Scheme,
    /// A name or an address; IPv6 in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: PathAndQuery,
}

impl Location {
    pub(crate) fn first(probe: &HttpProbe) -> Self {
        let host = match probe.family.loopback() {
            std::net::IpAddr::V4(address) => address.to_string(),
            std::net::IpAddr::V6(address) => format!("[{address}]"),
        };
        Self {
            scheme: probe.scheme,
            host,
            port: probe.port(),
            path: probe.path_and_query().clone(),
        }
    }

    /// What goes into the header `Host`.
    pub(crate) fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The place that a `Location` header names, seen from here.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn join(&self, reference: &str) -> Result<Self, &'static str> {
        let reference = reference.trim().split('#').next().unwrap_or_default();
        let absolute = if has_scheme(reference) {
            reference.to_owned()
        } else if reference.starts_with("//") {
            format!("{}:{reference}", self.scheme.as_str())
        } else {
            let path = self.path_of(reference);
            let path = path.parse().map_err(|_| "its path is none")?;
            return Ok(Self {
                path,
                ..self.clone()
            });
        };
        let uri: Uri = absolute.parse().map_err(|_| "it is no URI")?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err("it is neither http nor https"),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let path = if path.starts_with('/') {
            remove_dots(path)
        } else {
            format!("/{path}")
        };
        Ok(Self {
            scheme,
            host: host.ok_or("it has no host")?.to_owned(),
            port: uri.port_u16().unwrap_or(scheme.default_port()),
            path: path.parse().map_err(|_| "its path is none")?,
        })
    }

    fn path_of(&self, reference: &str) -> String {
        if reference.is_empty() {
            return self.path.as_str().to_owned();
        }
        if reference.starts_with('?') {
            return format!("{}{reference}", self.path.path());
        }
        if reference.starts_with('/') {
            return remove_dots(reference);
        }
        let directory = self
            .path
            .path()
            .rfind('/')
            .map_or("/", |end| &self.path.path()[..=end]);
        remove_dots(&format!("{directory}{reference}"))
    }
}

/// `http:x` has one, `a/b:c` has none.
fn has_scheme(reference: &str) -> bool {
    reference.find(':').is_some_and(|colon| {
        let scheme = &reference[..colon];
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// Takes `.` and `..` out of a path; the query stays as it is.
fn remove_dots(path: &str) -> String {
    let (path, query) = path
        .split_once('?')
        .map_or((path, None), |(path, query)| (path, Some(query)));
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut result = format!("/{}", parts.join("/"));
    let open = path.ends_with("/.") || path.ends_with("/..");
    if open && !result.ends_with('/') {
        result.push('/');
    }
    if let Some(query) = query {
        result.push('?');
        result.push_str(query);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_seen_from_where_it_was_given() {
        let mut probe = HttpProbe::new(8080, "/a/b?q=1", &[]).unwrap();
        probe.family = crate::Family::V6;
        let here = Location::first(&probe);
        let cases = [
            ("http://other/x", "http://other/x"),
            ("https://other:8443/x?y#z", "https://other:8443/x?y"),
            ("HTTP://other", "http://other/"),
            ("http://me:secret@other/x", "http://other/x"),
            ("//other/x", "http://other/x"),
            ("/x/../y", "http://[::1]:8080/y"),
            ("x", "http://[::1]:8080/a/x"),
            ("../x/./y/", "http://[::1]:8080/x/y/"),
            ("../../../x", "http://[::1]:8080/x"),
            ("..", "http://[::1]:8080/"),
            ("?q=2", "http://[::1]:8080/a/b?q=2"),
            ("#top", "http://[::1]:8080/a/b?q=1"),
            ("a:b", "it is neither http nor https"),
            ("./a:b", "http://[::1]:8080/a/a:b"),
            ("file:///etc/passwd", "it is no URI"),
            ("ftp://other/x", "it is neither http nor https"),
            ("http:///x", "it is no URI"),
            ("/a b", "its path is none"),
        ];
        for (reference, expected) in cases {
            let found = match here.join(reference) {
                Ok(at) => format!("{}://{}{}", at.scheme.as_str(), at.authority(), at.path),
                Err(problem) => problem.to_owned(),
            };
            assert_eq!(found, expected, "{reference}");
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_server_says_panics_nothing(reference in ".*") {
            let here = Location::first(&HttpProbe::new(80, "/", &[]).unwrap());
            if let Ok(at) = here.join(&reference) {
                proptest::prop_assert!(at.path.as_str().starts_with('/'));
            }
        }
    }
}
