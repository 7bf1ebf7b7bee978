//! Rows of a report: each is printed as soon as it is there.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::Options;
use crate::samples::{P99_FROM, Samples, percentile};

/// The unit of a row's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// KiB of memory.
    #[serde(rename = "KiB")]
    Kibibytes,
    /// Percent of one CPU.
    #[serde(rename = "%")]
    Percent,
    /// A plain number, named by the row.
    #[serde(rename = "count")]
    Count,
}

impl Unit {
    /// A duration in this unit; microseconds for a unit that is not of time.
    #[must_use]
    pub fn of(self, duration: Duration) -> f64 {
        match self {
            Self::Millis => duration.as_secs_f64() * 1e3,
            _ => duration.as_secs_f64() * 1e6,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Micros => "us",
            Self::Millis => "ms",
            Self::Kibibytes => "KiB",
            Self::Percent => "%",
            Self::Count => "",
        }
    }
}

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// At most the limit is right.
    Lower,
    /// At least the limit is right.
    Higher,
}

/// One figure. Where there is a peer, the limit is on the ratio of the two, else on the value.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    bench: &'static str,
    name: String,
    value: f64,
    unit: Unit,
    limit: Option<f64>,
    better: Better,
    ok: Option<bool>,
    peer: Option<String>,
    peer_value: Option<f64>,
    ratio: Option<f64>,
    n: usize,
    p50: Option<f64>,
    p99: Option<f64>,
    /// The best ratio of the p99s of three blocks, where there are samples enough.
    #[serde(skip)]
    ratio_p99: Option<f64>,
}

impl Row {
    /// A figure that stands alone, made of `n` measurements.
    #[must_use]
    pub fn value(name: impl Into<String>, unit: Unit, value: f64, n: usize) -> Self {
        Self {
            bench: "",
            name: name.into(),
            value,
            unit,
            limit: None,
            better: Better::Lower,
            ok: None,
            peer: None,
            peer_value: None,
            ratio: None,
            n,
            p50: None,
            p99: None,
            ratio_p99: None,
        }
    }

    /// The median of `ours`, without a peer.
    #[must_use]
    pub fn samples(name: impl Into<String>, unit: Unit, ours: &Samples) -> Self {
        let mut row = Self::value(name, unit, unit.of(ours.p50()), ours.len());
        row.p50 = Some(unit.of(ours.p50()));
        row.p99 = Some(unit.of(ours.p99()));
        row
    }

    /// The median of `ours` beside that of a peer.
    #[must_use]
    pub fn against(
        name: impl Into<String>,
        unit: Unit,
        ours: &Samples,
        peer: &str,
        theirs: &Samples,
    ) -> Self {
        let mut row = Self::samples(name, unit, ours).peer(peer, unit.of(theirs.p50()));
        row.ratio_p99 = best_p99_ratio(ours, theirs);
        row
    }

    /// Sets a value beside that of a peer.
    #[must_use]
    pub fn peer(mut self, peer: &str, peer_value: f64) -> Self {
        self.peer = Some(peer.to_owned());
        self.peer_value = Some(peer_value);
        self.ratio = (peer_value > 0.0).then(|| self.value / peer_value);
        self
    }

    /// Holds the ratio of the medians, or the value where there is no peer, against `limit`.
    #[must_use]
    pub fn p50_limit(mut self, limit: f64) -> Self {
        let measured = if self.peer.is_some() {
            self.ratio
        } else {
            Some(self.value)
        };
        self.limit = Some(limit);
        self.ok = measured.map(|measured| self.within(measured, limit));
        self
    }

    /// Holds the ratio of the p99s against `limit`, best of three blocks; not judged below 1,000 samples.
    /// The row's value is then the p99.
    #[must_use]
    pub fn p99_limit(mut self, limit: f64) -> Self {
        self.limit = Some(limit);
        self.ratio = self.ratio_p99;
        self.value = self.p99.unwrap_or(self.value);
        self.ok = self.ratio_p99.map(|ratio| self.within(ratio, limit));
        self
    }

    /// Says that more is better; before a limit is set.
    #[must_use]
    pub const fn higher_is_better(mut self) -> Self {
        self.better = Better::Higher;
        self
    }

    /// Takes the judgement back, as when the peer or the machine is not what the limit is about.
    #[must_use]
    pub const fn not_judged(mut self) -> Self {
        self.ok = None;
        self
    }

    fn within(&self, measured: f64, limit: f64) -> bool {
        match self.better {
            Better::Lower => measured <= limit,
            Better::Higher => measured >= limit,
        }
    }

    fn text(&self) -> String {
        let verdict = match self.ok {
            Some(true) => "ok    ",
            Some(false) => "MISSED",
            None => "      ",
        };
        let mut parts = vec![format!(
            "{verdict} {:<44} {:>10.1} {:<3}",
            self.name,
            self.value,
            self.unit.name()
        )];
        if let (Some(peer), Some(value)) = (&self.peer, self.peer_value) {
            parts.push(format!("{peer} {value:.1}"));
        }
        if let Some(ratio) = self.ratio {
            parts.push(format!("ratio {ratio:.2}"));
        }
        if let Some(limit) = self.limit {
            let sign = if self.better == Better::Lower {
                "<="
            } else {
                ">="
            };
            parts.push(format!("limit {sign} {limit}"));
        }
        if let Some(p99) = self.p99 {
            parts.push(format!("p99 {p99:.1}"));
        }
        parts.push(format!("n {}", self.n));
        parts.join("  ")
    }
}

/// The smallest ratio of p99s of the three blocks; `None` when there are too few samples.
fn best_p99_ratio(ours: &Samples, theirs: &Samples) -> Option<f64> {
    if ours.len().min(theirs.len()) < P99_FROM {
        return None;
    }
    ours.blocks()
        .zip(theirs.blocks())
        .map(|(ours, theirs)| {
            (
                percentile(ours, 99).as_secs_f64(),
                percentile(theirs, 99).as_secs_f64(),
            )
        })
        .filter(|(_, theirs)| *theirs > 0.0)
        .map(|(ours, theirs)| ours / theirs)
        .min_by(f64::total_cmp)
}

/// Prints rows and keeps count of missed limits.
#[derive(Debug)]
pub struct Report {
    bench: &'static str,
    options: Options,
    missed: usize,
}

impl Report {
    /// A report of the bench `bench`.
    #[must_use]
    pub const fn new(bench: &'static str, options: Options) -> Self {
        Self {
            bench,
            options,
            missed: 0,
        }
    }

    /// The options of this run.
    #[must_use]
    pub const fn options(&self) -> Options {
        self.options
    }

    /// Prints `row`.
    pub fn add(&mut self, row: Row) {
        let row = Row {
            bench: self.bench,
            ..row
        };
        if row.ok == Some(false) {
            self.missed += 1;
        }
        let line = if self.options.json {
            serde_json::to_string(&row).unwrap_or_default()
        } else {
            row.text()
        };
        writeln!(std::io::stdout().lock(), "{line}").ok();
    }

    /// Says something about the run, on stderr.
    pub fn note(&self, note: &str) {
        writeln!(std::io::stderr().lock(), "{}: {note}", self.bench).ok();
    }

    /// The exit status: 1 when a limit was missed and `--check` was given.
    #[must_use]
    pub fn finish(self) -> ExitCode {
        if self.missed > 0 {
            self.note(&format!("{} limits missed", self.missed));
        }
        ExitCode::from(u8::from(self.options.check && self.missed > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(millis: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        millis
            .into_iter()
            .for_each(|ms| samples.push(Duration::from_millis(ms)));
        samples
    }

    #[test]
    fn a_ratio_is_held_against_its_limit_and_prints_bare_numbers() {
        let row = Row::against("x", Unit::Millis, &samples([3]), "bare", &samples([2]));
        let row = Row {
            bench: "b",
            ..row.p50_limit(1.2)
        };
        let expected = r#"{"bench":"b","name":"x","value":3.0,"unit":"ms","limit":1.2,"better":"lower","ok":false,"peer":"bare","peer_value":2.0,"ratio":1.5,"n":1,"p50":3.0,"p99":3.0}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), expected);
    }

    #[test]
    fn a_value_without_peer_is_held_against_its_limit() {
        let row = Row::value("x", Unit::Kibibytes, 12.0, 1);
        assert_eq!(row.clone().p50_limit(12.0).ok, Some(true));
        assert_eq!(row.clone().p50_limit(11.0).ok, Some(false));
        assert_eq!(
            row.clone().higher_is_better().p50_limit(11.0).ok,
            Some(true)
        );
        assert_eq!(row.ok, None);
    }

    #[test]
    fn p99_is_judged_from_a_thousand_samples_by_the_best_block() {
        let few = Row::against("x", Unit::Millis, &samples(0..99), "p", &samples(0..99));
        assert_eq!(few.p99_limit(1.0).ok, None);
        let outlier = samples((0..3_000).map(|nth| if nth < 100 { 500 } else { 10 }));
        let row = Row::against(
            "x",
            Unit::Millis,
            &outlier,
            "p",
            &samples((0..3_000).map(|_| 10)),
        );
        assert_eq!(row.p99_limit(1.1).ok, Some(true));
    }
}
