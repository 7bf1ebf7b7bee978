//! Sizes of processes.

use std::path::Path;
use std::process::id;
use std::time::Duration;

use longshore_bench::nri::subject;
use longshore_bench::{Failure, Report, Row, Unit, proc};
use longshore_nri_adaptation::RequestOptions;
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

use crate::host::{self, Node, PATIENCE, Synchronized};
use crate::number;
use crate::process::Role;

/// Plugins that are connected to find what one of them takes.
const PLUGINS: usize = 200;

pub(crate) async fn measure(report: &mut Report) -> Result<(), Failure> {
    let dir = tempfile::Builder::new().prefix("ln-").tempdir_in("/tmp")?;
    connected(report, dir.path()).await?;
    if report.options().long {
        flat(report, dir.path()).await?;
    }
    Ok(())
}

async fn connected(report: &mut Report, dir: &Path) -> Result<(), Failure> {
    let socket = dir.join("host.sock");
    let host = Role::start("host", &socket, &[])?;
    let deadline = Instant::now() + PATIENCE;
    while UnixStream::connect(&socket).await.is_err() {
        if Instant::now() > deadline {
            return Err("the host does not listen".into());
        }
        sleep(Duration::from_millis(5)).await;
    }
    // The first ones bring the pages of the code with them.
    let first = Role::plugins(&socket, 0, 1)?;
    let _warm = Role::plugins(&socket, 1, 20)?;
    let before = settled(host.pid()).await?;
    let stub = settled(first.pid()).await?;
    let half = Role::plugins(&socket, 21, PLUGINS / 2)?;
    let other = Role::plugins(&socket, 21 + PLUGINS / 2, PLUGINS / 2)?;
    let after = settled(host.pid()).await?;
    drop((half, other));
    let each = (after - before) / number(PLUGINS);
    let row = Row::value(
        "memory of a connected plugin",
        Unit::Kibibytes,
        each,
        PLUGINS,
    );
    report.add(row.p50_limit(96.0));
    let row = Row::value("idle stub, resident", Unit::Kibibytes, stub, 1);
    report.add(row.p50_limit(4096.0));
    Ok(())
}

/// What is resident once it no longer changes.
async fn settled(pid: u32) -> Result<f64, Failure> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = proc::resident(pid)?;
    let mut same = 0;
    while same < 10 && Instant::now() < deadline {
        sleep(Duration::from_millis(100)).await;
        let now = proc::resident(pid)?;
        same = if (now - last).abs() < 1.0 {
            same + 1
        } else {
            0
        };
        last = now;
    }
    Ok(last)
}

/// A million requests leave nothing behind.
async fn flat(report: &mut Report, dir: &Path) -> Result<(), Failure> {
    const REQUESTS: usize = 1_000_000;
    const WARM: usize = 100_000;
    let socket = dir.join("flat.sock");
    let adaptation = host::start(&socket, Node::default(), Synchronized::default()).await?;
    let plugin = Role::plugins(&socket, 0, 1)?;
    host::active(&adaptation, 1).await?;
    let options = RequestOptions::default();
    let mut before = (0.0, 0.0);
    for nth in 0..REQUESTS {
        if nth == WARM {
            before = (proc::resident(id())?, proc::resident(plugin.pid())?);
        }
        let request = subject::request(nth % 64);
        adaptation.create_container(request, &options).await?;
    }
    let growth = [
        ("adaptation", proc::resident(id())? - before.0),
        ("stub", proc::resident(plugin.pid())? - before.1),
    ];
    for (who, growth) in growth {
        let name = format!("{who}: growth over {REQUESTS} requests");
        let row = Row::value(name, Unit::Kibibytes, growth, REQUESTS);
        report.add(row.p50_limit(256.0));
    }
    Ok(())
}
