//! `cargo xtask tidy`: the rules of the house that a compiler does not know.

mod crates;
pub(crate) mod floors;
mod graph;
mod licences;
mod links;
mod source;

use std::path::Path;

use anyhow::{Result, bail};

/// What a rule found: where, and what to do.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Vec<String>,
    notes: Vec<String>,
}

impl Findings {
    /// Something that must be changed.
    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.errors.push(text.into());
    }

    /// Something that should be looked at.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}

/// Checks everything and prints all that was found.
///
/// # Errors
/// When a rule is broken; when cargo or git cannot be asked.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut findings = Findings::default();
    let graph = graph::Graph::load(root)?;
    floors::check(&graph, &mut findings);
    crates::check(root, &graph, &mut findings)?;
    licences::check(&graph, &mut findings);
    source::check(root, &mut findings)?;
    for note in &findings.notes {
        println!("note: {note}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    match findings.errors.len() {
        0 => Ok(()),
        1 => bail!("one rule is broken"),
        count => bail!("{count} rules are broken"),
    }
}
