//! The sections, one function each.

use std::fmt::{Display, Write as _};
use std::time::{Duration, SystemTime};

use super::declared::declared;
use super::escape::{Escaped, brief};
use crate::time::iso;
use crate::{Latency, NriPlugin, Plugin, Snapshot, State, Task, Tasks, not_ready};

/// The most rows of a table; those that want a look come first.
pub(super) const ROWS: usize = 200;

/// How something is, for colours. The word is always there, too.
#[derive(Clone, Copy)]
pub(super) enum Tone {
    Good,
    Busy,
    Bad,
    Quiet,
}

/// A word in a coloured frame.
pub(super) fn pill(tone: Tone, word: &str) -> String {
    let tone = match tone {
        Tone::Good => "good",
        Tone::Busy => "busy",
        Tone::Bad => "bad",
        Tone::Quiet => "quiet",
    };
    format!("<span class=\"pill {tone}\">{}</span>", Escaped(word))
}

/// A moment; the page shows how long ago it is.
pub(super) fn moment(time: SystemTime) -> String {
    let iso = iso(time);
    format!("<time datetime=\"{iso}\" title=\"{iso}\">{iso}</time>")
}

fn took(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros}&nbsp;µs"),
        1_000..1_000_000 => format!("{}.{}&nbsp;ms", micros / 1_000, micros / 100 % 10),
        _ => format!("{}.{}&nbsp;s", micros / 1_000_000, micros / 100_000 % 10),
    }
}

fn latency(latency: Option<Latency>) -> String {
    let Some(latency) = latency else {
        return "–".to_owned();
    };
    let mean = latency.total.and_then(|(count, total)| {
        let count = u32::try_from(count).ok()?;
        total.checked_div(count)
    });
    let middle = latency.median.or(mean).unwrap_or(latency.last);
    format!(
        "{} <span class=\"dim\">last {}, max {}</span>",
        took(middle),
        took(latency.last),
        took(latency.max)
    )
}

/// A cell with the name of its column, for narrow screens.
pub(super) fn cell(html: &mut String, column: &str, class: &str, content: impl Display) {
    let class = if class.is_empty() {
        String::new()
    } else {
        format!(" class=\"{class}\"")
    };
    let _ = write!(html, "<td data-column=\"{column}\"{class}>{content}</td>");
}

/// The head of a table with its caption for those who cannot see it.
pub(super) fn table(html: &mut String, caption: &str, columns: &[&str]) {
    let _ = write!(html, "<table>\n<caption>{caption}</caption>\n<thead><tr>");
    for column in columns {
        let _ = write!(html, "<th scope=\"col\">{column}</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
}

pub(super) fn end(html: &mut String, left_out: usize) {
    html.push_str("</tbody>\n</table>\n");
    if left_out > 0 {
        let _ = writeln!(html, "<p class=\"dim\">{left_out} more are not shown.</p>");
    }
}

pub(super) fn summary(snapshot: &Snapshot) -> String {
    let reasons = not_ready(snapshot);
    let (tone, word) = if reasons.is_empty() {
        (Tone::Good, "ready")
    } else {
        (Tone::Bad, "not ready")
    };
    let mut html = format!("<p class=\"state\">{}</p>\n<dl>\n", pill(tone, word));
    let mut fact = |name: &str, value: String| {
        let _ = writeln!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    let running = snapshot
        .plugins
        .iter()
        .filter(|it| it.state == State::Ready)
        .count();
    fact(
        "CSI plugins ready",
        format!("{running} of {}", snapshot.plugins.len()),
    );
    fact("tasks on record", snapshot.tasks.total.to_string());
    if let Some(plugins) = &snapshot.nri {
        let active = plugins.iter().filter(|it| it.state == "active").count();
        fact("NRI plugins active", active.to_string());
    }
    fact("version", Escaped(&snapshot.version).to_string());
    fact("started", moment(snapshot.started));
    fact("agent", Escaped(&snapshot.agent.address).to_string());
    if let Some(engine) = snapshot.engine.as_ref().filter(|it| !it.version.is_empty()) {
        fact("engine", Escaped(&engine.version).to_string());
    }
    fact("log", Escaped(&snapshot.log).to_string());
    fact("instance", Escaped(&snapshot.instance).to_string());
    html.push_str("</dl>\n");
    let mut notes = String::new();
    for reason in &reasons {
        let _ = writeln!(notes, "<li>{}</li>", Escaped(&brief(reason)));
    }
    for warning in &snapshot.warnings {
        let _ = writeln!(notes, "<li>warning: {}</li>", Escaped(&brief(warning)));
    }
    if snapshot.set_aside > 0 {
        let _ = writeln!(
            notes,
            "<li>{} damaged records were set aside</li>",
            snapshot.set_aside
        );
    }
    if snapshot.strays > 0 {
        let _ = writeln!(
            notes,
            "<li>{} containers are in no configuration</li>",
            snapshot.strays
        );
    }
    if !notes.is_empty() {
        let _ = write!(html, "<ul class=\"notes\">\n{notes}</ul>\n");
    }
    html
}

fn tone_of(state: State) -> Tone {
    match state {
        State::Ready => Tone::Good,
        State::Recovering | State::Starting | State::Stopping => Tone::Busy,
        State::Idle | State::Stopped | State::Kept => Tone::Quiet,
        State::Unhealthy | State::Backoff | State::Failing => Tone::Bad,
    }
}

pub(super) fn plugins(plugins: &[Plugin]) -> String {
    let mut html = String::from("<h2>CSI plugins</h2>\n");
    if plugins.is_empty() {
        html.push_str("<p class=\"dim\">None is configured.</p>\n");
        return html;
    }
    let columns = [
        "plugin",
        "state",
        "since",
        "restarts",
        "CSI",
        "endpoints",
        "probe",
    ];
    table(&mut html, "CSI plugins with their endpoints", &columns);
    let mut rows: Vec<_> = plugins.iter().collect();
    rows.sort_by_key(|it| matches!(it.state, State::Ready | State::Idle));
    for plugin in rows.iter().take(ROWS) {
        row(&mut html, plugin);
    }
    end(&mut html, rows.len().saturating_sub(ROWS));
    html
}

fn row(html: &mut String, plugin: &Plugin) {
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Escaped(&plugin.name));
    let mut state = pill(tone_of(plugin.state), plugin.state.word());
    if !plugin.reason.is_empty() {
        let _ = write!(
            state,
            "<div class=\"why\">{}</div>",
            Escaped(&brief(&plugin.reason))
        );
    }
    if let Some(next) = plugin.next_retry {
        let _ = write!(state, "<div class=\"dim\">next try {}</div>", moment(next));
    }
    cell(html, "state", "", state);
    cell(html, "since", "", moment(plugin.since));
    cell(html, "restarts", "number", plugin.restarts);
    let version = if plugin.version.is_empty() {
        "–"
    } else {
        &plugin.version
    };
    cell(html, "CSI", "", Escaped(version));
    let mut endpoints = String::new();
    for endpoint in &plugin.endpoints {
        let uri = endpoint.uri.as_deref().unwrap_or("none");
        let _ = write!(
            endpoints,
            "<div><span class=\"dim\">{}</span> <code>{}</code></div>",
            Escaped(&endpoint.service),
            Escaped(uri)
        );
    }
    for pid in &plugin.pids {
        let _ = write!(endpoints, "<div class=\"dim\">pid {pid}</div>");
    }
    if plugin.mounts > 0 {
        let _ = write!(
            endpoints,
            "<div class=\"dim\">{} mounted</div>",
            plugin.mounts
        );
    }
    cell(html, "endpoints", "", endpoints);
    cell(html, "probe", "", latency(plugin.probes.latency));
    html.push_str("</tr>\n");
}

pub(super) fn tasks(tasks: &Tasks) -> String {
    let mut html = declared(&tasks.declared);
    html.push_str("<h2>Tasks</h2>\n");
    if tasks.total == 0 {
        html.push_str("<p class=\"dim\">There are none.</p>\n");
        return html;
    }
    html.push_str("<p>");
    for (state, count) in &tasks.states {
        let _ = write!(
            html,
            "{} ",
            pill(task_tone(state), &format!("{count} {}", short(state)))
        );
    }
    html.push_str("</p>\n");
    table(
        &mut html,
        "Tasks",
        &["task", "state", "image", "launched", "ended", "health"],
    );
    for task in &tasks.shown {
        task_row(&mut html, task);
    }
    end(&mut html, tasks.total.saturating_sub(tasks.shown.len()));
    html
}

/// `TASK_RUNNING` as people say it.
fn short(state: &str) -> String {
    state
        .strip_prefix("TASK_")
        .unwrap_or(state)
        .to_ascii_lowercase()
}

fn task_tone(state: &str) -> Tone {
    match state {
        "TASK_RUNNING" => Tone::Good,
        "TASK_FINISHED" | "TASK_KILLED" => Tone::Quiet,
        "TASK_STAGING" | "TASK_STARTING" | "TASK_KILLING" => Tone::Busy,
        _ => Tone::Bad,
    }
}

fn task_row(html: &mut String, task: &Task) {
    let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Escaped(&task.id));
    let mut state = pill(task_tone(&task.state), &short(&task.state));
    if !task.message.is_empty() {
        let _ = write!(
            state,
            "<div class=\"why\">{}</div>",
            Escaped(&brief(&task.message))
        );
    }
    cell(html, "state", "", state);
    cell(
        html,
        "image",
        "",
        format_args!("<code>{}</code>", Escaped(&task.image)),
    );
    cell(html, "launched", "", moment(task.launched));
    cell(
        html,
        "ended",
        "",
        task.ended.map_or_else(|| "–".to_owned(), moment),
    );
    cell(html, "health", "", health(task.healthy));
    html.push_str("</tr>\n");
}

pub(super) fn health(found: Option<bool>) -> String {
    match found {
        None => "–".to_owned(),
        Some(true) => pill(Tone::Good, "healthy"),
        Some(false) => pill(Tone::Bad, "unhealthy"),
    }
}

pub(super) fn nri(plugins: Option<&[NriPlugin]>) -> String {
    let mut html = String::from("<h2>NRI chain</h2>\n");
    let Some(plugins) = plugins else {
        html.push_str("<p class=\"dim\">NRI is off.</p>\n");
        return html;
    };
    if plugins.is_empty() {
        html.push_str("<p class=\"dim\">No plugin is connected.</p>\n");
        return html;
    }
    let columns = [
        "plugin",
        "state",
        "since",
        "requests",
        "failures",
        "queued",
        "answers in",
    ];
    table(
        &mut html,
        "NRI plugins in the order in which they are asked",
        &columns,
    );
    for plugin in plugins.iter().take(ROWS) {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Escaped(&plugin.name));
        let tone = match plugin.state.as_str() {
            "active" => Tone::Good,
            "missing" => Tone::Bad,
            "closed" => Tone::Quiet,
            _ => Tone::Busy,
        };
        let mut state = pill(tone, &plugin.state);
        if !plugin.kind.is_empty() {
            let _ = write!(
                state,
                " <span class=\"dim\">{}</span>",
                Escaped(&plugin.kind)
            );
        }
        if !plugin.last_error.is_empty() {
            let error = brief(&plugin.last_error);
            let _ = write!(state, "<div class=\"why\">{}</div>", Escaped(&error));
        }
        cell(&mut html, "state", "", state);
        cell(
            &mut html,
            "since",
            "",
            plugin.since.map_or_else(|| "–".to_owned(), moment),
        );
        cell(&mut html, "requests", "number", plugin.requests);
        cell(&mut html, "failures", "number", plugin.failures);
        cell(&mut html, "queued", "number", plugin.queued);
        cell(&mut html, "answers in", "", latency(plugin.latency));
        html.push_str("</tr>\n");
    }
    end(&mut html, plugins.len().saturating_sub(ROWS));
    html
}
