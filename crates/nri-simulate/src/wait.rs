//! Actions that wait for plugins, or for time to pass.

use std::time::Duration;

use longshore_nri_adaptation::{Adaptation, PluginKind, PluginState, PluginStatus};
use tokio::time::{sleep, timeout};

use crate::report::Outcome;
use crate::{Action, Step};

/// The longest wait of a step, in milliseconds.
const MS_MAX: u64 = 3_600_000;

/// What is wrong with the members of an action.
pub(crate) fn problem(action: Action, step: &Step) -> Option<String> {
    let (needs_plugin, may_plugin, needs_ms, may_ms) = match action {
        Action::RestartRuntime | Action::KillPlugins | Action::StartPlugins => {
            (false, false, false, false)
        }
        Action::Sleep => (false, false, true, true),
        Action::WaitForPlugin | Action::WaitUntilGone => (false, true, false, true),
        Action::RemovePlugin => (true, true, false, false),
    };
    let has_plugin = step.plugin.as_ref().is_some_and(|name| !name.is_empty());
    if needs_plugin && !has_plugin {
        return Some("name the `plugin`".to_owned());
    }
    if step.plugin.is_some() && !(may_plugin && has_plugin) {
        return Some("its `plugin` means nothing here".to_owned());
    }
    match step.ms {
        None if needs_ms => Some("say for how many `ms`".to_owned()),
        Some(_) if !may_ms => Some("its `ms` mean nothing here".to_owned()),
        Some(ms) if ms > MS_MAX => Some(format!("its `ms` are {ms}, more than an hour ({MS_MAX})")),
        _ => None,
    }
}

/// Does it: what it is called, and what came of it.
pub(crate) async fn act(
    action: Action,
    step: &Step,
    runtime: &Adaptation,
    wait: Duration,
) -> (String, Outcome) {
    let within = step.ms.map_or(wait, Duration::from_millis);
    let plugin = step.plugin.as_deref();
    let who = plugin.unwrap_or("a plugin");
    let failed = |error: String| Outcome::Failed { error };
    match action {
        Action::WaitForPlugin => {
            let outcome = match until(runtime, within, |plugins| any_active(plugins, plugin)).await
            {
                true => Outcome::Told,
                false => failed(format!(
                    "{who} was not active within {} ms",
                    within.as_millis()
                )),
            };
            (format!("wait for {who}"), outcome)
        }
        Action::WaitUntilGone => {
            let outcome = match until(runtime, within, |plugins| !any_active(plugins, plugin)).await
            {
                true => Outcome::Told,
                false => failed(format!(
                    "{who} was still active after {} ms",
                    within.as_millis()
                )),
            };
            (format!("wait until {who} is gone"), outcome)
        }
        Action::RemovePlugin => {
            let outcome = match runtime.remove_plugin(who) {
                0 => failed(format!("no plugin is named {who:?}")),
                _ => Outcome::Told,
            };
            (format!("remove {who}"), outcome)
        }
        _ => {
            sleep(within).await;
            (format!("sleep {} ms", within.as_millis()), Outcome::Told)
        }
    }
}

/// Waits until `is` holds; false when it does not in time.
async fn until(
    runtime: &Adaptation,
    within: Duration,
    is: impl Fn(&[PluginStatus]) -> bool,
) -> bool {
    let mut changes = runtime.changes();
    let holds = async {
        while !is(&runtime.plugins()) {
            // The sender lives as long as the adaptation, of which there is a handle.
            if changes.changed().await.is_err() {
                return false;
            }
        }
        true
    };
    timeout(within, holds).await.unwrap_or(false)
}

fn any_active(plugins: &[PluginStatus], name: Option<&str>) -> bool {
    plugins.iter().any(|plugin| {
        let meant = match name {
            Some(name) => {
                plugin.name == name || plugin.id.as_ref().is_some_and(|id| id.base() == name)
            }
            None => plugin.kind.is_some_and(|kind| kind != PluginKind::Builtin),
        };
        meant && plugin.state == PluginState::Active
    })
}
