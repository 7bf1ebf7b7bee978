//! `longshore csi endpoint NAME`.

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1::{CsiEndpointRequest, CsiEndpointResponse};
use serde_json::json;
use tokio::time::Instant;

use super::ServiceArg;
use crate::control::{DaemonArgs, call_within};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out};
use crate::verbs::{block_on, duration, millis};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plugin.
    name: String,
    /// The service; without it the first that the plugin offers.
    #[arg(long)]
    service: Option<ServiceArg>,
    /// Wait so long for a good one, like 10s; also for the daemon, when it is not there yet.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s")]
    wait: Duration,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let found = block_on(ask(&args.daemon, &args.name, args.service, args.wait))?;
    if args.json {
        out.json(&json!({
            "version": JSON_VERSION,
            "plugin": args.name,
            "service": found.service,
            "uri": found.uri,
            "api_version": found.api_version,
        }))?;
    } else {
        out.line(&found.uri)?;
    }
    Ok(Exit::Success)
}

/// The daemon's endpoint for a plugin; `wait` is for the daemon, too.
pub(super) async fn ask(
    daemon: &DaemonArgs,
    name: &str,
    service: Option<ServiceArg>,
    wait: Duration,
) -> Result<CsiEndpointResponse> {
    let deadline = Instant::now() + wait;
    let mut control = daemon.connect_until(deadline).await?;
    let wait = deadline.saturating_duration_since(Instant::now());
    let request = CsiEndpointRequest {
        name: name.to_owned(),
        service: service.map_or_else(String::new, |service| service.to_string()),
        wait_ms: millis(wait),
    };
    call_within(
        wait + Duration::from_secs(10),
        control.csi_endpoint(request),
    )
    .await
}
