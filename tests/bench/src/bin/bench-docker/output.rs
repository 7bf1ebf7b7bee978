//! Output of a task into its sandbox, beside the engine's own log read and thrown away.

use std::time::{Duration, Instant};

use longshore_bench::{Failure, Report, Row, Samples, Unit, proc};
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
    let (mut ours, mut bare) = (Samples::default(), Samples::default());
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
        ours.push(begin.elapsed());
        least = least.min(kept(bench, &id)?);
        std::fs::remove_dir_all(bench.sandbox(&id))?;
        bench.executor.forget(&task).await?;

        bare.push(read_bare(bench).await?);
    }
    let rate = |samples: &Samples| BYTES as f64 / 1e6 / samples.p50().as_secs_f64();
    // What the engine's own log has thrown away before it could be read is a gap, which the task tells.
    let share = least as f64 / BYTES as f64 * 100.0;
    report.add(
        Row::value("output of 200 MB kept", Unit::Percent, share, ours.len())
            .higher_is_better()
            .p50_limit(100.0),
    );
    let peer = rate(&bare);
    report.add(
        Row::value(
            "output of 200 MB, MB a second",
            Unit::Count,
            rate(&ours),
            ours.len(),
        )
        .higher_is_better()
        .peer("the engine's log, read and thrown away", peer)
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

async fn read_bare(bench: &Bench) -> Result<Duration, Failure> {
    let begin = Instant::now();
    let id = bench.engine.create(&bench.spec(&command())).await?.id;
    let wait = bench.engine.wait(&id, WaitUntil::NextExit).await?;
    bench.engine.start(&id).await?;
    let options = LogOptions {
        timestamps: true,
        ..LogOptions::follow()
    };
    let mut stream = bench.engine.logs(&id, &options).await?;
    while let Some(frame) = timeout(PATIENCE, stream.next()).await? {
        drop(frame?);
    }
    timeout(PATIENCE, wait).await??;
    let took = begin.elapsed();
    let options = RemoveOptions {
        force: true,
        volumes: true,
    };
    bench.engine.remove(&id, options).await?;
    Ok(took)
}
