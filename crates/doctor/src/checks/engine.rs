//! The engine that runs tasks and images.

use crate::{EngineFacts, Finding, View};

const CHECK: &str = "engine";

pub(super) fn check(view: &View) -> Vec<Finding> {
    match &view.engine {
        EngineFacts::NotWanted | EngineFacts::There { own_nri: None, .. } => Vec::new(),
        EngineFacts::Away {
            address,
            wanted,
            reason,
        } => {
            let what = format!("the engine at {address} does not answer: {reason}");
            let advice =
                "start it (`systemctl start docker`), or name its socket: `engine` below `[tasks]`";
            vec![if *wanted {
                Finding::problem(CHECK, what, advice)
            } else {
                Finding::warning(CHECK, what, advice)
            }]
        }
        EngineFacts::There {
            address,
            own_nri: Some(words),
        } => {
            let words = if words.is_empty() {
                String::new()
            } else {
                format!(" ({words})")
            };
            let what = format!("the engine at {address} serves NRI plugins of its own{words}");
            let advice =
                "connect each plugin to one of the two: to both it sees every container twice";
            vec![Finding::warning(CHECK, what, advice)]
        }
    }
}
