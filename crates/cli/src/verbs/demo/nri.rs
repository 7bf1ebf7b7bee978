//! The demo's NRI step: a container goes through the bundled runtime and the bundled plugin.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use longshore_nri_api::PluginId;
use longshore_nri_simulate::{Case, Command, Outcome, Play, Plugins, run, spec_diff};

use crate::output::{Out, Tone};

const CASE: &str = include_str!("nri.yaml");

/// Shows what the plugin changes in the container's spec.
pub(super) async fn show(out: &mut Out) -> Result<()> {
    let itself = std::env::current_exe().context("cannot find this program's own file")?;
    let id = PluginId::new("10", "annotated")?;
    let words = ["nri", "plugin"].map(OsString::from);
    let command = Command::new(id, &itself, words.into(), Path::new("/"))?;
    let play = Play::new(
        Case::parse(CASE, "nri.yaml")?,
        Plugins::Commands(vec![command]),
    )?;
    let report = run(&play).await?;
    let Some(Outcome::Created { before, after, .. }) =
        report.steps.last().map(|step| &step.outcome)
    else {
        bail!("the container was not created: {report:?}");
    };
    super::step(
        out,
        "adjusted",
        "a container, by the NRI plugin 10-annotated: its OCI spec",
    )?;
    for line in spec_diff(before, after).lines() {
        let tone = match line.as_bytes().first() {
            Some(b'+') => Tone::Good,
            Some(b'-') => Tone::Bad,
            _ => Tone::Dim,
        };
        out.line(format_args!("             {}", out.paint(tone, line)))?;
    }
    Ok(out.flush()?)
}
