//! What an operator decides about plugins: timeouts, what their failure means, what they may do.

use std::time::Duration;

use longshore_backoff::RestartPolicy;
use longshore_nri_api::{Event, EventMask, service};

use crate::fields::FieldSet;

/// How long plugins may take when their own policy says nothing else. Plugins are told of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From a connection to the call of RegisterPlugin. 5 s by default.
    pub registration: Duration,
    /// For each request to a plugin, and for each part of a Synchronize. 2 s by default.
    pub request: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            registration: Duration::from_millis(service::DEFAULT_REGISTRATION_TIMEOUT_MS),
            request: Duration::from_millis(service::DEFAULT_REQUEST_TIMEOUT_MS),
        }
    }
}

/// What a plugin's failure means for a request. A failure is a lost connection, no answer in time
/// or a broken one; an *answer* that is an error fails the request under every policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// The request goes on as if the plugin were not there. What Go's adaptation does, and the
    /// default.
    #[default]
    Ignore,
    /// The request fails; the next one goes on without the plugin when it is gone.
    FailRequest,
    /// The request fails, and so does every creation of a container while the plugin is not
    /// active, from the start on. With this the plugin is required.
    FailUntilBack,
}

/// How one plugin is treated. The default treats it as Go's adaptation does.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PluginPolicy {
    /// What its failure means.
    pub on_failure: OnFailure,
    /// How long a request may take; `None` for [`Timeouts::request`]. Time spent waiting for the
    /// plugin's other requests does not count.
    pub request_timeout: Option<Duration>,
    /// As [`Self::request_timeout`], for some events: the first entry that has the event holds.
    pub event_timeouts: Vec<(EventMask, Duration)>,
    /// How long a launched plugin may take to register; `None` for [`Timeouts::registration`].
    pub registration_timeout: Option<Duration>,
    /// How many requests in a row may time out: at this many the plugin is closed. 1 by default
    /// (0 counts as 1).
    pub strikes: u32,
    /// The events that it gets, of those that it asks for; all by default.
    pub allow_events: EventMask,
    /// The fields that it may adjust and update; all by default. A request for which it sets
    /// another fails.
    pub allow_fields: FieldSet,
    /// Whether it gets one request at a time, which is the default. Otherwise requests for
    /// different pods reach it side by side.
    pub serial: bool,
    /// How it is started again when it was launched by the adaptation; `None` for never.
    pub restart: Option<RestartPolicy>,
}

impl Default for PluginPolicy {
    fn default() -> Self {
        Self {
            on_failure: OnFailure::default(),
            request_timeout: None,
            event_timeouts: Vec::new(),
            registration_timeout: None,
            strikes: 1,
            allow_events: EventMask::ALL,
            allow_fields: FieldSet::ALL,
            serial: true,
            restart: Some(RestartPolicy::default()),
        }
    }
}

impl PluginPolicy {
    /// How long a request for `event` may take.
    #[must_use]
    pub fn timeout(&self, event: Event, timeouts: &Timeouts) -> Duration {
        let special = self
            .event_timeouts
            .iter()
            .find(|(mask, _)| mask.contains(event));
        special.map_or_else(|| self.request_timeout(timeouts), |(_, timeout)| *timeout)
    }

    /// How long a request may take that no event stands for.
    #[must_use]
    pub fn request_timeout(&self, timeouts: &Timeouts) -> Duration {
        self.request_timeout.unwrap_or(timeouts.request)
    }
}

/// The policies of all plugins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    named: Vec<(String, PluginPolicy)>,
    default: PluginPolicy,
}

impl Policies {
    pub(crate) fn set(&mut self, name: String, policy: PluginPolicy) {
        self.named.retain(|(known, _)| *known != name);
        self.named.push((name, policy));
    }

    pub(crate) fn set_default(&mut self, policy: PluginPolicy) {
        self.default = policy;
    }

    /// The policy for a plugin: that of its full name, else of its base name, else the default.
    pub(crate) fn get(&self, full: &str, base: &str) -> &PluginPolicy {
        let named = |wanted: &str| self.named.iter().find(|(name, _)| name == wanted);
        named(full)
            .or_else(|| named(base))
            .map_or(&self.default, |(_, policy)| policy)
    }

    /// The names without which nothing is created.
    pub(crate) fn required(&self) -> impl Iterator<Item = &str> {
        self.named
            .iter()
            .filter(|(_, policy)| policy.on_failure == OnFailure::FailUntilBack)
            .map(|(name, _)| name.as_str())
    }
}
