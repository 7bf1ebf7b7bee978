//! `cargo xtask test`: every test, and an honest summary.

mod summary;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::{engine, sh};
use summary::Summary;

/// Below the build directory: what the last whole run came to.
pub(crate) const SUMMARY_FILE: &str = "test-summary.txt";

/// What a test may ask for; the names of `longshore_testkit::peers`.
const PEERS: &[&str] = &[
    "chromium",
    "disk",
    "docker",
    "engines",
    "go",
    "grpcio",
    "mesos",
    "root",
    "systemd",
    "unprivileged",
];

/// Crates whose tests ask for a Docker engine.
const ASK_FOR_DOCKER: &[&str] = &[
    "longshore-docker-executor",
    "longshore",
    "longshore-docker-shim",
    "longshore-engine",
    "longshore-image-containers",
    "longshore-executor-watchdog",
    "longshore-mesos-executor",
    "longshore-task-spec",
];

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Peers that must be there (comma list): a skip for one of them is a failure.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) require: Vec<String>,
    /// Only this crate; the folder's name or the package's.
    #[arg(long = "crate", value_name = "CRATE")]
    pub(crate) package: Option<String>,
    /// Passed on to the test programs (a filter, `--nocapture`, ..).
    #[arg(last = true)]
    pub(crate) rest: Vec<String>,
}

/// Builds all programs, runs all tests (doc tests too) and prints what passed, failed and was
/// skipped, and why.
///
/// # Errors
/// A build that fails; a test that fails; an unknown name in `--require`.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    for name in &options.require {
        if !PEERS.contains(&name.as_str()) {
            bail!(
                "--require {name}: no such peer, use one of {}",
                PEERS.join(", ")
            );
        }
    }
    let selection = selection(root, options.package.as_deref())?;
    // The tests of whole programs run the binaries that this leaves in the build directory. The
    // same targets as `cargo test` builds, so with the same features: nothing is built twice.
    sh::run(
        sh::cargo(root)
            .arg("build")
            .args(&selection)
            .arg("--all-targets"),
    )?;

    let engine = engine_for(&selection);
    let target = sh::target_dir(root);
    let skips = target.join(format!("test-skips-{}.txt", std::process::id()));
    let mut command = sh::cargo(root);
    command
        .arg("test")
        .args(&selection)
        .arg("--no-fail-fast")
        .env("LONGSHORE_TEST_SKIPS", &skips)
        .env("LONGSHORE_TEST_REQUIRE", options.require.join(","));
    if let Some(engine) = &engine {
        command.env(engine::VARIABLE, engine.address());
    }
    if !options.rest.is_empty() {
        command.arg("--").args(&options.rest);
    }
    println!("$ {}", sh::show(&command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("starting cargo test")?;
    let mut summary = Summary::default();
    let lines = child.stdout.take().context("no pipe from cargo test")?;
    let mut out = std::io::stdout();
    for line in BufReader::new(lines).split(b'\n') {
        let line = line.context("reading from cargo test")?;
        let line = String::from_utf8_lossy(&line);
        writeln!(out, "{line}").context("writing to standard output")?;
        summary.line(&line);
    }
    let status = child.wait().context("waiting for cargo test")?;
    drop(engine);
    for line in fs::read_to_string(&skips).unwrap_or_default().lines() {
        summary.skip(line);
    }
    if skips.exists() {
        fs::remove_file(&skips).with_context(|| format!("removing {}", skips.display()))?;
    }
    print!("{summary}");
    if options.package.is_none() && options.rest.is_empty() {
        // For the end of a longer run, see `ci`.
        let path = target.join(SUMMARY_FILE);
        fs::write(&path, summary.to_string())
            .with_context(|| format!("writing {}", path.display()))?;
    }
    if summary.failed() > 0 {
        bail!("{} of the tests failed", summary.failed());
    }
    if !status.success() {
        bail!("cargo test ended with {status}");
    }
    if summary.passed() == 0 && options.rest.is_empty() {
        bail!("no test ran");
    }
    Ok(())
}

/// A private Docker engine, unless there is one in the environment or none is asked for. One that cannot
/// be had is a skip of the tests that ask for it, or their failure when it is required.
fn engine_for(selection: &[String]) -> Option<engine::Engine> {
    let whole = selection.iter().any(|word| word == "--workspace");
    let asked = |word: &String| ASK_FOR_DOCKER.contains(&word.as_str());
    if std::env::var_os(engine::VARIABLE).is_some() || !(whole || selection.iter().any(asked)) {
        return None;
    }
    match engine::Engine::for_tests() {
        Ok(engine) => {
            println!("a Docker engine for the tests: {}", engine.address());
            Some(engine)
        }
        Err(error) => {
            println!("no Docker engine for the tests: {error:#}");
            None
        }
    }
}

fn selection(root: &Path, package: Option<&str>) -> Result<Vec<String>> {
    let Some(name) = package else {
        return Ok(vec!["--workspace".to_owned()]);
    };
    let crates = root.join("crates");
    let package = match name {
        "cli" | "longshore" => "longshore".to_owned(),
        "xtask" => "xtask".to_owned(),
        name if name.starts_with("longshore-") => name.to_owned(),
        name if crates.join(name).is_dir() || root.join("tests").join(name).is_dir() => {
            format!("longshore-{name}")
        }
        name => bail!("--crate {name}: no such folder in crates/ or tests/"),
    };
    Ok(vec!["--package".to_owned(), package])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_by_folder_or_by_package() {
        let root = sh::root();
        let of = |name| {
            selection(&root, Some(name))
                .map(|words| words[1].clone())
                .ok()
        };
        assert_eq!(of("paths").as_deref(), Some("longshore-paths"));
        assert_eq!(of("longshore-paths").as_deref(), Some("longshore-paths"));
        assert_eq!(of("cli").as_deref(), Some("longshore"));
        assert_eq!(of("nonesuch"), None);
    }
}
