//! What every crate must have: docs, lints, and with a semver promise what a stranger needs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Findings;
use super::floors::{self, Tier};
use super::graph::{Graph, Package};

/// How many packages `Cargo.lock` may name. Raise it knowingly.
const LOCK_CEILING: usize = 319;

pub(crate) fn check(root: &Path, graph: &Graph, findings: &mut Findings) -> Result<()> {
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("reading Cargo.lock")?;
    let locked = lock.lines().filter(|line| *line == "[[package]]").count();
    if locked > LOCK_CEILING {
        findings.error(format!(
            "Cargo.lock: {locked} packages, more than {LOCK_CEILING}; drop a dependency, or raise \
             the ceiling in xtask/src/tidy/crates.rs with the reason in the commit"
        ));
    }
    for package in graph.ours() {
        check_crate(package, findings)?;
    }
    let workflow = root.join(".github/workflows/ci.yml");
    let workflow =
        fs::read_to_string(&workflow).with_context(|| format!("reading {}", workflow.display()))?;
    for member in floors::HOUSE {
        let line = format!("          - {}", member.folder);
        if !workflow.lines().any(|found| found == line) {
            findings.error(format!(
                "{}: not in the list of crates of .github/workflows/ci.yml",
                member.folder
            ));
        }
    }
    Ok(())
}

fn check_crate(package: &Package, findings: &mut Findings) -> Result<()> {
    let manifest = Path::new(&package.manifest_path);
    let folder = manifest.parent().context("a manifest without a folder")?;
    let name = &package.name;
    let text =
        fs::read_to_string(manifest).with_context(|| format!("reading {}", manifest.display()))?;
    if !text.contains("[lints]\nworkspace = true") {
        findings.error(format!(
            "{name}: its manifest lacks `[lints] workspace = true`"
        ));
    }
    let internal = floors::member(name).is_none_or(|member| member.tier == Tier::Internal);
    let opening = ["src/lib.rs", "src/main.rs"]
        .iter()
        .find_map(|file| fs::read_to_string(folder.join(file)).ok())
        .unwrap_or_default();
    if !opening.starts_with("//!") && !opening.starts_with("#![doc") {
        findings.error(format!("{name}: its first line is not documentation"));
    }
    let is_library = folder.join("src/lib.rs").is_file() && in_crates(folder);
    if internal {
        if is_library
            && !opening
                .lines()
                .next()
                .unwrap_or_default()
                .contains("nternal to Longshore")
        {
            findings.error(format!(
                "{name}: the first line of lib.rs says `internal to Longshore`"
            ));
        }
        if package.publish.as_deref() != Some(&[]) {
            findings.error(format!("{name}: internal, so `publish = false`"));
        }
        return Ok(());
    }
    check_public(package, folder, findings);
    Ok(())
}

fn check_public(package: &Package, folder: &Path, findings: &mut Findings) {
    let name = &package.name;
    let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
    let mut want = |good: bool, what: &str| {
        if !good {
            findings.error(format!("{name}: has a semver promise, so it needs {what}"));
        }
    };
    want(package.publish.is_none(), "to be publishable");
    want(package.version == "0.1.0", "version 0.1.0");
    want(package.description.is_some(), "a description");
    want(package.license.is_some(), "a licence");
    want(package.readme.is_some(), "`readme` in its manifest");
    want(
        package.rust_version.is_some(),
        "`rust-version` in its manifest",
    );
    want(!package.keywords.is_empty(), "keywords");
    want(
        readme.contains("```rust") || readme.contains("```\n"),
        "a README.md with an example",
    );
    want(
        readme.contains("1.89"),
        "its minimum Rust version in README.md",
    );
}

/// Whether `folder` lies directly below `crates/`.
fn in_crates(folder: &Path) -> bool {
    folder
        .parent()
        .and_then(Path::file_name)
        .is_some_and(|name| name == "crates")
}
