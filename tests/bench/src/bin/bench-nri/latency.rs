//! How long requests take, and what processor time they cost.

use std::path::{Path, PathBuf};
use std::process::id;
use std::time::{Duration, Instant};

use longshore_bench::{Failure, Report, Row, Samples, Unit, proc};

use crate::bare::Bare;
use crate::number;
use crate::sides::{CREATE, Ours, Programs, START, TURN, Theirs};

/// Latencies are taken over this many sets of processes: where the kernel wakes a process is settled anew with
/// each set, and decides more than anything else.
const SETS: usize = 4;

fn on_cpu(pids: &[u32]) -> Result<Duration, Failure> {
    pids.iter().map(|pid| proc::on_cpu(*pid)).sum()
}

/// Prints rows with or without their limits.
struct Rows<'a> {
    report: &'a mut Report,
    suffix: &'a str,
    judged: bool,
}

impl Rows<'_> {
    fn add(&mut self, name: &str, limit: f64, row: impl FnOnce(String) -> Row) {
        let row = row(format!("{name}{}", self.suffix));
        self.report.add(if self.judged {
            row.p50_limit(limit)
        } else {
            row
        });
    }
}

/// All figures; without limits unless `judged`.
pub(crate) async fn measure(
    report: &mut Report,
    suffix: &str,
    judged: bool,
) -> Result<(), Failure> {
    let dir = tempfile::Builder::new().prefix("ln-").tempdir_in("/tmp")?;
    let programs = tokio::task::spawn_blocking(Programs::build).await?;
    let turns = if report.options().long { 48 } else { 12 };
    let mut rows = Rows {
        report,
        suffix,
        judged,
    };
    let hop = one(&mut rows, dir.path(), programs.as_ref(), turns).await?;
    nobody(&mut rows, dir.path(), &hop, turns).await?;
    ten(&mut rows, dir.path(), programs.as_ref(), turns).await?;
    parallel(&mut rows, dir.path(), programs.as_ref(), turns / 3).await
}

/// What is measured with one plugin.
#[derive(Default)]
struct One {
    /// A hop, in turns with everything else.
    hop: Samples,
    /// The same, in turns of one with the bare bytes.
    paired: Samples,
    bytes: Samples,
    /// A Go plugin under our adaptation, and under Go's.
    same: Samples,
    theirs: Samples,
    cpu: Cpu,
}

#[derive(Default)]
struct Cpu {
    ours: Duration,
    bare: Duration,
    theirs: Duration,
}

/// One plugin; gives the times of a hop.
async fn one(
    rows: &mut Rows<'_>,
    dir: &Path,
    programs: Option<&Programs>,
    turns: usize,
) -> Result<Samples, Failure> {
    let mut measured = One::default();
    for set in 0..SETS {
        let dir = subdirectory(dir, &format!("one{set}"))?;
        measured.set(&dir, programs, turns / SETS).await?;
    }
    let One {
        hop,
        paired,
        bytes,
        same,
        theirs,
        cpu,
    } = measured;
    let each = |total: Duration| Unit::Micros.of(total) / number(bytes.len());
    rows.add("create, one plugin", 2.0, |name| {
        Row::against(name, Unit::Micros, &paired, "the same bytes bare", &bytes)
    });
    if programs.is_some() {
        rows.add("create, one plugin, beside Go", 0.4, |name| {
            Row::against(name, Unit::Micros, &hop, "Go with a Go plugin", &theirs)
        });
        rows.add("create, one Go plugin", 0.7, |name| {
            Row::against(
                name,
                Unit::Micros,
                &same,
                "Go with the same plugin",
                &theirs,
            )
        });
        rows.add("processor time of a hop", 0.35, |name| {
            Row::value(name, Unit::Micros, each(cpu.ours), hop.len()).peer("Go", each(cpu.theirs))
        });
    }
    let bare_row = Row::value(
        format!("processor time of a hop, bare{}", rows.suffix),
        Unit::Micros,
        each(cpu.bare),
        bytes.len(),
    );
    rows.report.add(bare_row);
    Ok(hop)
}

impl One {
    /// Measures with one set of processes. The first turn is not counted.
    async fn set(
        &mut self,
        dir: &Path,
        programs: Option<&Programs>,
        turns: usize,
    ) -> Result<(), Failure> {
        let mut bare = Bare::start(dir).await?;
        let rust = Ours::with_rust(dir, 1).await?;
        let mut peers = match programs {
            Some(programs) => Some((
                Ours::with_go(dir, programs).await?,
                Theirs::with(dir, programs, 1).await,
            )),
            None => None,
        };
        let mut ours_pids = rust.pids.clone();
        ours_pids.push(id());
        let bare_pids = [id(), bare.role.pid()];
        for turn in 0..=turns {
            let mut spare = Self::default();
            let into = if turn > 0 { &mut *self } else { &mut spare };
            // Pair by pair, so that both find the processors in the same state.
            for _ in 0..TURN {
                rust.create(1, &mut into.paired).await?;
                let begin = Instant::now();
                bare.hop().await?;
                into.bytes.push(begin.elapsed());
            }
            let before = on_cpu(&ours_pids)?;
            rust.create(TURN, &mut into.hop).await?;
            into.cpu.ours += on_cpu(&ours_pids)?.saturating_sub(before);
            let before = on_cpu(&bare_pids)?;
            for _ in 0..TURN {
                bare.hop().await?;
            }
            into.cpu.bare += on_cpu(&bare_pids)?.saturating_sub(before);
            if let Some((ours, go)) = &mut peers {
                ours.create(TURN, &mut into.same).await?;
                let before = on_cpu(&go.pids())?;
                go.bench(CREATE, &mut into.theirs).await?;
                into.cpu.theirs += on_cpu(&go.pids())?.saturating_sub(before);
            }
        }
        Ok(())
    }
}

/// A place for the sockets of one set of processes.
fn subdirectory(dir: &Path, name: &str) -> Result<PathBuf, Failure> {
    let path = dir.join(name);
    std::fs::create_dir(&path)?;
    Ok(path)
}

/// Nobody listens.
async fn nobody(
    rows: &mut Rows<'_>,
    dir: &Path,
    hop: &Samples,
    turns: usize,
) -> Result<(), Failure> {
    let ours = Ours::with_rust(dir, 0).await?;
    let mut samples = Samples::default();
    for _ in 0..turns {
        ours.create(TURN, &mut samples).await?;
    }
    rows.add("create, no plugin subscribed", 0.02, |name| {
        Row::against(name, Unit::Micros, &samples, "a hop", hop)
    });
    Ok(())
}

/// What is measured with ten plugins.
#[derive(Default)]
struct Ten {
    /// One plugin, in turns with ten.
    hop: Samples,
    create: Samples,
    state: Samples,
    go_create: Samples,
    go_state: Samples,
}

async fn ten(
    rows: &mut Rows<'_>,
    dir: &Path,
    programs: Option<&Programs>,
    turns: usize,
) -> Result<(), Failure> {
    let mut measured = Ten::default();
    for set in 0..SETS {
        let dir = subdirectory(dir, &format!("ten{set}"))?;
        measured.set(&dir, programs, turns / SETS).await?;
    }
    let Ten {
        hop,
        create,
        state,
        go_create,
        go_state,
    } = &measured;
    let mut row = |name: &str, limit, ours: &Samples, peer: &str, theirs: &Samples| {
        rows.add(name, limit, |name| {
            Row::against(name, Unit::Micros, ours, peer, theirs)
        });
    };
    row("create, ten plugins", 14.0, create, "a hop", hop);
    row("state change, ten plugins", 5.0, state, "a hop", hop);
    if programs.is_some() {
        let name = "create, ten plugins, beside Go";
        row(name, 1.0 / 3.0, create, "Go", go_create);
        let name = "state change, ten plugins, beside Go";
        row(name, 1.0 / 6.0, state, "Go", go_state);
    }
    Ok(())
}

impl Ten {
    /// Measures with one set of processes. The first turn is not counted.
    async fn set(
        &mut self,
        dir: &Path,
        programs: Option<&Programs>,
        turns: usize,
    ) -> Result<(), Failure> {
        let one = Ours::with_rust(dir, 1).await?;
        let rust = Ours::with_rust(dir, 10).await?;
        let mut go = match programs {
            Some(programs) => Some(Theirs::with(dir, programs, 10).await),
            None => None,
        };
        for turn in 0..=turns {
            let mut spare = Self::default();
            let into = if turn > 0 { &mut *self } else { &mut spare };
            one.create(TURN, &mut into.hop).await?;
            rust.create(TURN, &mut into.create).await?;
            rust.state(&mut into.state).await?;
            if let Some(go) = &mut go {
                go.bench(CREATE, &mut into.go_create).await?;
                go.bench(START, &mut into.go_state).await?;
            }
        }
        Ok(())
    }
}

async fn parallel(
    rows: &mut Rows<'_>,
    dir: &Path,
    programs: Option<&Programs>,
    turns: usize,
) -> Result<(), Failure> {
    const N: usize = 400;
    let rust = Ours::with_rust(dir, 5).await?;
    let mut go = match programs {
        Some(programs) => Some(Theirs::with(dir, programs, 5).await),
        None => None,
    };
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for _ in 0..turns.max(3) {
        ours.push(rust.parallel(N).await?);
        if let Some(go) = &mut go {
            theirs.push(go.parallel(N).await?);
        }
    }
    let rate = |samples: &Samples| number(N) / samples.p50().as_secs_f64();
    let value = rate(&ours);
    let row = |name| Row::value(name, Unit::Count, value, ours.len()).higher_is_better();
    let name = "creates a second, eight pods, five plugins";
    match go {
        Some(_) => {
            let theirs = rate(&theirs);
            rows.add(name, 5.0, |name| row(name).peer("Go", theirs));
        }
        None => rows.report.add(row(format!("{name}{}", rows.suffix))),
    }
    Ok(())
}
