//! Durable records: atomic write, checksummed read, quarantine, fault points
