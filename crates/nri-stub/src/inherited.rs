//! The connection that a launched plugin inherits.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

use crate::error::StubError;

/// The descriptors taken so far: each can be owned once.
static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// Takes the descriptor with this number, which must be an open Unix socket and none of the three
/// standard ones. The result is close-on-exec, and the number itself is closed: the connection
/// ends when the result is dropped.
///
/// # Errors
/// [`StubError::InheritedSocket`], and [`StubError::ConnectionUsed`] the second time.
pub(crate) fn take(value: &str) -> Result<UnixStream, StubError> {
    let refused = |source| StubError::InheritedSocket {
        value: value.chars().take(64).collect(),
        source,
    };
    let number = number(value).map_err(refused)?;
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if taken.contains(&number) {
        return Err(StubError::ConnectionUsed);
    }
    check_socket(number).map_err(refused)?;
    taken.insert(number);
    drop(taken);
    stream(own(number)).map_err(refused)
}

fn number(value: &str) -> io::Result<RawFd> {
    let number: RawFd = value
        .parse()
        .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    if number < 3 {
        let text = "a plugin's connection is no standard stream";
        return Err(io::Error::new(ErrorKind::InvalidInput, text));
    }
    Ok(number)
}

fn check_socket(number: RawFd) -> io::Result<()> {
    let link = fs::read_link(format!("/proc/self/fd/{number}"))?;
    if link.as_os_str().as_encoded_bytes().starts_with(b"socket:") {
        return Ok(());
    }
    let text = format!("{} is no socket", link.display());
    Err(io::Error::new(ErrorKind::InvalidInput, text))
}

#[expect(
    unsafe_code,
    reason = "nothing else makes an owned descriptor of an inherited number"
)]
fn own(number: RawFd) -> OwnedFd {
    // SAFETY: the descriptor is open (it was just looked at), the runtime that launched this
    // program left it to the plugin's connection alone, and `TAKEN` sees to it that no second
    // owner is made of it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

fn stream(inherited: OwnedFd) -> io::Result<UnixStream> {
    // The clone is close-on-exec, so that programs which the plugin starts do not hold on to it.
    let stream = UnixStream::from(inherited.try_clone()?);
    // Fails for sockets of other families.
    stream.local_addr()?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;

    // One test: numbers that are closed are given out again, to whichever test opens a file next.
    #[test]
    fn an_open_unix_socket_is_taken_once_and_closed_with_the_result() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let values = ["", "x", "-1", "0", "2", "1048575", "99999999999"].map(str::to_owned);
        let numbers = [file.as_raw_fd(), udp.into_raw_fd()].map(|number| number.to_string());
        for value in values.into_iter().chain(numbers) {
            let refused = take(&value);
            assert!(
                matches!(refused, Err(StubError::InheritedSocket { .. })),
                "{value:?}: {refused:?}"
            );
        }

        let number = near.into_raw_fd();
        let mut taken = take(&number.to_string()).unwrap();
        assert_ne!(taken.as_raw_fd(), number);
        taken.write_all(b"hello").unwrap();
        let again = take(&number.to_string());
        assert!(matches!(again, Err(StubError::ConnectionUsed)), "{again:?}");
        drop(taken);
        let mut text = String::new();
        far.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello", "and then the end, nobody else holds it");
    }
}
