//! What is told over HTTP: `[http]`.

use longshore_status_http::{ListenAddress, parse_address};

use super::problems::Problems;
use super::raw::RawHttp;

/// The most names of this machine.
const HOSTS_MAX: usize = 64;

/// Where it is told, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// The address and port.
    pub listen: ListenAddress,
    /// Names of this machine, beside its host name, `localhost` and addresses.
    pub hosts: Vec<String>,
}

/// The settings, as far as they are acceptable; what is not is noted. `None`: nothing is served.
pub(super) fn settings(raw: &RawHttp, problems: &mut Problems<'_>) -> Option<HttpSettings> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if raw.hosts.len() > HOSTS_MAX {
        problems.note("http.hosts", format!("at most {HOSTS_MAX} names are kept"));
    }
    for name in &raw.hosts {
        if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) {
            let message = format!("`{name}` is no name of a host; write it without a port");
            problems.note("http.hosts", message);
        }
    }
    let listen = raw.listen.as_ref()?;
    match parse_address(listen) {
        Ok(listen) => Some(HttpSettings {
            listen,
            hosts: raw.hosts.clone(),
        }),
        Err(error) => {
            problems.note("http.listen", error.to_string());
            None
        }
    }
}
