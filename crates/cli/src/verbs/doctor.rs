//! `longshore doctor`.

use std::path::PathBuf;

use anyhow::Result;
use longshore_control_api::v1::GetStatusRequest;
use longshore_doctor::{EngineFacts, Severity, Space, View, clock_synchronized, examine};
use longshore_engine::{DockerConfig, DockerEngine};
use longshore_supervisor::Config;
use serde_json::json;

use super::config::SourceArgs;
use crate::control::{DaemonArgs, call};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out, Tone, printable};
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: SourceArgs,
    /// Read the machine's files below this directory, such as one where another machine is mounted; its engine and its clock
    /// are not asked then.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// For programs.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let here = args.root.as_path() == std::path::Path::new("/");
    let sources = args.sources.sources();
    let config = Config::load(&sources, None)?;
    let mut view = View {
        root: args.root,
        state_dir: config.state_dir.clone(),
        runtime_dir: config.runtime_dir.clone(),
        uid: nix::unistd::geteuid().as_raw(),
        daemon_answers: false,
        engine: EngineFacts::NotWanted,
        space: None,
        clock_synchronized: None,
    };
    if here {
        view.space = Space::of(&config.state_dir).ok();
        view.clock_synchronized = clock_synchronized();
        block_on(async {
            view.engine = engine(&config).await;
            view.daemon_answers = answers(&config).await;
            Ok(())
        })?;
    }
    let findings = examine(&view);
    let worst = findings.iter().map(|finding| finding.severity).max();
    let exit = match worst {
        Some(Severity::Problem) => Exit::NotReady,
        Some(Severity::Warning) | None => Exit::Success,
    };
    if args.json {
        out.json(&json!({"version": JSON_VERSION, "findings": findings}))?;
        return Ok(exit);
    }
    for finding in &findings {
        let word = match finding.severity {
            Severity::Problem => out.paint(Tone::Bad, "problem"),
            Severity::Warning => out.paint(Tone::Busy, "warning"),
        };
        let (check, what) = (finding.check, printable(&finding.what));
        out.line(format_args!("{word}: {check}: {what}"))?;
        out.line(format_args!("    {}", printable(&finding.advice)))?;
    }
    if findings.is_empty() {
        let daemon = if view.daemon_answers {
            "a daemon answers"
        } else {
            "no daemon runs"
        };
        out.line(format_args!("nothing found; {daemon}"))?;
    }
    Ok(exit)
}

async fn engine(config: &Config) -> EngineFacts {
    let endpoint = match config.tasks.endpoint() {
        Ok(endpoint) => endpoint,
        Err(error) => {
            return EngineFacts::Away {
                address: "DOCKER_HOST".to_owned(),
                wanted: true,
                reason: error.to_string(),
            };
        }
    };
    let address = endpoint.to_string();
    let asked = DockerEngine::new(DockerConfig::new(endpoint))
        .own_nri()
        .await;
    match asked {
        Ok(own_nri) => EngineFacts::There { address, own_nri },
        Err(error) => EngineFacts::Away {
            address,
            wanted: config.tasks.engine.is_some(),
            reason: crate::fault::chain(&error.into()),
        },
    }
}

async fn answers(config: &Config) -> bool {
    let daemon = DaemonArgs {
        config: None,
        runtime_dir: Some(config.runtime_dir.clone()),
    };
    let Ok(mut control) = daemon.connect().await else {
        return false;
    };
    call(control.get_status(GetStatusRequest::default()))
        .await
        .is_ok()
}
