//! `longshore nri ls`.

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1::{ListNriPluginsRequest, NriPlugin, NriPluginKind};
use serde_json::{Value, json};

use crate::control::{NriArgs, call};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out, Table, Tone, printable};
use crate::verbs::block_on;
use crate::view;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of: NriArgs,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let found = block_on(async {
        let mut nri = args.of.connect().await?;
        call(nri.list_nri_plugins(ListNriPluginsRequest {})).await
    })?;
    if args.json {
        let plugins: Vec<_> = found.plugins.iter().map(json).collect();
        out.json(&json!({
            "version": JSON_VERSION,
            "runtime": found.runtime,
            "plugins": plugins,
        }))?;
    } else {
        table(&found.plugins, out)?;
    }
    Ok(Exit::Success)
}

fn table(plugins: &[NriPlugin], out: &mut Out) -> Result<()> {
    if plugins.is_empty() {
        out.line("no NRI plugins are there")?;
        return Ok(());
    }
    let mut table = Table::new(&[
        "PLUGIN", "KIND", "STATE", "FOR", "PID", "REQUESTS", "FAILED", "MEDIAN", "LONGEST",
        "EVENTS",
    ]);
    for plugin in plugins {
        let plain = |text: String| (Tone::Plain, text);
        let (median, longest) = match plugin.latency {
            None => ("-".to_owned(), "-".to_owned()),
            Some(latency) => (span(latency.p50_us), span(latency.max_us)),
        };
        let pid = match plugin.pid {
            0 => "-".to_owned(),
            pid => pid.to_string(),
        };
        table.row([
            plain(plugin.name.clone()),
            plain(kind(plugin).unwrap_or("-").to_owned()),
            (tone(&plugin.state), plugin.state.clone()),
            plain(view::age(plugin.since_ms)),
            plain(pid),
            plain(plugin.requests.to_string()),
            plain(plugin.failures.to_string()),
            plain(median),
            plain(longest),
            plain(events(plugin)),
        ]);
    }
    out.table(&table)?;
    for plugin in plugins
        .iter()
        .filter(|plugin| !plugin.last_error.is_empty())
    {
        let line = format!("{}: {}", plugin.name, plugin.last_error);
        out.line(printable(&line))?;
    }
    Ok(())
}

fn events(plugin: &NriPlugin) -> String {
    match plugin.events.as_slice() {
        [] => "-".to_owned(),
        events => events.join(","),
    }
}

fn json(plugin: &NriPlugin) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "name": plugin.name,
        "index": text(&plugin.index),
        "kind": kind(plugin),
        "state": plugin.state,
        "since": (plugin.since_ms > 0).then(|| view::time(plugin.since_ms)),
        "events": plugin.events,
        "pid": (plugin.pid > 0).then_some(plugin.pid),
        "nri_version": text(&plugin.nri_version),
        "state_change_only": plugin.state_change_only,
        "requests": plugin.requests,
        "failures": plugin.failures,
        "strikes": plugin.strikes,
        "queued": plugin.queued,
        "latency": plugin.latency.map(|latency| json!({
            "last_us": latency.last_us,
            "p50_us": latency.p50_us,
            "max_us": latency.max_us,
        })),
        "last_error": text(&plugin.last_error),
    })
}

fn kind(plugin: &NriPlugin) -> Option<&'static str> {
    match plugin.kind() {
        NriPluginKind::Unspecified => None,
        NriPluginKind::Builtin => Some("built-in"),
        NriPluginKind::Launched => Some("launched"),
        NriPluginKind::External => Some("external"),
        NriPluginKind::Attached => Some("attached"),
    }
}

fn tone(state: &str) -> Tone {
    match state {
        "active" => Tone::Good,
        "missing" | "closed" => Tone::Bad,
        _ => Tone::Busy,
    }
}

/// Microseconds in the unit that suits them.
fn span(micros: u64) -> String {
    format!("{:.1?}", Duration::from_micros(micros))
}
