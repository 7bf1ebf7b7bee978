//! A report for people.

use std::fmt::Write as _;

use crate::compare::{diff, stripped};
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
        out.push_str(&self::step(step));
    }
    let steps = report.steps.iter();
    let bad = steps.clone().filter(|step| !step.ok()).count();
    let skipped = steps.filter(|step| step.ok() && step.skipped.is_some());
    let verdict = match bad {
        0 => "all as expected".to_owned(),
        1 => "1 step is not as expected".to_owned(),
        _ => format!("{bad} steps are not as expected"),
    };
    out.push_str(&verdict);
    match skipped.count() {
        0 => {}
        1 => out.push_str(", 1 step is skipped"),
        skipped => {
            let _ = write!(out, ", {skipped} steps are skipped");
        }
    }
    out.push('\n');
    out
}

/// One step as lines.
#[must_use]
pub fn step(step: &StepReport) -> String {
    let mut out = String::new();
    write_step(&mut out, step);
    out
}

/// The most of one text of a plugin that is shown, in characters.
const SHOWN_MAX: usize = 4096;

/// A text that a plugin chose, as one line that does nothing to a terminal.
fn shown(text: &str) -> String {
    let mut characters = text.chars();
    let mut line: String = characters
        .by_ref()
        .take(SHOWN_MAX)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    match characters.count() {
        0 => {}
        more => {
            let _ = write!(line, ".. ({more} more characters)");
        }
    }
    line
}

fn write_step(out: &mut String, step: &StepReport) {
    let mark = match (step.ok(), &step.skipped) {
        (false, _) => "BAD ",
        (true, Some(_)) => "skip",
        (true, None) => "ok  ",
    };
    let _ = writeln!(out, "{mark} {}  {:.1?}", shown(&step.name), step.took);
    match &step.outcome {
        Outcome::Told | Outcome::Skipped | Outcome::Answered { .. } => {}
        Outcome::Created {
            before,
            after,
            updates,
            evictions,
            ..
        } => {
            for line in diff(before, after).lines() {
                let _ = writeln!(out, "     {}", shown(line));
            }
            changes(
                out,
                updates.iter().map(|update| &*update.container_id),
                evictions,
            );
        }
        Outcome::Changed {
            requested,
            updates,
            evictions,
        } => {
            let mut others = updates.iter();
            if let Some(asked) = requested
                && let Some(own) = others.next()
            {
                // The request of the runtime itself is no news, what plugins made of it is.
                let made = own.linux.clone().unwrap_or_default().resources;
                let (asked, made) = (stripped(&**asked), stripped(&made.unwrap_or_default()));
                for line in diff(&asked, &made).lines() {
                    let _ = writeln!(out, "     {}", shown(line));
                }
            }
            changes(out, others.map(|update| &*update.container_id), evictions);
        }
        Outcome::Failed { error } => {
            if step.problems.is_empty() {
                let _ = writeln!(out, "     fails as expected: {}", shown(error));
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
    if let Some(why) = &step.skipped {
        let _ = writeln!(out, "     skipped: {why}");
    }
    let notes = step.notes.iter().map(String::as_str);
    for line in step.wrong().chain(notes).flat_map(str::lines) {
        let _ = writeln!(out, "     {}", shown(line));
    }
}

fn changes<'a>(
    out: &mut String,
    updates: impl Iterator<Item = &'a str>,
    evictions: &[(String, String)],
) {
    for container in updates {
        let _ = writeln!(out, "     updates {}", shown(container));
    }
    for (plugin, container) in evictions {
        let _ = writeln!(out, "     {} evicts {}", shown(plugin), shown(container));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Plugins choose errors, names and ids: none of them reaches the terminal as anything but text, or looks
    /// like a line of the report.
    #[test]
    fn what_plugins_say_is_no_more_than_text() {
        let evil = "\x1b[31mred\nok   fake\0\u{9b}2J";
        let outcomes = [
            Outcome::Failed { error: evil.into() },
            Outcome::Changed {
                requested: None,
                updates: vec![longshore_nri_api::ContainerUpdate::new(evil)],
                evictions: vec![("10-a".into(), evil.into())],
            },
        ];
        for (outcome, problems) in outcomes.into_iter().flat_map(|outcome| {
            [Vec::new(), vec![evil.to_owned(), "x".repeat(100_000)]]
                .map(|problems| (outcome.clone(), problems))
        }) {
            let report = StepReport {
                step: 1,
                name: evil.to_owned(),
                took: Duration::ZERO,
                outcome,
                problems,
                skipped: None,
                losses: vec![evil.to_owned()],
                notes: vec![evil.to_owned()],
                unsolicited: Vec::new(),
            };
            let text = step(&report);
            assert!(
                !text.chars().any(|c| c.is_control() && c != '\n'),
                "{text:?}"
            );
            let fakes = text.lines().filter(|line| line.starts_with("ok   fake"));
            assert_eq!(fakes.count(), 0, "{text}");
            assert!(text.len() < 16 * SHOWN_MAX, "{} bytes", text.len());
        }
    }
}
