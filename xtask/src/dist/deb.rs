//! A Debian package: an `ar` archive of three members, written here.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Release, tar, tree};

/// Builds the package into `dist` and returns its path.
pub(super) fn build(release: &Release<'_>, stage: &Path, dist: &Path) -> Result<PathBuf> {
    let data = stage.join("data");
    tree::system(release, &data)?;
    let control = stage.join("control");
    let arch = architecture();
    let size = kibibytes(&data)?;
    let text = control_file(&release.version, arch, size);
    tree::write(&control.join("control"), text.as_bytes(), 0o644)?;
    tree::write(
        &control.join("conffiles"),
        b"/etc/longshore/longshore.toml\n",
        0o644,
    )?;
    for (script, text) in SCRIPTS {
        tree::write(&control.join(script), text.as_bytes(), 0o755)?;
    }
    tar(&data, ".", &stage.join("data.tar.gz"), release.epoch)?;
    tar(&control, ".", &stage.join("control.tar.gz"), release.epoch)?;

    let mut archive = Ar::new(release.epoch);
    archive.member("debian-binary", b"2.0\n")?;
    for name in ["control.tar.gz", "data.tar.gz"] {
        let path = stage.join(name);
        let bytes = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        archive.member(name, &bytes)?;
    }
    let path = dist.join(format!("longshore_{}_{arch}.deb", release.version));
    fs::write(&path, archive.bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// The unit is installed, not enabled and not started: the operator writes a configuration first.
/// An upgrade restarts a running daemon, whose containers outlive it.
const SCRIPTS: &[(&str, &str)] = &[
    (
        "postinst",
        "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then\n  systemctl daemon-reload\n  \
         systemctl try-restart longshore.service\nfi\n",
    ),
    (
        "prerm",
        "#!/bin/sh\nset -e\nif [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then\n  \
         systemctl stop longshore.service\nfi\n",
    ),
    (
        "postrm",
        "#!/bin/sh\nset -e\nif [ -d /run/systemd/system ]; then\n  systemctl daemon-reload\nfi\n",
    ),
];

fn control_file(version: &str, arch: &str, size: u64) -> String {
    format!(
        "Package: longshore\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: The Longshore Authors <maintainers@longshore.example>\n\
         Installed-Size: {size}\n\
         Depends: libc6\n\
         Section: admin\n\
         Priority: optional\n\
         Description: node supervisor for container plugins\n \
         Keeps CSI storage plugins running as containers and hands out\n \
         endpoints that have been probed and answer.\n"
    )
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn kibibytes(directory: &Path) -> Result<u64> {
    let mut total = 0;
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("reading {}", next.display()))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                open.push(entry.path());
            } else {
                total += metadata.len().div_ceil(1024);
            }
        }
    }
    Ok(total)
}

/// The common `ar` format (`ar(5)`), as `dpkg` reads it.
struct Ar {
    bytes: Vec<u8>,
    epoch: u64,
}

impl Ar {
    fn new(epoch: u64) -> Self {
        Self {
            bytes: b"!<arch>\n".to_vec(),
            epoch,
        }
    }

    /// Appends a member; names of up to 16 bytes.
    fn member(&mut self, name: &str, content: &[u8]) -> Result<()> {
        anyhow::ensure!(name.len() <= 16, "{name}: too long for an ar archive");
        let header = format!(
            "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            self.epoch,
            0,
            0,
            "100644",
            content.len()
        );
        self.bytes.extend_from_slice(header.as_bytes());
        self.bytes.extend_from_slice(content);
        if content.len() % 2 == 1 {
            self.bytes.push(b'\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_aligned_and_headers_are_60_bytes() {
        let mut archive = Ar::new(7);
        archive.member("odd", b"abc").unwrap();
        archive.member("debian-binary", b"2.0\n").unwrap();
        assert_eq!(archive.bytes.len(), 8 + 60 + 4 + 60 + 4);
        let second = &archive.bytes[8 + 60 + 4..];
        assert!(
            second.starts_with(b"debian-binary   7           0     0     100644  4         `\n")
        );
        assert!(archive.member("a name of seventeen", b"").is_err());
    }

    #[test]
    fn the_control_file_has_no_indented_field() {
        let text = control_file("0.1.0", "amd64", 12);
        assert!(text.contains("\nInstalled-Size: 12\n"));
        assert_eq!(text.lines().filter(|line| line.starts_with(' ')).count(), 2);
    }
}
