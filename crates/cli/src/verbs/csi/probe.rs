//! `longshore csi probe NAME|ENDPOINT`: no daemon is needed for an endpoint.

use std::time::Duration;

use anyhow::{Context as _, Result};
use longshore_control_api::v1::DriverDetails;
use longshore_csi_probe::{Endpoint, PluginDetails, ProbeOptions, Probed, probe};
use serde_json::json;
use tokio::time::Instant;

use super::ServiceArg;
use crate::control::DaemonArgs;
use crate::fault::{Exit, Fault, chain};
use crate::output::{JSON_VERSION, Out, printable};
use crate::verbs::{block_on, duration};
use crate::view;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A plugin of the daemon, or an endpoint: unix:///PATH, a path with a slash, tcp://HOST:PORT.
    target: String,
    /// For a plugin: the service; without it the first that the plugin offers.
    #[arg(long)]
    service: Option<ServiceArg>,
    /// Wait so long for it to be ready; without it one attempt of at most 5s.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    wait: Option<Duration>,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// How long one attempt may take.
pub(super) const ATTEMPT: Duration = Duration::from_secs(5);

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    crate::logging::start_if_asked()?;
    let (probed, details) = block_on(async {
        let wait = args.wait;
        let endpoint = resolve(
            &args.target,
            args.service,
            wait.unwrap_or_default(),
            &args.daemon,
        )
        .await?;
        let probed = match wait {
            Some(wait) => reach(&endpoint, wait, true).await?,
            None => reach(&endpoint, ATTEMPT, false)
                .await
                .map_err(|fault| fault.hint("give it time with --wait 30s"))?,
        };
        let details = probed.describe(Instant::now() + ATTEMPT).await;
        Ok((
            probed,
            details.context("it is ready and does not describe itself")?,
        ))
    })?;
    let driver = driver(&details);
    if args.json {
        out.json(&json!({
            "version": JSON_VERSION,
            "endpoint": probed.endpoint.to_string(),
            "api_version": probed.version.to_string(),
            "ready": true,
            "driver": view::driver_json(&driver),
        }))?;
        return Ok(Exit::Success);
    }
    out.line(format_args!(
        "{}  ready, CSI {}",
        probed.endpoint, probed.version
    ))?;
    capabilities(&driver, out)?;
    Ok(Exit::Success)
}

/// An endpoint as given, or the daemon's for a plugin of that name.
pub(super) async fn resolve(
    target: &str,
    service: Option<ServiceArg>,
    wait: Duration,
    daemon: &DaemonArgs,
) -> Result<Endpoint> {
    let uri = if target.contains(['/', ':']) {
        target.to_owned()
    } else {
        super::endpoint::ask(daemon, target, service, wait)
            .await?
            .uri
    };
    Ok(uri.parse::<Endpoint>()?)
}

/// Probes again and again for as long as `within` says; a socket that is not there is waited for, or not.
pub(super) async fn reach(
    endpoint: &Endpoint,
    within: Duration,
    wait_for_socket: bool,
) -> Result<Probed, Fault> {
    let mut options = ProbeOptions::until(Instant::now() + within);
    options.wait_for_socket = wait_for_socket;
    probe(endpoint, &options)
        .await
        .map_err(|error| Fault::new(Exit::NotReady, chain(&error.into())))
}

fn driver(details: &PluginDetails) -> DriverDetails {
    let list = |set: &std::collections::BTreeSet<String>| set.iter().cloned().collect();
    let node = details.node.as_ref();
    DriverDetails {
        name: details.name.clone(),
        vendor_version: details.vendor_version.clone(),
        manifest: details.manifest.clone(),
        plugin_capabilities: list(&details.plugin_capabilities),
        controller_capabilities: details
            .controller_capabilities
            .as_ref()
            .map(list)
            .unwrap_or_default(),
        node_capabilities: details
            .node_capabilities
            .as_ref()
            .map(list)
            .unwrap_or_default(),
        node_id: node.map_or_else(String::new, |node| node.id.clone()),
        max_volumes_per_node: node
            .and_then(|node| node.max_volumes)
            .map_or(0, |max| i64::try_from(max).unwrap_or(i64::MAX)),
        topology: node.map(|node| node.topology.clone()).unwrap_or_default(),
    }
}

/// What a driver says of itself, a line a kind.
pub(super) fn capabilities(driver: &DriverDetails, out: &mut Out) -> Result<()> {
    let topology: Vec<_> = driver
        .topology
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    let manifest: Vec<_> = driver
        .manifest
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    for (key, value) in [
        (
            "driver",
            format!("{} {}", driver.name, driver.vendor_version),
        ),
        ("node id", driver.node_id.clone()),
        ("plugin", driver.plugin_capabilities.join(" ")),
        ("controller", driver.controller_capabilities.join(" ")),
        ("node", driver.node_capabilities.join(" ")),
        ("topology", topology.join(" ")),
        ("manifest", manifest.join(" ")),
    ] {
        if !value.is_empty() {
            out.line(format_args!("  {key:<12}{}", printable(&value)))?;
        }
    }
    Ok(())
}
