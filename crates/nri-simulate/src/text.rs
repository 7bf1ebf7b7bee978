//! A report for people.

use std::fmt::Write as _;

use crate::compare::diff;
use crate::report::{Outcome, Report, StepReport};

/// The report as lines: the plugins, then each step with what changes in the container's OCI spec.
#[must_use]
pub fn text(report: &Report) -> String {
    let mut out = format!("runtime {}\n", report.runtime);
    for plugin in &report.plugins {
        let _ = write!(out, "plugin  {}  {}", plugin.name, plugin.events);
        if plugin.state_change_only {
            out.push_str("  (StateChange only)");
        }
        if let Some(latency) = plugin.last_latency {
            let _ = write!(out, "  {} requests, last {latency:.1?}", plugin.requests);
        }
        out.push('\n');
    }
    for step in &report.steps {
        self::step(&mut out, step);
    }
    let bad = report
        .steps
        .iter()
        .filter(|step| !step.problems.is_empty())
        .count();
    match bad {
        0 => out.push_str("all as expected\n"),
        1 => out.push_str("1 step is not as expected\n"),
        _ => {
            let _ = writeln!(out, "{bad} steps are not as expected");
        }
    }
    out
}

fn step(out: &mut String, step: &StepReport) {
    let mark = if step.problems.is_empty() {
        "ok  "
    } else {
        "BAD "
    };
    let _ = writeln!(out, "{mark} {}  {:.1?}", step.name, step.took);
    match &step.outcome {
        Outcome::Told => {}
        Outcome::Skipped => out.push_str("     skipped: the container could not be created\n"),
        Outcome::Created {
            before,
            after,
            updates,
            evictions,
            ..
        } => {
            for line in diff(before, after).lines() {
                let _ = writeln!(out, "     {line}");
            }
            changes(
                out,
                updates.iter().map(|update| &*update.container_id),
                evictions,
            );
        }
        Outcome::Changed { updates, evictions } => {
            changes(
                out,
                updates.iter().map(|update| &*update.container_id),
                evictions,
            );
        }
        Outcome::Failed { error } => {
            if step.problems.is_empty() {
                let _ = writeln!(out, "     fails as expected: {error}");
            }
        }
    }
    for changes in &step.unsolicited {
        let (updates, evictions) = (changes.updates.len(), changes.evictions.len());
        let _ = writeln!(
            out,
            "     {} asked by itself for {updates} updates and {evictions} evictions",
            changes.plugin
        );
    }
    for line in step
        .problems
        .iter()
        .chain(&step.notes)
        .flat_map(|text| text.lines())
    {
        let _ = writeln!(out, "     {line}");
    }
}

fn changes<'a>(
    out: &mut String,
    updates: impl Iterator<Item = &'a str>,
    evictions: &[(String, String)],
) {
    for container in updates {
        let _ = writeln!(out, "     updates {container}");
    }
    for (plugin, container) in evictions {
        let _ = writeln!(out, "     {plugin} evicts {container}");
    }
}
