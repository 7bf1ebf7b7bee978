//! `docs/metrics.md` held against what is rendered.

use std::collections::BTreeSet;

use longshore_status_http::render_metrics;

use crate::sample::{busy, quiet};

/// The families of both samples.
fn families() -> BTreeSet<String> {
    let text = render_metrics(&quiet()) + &render_metrics(&busy());
    let names = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|rest| rest.split(' ').next());
    names.map(str::to_owned).collect()
}

/// All names of metrics on the page, those of the rules for alerts included.
fn named() -> BTreeSet<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let words = page.split(|c: char| !(c.is_ascii_lowercase() || c == '_'));
    let names = words.filter(|word| word.starts_with("longshore_"));
    names.map(str::to_owned).collect()
}

#[test]
fn every_metric_is_on_its_page_and_none_that_there_is_not() {
    let (families, named) = (families(), named());
    let untold: Vec<_> = families
        .iter()
        .filter(|name| !named.contains(*name) && !name.starts_with("process_"))
        .collect();
    assert_eq!(untold, Vec::<&String>::new(), "not in docs/metrics.md");
    let unknown: Vec<_> = named.difference(&families).collect();
    assert_eq!(unknown, Vec::<&String>::new(), "only in docs/metrics.md");
}
