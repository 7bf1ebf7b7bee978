//! Cases played to real plugins: this program again, started as a plugin.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]
#![expect(
    clippy::duplicate_mod,
    reason = "each example brings what the examples share"
)]

mod cases;
mod external;
mod files;
mod odd;
mod plugin;
mod replay;
mod results;
mod serve;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use longshore_nri_api::PluginId;
use longshore_nri_simulate::{BUILT_IN, Case, Command, Play, Plugins, Report, run};

/// A plugin of [`plugin`], by its name.
fn command(index: &str, name: &str) -> Command {
    let this = std::env::current_exe().unwrap();
    let args = ["--exact", "plugin::as_a_plugin", "--nocapture"].map(OsString::from);
    let id = PluginId::new(index, name).unwrap();
    Command::new(id, &this, args.into(), Path::new("/")).unwrap()
}

fn play(case: Case, plugins: &[(&str, &str)]) -> Play {
    let commands = plugins.iter().map(|(index, name)| command(index, name));
    let mut play = Play::new(case, Plugins::Commands(commands.collect())).unwrap();
    play.wait = Duration::from_secs(60);
    play
}

async fn played(case: Case, plugins: &[(&str, &str)]) -> Report {
    run(&play(case, plugins)).await.unwrap()
}

fn built_in(name: &str) -> Case {
    let (_, _, text) = BUILT_IN.iter().find(|(known, ..)| *known == name).unwrap();
    Case::parse(text, name).unwrap()
}

fn problems(report: &Report) -> Vec<&str> {
    let steps = report.steps.iter();
    let problems = steps.flat_map(|step| step.problems.iter().chain(&step.losses));
    problems.map(String::as_str).collect()
}
