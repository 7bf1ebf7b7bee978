//! `longshore daemon`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use longshore_agent::ShimCommand;
use longshore_supervisor::{Config, Program};

use crate::SHIM;
use crate::fault::Exit;
use crate::verbs::{block_on, config::SourceArgs};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    sources: SourceArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let sources = args.sources.sources();
    let config = Config::load(&sources, None)?;
    config.check_files()?;
    let log = crate::logging::start(&config.log, config.log_format)?;
    let open_files = raise_open_files();
    block_on(async {
        let mut signals = Stop::new().context("cannot handle signals")?;
        let shutdown = async {
            let signal = signals.next().await;
            tracing::info!(signal, "asked to stop");
            notify(sd_notify::NotifyState::Stopping);
        };
        let _watchdog = sd_notify::watchdog_enabled().map(|within| {
            tokio_util::task::AbortOnDropHandle::new(tokio::spawn(feed_watchdog(within)))
        });
        let ready = || notify(sd_notify::NotifyState::Ready);
        let program = Program {
            open_files,
            log: Some(log),
            ..program()?
        };
        longshore_supervisor::run(sources, config, program, ready, shutdown).await?;
        Ok(Exit::Success)
    })
}

/// As many descriptors as thousands of containers need.
const OPEN_FILES: u64 = 65_536;

/// Each container costs some descriptors, and 1,024, the usual soft limit, are soon used up. Gives the
/// limit there was, soft and hard, which the containers are to have: some programs close each
/// possible descriptor when they start, and some still use select(2).
fn raise_open_files() -> Option<(u64, u64)> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        let wanted = hard.min(OPEN_FILES);
        if soft >= wanted {
            return Ok(None);
        }
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard)?;
        Ok(Some((soft, hard)))
    });
    raised.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot raise the limit of open files");
        None
    })
}

/// This binary, and what is the parent of its containers.
pub(crate) fn program() -> Result<Program> {
    let itself = std::env::current_exe().context("cannot find this program's own file")?;
    Ok(Program {
        version: env!("CARGO_PKG_VERSION"),
        // A build for debugging takes itself: what lies beside it may be of another day.
        shim: ShimCommand::new(parent(itself, !cfg!(debug_assertions)), [SHIM]),
        open_files: None,
        log: None,
    })
}

/// The small shim where it was installed beside this binary (it starts in a fraction of the time), else
/// this binary, which is one, too.
fn parent(itself: PathBuf, small: bool) -> PathBuf {
    let beside = itself.with_file_name("longshore-shim");
    if small && beside.is_file() {
        beside
    } else {
        itself
    }
}

/// Tells the service manager that this loop goes round, three times in the time in which it wants to hear it (systemd.service(5),
/// `WatchdogSec=`).
async fn feed_watchdog(within: Duration) {
    let pause = (within / 3).max(Duration::from_millis(10));
    loop {
        notify(sd_notify::NotifyState::Watchdog);
        tokio::time::sleep(pause).await;
    }
}

/// Tells systemd, where it asked to be told.
fn notify(state: sd_notify::NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// SIGINT and SIGTERM; SIGHUP is the supervisor's, for reloads.
struct Stop {
    int: tokio::signal::unix::Signal,
    term: tokio::signal::unix::Signal,
}

impl Stop {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.int.recv() => "SIGINT",
            _ = self.term.recv() => "SIGTERM",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_shim_is_used_where_it_is_installed() {
        let dir = tempfile::tempdir().unwrap();
        let itself = dir.path().join("longshore");
        assert_eq!(parent(itself.clone(), true), itself);
        let small = dir.path().join("longshore-shim");
        std::fs::write(&small, "").unwrap();
        assert_eq!(parent(itself.clone(), true), small);
        assert_eq!(parent(itself.clone(), false), itself);
    }
}
