//! `longshore config default|check|show`.

use std::path::PathBuf;

use anyhow::Result;
use longshore_supervisor::{Config, ConfigErrors, DEFAULT_TOML, Flags, Setting, Sources};
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
    Default {
        /// For programs: the keys that have a default, with it.
        #[arg(long)]
        json: bool,
    },
    /// Say whether a daemon could run the configuration on this machine, and all that is wrong with it;
    /// exit 78 when it is not valid. Run it as the user whom the daemon runs as.
    Check {
        #[command(flatten)]
        sources: SourceArgs,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
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
    /// How a line of the log looks: auto (text on a terminal, else JSON), text or json.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Where metrics, health and a status page are served: PORT (on loopback) or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
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
    /// The socket of the engine that runs Docker tasks, as unix:///PATH.
    #[arg(long, value_name = "ADDRESS")]
    engine: Option<String>,
}

impl SourceArgs {
    pub(crate) fn sources(self) -> Sources {
        let flags = Flags {
            state_dir: self.state_dir,
            runtime_dir: self.runtime_dir,
            log: self.log,
            log_format: self.log_format,
            http: self.http,
            agent_url: self.agent_url,
            agent_token_file: self.agent_token_file,
            agent_id: self.agent_id,
            plugin_dir: self.plugin_dir,
            engine: self.engine,
        };
        Sources::of_process(self.config, flags)
    }
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    match args.verb {
        Verb::Default { json: false } => {
            out.bytes(DEFAULT_TOML.as_bytes())?;
            Ok(Exit::Success)
        }
        Verb::Default { json: true } => settings_json(&Config::defaults(), out),
        Verb::Check { sources, json } => check(&sources.sources(), json, out),
        Verb::Show { sources, json } => show(&Config::load(&sources.sources(), None)?, json, out),
    }
}

/// What `config check` found.
#[derive(Debug, Default)]
struct Checked {
    path: Option<String>,
    plugins: usize,
    warnings: Vec<String>,
    errors: Vec<String>,
}

impl Checked {
    fn new(sources: &Sources) -> Self {
        let texts = |errors: &ConfigErrors| errors.iter().map(ToString::to_string).collect();
        match Config::load(sources, None) {
            Err(errors) => Self {
                errors: texts(&errors),
                ..Self::default()
            },
            Ok(config) => {
                let mut errors: Vec<String> = config
                    .check_files()
                    .err()
                    .as_ref()
                    .map_or_else(Vec::new, texts);
                errors.extend(config.errors);
                let of_the_machine = |warning: &String| config.lacking.contains(warning);
                let mut warnings = config.warnings;
                warnings.retain(|warning| !of_the_machine(warning));
                errors.extend(config.lacking);
                Self {
                    path: config.path.map(|path| path.display().to_string()),
                    plugins: config.plugins.len(),
                    warnings,
                    errors,
                }
            }
        }
    }
}

fn check(sources: &Sources, json: bool, out: &mut Out) -> Result<Exit> {
    let checked = Checked::new(sources);
    let valid = checked.errors.is_empty();
    if json {
        out.json(&json!({
            "version": JSON_VERSION,
            "valid": valid,
            "path": checked.path,
            "plugins": checked.plugins,
            "warnings": checked.warnings,
            "errors": checked.errors,
        }))?;
        return Ok(if valid { Exit::Success } else { Exit::Config });
    }
    for warning in &checked.warnings {
        out.line(format_args!("warning: {warning}"))?;
    }
    if !valid {
        out.flush()?;
        return Err(Fault::all(Exit::Config, checked.errors).into());
    }
    let defaults = || format!("no {}: the defaults", sources.path().display());
    let path = checked.path.unwrap_or_else(defaults);
    let count = checked.plugins;
    out.line(format_args!(
        "{path}: valid, {count} plugin{}",
        if count == 1 { "" } else { "s" }
    ))?;
    Ok(Exit::Success)
}

fn settings_json(settings: &[Setting], out: &mut Out) -> Result<Exit> {
    let settings: Vec<_> = settings
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
    Ok(Exit::Success)
}

fn show(config: &Config, json: bool, out: &mut Out) -> Result<Exit> {
    if json {
        return settings_json(config.settings(), out);
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
