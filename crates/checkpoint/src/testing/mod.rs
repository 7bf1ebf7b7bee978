//! For tests: file systems that fail and crash, and golden files.

mod faults;
mod golden;
mod memory;

pub use faults::{Fault, FaultFs};
pub use golden::check_golden;
pub use memory::MemoryFs;
