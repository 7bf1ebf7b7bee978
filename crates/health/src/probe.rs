//! What is asked of a container: a command, an HTTP request, a TCP connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::uri::PathAndQuery;

use crate::HealthError;

/// The longest path of an HTTP probe, in bytes.
const MAX_PATH: usize = 8 * 1024;

/// One way to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// Runs a program inside the container; it passes when the program exits with 0.
    Command(CommandProbe),
    /// Sends a GET request; it passes by the status of the answer.
    Http(HttpProbe),
    /// Connects; it passes when the connection is accepted.
    Tcp(TcpProbe),
}

/// A program and its arguments, in exec form: nothing is quoted again.
///
/// Neither the arguments nor the values of the environment appear in its `Debug` form.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandProbe {
    argv: Vec<String>,
    /// Added to the environment of the container, for this program alone.
    pub environment: Vec<(String, String)>,
    /// Who runs it; `None` is the container's user.
    pub user: Option<String>,
}

impl CommandProbe {
    /// A program with its arguments.
    ///
    /// # Errors
    /// [`HealthError::NoCommand`] when there is no program, [`HealthError::Nul`] when a part holds a NUL byte.
    pub fn exec(argv: Vec<String>) -> Result<Self, HealthError> {
        if argv.first().is_none_or(String::is_empty) {
            return Err(HealthError::NoCommand);
        }
        if argv.iter().any(|part| part.contains('\0')) {
            return Err(HealthError::Nul);
        }
        Ok(Self {
            argv,
            environment: Vec::new(),
            user: None,
        })
    }

    /// A line for `/bin/sh -c`.
    ///
    /// # Errors
    /// As [`exec`](Self::exec).
    pub fn shell(line: &str) -> Result<Self, HealthError> {
        if line.is_empty() {
            return Err(HealthError::NoCommand);
        }
        Self::exec(["/bin/sh", "-c", line].map(str::to_owned).to_vec())
    }

    /// The program and its arguments; never empty.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        &self.argv
    }
}

impl fmt::Debug for CommandProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("CommandProbe")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("environment", &names)
            .field("user", &self.user)
            .finish()
    }
}

/// Which of the two loopback addresses is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// 127.0.0.1
    #[default]
    V4,
    /// ::1
    V6,
}

impl Family {
    /// Its loopback address.
    #[must_use]
    pub const fn loopback(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }
}

/// With TLS or without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// Plain.
    #[default]
    Http,
    /// TLS; the certificate is not verified, since a probe asks whether somebody answers and not who.
    Https,
}

impl Scheme {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(crate) const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A GET request to the container's loopback address. Redirects are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProbe {
    /// With TLS or without.
    pub scheme: Scheme,
    /// Which loopback address.
    pub family: Family,
    port: u16,
    path: PathAndQuery,
    statuses: Vec<u16>,
}

impl HttpProbe {
    /// `path` begins with `/` (the empty one is `/`) and may have a query. `statuses` are those that pass; when there
    /// are none, 200 to 399 do.
    ///
    /// # Errors
    /// [`HealthError::Port`], [`HealthError::Path`] or [`HealthError::Status`] with the value.
    pub fn new(port: u32, path: &str, statuses: &[u32]) -> Result<Self, HealthError> {
        let path = match path {
            "" => "/",
            path => path,
        };
        let refuse = |problem| HealthError::Path {
            path: path.chars().take(256).collect(),
            problem,
        };
        if !path.starts_with('/') {
            return Err(refuse("it must begin with '/'"));
        }
        if path.len() > MAX_PATH {
            return Err(refuse("it is longer than 8 KiB"));
        }
        let parsed = path
            .parse()
            .map_err(|_| refuse("it has a character that must be percent-encoded"))?;
        let statuses = statuses
            .iter()
            .map(|status| match u16::try_from(*status) {
                Ok(known @ 100..=999) => Ok(known),
                _ => Err(HealthError::Status { status: *status }),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            scheme: Scheme::Http,
            family: Family::V4,
            port: valid_port(port)?,
            path: parsed,
            statuses,
        })
    }

    /// The port, never 0.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The path with its query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    pub(crate) const fn path_and_query(&self) -> &PathAndQuery {
        &self.path
    }

    /// Whether an answer with this status passes.
    #[must_use]
    pub fn accepts(&self, status: u16) -> bool {
        if self.statuses.is_empty() {
            (200..400).contains(&status)
        } else {
            self.statuses.contains(&status)
        }
    }

    /// Whether a redirect with this status is itself the answer that is waited for.
    pub(crate) fn wants(&self, status: u16) -> bool {
        self.statuses.contains(&status)
    }
}

/// A connection to the container's loopback address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpProbe {
    /// Which loopback address.
    pub family: Family,
    port: u16,
}

impl TcpProbe {
    /// # Errors
    /// [`HealthError::Port`] when it is 0 or over 65535.
    pub fn new(port: u32, family: Family) -> Result<Self, HealthError> {
        Ok(Self {
            family,
            port: valid_port(port)?,
        })
    }

    /// The port, never 0.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

fn valid_port(port: u32) -> Result<u16, HealthError> {
    match u16::try_from(port) {
        Ok(0) | Err(_) => Err(HealthError::Port { port }),
        Ok(port) => Ok(port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_arguments_nor_environment_are_shown() {
        let mut probe = CommandProbe::shell("curl -u me:hunter2 x").unwrap();
        probe.environment = vec![("TOKEN".to_owned(), "hunter3".to_owned())];
        let shown = format!("{:?}", Probe::Command(probe));
        assert!(shown.contains("TOKEN"), "{shown}");
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn what_can_never_work_is_refused_with_its_value() {
        type Case = (u32, &'static str, &'static [u32], &'static str);
        let cases: &[Case] = &[
            (0, "/", &[], "port 0"),
            (65_536, "/", &[], "port 65536"),
            (80, "health", &[], "\"health\""),
            (80, "/a b", &[], "percent-encoded"),
            (80, "/", &[99], "status 99"),
            (80, "/", &[200, 1000], "status 1000"),
        ];
        for (port, path, statuses, expected) in cases {
            let error = HttpProbe::new(*port, path, statuses).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        for port in [0, 70_000] {
            assert!(TcpProbe::new(port, Family::V6).is_err());
        }
        assert!(CommandProbe::shell("").is_err());
        assert!(CommandProbe::exec(vec![]).is_err());
        assert!(CommandProbe::exec(vec![String::new()]).is_err());
        assert!(CommandProbe::exec(vec!["a\0b".to_owned()]).is_err());
    }

    #[test]
    fn hc9_200_to_399_pass_unless_others_are_named() {
        let usual = HttpProbe::new(80, "", &[]).unwrap();
        assert_eq!(usual.path(), "/");
        let verdicts = [199, 200, 204, 302, 399, 400, 503].map(|status| usual.accepts(status));
        assert_eq!(verdicts, [false, true, true, true, true, false, false]);
        let named = HttpProbe::new(80, "/x?y=1", &[401]).unwrap();
        assert_eq!(
            [200, 401].map(|status| named.accepts(status)),
            [false, true]
        );
    }
}
