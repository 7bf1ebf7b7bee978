use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// How a mount of the host propagates (`mount_namespaces(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Propagation {
    /// Nothing goes in or out.
    Private,
    /// What the host mounts below it appears; not the other way.
    Slave,
    /// Both ways.
    Shared,
}

/// How the mount of this process's namespace that holds `path` propagates. Blocking.
///
/// # Errors
/// The path cannot be resolved, or `/proc/self/mountinfo` cannot be read.
pub fn host_propagation(path: &Path) -> io::Result<Propagation> {
    let path = fs::canonicalize(path)?;
    let mountinfo = fs::read("/proc/self/mountinfo")?;
    Ok(propagation_in(&mountinfo, &path).unwrap_or(Propagation::Private))
}

/// As [`host_propagation`], from the text of a `mountinfo` file (`proc_pid_mountinfo(5)`) and for
/// a path without symbolic links. `None` when no mount holds the path.
#[must_use]
pub fn propagation_in(mountinfo: &[u8], path: &Path) -> Option<Propagation> {
    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(mount)
        .filter(|(point, _)| path.starts_with(point))
        // The deepest mount point; of several at one point the last, which covers the others.
        .max_by_key(|(point, _)| point.as_os_str().len())
        .map(|(_, propagation)| propagation)
}

/// `36 35 98:0 /root /mount/point rw,noatime shared:1 master:2 - ext3 /dev/root rw`
fn mount(line: &[u8]) -> Option<(PathBuf, Propagation)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let point = unescape(fields.nth(4)?);
    let optional: Vec<&[u8]> = fields.skip(1).take_while(|field| *field != b"-").collect();
    let has = |tag: &[u8]| optional.iter().any(|field| field.starts_with(tag));
    let propagation = if has(b"shared:") {
        Propagation::Shared
    } else if has(b"master:") {
        Propagation::Slave
    } else {
        Propagation::Private
    };
    Some((point, propagation))
}

/// The kernel writes blanks, line ends and backslashes as `\ooo`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    const MOUNTINFO: &[u8] = b"\
22 1 0:21 / / rw,relatime shared:1 - ext4 /dev/sda rw
23 22 0:22 / /data rw - ext4 /dev/sdb rw
24 23 0:23 / /data/a\\040b rw master:7 - tmpfs tmpfs rw
25 22 0:24 / /twice rw shared:9 - tmpfs tmpfs rw
26 25 0:25 / /twice rw - tmpfs tmpfs rw
";

    #[test]
    fn the_deepest_and_last_mount_decides() {
        for (path, wanted) in [
            ("/", Propagation::Shared),
            ("/database", Propagation::Shared),
            ("/data/x", Propagation::Private),
            ("/data/a b/c", Propagation::Slave),
            ("/twice", Propagation::Private),
        ] {
            assert_eq!(
                propagation_in(MOUNTINFO, Path::new(path)),
                Some(wanted),
                "{path}"
            );
        }
        assert_eq!(propagation_in(b"", Path::new("/")), None);
        assert_eq!(propagation_in(b"a b\n\n-", Path::new("/")), None);
    }

    #[test]
    fn this_machine_answers_for_its_root() {
        host_propagation(Path::new("/")).unwrap();
        host_propagation(Path::new("/no/such/path")).unwrap_err();
        assert_eq!(unescape(b"\\9\\04").as_os_str().as_bytes(), b"\\9\\04");
    }
}
