//! The `longshore` binary.

fn main() {}
