//! The runtime's side of the Node Resource Interface.

pub mod merge;
