//! A report for continuous integration, in the XML that JUnit has made common.

use std::fmt::Write as _;

use crate::Report;

/// The report as a test suite, a test case for each step.
#[must_use]
pub fn junit(report: &Report, suite: &str) -> String {
    let steps = report.steps.iter();
    let failures = steps.clone().filter(|step| !step.ok()).count();
    let skipped = steps.filter(|step| step.ok() && step.skipped.is_some());
    let skipped = skipped.count();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites><testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\">",
        escaped(suite),
        report.steps.len()
    );
    for step in &report.steps {
        let _ = write!(
            out,
            "<testcase classname=\"{}\" name=\"{} {}\" time=\"{:.6}\"",
            escaped(suite),
            step.step,
            escaped(&step.name),
            step.took.as_secs_f64()
        );
        match (step.wrong().next(), &step.skipped) {
            (None, None) => out.push_str("/>\n"),
            (None, Some(why)) => {
                let why = escaped(why);
                let _ = writeln!(out, "><skipped message=\"{why}\"/></testcase>");
            }
            (Some(first), _) => {
                let _ = writeln!(
                    out,
                    "><failure message=\"{}\">{}</failure></testcase>",
                    escaped(first.lines().next().unwrap_or_default()),
                    escaped(&step.wrong().collect::<Vec<_>>().join("\n"))
                );
            }
        }
    }
    out.push_str("</testsuite></testsuites>\n");
    out
}

/// Text in an attribute or an element. Characters that XML 1.0 has no place for are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(char),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Outcome, StepReport};

    #[test]
    fn hostile_text_stays_text() {
        let step = StepReport {
            step: 1,
            name: "Create <\"&\u{1}".into(),
            took: Duration::from_micros(1500),
            outcome: Outcome::Told,
            problems: vec!["a < b\nsecond]]>".into()],
            skipped: None,
            losses: vec![],
            notes: vec![],
            unsolicited: vec![],
        };
        let idle = StepReport {
            problems: vec![],
            skipped: Some("no <plugin>".into()),
            ..step.clone()
        };
        let lost = StepReport {
            problems: vec![],
            losses: vec!["it is gone".into()],
            ..step.clone()
        };
        let report = Report {
            runtime: String::new(),
            plugins: vec![],
            steps: vec![step, idle, lost],
        };
        let xml = junit(&report, "s");
        assert!(
            xml.contains("name=\"1 Create &lt;&quot;&amp;\u{fffd}\" time=\"0.001500\""),
            "{xml}"
        );
        assert!(
            xml.contains("message=\"a &lt; b\">a &lt; b\nsecond]]&gt;</failure>"),
            "{xml}"
        );
        assert!(
            xml.contains("tests=\"3\" failures=\"2\" skipped=\"1\""),
            "{xml}"
        );
        assert!(
            xml.contains("<skipped message=\"no &lt;plugin&gt;\"/>"),
            "{xml}"
        );
        assert!(xml.contains("<failure message=\"it is gone\">"), "{xml}");
    }
}
