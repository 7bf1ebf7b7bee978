//! Bounds and deadlines of the HTTP front.

use std::time::Duration;

/// Bounds and deadlines of the HTTP front of the agent. [`HttpLimits::default`] suits a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpLimits {
    /// Connections served at a time, all listeners together; more wait in the listeners' queues.
    pub connections: usize,
    /// WAIT calls pending at a time; one more is answered with 503. Lower than `connections`, so that pending waits
    /// never keep other calls out.
    pub waits: usize,
    /// Launches, kills, removals and reads of output under way at a time; more wait for their turn.
    pub operations: usize,
    /// Longest request body, in bytes; a longer one is answered with 413.
    pub max_body: usize,
    /// Most members, entries and strings in one call.
    pub max_call_elements: usize,
    /// Longest answer, in bytes; a longer one is answered with 500 instead.
    pub max_answer: usize,
    /// How long a client may take for a request's head, and how long a connection may idle between requests.
    pub header_timeout: Duration,
    /// How long a client may take for a request's body, and for a TLS handshake.
    pub body_timeout: Duration,
    /// How long a client may read nothing of its answer before the connection is closed.
    pub write_timeout: Duration,
    /// How long a shutdown waits for the calls under way. Pending WAITs are not waited for.
    pub shutdown_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            waits: 3072,
            operations: 256,
            max_body: 4 << 20,
            max_call_elements: 50_000,
            max_answer: 16 << 20,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}
