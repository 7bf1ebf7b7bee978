//! Which plugins are to be registered with kubelet, from the configuration and what the manager tells of them.

use std::sync::Arc;

use longshore_csi_manager::{CsiManager, PluginStatus};
use longshore_kubelet_registration::{Answering, Offer, Registrar, Wanted};
use longshore_paths::Service;

use crate::board::Board;

/// Tells the registrar, whenever something changes.
pub(crate) async fn tell(registrar: Registrar, board: Board, manager: CsiManager) {
    let (mut daemon, mut status) = (board.subscribe(), manager.status());
    loop {
        let config = Arc::clone(&daemon.borrow_and_update().config);
        let plugins = Arc::clone(&status.borrow_and_update());
        let offers = config.plugins.iter().filter(|plugin| plugin.kubelet);
        let offers = offers.map(|plugin| {
            let name = plugin.name().to_owned();
            let found = plugins.plugins.get(&name).map(AsRef::as_ref);
            (name, offer(found))
        });
        registrar.want(Wanted {
            dir: config.kubelet.registration_dir.clone(),
            plugins: offers.collect(),
        });
        tokio::select! {
            changed = daemon.changed() => if changed.is_err() { return },
            changed = status.changed() => if changed.is_err() { return },
        }
    }
}

fn offer(plugin: Option<&PluginStatus>) -> Offer {
    let absent = |reason: &str| Offer::Absent {
        reason: reason.to_owned(),
    };
    let Some(plugin) = plugin else {
        return absent("the plugin is not known yet");
    };
    let Some(endpoint) = plugin.endpoints.get(&Service::Node) else {
        return absent("the plugin offers no node service");
    };
    let Some(ready) = &endpoint.ready else {
        return absent(&endpoint.reason);
    };
    match &plugin.details {
        None => absent("the plugin has not told its name yet"),
        Some(details) => Offer::Answering(Answering {
            driver: details.name.clone(),
            uri: ready.uri.clone(),
            version: ready.version,
            generation: endpoint.generation,
        }),
    }
}
