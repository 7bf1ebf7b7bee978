//! Runtimes of other kinds and ages, as far as their plugins can tell.

use longshore_nri_api::EventMask;

/// What a runtime does otherwise on the wire: to try plugins out against older ones. The default is
/// what this crate does by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imitation {
    /// The nine events that only tell something come as StateChange, as before level 0.12.
    pub state_change_only: bool,
    /// Configure says how long plugins may take; not before level 0.8.
    pub tells_timeouts: bool,
    /// What does not fit into one Synchronize is sent in parts; before level 0.8 the plugin is closed.
    pub splits_synchronize: bool,
    /// The events that there are. Plugins that ask for others are closed where these are not all.
    pub events: EventMask,
}

impl Default for Imitation {
    fn default() -> Self {
        Self {
            state_change_only: false,
            tells_timeouts: true,
            splits_synchronize: true,
            events: EventMask::ALL,
        }
    }
}
