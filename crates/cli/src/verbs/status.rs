//! `longshore status [NAME]`.

use anyhow::Result;
use longshore_control_api::{state_word, v1};

use crate::control::{DaemonArgs, call, refused};
use crate::fault::Exit;
use crate::output::{Out, Table, Tone, brief, printable};
use crate::signals::Interrupts;
use crate::verbs::block_on;
use crate::view;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this plugin, with its last transitions.
    name: Option<String>,
    /// For programs; with --watch a document a line.
    #[arg(long)]
    json: bool,
    /// Again after each change, until interrupted.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut control = args.daemon.connect().await?;
        let request = v1::GetStatusRequest {
            name: args.name.clone().unwrap_or_default(),
            history: args.name.is_some(),
        };
        if !args.watch {
            let status = call(control.get_status(request)).await?;
            print(&args, &status, out)?;
            return Ok(exit(&status));
        }
        let mut interrupts = Interrupts::new()?;
        let mut changes = call(control.watch_status(request)).await?;
        let mut last = Exit::Success;
        loop {
            tokio::select! {
                _ = interrupts.next() => return Ok(last),
                change = changes.message() => match change {
                    Ok(Some(status)) => {
                        out.clear()?;
                        print(&args, &status, out)?;
                        out.flush()?;
                        last = exit(&status);
                    }
                    Ok(None) => return Ok(Exit::NoDaemon),
                    Err(status) => return Err(refused(&status)),
                },
            }
        }
    })
}

fn exit(status: &v1::Status) -> Exit {
    if view::is_ready(status) {
        Exit::Success
    } else {
        Exit::NotReady
    }
}

fn print(args: &Args, status: &v1::Status, out: &mut Out) -> Result<()> {
    if args.json {
        return Ok(out.json(&view::status_json(status))?);
    }
    daemon(status, out)?;
    if args.name.is_some() {
        for plugin in &status.plugins {
            facts(plugin, out)?;
            history(plugin, out)?;
        }
        return Ok(());
    }
    plugins(&status.plugins, out)
}

/// What is wrong with the daemon itself; nothing when all is well.
fn daemon(status: &v1::Status, out: &mut Out) -> Result<()> {
    let config = status.config.clone().unwrap_or_default();
    if !config.error.is_empty() {
        let line = format!("configuration: {}", config.error);
        out.line(out.paint(Tone::Bad, &line))?;
        out.line(format_args!(
            "  so since {}; what has been in force since {} stays",
            view::time(config.error_at_ms),
            view::time(config.loaded_at_ms)
        ))?;
    }
    for warning in &config.warnings {
        let line = format!("warning: {warning}");
        out.line(out.paint(Tone::Busy, &line))?;
    }
    let agent = status.agent.clone().unwrap_or_default();
    if agent.silent_since_ms != 0 {
        let age = view::age(agent.silent_since_ms);
        let line = format!(
            "agent: {} has not answered for {age}: {}",
            agent.url, agent.error
        );
        out.line(out.paint(Tone::Bad, &line))?;
    }
    tasks(status.tasks.as_ref(), out)?;
    for stray in &status.strays {
        out.line(format_args!(
            "stray: container {} of this instance is in no configuration",
            printable(stray)
        ))?;
    }
    for foreign in &status.foreign {
        let line = format!("left alone: {}: {}", foreign.path, foreign.reason);
        out.line(printable(&line))?;
    }
    for record in &status.quarantined {
        let line = format!(
            "set aside: {}: {} ({})",
            record.path, record.reason, record.advice
        );
        out.line(out.paint(Tone::Busy, &printable(&line)))?;
    }
    Ok(())
}

/// Tasks in a line, and what is wrong with their engine; nothing where there is neither a task nor an engine that
/// somebody asked for.
fn tasks(tasks: Option<&v1::TasksStatus>, out: &mut Out) -> Result<()> {
    let Some(tasks) = tasks else { return Ok(()) };
    let engine = tasks.engine.clone().unwrap_or_default();
    if tasks.unfinished > 0 || tasks.ended > 0 {
        let (unfinished, ended) = (tasks.unfinished, tasks.ended);
        out.line(format_args!(
            "tasks: {unfinished} not ended, {ended} ended; `longshore task ls -a` lists them"
        ))?;
    }
    if tasks.declared > 0 {
        let (declared, waiting) = (tasks.declared, tasks.declared_waiting);
        let line = format!(
            "declared tasks: {declared}, {waiting} waiting; `longshore task ls` says for what"
        );
        let tone = if waiting > 0 { Tone::Busy } else { Tone::Plain };
        out.line(out.paint(tone, &line))?;
    }
    for record in &engine.quarantined {
        let line = format!("set aside: the record of a task: {record}");
        out.line(out.paint(Tone::Busy, &printable(&line)))?;
    }
    // Most machines have no engine, and need none.
    if !engine.wanted {
        return Ok(());
    }
    if engine.silent_since_ms != 0 {
        let line = format!(
            "engine for tasks: {} has not answered for {}: {}",
            engine.address,
            view::age(engine.silent_since_ms),
            engine.error
        );
        // Where no task depends on it, nothing is wrong.
        let tone = if tasks.unfinished > 0 {
            Tone::Bad
        } else {
            Tone::Dim
        };
        out.line(out.paint(tone, &printable(&line)))?;
    } else if !engine.error.is_empty() {
        let line = format!("engine for tasks: none can be used: {}", engine.error);
        out.line(out.paint(Tone::Dim, &printable(&line)))?;
    }
    Ok(())
}

/// A line a plugin and endpoint, and below the table why what is not ready is not.
pub(crate) fn plugins(plugins: &[v1::PluginStatus], out: &mut Out) -> Result<()> {
    let mut table = Table::new(&[
        "PLUGIN", "STATE", "FOR", "CSI", "RESTARTS", "SERVICE", "ENDPOINT",
    ]);
    for plugin in plugins {
        let state = plugin.state();
        let plain = |text: String| (Tone::Plain, text);
        let or_dash = |text: &str| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                text.to_owned()
            }
        };
        let mut endpoints = plugin.endpoints.iter();
        let first = endpoints.next().cloned().unwrap_or_default();
        table.row([
            plain(plugin.name.clone()),
            (view::tone(state), state_word(state).to_owned()),
            plain(view::age(plugin.since_ms)),
            plain(or_dash(&plugin.api_version)),
            plain(plugin.restarts.to_string()),
            plain(or_dash(&first.service)),
            plain(or_dash(&first.uri)),
        ]);
        for endpoint in endpoints {
            let empty = || plain(String::new());
            table.row([
                empty(),
                empty(),
                empty(),
                empty(),
                empty(),
                plain(endpoint.service.clone()),
                plain(or_dash(&endpoint.uri)),
            ]);
        }
    }
    if table.is_empty() {
        out.line("no plugins are configured")?;
        return Ok(());
    }
    out.table(&table)?;
    for plugin in plugins
        .iter()
        .filter(|plugin| plugin.state() != v1::State::Ready)
    {
        let mut line = format!("{}: {}", plugin.name, brief(&plugin.reason));
        if plugin.reason.is_empty() {
            line = format!("{}: {}", plugin.name, state_word(plugin.state()));
        }
        if plugin.next_retry_at_ms != 0 {
            line.push_str(", next try ");
            line.push_str(&view::until(plugin.next_retry_at_ms));
        }
        out.line(printable(&line))?;
    }
    for plugin in plugins {
        // One that does not answer has said why.
        let waits = plugin.state() != v1::State::Ready;
        let Some(kubelet) = plugin.kubelet.as_ref() else {
            continue;
        };
        if kubelet.state == view::REGISTERED || (waits && kubelet.state == "waiting") {
            continue;
        }
        let line = format!("{}: kubelet: {}", plugin.name, registration(kubelet));
        out.line(printable(&line))?;
    }
    Ok(())
}

/// A registration in words.
fn registration(kubelet: &v1::KubeletRegistration) -> String {
    let mut line = kubelet.state.clone();
    if !kubelet.reason.is_empty() {
        line.push_str(", ");
        line.push_str(&brief(&kubelet.reason));
    }
    if kubelet.next_retry_at_ms != 0 {
        line.push_str(", next try ");
        line.push_str(&view::until(kubelet.next_retry_at_ms));
    }
    line
}

/// How one plugin is.
pub(crate) fn facts(plugin: &v1::PluginStatus, out: &mut Out) -> Result<()> {
    let state = plugin.state();
    let word = out.paint(view::tone(state), state_word(state));
    let name = out.paint(Tone::Bold, &plugin.name);
    out.line(format_args!(
        "{name}  {word} since {}",
        view::time(plugin.since_ms)
    ))?;
    let mut fields = vec![
        ("type", plugin.r#type.clone()),
        ("name", plugin.plugin_name.clone()),
        (
            "managed",
            if plugin.managed { "yes" } else { "no" }.to_owned(),
        ),
        ("reason", plugin.reason.clone()),
        ("csi", plugin.api_version.clone()),
        ("restarts", plugin.restarts.to_string()),
    ];
    if plugin.next_retry_at_ms != 0 {
        fields.push(("next try", view::until(plugin.next_retry_at_ms)));
    }
    if let Some(driver) = &plugin.driver {
        fields.push((
            "driver",
            format!("{} {}", driver.name, driver.vendor_version),
        ));
        fields.push(("node id", driver.node_id.clone()));
    }
    if let Some(kubelet) = &plugin.kubelet {
        fields.push(("kubelet", registration(kubelet)));
        fields.push(("", kubelet.socket.clone()));
    }
    for mount in &plugin.mounts {
        fields.push(("mounted", mount.clone()));
    }
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        out.line(format_args!("  {key:<12}{}", printable(value)))?;
    }
    for endpoint in &plugin.endpoints {
        let uri = if endpoint.uri.is_empty() {
            &endpoint.reason
        } else {
            &endpoint.uri
        };
        out.line(format_args!("  {:<12}{}", endpoint.service, printable(uri)))?;
    }
    for container in &plugin.containers {
        let state = state_word(container.state());
        let pid = if container.pid == 0 {
            String::new()
        } else {
            format!(" pid {}", container.pid)
        };
        out.line(format_args!(
            "  {:<12}{} {state}{pid}",
            "container", container.id
        ))?;
        if !container.last_exit.is_empty() {
            let last = printable(&brief(&container.last_exit));
            out.line(format_args!("  {:<12}{last}", "last exit"))?;
        }
    }
    Ok(())
}

/// What became of one plugin lately.
pub(crate) fn history(plugin: &v1::PluginStatus, out: &mut Out) -> Result<()> {
    if plugin.history.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(&["TIME", "STATE", "EXIT", "REASON"]);
    let mut details = Vec::new();
    for transition in &plugin.history {
        table.row([
            (Tone::Dim, view::time(transition.at_ms)),
            (
                view::tone(transition.to()),
                state_word(transition.to()).to_owned(),
            ),
            (
                Tone::Plain,
                if transition.exit.is_empty() {
                    "-".to_owned()
                } else {
                    brief(&transition.exit)
                },
            ),
            (Tone::Plain, brief(&transition.reason)),
        ]);
        if !transition.stderr.is_empty() {
            details.push((transition.at_ms, &transition.stderr));
        }
    }
    out.table(&table)?;
    for (at, lines) in details {
        out.line(format_args!("\nstderr before {}", view::time(at)))?;
        for line in lines {
            out.line(format_args!("  {}", printable(line)))?;
        }
    }
    Ok(())
}
