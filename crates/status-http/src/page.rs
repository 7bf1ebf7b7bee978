//! The status page: a document of sections, each rendered here alone, for the first answer and for each change. Pure.

mod declared;
mod escape;
mod sections;

use std::fmt::Write as _;

use crate::Snapshot;

use sections::{nri, plugins, summary, tasks};

/// How it looks.
pub(crate) const STYLE: &str = include_str!("page/page.css");
/// How it stays up to date.
pub(crate) const SCRIPT: &str = include_str!("page/page.js");

/// The parts of the page that change, as HTML by the id of their element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sections([(&'static str, String); 4]);

/// What a page of this snapshot holds.
pub(crate) fn sections(snapshot: &Snapshot) -> Sections {
    Sections([
        ("summary", summary(snapshot)),
        ("plugins", plugins(&snapshot.plugins)),
        ("tasks", tasks(&snapshot.tasks)),
        ("nri", nri(snapshot.nri.as_deref())),
    ])
}

/// The whole document.
#[must_use]
pub fn render(snapshot: &Snapshot) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Longshore</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<link rel=\"stylesheet\" href=\"/page.css\">\n\
         <script src=\"/page.js\" defer></script>\n</head>\n<body>\n\
         <header><h1>Longshore</h1><p id=\"live\" role=\"status\">as of loading</p></header>\n<main>\n",
    );
    for (id, html) in &sections(snapshot).0 {
        let _ = write!(page, "<section id=\"{id}\">\n{html}</section>\n");
    }
    page.push_str(
        "</main>\n<footer><a href=\"/metrics\">metrics</a> <a href=\"/readyz\">readiness</a></footer>\n</body>\n</html>\n",
    );
    page
}

/// What tells a page that has `before` of what is `now`; `None` when it has it all.
pub(crate) fn event(before: &Sections, now: &Sections) -> Option<String> {
    let changed = now
        .0
        .iter()
        .zip(&before.0)
        .filter(|(now, before)| now != before);
    let changed: serde_json::Map<String, serde_json::Value> = changed
        .map(|((id, html), _)| ((*id).to_owned(), html.clone().into()))
        .collect();
    if changed.is_empty() {
        return None;
    }
    // JSON has no line ends of its own, so an event is one line.
    let data = serde_json::Value::Object(changed);
    Some(format!("event: sections\ndata: {data}\n\n"))
}
