//! One blocking call to an engine on its Unix socket, with a deadline for all of it.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// The longest answer that is read; an inspection has some tens of KiB.
const MAX_ANSWER: usize = 4 << 20;

/// Status and body of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Sends a request without a body and reads the answer whole.
///
/// # Errors
/// Nobody listens, the deadline passed, or what came is no HTTP.
pub(crate) fn call(
    path: &Path,
    method: &str,
    target: &str,
    deadline: Duration,
) -> io::Result<Answer> {
    let end = Instant::now() + deadline;
    let mut stream = open(path, deadline)?;
    // HTTP/1.0: the answer comes in one piece, and its end is that of the connection.
    let request =
        format!("{method} {target} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n");
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    let mut part = [0; 16 << 10];
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(count) if bytes.len() + count > MAX_ANSWER => {
                return Err(io::Error::other("the answer is over 4 MiB"));
            }
            Ok(count) => bytes.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    parse(&bytes)
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Connects within `deadline`: the queue of an engine that hangs may be full.
fn open(path: &Path, deadline: Duration) -> io::Result<UnixStream> {
    let handle = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    let millis = i64::try_from(deadline.as_millis().max(1)).unwrap_or(i64::MAX);
    setsockopt(
        &handle,
        sockopt::SendTimeout,
        &TimeVal::milliseconds(millis.min(3_600_000)),
    )?;
    connect(handle.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(handle))
}

fn parse(bytes: &[u8]) -> io::Result<Answer> {
    let bad = |what| io::Error::new(ErrorKind::InvalidData, what);
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or_else(|| bad("the answer has no end of its head"))?;
    let head = std::str::from_utf8(&bytes[..end]).map_err(|_| bad("the head is no text"))?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.strip_prefix("HTTP/1."))
        .and_then(|rest| rest.split(' ').nth(1)?.parse().ok())
        .ok_or_else(|| bad("the answer has no status"))?;
    let body = &bytes[end + 4..];
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            let announced: usize = value.trim().parse().map_err(|_| bad("a bad length"))?;
            if announced != body.len() {
                return Err(bad("the answer is not whole"));
            }
        }
    }
    Ok(Answer {
        status,
        body: body.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn answers_are_read_and_what_is_none_is_refused() {
        let answer = parse(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((answer.status, &answer.body[..]), (200, &b"{}"[..]));
        assert_eq!(
            parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().status,
            204
        );
        for bad in [
            &b""[..],
            b"HTTP/1.0 200 OK\r\n",
            b"SSH-2.0-x\r\n\r\n",
            b"HTTP/1.0 abc OK\r\n\r\n",
            b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n{}",
            b"HTTP/1.0 200 OK\r\nContent-Length: x\r\n\r\n{}",
            b"\xff\xff\r\n\r\n",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_engine_that_is_not_there_or_does_not_answer_is_an_error_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(call(&path, "GET", "/", SOON).is_err());
        // It listens and takes no connection: the first ones lie in its queue, later ones do not even get there.
        let listener = UnixListener::bind(&path).unwrap();
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(1).unwrap()).unwrap();
        for _ in 0..5 {
            let error = call(&path, "GET", "/", Duration::from_millis(50)).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                "{error:?}"
            );
        }
    }

    #[test]
    fn an_answer_that_drips_does_not_outlast_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let dripping = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"x").is_ok() {
                std::thread::park_timeout(Duration::from_millis(5));
            }
        });
        assert!(call(&path, "GET", "/", Duration::from_millis(100)).is_err());
        dripping.join().unwrap();
    }

    #[test]
    fn an_answer_without_end_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let flooding = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(&[b'x'; 65_536]).is_ok() {}
        });
        let error = call(&path, "GET", "/", SOON).unwrap_err();
        assert!(error.to_string().contains("4 MiB"), "{error}");
        flooding.join().unwrap();
    }
}
