//! A plugin that somebody else runs: its endpoints are probed and watched.
//!
//! ```text
//!   probing --ok--> ready --fails x threshold--> unhealthy --answers--> ready
//!      ^ |
//!      +-+ fails: backoff, again
//! ```

use std::sync::Arc;

use longshore_csi_probe::{Endpoint, Links, LivenessEvent, ProbeOptions, Probed, watch};
use longshore_paths::Service;
use tokio::time::{Instant, sleep};

use crate::board::{PluginBoard, UnitIdentity};
use crate::plan::{Kind, Plan};
use crate::probing::{Rpc, probe_telling};
use crate::shared::line;
use crate::status::{PluginState, ReadyEndpoint};

/// How long a plugin may take to say what it is.
const DESCRIBE_DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);

/// Each distinct endpoint with the services that it serves.
pub(crate) fn endpoints(plan: &Plan) -> Vec<(Endpoint, Vec<Service>)> {
    let Kind::Unmanaged(endpoints) = &plan.kind else {
        return Vec::new();
    };
    let mut distinct: Vec<(Endpoint, Vec<Service>)> = Vec::new();
    for (service, endpoint) in endpoints {
        match distinct.iter_mut().find(|(known, _)| known == endpoint) {
            Some((_, services)) => services.push(*service),
            None => distinct.push((endpoint.clone(), vec![*service])),
        }
    }
    distinct
}

/// What the board is told of them.
pub(crate) fn identities(plan: &Plan) -> Vec<UnitIdentity> {
    let one = |(endpoint, services): (Endpoint, Vec<Service>)| UnitIdentity {
        id: None,
        services,
        socket: endpoint
            .socket()
            .map(std::path::Path::to_owned)
            .unwrap_or_default(),
    };
    endpoints(plan).into_iter().map(one).collect()
}

/// Watches one endpoint for ever.
pub(crate) async fn keep_watching(
    plan: Arc<Plan>,
    board: Arc<PluginBoard>,
    unit: usize,
    endpoint: Endpoint,
    services: Vec<Service>,
) {
    let mut failures = 0_u32;
    let mut reason = "not probed yet".to_owned();
    loop {
        let tell = |waiting: &str| {
            board.withdraw(unit, &services, waiting);
            board.plain(unit, PluginState::Starting, waiting);
        };
        tell(&reason);
        match Box::pin(try_once(&plan, &board, &endpoint, &tell)).await {
            Ok(probed) => {
                failures = 0;
                "not probed yet".clone_into(&mut reason);
                let ready = ReadyEndpoint {
                    uri: endpoint.to_string(),
                    version: probed.version,
                };
                board.ready(unit, &services, ready);
                board.plain(unit, PluginState::Ready, "");
                live(&plan, &board, unit, &probed, &services).await;
            }
            Err(error) => {
                reason = error;
                failures = failures.saturating_add(1);
                let burst = plan.config.restart.start_limit.burst();
                let failing = burst > 0 && failures >= burst;
                let state = if failing {
                    PluginState::Failing
                } else {
                    PluginState::Backoff
                };
                board.withdraw(unit, &services, &reason);
                board.plain(unit, state, &reason);
                sleep(plan.config.restart.backoff.delay(failures, 0.5)).await;
            }
        }
    }
}

async fn try_once(
    plan: &Plan,
    board: &Arc<PluginBoard>,
    endpoint: &Endpoint,
    tell: &(impl Fn(&str) + Sync),
) -> Result<Probed, String> {
    let mut options = ProbeOptions::until(Instant::now() + plan.config.startup_timeout);
    let (version, name) = board.fixed();
    options.expect = version;
    let rpc = Rpc::begin(board);
    let probed = probe_telling(endpoint, options, tell).await;
    rpc.end(probed.is_ok());
    let probed = probed.map_err(|error| line(&error))?;
    let rpc = Rpc::begin(board);
    let described = probed.describe(Instant::now() + DESCRIBE_DEADLINE).await;
    rpc.end(described.is_ok());
    match (described, name) {
        (Ok(details), Some(before)) if before != details.name => Err(format!(
            "it calls itself {:?} and was {before:?}",
            details.name
        )),
        (Ok(details), _) => {
            board.details(details);
            Ok(probed)
        }
        (Err(error), _) => {
            tracing::warn!(plugin = plan.name(), error = line(&error), "not described");
            Ok(probed)
        }
    }
}

/// Until another process serves the socket; for ever otherwise.
async fn live(
    plan: &Plan,
    board: &PluginBoard,
    unit: usize,
    probed: &Probed,
    services: &[Service],
) {
    let Some(policy) = plan.config.liveness else {
        return std::future::pending().await;
    };
    let endpoint = probed.endpoint.clone();
    let mut probes = watch(
        endpoint,
        probed.version,
        policy,
        Links::Follow,
        probed.socket,
    );
    loop {
        match probes.next().await {
            LivenessEvent::Unhealthy { failures, reason } => {
                let reason = format!("{failures} liveness probes failed: {reason}");
                board.unhealthy(unit, services, &reason);
                board.plain(unit, PluginState::Unhealthy, &reason);
            }
            LivenessEvent::Recovered { .. } => {
                board.recovered(unit, services);
                board.plain(unit, PluginState::Ready, "");
            }
            // A new process: its version and name are looked at before its endpoint is news.
            LivenessEvent::Replaced { .. } => return,
            _ => {}
        }
    }
}
