//! `cargo xtask package`: the crates with a semver promise, as they would be published.

use std::path::Path;

use anyhow::Result;

use crate::sh;
use crate::tidy::floors::{HOUSE, Tier};

/// Packs every public crate into the build directory; uploads nothing.
///
/// # Errors
/// When cargo refuses one (a private dependency, missing metadata).
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut command = sh::cargo(root);
    // The crates depend on each other's versions, which no registry has yet: packed together they
    // find each other, but a build of each packed crate would ask the registry.
    command.args(["package", "--no-verify", "--allow-dirty", "--locked"]);
    for member in HOUSE.iter().filter(|member| member.tier == Tier::Public) {
        command.arg("--package").arg(member.package());
    }
    sh::run(&mut command)
}
