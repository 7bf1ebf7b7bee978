//! Which services somebody has asked for. Asking never waits, and is never lost.

use std::sync::atomic::{AtomicBool, Ordering};

use longshore_paths::Service;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Wants {
    controller: AtomicBool,
    node: AtomicBool,
    changed: Notify,
}

impl Wants {
    pub(crate) fn new(all: bool) -> Self {
        Self {
            controller: all.into(),
            node: all.into(),
            changed: Notify::new(),
        }
    }

    fn of(&self, service: Service) -> &AtomicBool {
        match service {
            Service::Controller => &self.controller,
            Service::Node => &self.node,
        }
    }

    pub(crate) fn want(&self, service: Service) {
        if !self.of(service).swap(true, Ordering::Relaxed) {
            self.changed.notify_one();
        }
    }

    pub(crate) fn want_all(&self) {
        self.want(Service::Controller);
        self.want(Service::Node);
    }

    pub(crate) fn wanted(&self, service: Service) -> bool {
        self.of(service).load(Ordering::Relaxed)
    }

    pub(crate) fn any(&self) -> bool {
        self.wanted(Service::Controller) || self.wanted(Service::Node)
    }

    /// Returns when something was wanted since the last time.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}
