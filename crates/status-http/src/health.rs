//! The answers of the health paths. Pure.

use crate::{Snapshot, State};

/// Why the daemon is not ready, a line each; empty when it is. What was stopped on request, or is wanted by nobody, is fine.
#[must_use]
pub fn not_ready(snapshot: &Snapshot) -> Vec<String> {
    let mut reasons = Vec::new();
    if !snapshot.recovered {
        reasons.push("recovery is not done yet".to_owned());
    }
    if !snapshot.config_error.is_empty() {
        reasons.push(format!(
            "the newest configuration is refused: {}",
            snapshot.config_error
        ));
    }
    if let Some((_, why)) = &snapshot.agent.silent {
        reasons.push(format!(
            "agent {} does not answer: {why}",
            snapshot.agent.address
        ));
    }
    let engine = snapshot.engine.as_ref().filter(|engine| engine.wanted);
    if let Some((engine, (_, why))) = engine.and_then(|it| Some((it, it.silent.as_ref()?))) {
        reasons.push(format!("engine {} does not answer: {why}", engine.address));
    }
    for plugin in &snapshot.plugins {
        if is_fine(plugin.state) {
            continue;
        }
        let colon = if plugin.reason.is_empty() { "" } else { ": " };
        reasons.push(format!(
            "csi plugin {} is {}{colon}{}",
            plugin.name,
            plugin.state.word(),
            plugin.reason
        ));
    }
    for plugin in snapshot.nri.iter().flatten() {
        if plugin.state == "missing" {
            reasons.push(format!(
                "nri plugin {} is required and missing",
                plugin.name
            ));
        }
    }
    // One line each, whatever was said.
    for reason in &mut reasons {
        *reason = reason.replace(|c: char| c.is_control(), " ");
    }
    reasons
}

fn is_fine(state: State) -> bool {
    matches!(
        state,
        State::Ready | State::Idle | State::Stopped | State::Kept
    )
}

/// Whether a plugin answers, as the liveness probe of CSI plugins tells it; otherwise why not. `None`: no such plugin.
#[must_use]
pub fn csi_health(snapshot: &Snapshot, name: &str) -> Option<Result<(), String>> {
    let plugin = snapshot.plugins.iter().find(|plugin| plugin.name == name)?;
    let answers =
        !plugin.endpoints.is_empty() && plugin.endpoints.iter().all(|it| it.uri.is_some());
    if plugin.state == State::Ready || (plugin.state == State::Kept && answers) {
        return Some(Ok(()));
    }
    Some(Err(format!("{}: {}", plugin.state.word(), plugin.reason)))
}
