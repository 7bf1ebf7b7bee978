//! Internal to Longshore: what the bench programs share. Measurements, rows, and their printing.
//!
//! A bench program takes `--json` (one object a line instead of a table), `--check` (exit status 1 when a
//! limit is missed) and `--long` (more rounds). A limit is a ratio against a peer of the same run wherever
//! there is one; ours and the peer's measurements alternate, so that both see the same machine.
//!
//! ```no_run
//! use longshore_bench::{Options, Report, Row, Samples, Unit};
//!
//! # fn bench() -> Result<std::process::ExitCode, longshore_bench::Failure> {
//! let options = Options::from_args("bench-example")?;
//! let mut report = Report::new("example", options);
//! let (ours, bare) = Samples::pairs(
//!     1000,
//!     || std::fs::read("a").map(drop),
//!     || std::fs::read("b").map(drop),
//! )?;
//! report.add(Row::against("read", Unit::Micros, &ours, "bare", &bare).p50_limit(1.2));
//! Ok(report.finish())
//! # }
//! ```

mod clock;
mod node;
pub mod nri;
mod options;
pub mod proc;
mod report;
mod samples;

pub use clock::monotonic;
pub use node::{Node, client, longshore, shim, socket};
pub use options::Options;
pub use report::{Better, Report, Row, Unit};
pub use samples::{Failure, Samples};
