//! The image that tests run: Debian's busybox-static, imported through the Engine API. Also
//! compiled into `xtask`, which uses none of our crates; so it needs the standard library alone.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What it is called in every engine of the tests.
pub const TEST_IMAGE: &str = "longshore-test:latest";

/// Where Debian's busybox-static is.
const BUSYBOX: &[&str] = &["/usr/bin/busybox", "/bin/busybox"];
const DEADLINE: Duration = Duration::from_secs(120);

/// Imports [`TEST_IMAGE`] into the engine at `socket`: busybox with a link for each of its programs, `PATH=/bin`, and `sh` as its command.
///
/// # Errors
/// No busybox, or the engine refuses; the text says which.
pub fn import_test_image(socket: &Path) -> io::Result<()> {
    let archive = archive()?;
    let changes = [
        "ENV PATH=/bin",
        "CMD [\"sh\"]",
        "LABEL org.longshore.test=image",
    ];
    let changes: String = changes
        .iter()
        .map(|change| format!("&changes={}", encode(change)))
        .collect();
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    let path = format!("/images/create?fromSrc=-&repo=longshore-test&tag=latest{changes}");
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: application/x-tar\r\nContent-Length: {}\r\n\r\n",
        archive.len()
    )?;
    stream.write_all(&archive)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let good = answer.split(' ').nth(1) == Some("200") && !answer.contains("\"error\"");
    if good {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the engine did not take the test image: {answer}"
    )))
}

fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

/// The root file system as a tar archive.
fn archive() -> io::Result<Vec<u8>> {
    let path = BUSYBOX.iter().find(|path| Path::new(path).is_file());
    let path = path.ok_or_else(|| io::Error::other("no busybox; install busybox-static"))?;
    let program = std::fs::read(path)?;
    let listed = Command::new(path)
        .arg("--list")
        .stdin(Stdio::null())
        .output()?;
    let mut tar = Vec::new();
    for directory in ["bin", "dev", "etc", "proc", "root", "sys", "tmp"] {
        let mode = if directory == "tmp" { 0o1777 } else { 0o755 };
        entry(&mut tar, &format!("{directory}/"), mode, Kind::Directory);
    }
    entry(&mut tar, "bin/busybox", 0o755, Kind::File(&program));
    let users = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n";
    entry(&mut tar, "etc/passwd", 0o644, Kind::File(users));
    entry(
        &mut tar,
        "etc/group",
        0o644,
        Kind::File(b"root:x:0:\nnogroup:x:65534:\n"),
    );
    // Executable, but no program: starting it is docker's exit code 126.
    entry(
        &mut tar,
        "bin/not-executable",
        0o644,
        Kind::File(b"no program\n"),
    );
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        if name != "busybox" {
            entry(
                &mut tar,
                &format!("bin/{name}"),
                0o777,
                Kind::Link("busybox"),
            );
        }
    }
    tar.resize(tar.len() + 1024, 0);
    Ok(tar)
}

enum Kind<'a> {
    Directory,
    File(&'a [u8]),
    Link(&'a str),
}

/// One entry of a tar archive (ustar).
fn entry(tar: &mut Vec<u8>, name: &str, mode: u32, kind: Kind<'_>) {
    let (flag, data, link): (u8, &[u8], &str) = match kind {
        Kind::Directory => (b'5', b"", ""),
        Kind::File(data) => (b'0', data, ""),
        Kind::Link(target) => (b'2', b"", target),
    };
    let mut head = [0; 512];
    let mut put =
        |at: usize, text: &str| head[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, &format!("{mode:07o}"));
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{:011o}", data.len()));
    put(136, "00000000000");
    put(148, "        ");
    put(157, link);
    put(257, "ustar\x0000");
    head[156] = flag;
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    tar.extend_from_slice(&head);
    tar.extend_from_slice(data);
    tar.resize(tar.len().next_multiple_of(512), 0);
}
