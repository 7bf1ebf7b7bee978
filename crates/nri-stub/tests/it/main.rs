//! The stub against runtimes of all kinds.

mod attribute;
