//! Every package's licence is one that we have read.

use super::Findings;
use super::graph::Graph;

/// Compared as text: a new spelling is a new decision. `deny.toml` says the same to cargo-deny.
const ALLOWED: &[&str] = &[
    "(Apache-2.0 OR MIT) AND BSD-3-Clause",
    "(MIT OR Apache-2.0) AND Unicode-3.0",
    "Apache-2.0",
    "Apache-2.0 / MIT",
    "Apache-2.0 AND ISC",
    "Apache-2.0 OR ISC OR MIT",
    "Apache-2.0 OR MIT",
    "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "MIT AND BSD-3-Clause",
    "MIT OR Apache-2.0",
    "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
    "MIT OR Apache-2.0 OR Zlib",
    "MIT OR Zlib OR Apache-2.0",
    "MIT/Apache-2.0",
    "Unlicense OR MIT",
    "Unlicense/MIT",
    "Zlib",
    "Zlib OR Apache-2.0 OR MIT",
];

pub(crate) fn check(graph: &Graph, findings: &mut Findings) {
    for package in graph.packages.values() {
        match package.license.as_deref() {
            Some(licence) if ALLOWED.contains(&licence) => {}
            Some(licence) => findings.error(format!(
                "{} {}: licence `{licence}` is not in xtask/src/tidy/licences.rs",
                package.name, package.version
            )),
            None => findings.error(format!("{} {}: no licence", package.name, package.version)),
        }
    }
}
