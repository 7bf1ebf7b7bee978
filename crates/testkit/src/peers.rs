//! What a test may need from the machine: real peers, privileges, a disk.
//!
//! A test that needs one begins with
//!
//! ```
//! # fn the_test() {
//! use longshore_testkit::peers;
//! let Some(go) = peers::go() else { return };
//! # let _ = go;
//! # }
//! ```
//!
//! When the peer is there, the test runs. When it is not, one line `skipped: NAME: why` is
//! printed and appended to the file named by `LONGSHORE_TEST_SKIPS` (`cargo xtask test` prints
//! them at its end), and the test passes without having done anything; unless NAME is in the
//! comma list `LONGSHORE_TEST_REQUIRE`: then the test fails. Versions of peers are never asserted.

mod engine;
mod image;
mod mesos;

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use engine::Engine;
pub use image::{TEST_IMAGE, import_test_image};
pub use mesos::MesosAgent;

/// Names the file that skips are appended to.
pub const SKIPS_VAR: &str = "LONGSHORE_TEST_SKIPS";
/// A comma list of peers whose absence is a failure.
pub const REQUIRE_VAR: &str = "LONGSHORE_TEST_REQUIRE";
/// The command that starts a real Mesos agent, called as `CMD PORT DIR`.
pub const MESOS_VAR: &str = "LONGSHORE_MESOS_AGENT_CMD";
/// The command that starts an engine, called as `CMD RELEASE docker|containerd|podman SOCKET`.
pub const ENGINES_VAR: &str = "LONGSHORE_ENGINES_CMD";
/// The address of a private Docker engine, `unix:///PATH`; `cargo xtask test` starts one and sets it.
pub const DOCKER_VAR: &str = "LONGSHORE_TEST_DOCKER";
/// A Python interpreter that can `import grpc`; otherwise `python3` is tried.
pub const PYTHON_VAR: &str = "LONGSHORE_TEST_PYTHON";

/// A Docker engine with [`TEST_IMAGE`], of which tests may use all: the one that `LONGSHORE_TEST_DOCKER`
/// names. Never the machine's own, unless somebody says so.
///
/// Returns the path of its socket.
#[must_use]
pub fn docker() -> Option<PathBuf> {
    let Some(address) = std::env::var_os(DOCKER_VAR).filter(|value| !value.is_empty()) else {
        return skip("docker", &format!("{DOCKER_VAR} is not set"));
    };
    let address = address.to_string_lossy().into_owned();
    let Some(socket) = address.strip_prefix("unix://").map(PathBuf::from) else {
        return skip("docker", &format!("{DOCKER_VAR} is not unix:///PATH"));
    };
    match std::os::unix::net::UnixStream::connect(&socket) {
        Ok(_) => Some(socket),
        Err(error) => skip("docker", &format!("{}: {error}", socket.display())),
    }
}

/// The Go tool chain.
#[must_use]
pub fn go() -> Option<PathBuf> {
    let usual = [PathBuf::from("/usr/local/go/bin/go")];
    found("go", "go", &usual)
}

/// The command that starts a real Mesos agent; [`MesosAgent::start`] runs it.
#[must_use]
pub fn mesos_agent_cmd() -> Option<PathBuf> {
    command_in("mesos", MESOS_VAR)
}

/// The command that starts a container engine of another release.
#[must_use]
pub fn engines_cmd() -> Option<PathBuf> {
    command_in("engines", ENGINES_VAR)
}

/// A Python interpreter with `grpcio`.
#[must_use]
pub fn python_grpc() -> Option<PathBuf> {
    let python = std::env::var_os(PYTHON_VAR).unwrap_or_else(|| OsString::from("python3"));
    let ran = Command::new(&python)
        .args(["-c", "import grpc"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let shown = Path::new(&python).display();
    match ran {
        Ok(status) if status.success() => Some(PathBuf::from(python)),
        Ok(_) => skip("grpcio", &format!("{shown} cannot import grpc")),
        Err(error) => skip("grpcio", &format!("{shown}: {error}")),
    }
}

/// Headless Chromium.
#[must_use]
pub fn chromium() -> Option<PathBuf> {
    found("chromium", "chromium", &[])
}

/// What looks through units of systemd; systemd itself need not run.
#[must_use]
pub fn systemd_analyze() -> Option<PathBuf> {
    found("systemd", "systemd-analyze", &[])
}

/// The privileges of root: true uid 0 with `CAP_SYS_ADMIN`.
#[must_use]
pub fn root() -> Option<()> {
    if !nix::unistd::geteuid().is_root() {
        return skip("root", "not running as root");
    }
    if has_sys_admin(&fs::read_to_string("/proc/self/status").unwrap_or_default()) {
        Some(())
    } else {
        skip("root", "uid 0 without CAP_SYS_ADMIN")
    }
}

/// An ordinary user: what must be refused is refused to these.
#[must_use]
pub fn unprivileged() -> Option<()> {
    if nix::unistd::geteuid().is_root() {
        skip("unprivileged", "running as root")
    } else {
        Some(())
    }
}

/// A directory on a disk file system (not tmpfs or an overlay of one), for durable writes.
///
/// `LONGSHORE_TEST_DISK`, else the build directory, else `/var/tmp`; the caller makes its own
/// temporary directory below it.
#[must_use]
pub fn disk() -> Option<PathBuf> {
    let candidates = std::env::var_os("LONGSHORE_TEST_DISK")
        .into_iter()
        .map(PathBuf::from)
        .chain(std::env::current_exe().ok()?.parent().map(PathBuf::from))
        .chain([PathBuf::from("/var/tmp")]);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for directory in candidates {
        let Ok(directory) = fs::canonicalize(directory) else {
            continue;
        };
        if matches!(
            file_system(&mounts, &directory),
            Some("ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "f2fs" | "zfs" | "bcachefs")
        ) {
            return Some(directory);
        }
    }
    skip("disk", "no directory on a disk file system")
}

/// Records that `name` is missing, and why; always `None`, for `return peers::skip(..)`.
///
/// # Panics
/// When `name` is required.
pub fn skip<T>(name: &str, why: &str) -> Option<T> {
    let line = format!("skipped: {name}: {}", why.replace('\n', " "));
    let required = std::env::var(REQUIRE_VAR).unwrap_or_default();
    assert!(
        !is_required(&required, name),
        "{line} (it is required by {REQUIRE_VAR})"
    );
    #[expect(clippy::print_stderr, reason = "a skip is never silent")]
    {
        eprintln!("{line}");
    }
    if let Some(path) = std::env::var_os(SKIPS_VAR) {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        // One write of one short line: whole, also when several tests append at once.
        let wrote = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(format!("{line} [{test}]\n").as_bytes()));
        assert!(
            wrote.is_ok(),
            "cannot record a skip in {}: {wrote:?}",
            Path::new(&path).display()
        );
    }
    None
}

fn is_required(list: &str, name: &str) -> bool {
    list.split(',').any(|entry| entry.trim() == name)
}

fn command_in(name: &str, variable: &str) -> Option<PathBuf> {
    let Some(path) = std::env::var_os(variable).filter(|value| !value.is_empty()) else {
        return skip(name, &format!("{variable} is not set"));
    };
    let path = PathBuf::from(path);
    if path.is_file() {
        Some(path)
    } else {
        skip(
            name,
            &format!("{variable} names no file: {}", path.display()),
        )
    }
}

fn found(name: &str, program: &str, usual: &[PathBuf]) -> Option<PathBuf> {
    let usual = || usual.iter().find(|candidate| candidate.is_file()).cloned();
    match in_path(program).or_else(usual) {
        Some(hit) => Some(hit),
        None => skip(name, &format!("`{program}` is not in PATH")),
    }
}

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|candidate| candidate.is_file())
}

fn has_sys_admin(status: &str) -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|value| u64::from_str_radix(value.trim(), 16).ok())
        .is_some_and(|caps| caps >> CAP_SYS_ADMIN & 1 == 1)
}

/// The file system type of the mount that `path` lies on, by the longest mount point.
fn file_system<'a>(mountinfo: &'a str, path: &Path) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next()) else {
            continue;
        };
        // `>=`: of two mounts on one point the later one is on top.
        if path.starts_with(point) && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_required_name_is_found_in_the_list() {
        assert!(is_required("go, mesos", "mesos"));
        assert!(!is_required("go,mesos", "me"));
        assert!(!is_required("", "go"));
    }

    #[test]
    fn the_longest_mount_point_and_the_latest_of_equals_win() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
                      2 1 0:1 / /tmp rw shared:3 - tmpfs tmpfs rw\n\
                      3 1 0:2 / /tmp/x rw - overlay none rw\n\
                      4 1 0:3 / /tmp/x rw - xfs none rw\n";
        assert_eq!(file_system(mounts, Path::new("/var")), Some("ext4"));
        assert_eq!(file_system(mounts, Path::new("/tmp/y")), Some("tmpfs"));
        assert_eq!(file_system(mounts, Path::new("/tmp/x/z")), Some("xfs"));
        assert_eq!(file_system("", Path::new("/")), None);
    }

    #[test]
    fn capabilities_are_read_from_the_status_text() {
        assert!(has_sys_admin("Name:\tx\nCapEff:\t0000000000200000\n"));
        assert!(!has_sys_admin("CapEff:\t00000000001fffff\n"));
        assert!(!has_sys_admin(""));
    }
}
