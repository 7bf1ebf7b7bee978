//! Counts what `cargo test` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Totals over all test programs.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    passed: u64,
    failed: u64,
    ignored: u64,
    failures: Vec<String>,
    /// Tests that did nothing, by reason.
    skips: BTreeMap<String, BTreeSet<String>>,
    /// The program whose lines are being read.
    program: String,
}

impl Summary {
    /// Takes one line of standard output.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(program) = line.trim_start().strip_prefix("Doc-tests ") {
            program.clone_into(&mut self.program);
        } else if let Some(rest) = line.strip_prefix("test result: ") {
            // test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ..
            let counts = rest.split_once(". ").map_or("", |(_, counts)| counts);
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.ignored += count(counts, "ignored");
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_owned());
        }
    }

    /// Takes one line of the file of skips: `skipped: NAME: why [test]`.
    pub(crate) fn skip(&mut self, line: &str) {
        let line = line.strip_prefix("skipped: ").unwrap_or(line);
        let (why, test) = line
            .rsplit_once(" [")
            .map_or((line, "?"), |(why, test)| (why, test.trim_end_matches(']')));
        self.skips
            .entry(why.to_owned())
            .or_default()
            .insert(test.to_owned());
    }

    /// Tests that ran and passed; a skipped one is not among them.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.saturating_sub(self.did_nothing())
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    fn did_nothing(&self) -> u64 {
        let tests: BTreeSet<_> = self.skips.values().flatten().collect();
        u64::try_from(tests.len()).unwrap_or(u64::MAX)
    }

    fn skipped(&self) -> u64 {
        self.did_nothing() + self.ignored
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for name in &self.failures {
            writeln!(f, "failed:  {name}")?;
        }
        for (why, tests) in &self.skips {
            let count = tests.len();
            let names: Vec<_> = tests.iter().take(5).map(String::as_str).collect();
            let more = if count > names.len() { ", .." } else { "" };
            writeln!(f, "skipped: {why} ({count}: {}{more})", names.join(", "))?;
        }
        writeln!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed(),
            self.failed(),
            self.skipped()
        )
    }
}

fn count(counts: &str, what: &str) -> u64 {
    counts
        .split("; ")
        .find_map(|part| part.strip_suffix(what)?.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_added_up_and_skips_are_taken_off() {
        let mut summary = Summary::default();
        for line in [
            "running 4 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "   Doc-tests longshore_paths",
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s",
        ] {
            summary.line(line);
        }
        summary.skip("skipped: go: `go` is not in PATH [a::b]");
        summary.skip("skipped: mesos: not set [a::b]");
        assert_eq!(
            (summary.passed(), summary.failed(), summary.skipped()),
            (4, 1, 2)
        );
        let text = summary.to_string();
        assert!(text.contains("failed:  a::c\n"), "{text}");
        assert!(
            text.contains("skipped: go: `go` is not in PATH (1: a::b)\n"),
            "{text}"
        );
        assert!(
            text.ends_with("\n4 passed, 1 failed, 2 skipped\n"),
            "{text}"
        );
    }
}
