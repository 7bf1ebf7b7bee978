//! The executor's own log, on standard error: an agent puts that into the sandbox.

use tracing::Level;
use tracing_subscriber::filter::LevelFilter;

use crate::flags::Flags;

/// Begins to log as Mesos' flags say: `--logging_level`, and errors alone with `--quiet`.
pub(crate) fn start(flags: &Flags) {
    let level = match (flags.quiet, flags.logging_level.as_str()) {
        (true, _) | (false, "ERROR") => Level::ERROR,
        (false, "WARNING") => Level::WARN,
        (false, _) => Level::INFO,
    };
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .with_max_level(LevelFilter::from_level(level));
    // There is one already: a test's.
    let _running = builder.try_init();
}
