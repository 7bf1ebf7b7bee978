//! Which file goes where.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Release;
use crate::sh;

const SHELLS: &[(&str, &str)] = &[
    ("bash", "longshore"),
    ("zsh", "_longshore"),
    ("fish", "longshore.fish"),
];

/// The tree of the tarball: everything below one directory.
pub(super) fn tarball(release: &Release<'_>, to: &Path) -> Result<()> {
    binaries(release, &to.join("bin"))?;
    link("../bin/longshore", &to.join("libexec/docker"))?;
    for (shell, file) in SHELLS {
        let text = release.printed(&["completions", shell])?;
        write(&to.join("completions").join(shell).join(file), &text, 0o644)?;
    }
    man(release, &to.join("man"))?;
    copy(
        release,
        "packaging/longshore.service",
        &to.join("systemd/longshore.service"),
    )?;
    write(
        &to.join("longshore.toml"),
        &release.printed(&["config", "default"])?,
        0o644,
    )?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md"] {
        copy(release, file, &to.join(file))?;
    }
    Ok(())
}

/// The tree of the .deb: as it lies on the machine.
pub(super) fn system(release: &Release<'_>, to: &Path) -> Result<()> {
    binaries(release, &to.join("usr/bin"))?;
    link("../../bin/longshore", &to.join("usr/lib/longshore/docker"))?;
    let share = to.join("usr/share");
    for ((shell, file), place) in SHELLS.iter().zip([
        "bash-completion/completions",
        "zsh/vendor-completions",
        "fish/vendor_completions.d",
    ]) {
        let text = release.printed(&["completions", shell])?;
        write(&share.join(place).join(file), &text, 0o644)?;
    }
    man(release, &share.join("man/man1"))?;
    copy(
        release,
        "packaging/longshore.service",
        &to.join("lib/systemd/system/longshore.service"),
    )?;
    write(
        &to.join("etc/longshore/longshore.toml"),
        &release.printed(&["config", "default"])?,
        0o644,
    )?;
    let doc = share.join("doc/longshore");
    for file in ["README.md", "CHANGELOG.md"] {
        copy(release, file, &doc.join(file))?;
    }
    copy(release, "LICENSE", &doc.join("copyright"))
}

/// One page for each verb, written by the binary itself.
fn man(release: &Release<'_>, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("creating {}", to.display()))?;
    sh::run(Command::new(&release.binary).arg("man").arg(to))
}

/// The program, the small shim that it looks for beside itself, and its name as the executor of a Mesos agent. Its name as
/// `docker` is never beside them: what is in `PATH` would stand before the machine's own.
fn binaries(release: &Release<'_>, to: &Path) -> Result<()> {
    for name in ["longshore", "longshore-shim"] {
        let from = release.binary.with_file_name(name);
        let bytes = fs::read(&from).with_context(|| format!("reading {}", from.display()))?;
        write(&to.join(name), &bytes, 0o755)?;
    }
    link("longshore", &to.join("mesos-docker-executor"))
}

fn link(target: &str, at: &Path) -> Result<()> {
    make_parent(at)?;
    symlink(target, at).with_context(|| format!("linking {}", at.display()))
}

fn copy(release: &Release<'_>, file: &str, to: &Path) -> Result<()> {
    let bytes = fs::read(release.root.join(file)).with_context(|| format!("reading {file}"))?;
    write(to, &bytes, 0o644)
}

/// Writes a file and its directories, with modes that do not depend on the umask.
pub(super) fn write(to: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let shown = to.display();
    make_parent(to)?;
    fs::write(to, bytes).with_context(|| format!("writing {shown}"))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))
        .with_context(|| format!("setting the mode of {shown}"))
}

fn make_parent(of: &Path) -> Result<()> {
    let parent = of
        .parent()
        .with_context(|| format!("{} has no directory", of.display()))?;
    fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))
}
