//! The bounds of an adaptation.

/// How many connections, requests and events there may be at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections that have not registered; further ones are closed. 64 by default.
    pub unregistered: usize,
    /// Plugins that have registered; further ones are refused. 256 by default.
    pub registered: usize,
    /// Requests of the runtime under way; further ones fail at once. 4096 by default.
    pub requests: usize,
    /// Events that are kept for one plugin until it is synchronized; with more it is closed.
    /// 4096 by default.
    pub kept_events: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            unregistered: 64,
            registered: 256,
            requests: 4096,
            kept_events: 4096,
        }
    }
}
