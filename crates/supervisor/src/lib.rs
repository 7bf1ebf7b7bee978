//! Wires the crates of Longshore into one daemon: configuration, reload, control service, metrics
