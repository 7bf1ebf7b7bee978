//! The figures as a table for a person.

use serde::Deserialize;

/// One line of a bench program.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Line {
    pub(crate) bench: String,
    pub(crate) name: String,
    pub(crate) value: f64,
    pub(crate) unit: String,
    pub(crate) limit: Option<f64>,
    pub(crate) better: String,
    pub(crate) ok: Option<bool>,
    pub(crate) peer: Option<String>,
    pub(crate) peer_value: Option<f64>,
    pub(crate) ratio: Option<f64>,
}

/// A table: one row a figure.
pub(crate) fn render(lines: &[Line]) -> String {
    let header = ["bench", "figure", "value", "peer", "ratio", "limit", ""];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(row));
    let mut widths = vec![0; header.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}", width = *width))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(line: &Line) -> Vec<String> {
    let bound = if line.better == "higher" { ">=" } else { "<=" };
    let peer = match (&line.peer, line.peer_value) {
        (Some(peer), Some(value)) => format!("{} {} ({peer})", number(value), line.unit),
        (Some(peer), None) => format!("({peer})"),
        (None, _) => String::new(),
    };
    vec![
        line.bench.clone(),
        line.name.clone(),
        format!("{} {}", number(line.value), line.unit),
        peer,
        line.ratio
            .map(|ratio| format!("{ratio:.2}x"))
            .unwrap_or_default(),
        line.limit
            .map(|limit| format!("{bound} {}", number(limit)))
            .unwrap_or_default(),
        match line.ok {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "",
        }
        .to_owned(),
    ]
}

fn number(value: f64) -> String {
    if value.abs() >= 100.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_limit_stands_out() {
        let json = r#"{"bench":"csi","name":"listen to endpoint p50","value":1.5,"unit":"ms",
            "limit":2,"better":"lower","ok":false,"peer":"bare probe","peer_value":0.5,
            "ratio":3.0,"n":100,"p50":1.5,"p99":4.0}"#;
        let line: Line = serde_json::from_str(json).unwrap();
        let text = render(&[line]);
        let row = text.lines().nth(1).unwrap();
        assert!(
            row.starts_with("csi    listen to endpoint p50  1.500 ms"),
            "{row}"
        );
        assert!(row.ends_with("3.00x  <= 2   MISSED"), "{row}");
    }
}
