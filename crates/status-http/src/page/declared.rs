//! Declared tasks, above the tasks that their attempts are.

use std::fmt::Write as _;

use super::escape::{Escaped, brief};
use super::sections::{ROWS, Tone, cell, end, health, moment, pill, table};
use crate::DeclaredTask;

/// Nothing where none is declared. Those that wait come first.
pub(super) fn declared(tasks: &[DeclaredTask]) -> String {
    let mut html = String::new();
    if tasks.is_empty() {
        return html;
    }
    html.push_str("<h2>Declared tasks</h2>\n");
    table(
        &mut html,
        "Declared tasks with their attempts",
        &["task", "state", "restart", "attempts", "last end", "health"],
    );
    let mut rows: Vec<_> = tasks.iter().collect();
    rows.sort_by_key(|it| !it.waits);
    for task in rows.iter().take(ROWS) {
        row(&mut html, task);
    }
    end(&mut html, rows.len().saturating_sub(ROWS));
    html
}

fn row(html: &mut String, task: &DeclaredTask) {
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Escaped(&task.name));
    let tone = match task.state.as_str() {
        "running" => Tone::Good,
        "backoff" | "failing" | "unclear" => Tone::Bad,
        "done" | "stopped" => Tone::Quiet,
        _ => Tone::Busy,
    };
    let mut state = pill(tone, &task.state);
    // Of a failure it is the last end, which has a column of its own.
    if !task.reason.is_empty() && task.reason != task.last_reason {
        let reason = brief(&task.reason);
        let _ = write!(state, "<div class=\"why\">{}</div>", Escaped(&reason));
    }
    if let Some(next) = task.next_try {
        let _ = write!(state, "<div class=\"dim\">next try {}</div>", moment(next));
    }
    cell(html, "state", "", state);
    cell(html, "restart", "", Escaped(&task.restart));
    cell(html, "attempts", "number", task.attempts);
    let last = brief(&task.last_reason);
    let last = if last.is_empty() { "–" } else { &last };
    cell(html, "last end", "", Escaped(last));
    cell(html, "health", "", health(task.healthy));
    html.push_str("</tr>\n");
}
