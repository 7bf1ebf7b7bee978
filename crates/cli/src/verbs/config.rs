//! `longshore config default|check|show`.

use std::path::PathBuf;

use anyhow::Result;
use longshore_supervisor::{Config, DEFAULT_TOML, Flags, Sources};
use serde_json::json;

use crate::fault::{Exit, Fault};
use crate::output::{JSON_VERSION, Out, Table, Tone};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Print every key with its default.
    Default,
    /// Say whether the configuration is valid; exit 78 when it is not.
    Check(SourceArgs),
    /// Print every setting in force, with the file and line, variable or flag it comes from.
    Show {
        #[command(flatten)]
        sources: SourceArgs,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}

/// Where the configuration comes from: the flags of the daemon.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct SourceArgs {
    /// The configuration file [default: /etc/longshore/longshore.toml for root,
    /// else longshore/longshore.toml in the user's configuration directory].
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What must survive a reboot.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Sockets and what cannot outlive a reboot.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    /// A log level or filter.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// The agent that runs the containers, instead of the embedded one.
    #[arg(long, value_name = "URL")]
    agent_url: Option<String>,
    /// A file with the bearer token for that agent.
    #[arg(long, value_name = "FILE")]
    agent_token_file: Option<PathBuf>,
    /// What plugins get as MESOS_AGENT_ID.
    #[arg(long, value_name = "ID")]
    agent_id: Option<String>,
    /// The directory of CSIPluginInfo files.
    #[arg(long, value_name = "DIR")]
    plugin_dir: Option<PathBuf>,
}

impl SourceArgs {
    pub(crate) fn sources(self) -> Sources {
        let flags = Flags {
            state_dir: self.state_dir,
            runtime_dir: self.runtime_dir,
            log: self.log,
            agent_url: self.agent_url,
            agent_token_file: self.agent_token_file,
            agent_id: self.agent_id,
            plugin_dir: self.plugin_dir,
        };
        Sources::of_process(self.config, flags)
    }
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    match args.verb {
        Verb::Default => {
            out.bytes(DEFAULT_TOML.as_bytes())?;
            Ok(Exit::Success)
        }
        Verb::Check(sources) => check(&sources.sources(), out),
        Verb::Show { sources, json } => show(&Config::load(&sources.sources(), None)?, json, out),
    }
}

fn check(sources: &Sources, out: &mut Out) -> Result<Exit> {
    let config = Config::load(sources, None)?;
    for warning in &config.warnings {
        out.line(format_args!("warning: {warning}"))?;
    }
    if let Some((last, others)) = config.errors.split_last() {
        for error in others {
            out.line(format_args!("error: {error}"))?;
        }
        out.flush()?;
        return Err(Fault::new(Exit::Config, last).into());
    }
    let path = config
        .path
        .as_ref()
        .map_or("the defaults".to_owned(), |path| path.display().to_string());
    let count = config.plugins.len();
    out.line(format_args!(
        "{path}: valid, {count} plugin{}",
        if count == 1 { "" } else { "s" }
    ))?;
    Ok(Exit::Success)
}

fn show(config: &Config, json: bool, out: &mut Out) -> Result<Exit> {
    if json {
        let settings: Vec<_> = config
            .settings()
            .iter()
            .map(|setting| {
                json!({
                    "key": setting.key,
                    "value": setting.value,
                    "origin": setting.origin.to_string(),
                })
            })
            .collect();
        out.json(&json!({"version": JSON_VERSION, "settings": settings}))?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["KEY", "VALUE", "ORIGIN"]);
    for setting in config.settings() {
        table.row([
            (Tone::Plain, setting.key.clone()),
            (Tone::Plain, setting.value.to_string()),
            (Tone::Dim, setting.origin.to_string()),
        ]);
    }
    out.table(&table)?;
    Ok(Exit::Success)
}
