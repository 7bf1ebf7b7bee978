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

const TARGETS: &[Target] = &[
    Target {
        name: "checkpoint-envelope",
        package: "longshore-checkpoint",
        filter: "envelope::",
        what: "files in the place of a record",
    },
    Target {
        name: "mesos-record",
        package: "longshore-checkpoint",
        filter: "mesos::",
        what: "files in Mesos' record form",
    },
    Target {
        name: "volume-id",
        package: "longshore-paths",
        filter: "volume::",
        what: "directory names of volumes",
    },
    Target {
        name: "mesos-json",
        package: "longshore-mesos-api",
        filter: "json::",
        what: "JSON of the agent's API",
    },
    Target {
        name: "mesos-limits",
        package: "longshore-mesos-api",
        filter: "limits::",
        what: "protobuf that decodes to more than it weighs",
    },
    Target {
        name: "record-io",
        package: "longshore-mesos-api",
        filter: "record_io::",
        what: "RecordIO streams",
    },
    Target {
        name: "endpoint",
        package: "longshore-agent-client",
        filter: "endpoint::",
        what: "addresses of agents",
    },
    Target {
        name: "nri-events",
        package: "longshore-nri-api",
        filter: "event::",
        what: "event lists of plugins",
    },
    Target {
        name: "nri-cost",
        package: "longshore-nri-api",
        filter: "cost::",
        what: "messages of plugins that decode to more than they weigh",
    },
    Target {
        name: "nri-plugin-files",
        package: "longshore-nri-adaptation",
        filter: "discover::",
        what: "file names in a plugin directory",
    },
    Target {
        name: "nri-merge",
        package: "longshore-nri-adaptation",
        filter: "laws::",
        what: "replies of plugins, merged and applied",
    },
    Target {
        name: "nri-notice",
        package: "longshore-nri-adaptation",
        filter: "notice::",
        what: "events as both of their methods tell them",
    },
    Target {
        name: "nri-parts",
        package: "longshore-nri-adaptation",
        filter: "chunks::",
        what: "a Synchronize cut into messages",
    },
    Target {
        name: "nri-kept",
        package: "longshore-nri-adaptation",
        filter: "kept::",
        what: "events that come while a plugin is synchronized",
    },
    Target {
        name: "nri-stub",
        package: "longshore-nri-stub",
        filter: "service::",
        what: "requests that a plugin is sent",
    },
    Target {
        name: "ttrpc-envelope",
        package: "longshore-ttrpc",
        filter: "envelope::",
        what: "ttrpc requests",
    },
    Target {
        name: "ttrpc-frame",
        package: "longshore-ttrpc",
        filter: "frame::",
        what: "ttrpc frames, cut anywhere",
    },
    Target {
        name: "ttrpc-trunk",
        package: "longshore-ttrpc",
        filter: "trunk::",
        what: "a whole trunk: what a hostile peer sends",
    },
    Target {
        name: "ttrpc-mux",
        package: "longshore-ttrpc",
        filter: "mux::",
        what: "frames of NRI's multiplexer",
    },
    Target {
        name: "agent-http",
        package: "longshore-agent",
        filter: "http::",
        what: "calls and headers sent to the embedded agent",
    },
];

/// Runs one target until its time is over.
///
/// # Errors
/// An unknown name; a build that fails; an input that breaks a property.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let Some(name) = options.target.as_deref() else {
        for target in TARGETS {
            println!("{:<20} {}", target.name, target.what);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_property_test_where_its_filter_points() {
        for target in TARGETS {
            let folder = target.package.strip_prefix("longshore-").unwrap();
            let source = sh::root().join("crates").join(folder).join("src");
            let module = target.filter.trim_end_matches("::");
            assert!(has_property_test(&source, module), "{}", target.name);
        }
    }

    /// Whether a file below `directory`, whose path names the module, has a property test.
    fn has_property_test(directory: &Path, module: &str) -> bool {
        std::fs::read_dir(directory)
            .unwrap()
            .flatten()
            .any(|entry| {
                let path = entry.path();
                if path.is_dir() {
                    return has_property_test(&path, module);
                }
                path.to_string_lossy().contains(module)
                    && std::fs::read_to_string(&path).is_ok_and(|text| text.contains("proptest!"))
            })
    }
}
