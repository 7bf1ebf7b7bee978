//! Output of a task into its sandbox, beside the engine's own log read and thrown away.

use std::time::{Duration, Instant};

use longshore_bench::{Failure, Report, Row, Unit, proc};
use longshore_engine::{Engine as _, LogOptions, RemoveOptions, WaitUntil};
use tokio::time::timeout;

use crate::Bench;

const PATIENCE: Duration = Duration::from_secs(600);
/// How much a task prints: lines of 100 bytes.
const BYTES: u64 = 200_000_000;
/// At least this much of the engine's own rate.
const SHARE: f64 = 0.9;

/// Prints it and is done. `yes` writes as fast as it is read.
fn command() -> String {
    let line = "x".repeat(99);
    format!("yes {line} | head -c {BYTES}")
}

pub(crate) async fn measure(report: &mut Report, bench: &Bench) -> Result<(), Failure> {
    let rounds = if report.options().long { 5 } else { 2 };
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    let before = proc::resident(std::process::id())?;
    let (mut peak, mut least) = (before, BYTES);
    for nth in 0..rounds {
        let id = format!("loud-{nth}");
        let begin = Instant::now();
        let task = bench.executor.launch(bench.launch(&id, &command())?);
        // Its end is told 2 s after its exit at the latest; it is finished when all of its output is read.
        let finished = task.finished();
        tokio::pin!(finished);
        loop {
            tokio::select! {
                () = &mut finished => break,
                () = tokio::time::sleep(Duration::from_millis(200)) => {
                    peak = f64::max(peak, proc::resident(std::process::id())?);
                }
            }
        }
        let took = begin.elapsed();
        let bytes = kept(bench, &id)?;
        ours.push(rate(bytes, took));
        least = least.min(bytes);
        std::fs::remove_dir_all(bench.sandbox(&id))?;
        bench.executor.forget(&task).await?;

        bare.push(read_bare(bench).await?);
    }
    let (rate, peer) = (middle(&mut ours), middle(&mut bare));
    let share = least as f64 / BYTES as f64 * 100.0;
    report.add(
        Row::value("output of 200 MB kept", Unit::Percent, share, ours.len())
            .higher_is_better()
            .p50_limit(100.0),
    );
    report.add(
        Row::value(
            "output of 200 MB, MB a second",
            Unit::Count,
            rate,
            ours.len(),
        )
        .higher_is_better()
        .peer("the engine's log, followed; what it gives of them", peer)
        .p50_limit(SHARE),
    );
    report.add(Row::value(
        "memory that reading it takes, at most",
        Unit::Kibibytes,
        peak - before,
        ours.len(),
    ));
    Ok(())
}

/// Megabytes a second.
fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / 1e6 / took.as_secs_f64()
}

fn middle(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// All files of standard output, rotated ones included.
fn kept(bench: &Bench, id: &str) -> Result<u64, Failure> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(bench.sandbox(id))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("stdout") {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// The rate of what it gives: engines drop output for a follower that is slower than the container.
async fn read_bare(bench: &Bench) -> Result<f64, Failure> {
    let begin = Instant::now();
    let id = bench.engine.create(&bench.spec(&command())).await?.id;
    let wait = bench.engine.wait(&id, WaitUntil::NextExit).await?;
    bench.engine.start(&id).await?;
    let options = LogOptions {
        timestamps: true,
        ..LogOptions::follow()
    };
    let mut bytes = 0;
    let mut stream = bench.engine.logs(&id, &options).await?;
    while let Some(frame) = timeout(PATIENCE, stream.next()).await? {
        bytes += frame?.split_time().map_or(0, |(_, data)| data.len());
    }
    timeout(PATIENCE, wait).await??;
    let took = begin.elapsed();
    let options = RemoveOptions {
        force: true,
        volumes: true,
    };
    bench.engine.remove(&id, options).await?;
    Ok(rate(bytes as u64, took))
}
