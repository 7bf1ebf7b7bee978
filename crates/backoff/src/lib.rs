//! Restart and retry policy as value types: exponential backoff with jitter, start limit
