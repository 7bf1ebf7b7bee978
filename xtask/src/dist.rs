//! `cargo xtask dist`: a release tarball and a .deb, with completions, man pages and the unit.
//!
//! Needs nothing but cargo, `tar` and `gzip`. Both files are reproducible: sorted names, root as
//! owner, the time of `SOURCE_DATE_EPOCH` (else of the last commit).

mod deb;
#[cfg(test)]
mod tests;
mod tree;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::sh;

/// Builds the release and packs it into `dist/`.
///
/// # Errors
/// When the build, a generator of the binary (completions, man pages) or `tar` fails.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut build = sh::cargo(root);
    build.args(["build", "--release", "--locked"]);
    build.args(["--package", "longshore", "--package", "longshore-agent"]);
    sh::run(&mut build)?;
    let release = Release::new(root)?;
    let dist = root.join("dist");
    let stage = sh::target_dir(root).join("dist-stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).with_context(|| format!("removing {}", stage.display()))?;
    }
    fs::create_dir_all(&dist).with_context(|| format!("creating {}", dist.display()))?;

    let name = format!(
        "longshore-{}-{}-linux",
        release.version,
        std::env::consts::ARCH
    );
    tree::tarball(&release, &stage.join(&name))?;
    let tarball = dist.join(format!("{name}.tar.gz"));
    tar(&stage, &name, &tarball, release.epoch)?;
    println!("{}", tarball.display());

    let deb = deb::build(&release, &stage, &dist)?;
    println!("{}", deb.display());
    fs::remove_dir_all(&stage).with_context(|| format!("removing {}", stage.display()))
}

/// What goes into both files.
struct Release<'a> {
    root: &'a Path,
    binary: std::path::PathBuf,
    version: String,
    /// Seconds since 1970 that every file is dated with.
    epoch: u64,
}

impl<'a> Release<'a> {
    fn new(root: &'a Path) -> Result<Self> {
        let binary = sh::target_dir(root).join("release/longshore");
        let version = sh::output(Command::new(&binary).arg("--version"))?;
        let version = String::from_utf8_lossy(&version);
        let version = version
            .split_whitespace()
            .nth(1)
            .context("`longshore --version` prints no version")?
            .to_owned();
        Ok(Self {
            root,
            binary,
            version,
            epoch: epoch(root)?,
        })
    }

    /// What the binary prints with these arguments.
    fn printed(&self, args: &[&str]) -> Result<Vec<u8>> {
        sh::output(Command::new(&self.binary).args(args))
    }
}

fn epoch(root: &Path) -> Result<u64> {
    if let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") {
        return text.parse().context("reading SOURCE_DATE_EPOCH");
    }
    let text =
        sh::output(
            Command::new("git")
                .current_dir(root)
                .args(["log", "-1", "--format=%ct"]),
        )?;
    String::from_utf8_lossy(&text)
        .trim()
        .parse()
        .context("reading the time of the last commit")
}

/// Packs `name` below `directory` into the gzipped tarball `to`.
fn tar(directory: &Path, name: &str, to: &Path, epoch: u64) -> Result<()> {
    let unpacked = to.with_extension("");
    sh::run(
        Command::new("tar")
            .arg("--create")
            .arg("--file")
            .arg(&unpacked)
            .args([
                "--sort=name",
                "--owner=root:0",
                "--group=root:0",
                "--format=gnu",
                "--mode=u=rwX,go=rX",
            ])
            .arg(format!("--mtime=@{epoch}"))
            .arg("--directory")
            .arg(directory)
            .arg(name),
    )?;
    sh::run(
        Command::new("gzip")
            .args(["--no-name", "--best", "--force"])
            .arg(&unpacked),
    )
}
