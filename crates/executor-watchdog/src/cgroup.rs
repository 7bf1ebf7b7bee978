//! Out of the executor's cgroups: an agent's linux launcher kills all that is in them, and what limits the executor is not
//! meant for what cleans up after it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Moves this process to the root of each hierarchy; returns those where that failed.
pub(crate) fn leave() -> Vec<(PathBuf, io::Error)> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut failed = Vec::new();
    for root in roots(&mounts) {
        if let Err(error) = enter(&root) {
            failed.push((root, error));
        }
    }
    failed
}

/// Moves this process (`0`) into a cgroup. It has one thread.
fn enter(cgroup: &Path) -> io::Result<()> {
    let procs = cgroup.join("cgroup.procs");
    let mut procs = std::fs::OpenOptions::new().write(true).open(procs)?;
    procs.write_all(b"0\n")
}

/// Where the roots of the hierarchies are mounted, both versions.
fn roots(mountinfo: &str) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    for line in mountinfo.lines() {
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = before.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else {
            continue;
        };
        let kind = after.split(' ').next();
        if matches!(kind, Some("cgroup" | "cgroup2")) && root == "/" {
            roots.push(PathBuf::from(unescape(point)));
        }
    }
    roots
}

/// Space, tab, line feed and backslash are written in octal there.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_of_both_versions_are_found() {
        let mounts = "\
            25 23 0:22 / /sys rw - sysfs sysfs rw\n\
            32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:7 - cgroup cgroup rw,cpu\n\
            37 31 0:34 /mesos/x /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
            41 31 0:38 / /sys/fs/cg\\040roup/unified rw - cgroup2 cgroup2 rw\n\
            broken line\n";
        assert_eq!(
            roots(mounts),
            [
                PathBuf::from("/sys/fs/cgroup/cpu"),
                PathBuf::from("/sys/fs/cg roup/unified"),
            ]
        );
        assert!(roots("").is_empty());
    }
}
