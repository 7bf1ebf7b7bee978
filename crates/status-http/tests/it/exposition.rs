//! A reader of Prometheus' text form that takes nothing that is not quite right.

use std::collections::{BTreeMap, BTreeSet};

/// The value of each series, by its name and labels as they are written.
pub(crate) type Series = BTreeMap<String, f64>;

/// Reads all of a text.
///
/// # Errors
/// The line, and what is wrong with it.
pub(crate) fn read(text: &str) -> Result<Series, String> {
    let mut series = Series::new();
    let mut seen = BTreeSet::new();
    let mut family: Option<(String, Option<String>)> = None;
    if !text.is_empty() && !text.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    for line in text.lines() {
        let wrong = |why: &str| Err(format!("{line}: {why}"));
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let Some((name, help)) = rest.split_once(' ') else {
                return wrong("no help");
            };
            if help.is_empty() || !seen.insert(name.to_owned()) || !is_name(name) {
                return wrong("no help, a family told twice, or a bad name");
            }
            family = Some((name.to_owned(), None));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, kind)) = rest.split_once(' ') else {
                return wrong("no type");
            };
            match &mut family {
                Some((known, it @ None)) if known == name => *it = Some(kind.to_owned()),
                _ => return wrong("a type that does not follow its help"),
            }
            match kind {
                "counter" if name.ends_with("_total") => {}
                "gauge" | "summary" if !name.ends_with("_total") => {}
                _ => return wrong("no name for this type"),
            }
        } else {
            let (id, name, labels, value) = sample(line).map_err(|why| format!("{line}: {why}"))?;
            let Some((known, Some(kind))) = &family else {
                return wrong("a sample without help and type");
            };
            let summary = kind == "summary";
            let of_summary = [format!("{known}_sum"), format!("{known}_count")];
            if name != *known && !(summary && of_summary.contains(&name)) {
                return wrong("it is in another family's place");
            }
            if summary && name == *known && !labels.contains("quantile") {
                return wrong("a value of a summary without a quantile");
            }
            if kind == "counter" && value < 0.0 {
                return wrong("a counter below 0");
            }
            if series.insert(id, value).is_some() {
                return wrong("told twice");
            }
        }
    }
    Ok(series)
}

fn is_name(name: &str) -> bool {
    let mut letters = name.bytes();
    letters
        .next()
        .is_some_and(|first| first.is_ascii_lowercase())
        && letters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_')
}

type Sample = (String, String, BTreeSet<String>, f64);

fn sample(line: &str) -> Result<Sample, &'static str> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return Err("a bad name");
    }
    let mut labels = BTreeSet::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            let (label, after) = inner.split_once("=\"").ok_or("a label without a value")?;
            if !is_name(label) || !labels.insert(label.to_owned()) {
                return Err("a bad or repeated label");
            }
            let mut letters = after.char_indices();
            let close = loop {
                match letters.next().ok_or("a label without an end")? {
                    (at, '"') => break at,
                    (_, '\\') => match letters.next() {
                        Some((_, '\\' | '"' | 'n')) => {}
                        _ => return Err("a bad escape"),
                    },
                    _ => {}
                }
            };
            inner = &after[close + 1..];
            match inner.split_at_checked(1) {
                Some((",", more)) => inner = more,
                Some(("}", more)) => {
                    rest = more;
                    break;
                }
                _ => return Err("what follows a label"),
            }
        }
    }
    let value = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let parsed = value.parse::<f64>().map_err(|_| "no number")?;
    let id = line[..line.len() - value.len() - 1].to_owned();
    Ok((id, name.to_owned(), labels, parsed))
}

#[test]
fn the_reader_refuses_what_is_not_right() {
    let head = "# HELP a_total x\n# TYPE a_total counter\n";
    assert_eq!(
        read(&format!("{head}a_total{{b=\"c\\\"\"}} 1\n"))
            .unwrap()
            .len(),
        1
    );
    for bad in [
        "a_total 1\n",
        "a_total{b=\"c} 1\n",
        "a_total{b=\"c\\x\"} 1\n",
        "a_total{b=\"c\",b=\"d\"} 1\n",
        "a_total 1\na_total 1\n",
        "a_total one\n",
        "b 1\n",
        "a_total 1",
        "# HELP a_total x\n",
        "# HELP b x\n# TYPE b counter\n",
        "# TYPE b gauge\n",
    ] {
        let alone = bad == "a_total 1\n";
        let text = if alone {
            bad.to_owned()
        } else {
            format!("{head}{bad}")
        };
        assert!(read(&text).is_err(), "{bad}");
    }
}
