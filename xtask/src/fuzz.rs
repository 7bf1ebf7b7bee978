//! `cargo xtask fuzz TARGET`: hostile input for one parser, for a given time.
//!
//! The bodies are the property tests of the crates, so that each is also run, briefly, by every
//! `cargo test`. Here they run in release mode, round after round with ever new seeds. A failure
//! prints the shrunk input and leaves it in the crate's `proptest-regressions`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::sh;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which parser; without it they are listed.
    target: Option<String>,
    /// For how long.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Cases of one round.
    #[arg(long, default_value_t = 20_000)]
    cases: u32,
}

/// A target: its name, its package and which tests of it are its body.
struct Target {
    name: &'static str,
    package: &'static str,
    filter: &'static str,
    what: &'static str,
}

const TARGETS: &[Target] = &[];

/// Runs one target until its time is over.
///
/// # Errors
/// An unknown name; a build that fails; an input that breaks a property.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let Some(name) = options.target.as_deref() else {
        for target in TARGETS {
            println!("{:<12} {}", target.name, target.what);
        }
        return Ok(());
    };
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        bail!("no such target: {name}; `cargo xtask fuzz` lists them");
    };
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let mut rounds = 0_u64;
    while rounds == 0 || Instant::now() < end {
        let mut command = sh::cargo(root);
        command
            .args(["test", "--quiet", "--release", "--package", target.package])
            .args(["--lib", target.filter])
            .env("PROPTEST_CASES", options.cases.to_string());
        sh::run(&mut command)?;
        rounds += 1;
    }
    println!(
        "{name}: {rounds} rounds of {} cases, nothing found",
        options.cases
    );
    Ok(())
}
