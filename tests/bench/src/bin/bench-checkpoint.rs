//! `cargo xtask bench checkpoint`: records against the bare system calls, pair by pair.
//!
//! The power-durable rows need a disk: the directory is `$LONGSHORE_BENCH_DIR`, else that of this program
//! (the target directory). On a file system in memory they are printed, but not judged.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use longshore_bench::{Failure, Options, Report, Row, Samples, Unit};
use longshore_checkpoint::{AnyRecord, CodecError, Durability, Record, Writer, read};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::statfs::{FsType, statfs};
use nix::sys::time::TimeValLike;

/// A body of 1 KiB.
struct Kibibyte(Vec<u8>);

impl Record for Kibibyte {
    const KIND: &'static str = "bench";
    const VERSION: u16 = 1;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(self.0.clone())
    }

    fn decode(_version: u16, body: &[u8]) -> Result<Self, CodecError> {
        Ok(Self(body.to_vec()))
    }
}

type BenchResult<T> = Result<T, Failure>;

const BATCH: usize = 1_000;

/// A slow disk gets fewer rounds instead of more time.
const BATCH_BUDGET: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let Ok(options) = Options::from_args("bench-checkpoint") else {
        return ExitCode::from(2);
    };
    let mut report = Report::new("checkpoint", options);
    match run(&mut report) {
        Ok(()) => report.finish(),
        Err(error) => {
            report.note(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(report: &mut Report) -> BenchResult<()> {
    let more = if report.options().long { 5 } else { 1 };
    let disk = tempfile::Builder::new()
        .prefix("bench-checkpoint-")
        .tempdir_in(disk_dir()?)?;
    let (name, judged) = file_system(disk.path())?;
    report.note(&format!(
        "disk file system: {name}, at {}",
        disk.path().display()
    ));
    if !judged {
        report.note("that is no disk: power-durable rows are not judged; set LONGSHORE_BENCH_DIR");
    }
    let judge = |row: Row| if judged { row } else { row.not_judged() };

    let (ours, bare) = single(disk.path(), Durability::Power, 300 * more)?;
    let row = Row::against(
        format!("power-durable write, 1 KiB, {name}"),
        Unit::Micros,
        &ours,
        "bare",
        &bare,
    );
    report.add(judge(row.p50_limit(1.2)));

    let (ours, bare) = batch(disk.path(), BATCH_BUDGET, 15 * more)?;
    let row = Row::against(
        format!("power-durable batch of {BATCH}, {name}"),
        Unit::Millis,
        &ours,
        "bare",
        &bare,
    );
    report.add(judge(row.p50_limit(1.3)));

    let memory = tempfile::Builder::new()
        .prefix("bench-checkpoint-")
        .tempdir_in("/dev/shm")?;
    let n = 10_000 * more;
    let (ours, bare) = cpu(memory.path(), n)?;
    let own = (ours - bare).max(0.0);
    let name = "own CPU of a power-durable write, 1 KiB, tmpfs";
    report.add(Row::value(name, Unit::Micros, own, n).p50_limit(30.0));
    let name = "the same with its system calls";
    report.add(
        Row::value(name, Unit::Micros, ours, n)
            .peer("bare", bare)
            .p50_limit(1.2),
    );

    let (ours, bare) = single(memory.path(), Durability::Process, n)?;
    let name = "process-durable write, 1 KiB, tmpfs";
    report.add(Row::against(name, Unit::Micros, &ours, "bare", &bare));
    report.add(reads(memory.path(), n)?);
    Ok(())
}

/// Single writes to a file of its own each, ours and bare in turn.
fn single(dir: &Path, durability: Durability, n: usize) -> BenchResult<(Samples, Samples)> {
    let (record, writer) = (Kibibyte(vec![7; 1024]), Writer::new());
    let bytes = record.to_file(dir)?;
    let (ours_at, bare_at) = (dir.join("ours"), dir.join("bare"));
    // Once for the directories, which is not what is measured.
    writer.write(&ours_at, &record, durability)?;
    bare_write(dir, &bare_at, &bytes, durability)?;
    Samples::pairs(
        n,
        || writer.write(&ours_at, &record, durability),
        || bare_write(dir, &bare_at, &bytes, durability),
    )
}

/// Batches, ours and bare in turn, each into a directory of its own.
fn batch(dir: &Path, budget: Duration, n: usize) -> BenchResult<(Samples, Samples)> {
    let (record, writer) = (Kibibyte(vec![7; 1024]), Writer::new());
    let bytes = record.to_file(dir)?;
    let (ours_dir, bare_dir) = (dir.join("ours-batch"), dir.join("bare-batch"));
    writer.create_dir_all(&ours_dir, Durability::Power)?;
    writer.create_dir_all(&bare_dir, Durability::Power)?;
    let names = |dir: &Path| {
        (0..BATCH)
            .map(|nth| dir.join(format!("r{nth}")))
            .collect::<Vec<_>>()
    };
    let (ours_at, bare_at) = (names(&ours_dir), names(&bare_dir));
    let records: Vec<(&PathBuf, &dyn AnyRecord)> = ours_at
        .iter()
        .map(|path| (path, &record as &dyn AnyRecord))
        .collect();
    writer.write_batch(&records, Durability::Power)?;
    bare_batch(&bare_dir, &bare_at, &bytes)?;
    Samples::pairs_within(
        budget,
        n,
        || writer.write_batch(&records, Durability::Power),
        || bare_batch(&bare_dir, &bare_at, &bytes),
    )
}

/// CPU time of one write in microseconds, system calls included: ours, and the bare ones.
fn cpu(dir: &Path, n: usize) -> BenchResult<(f64, f64)> {
    let (record, writer) = (Kibibyte(vec![7; 1024]), Writer::new());
    let bytes = record.to_file(dir)?;
    let (ours_at, bare_at) = (dir.join("ours"), dir.join("bare"));
    let (mut ours, mut bare) = (Duration::ZERO, Duration::ZERO);
    const BLOCK: usize = 100;
    for _ in 0..n / BLOCK {
        let begin = thread_cpu()?;
        for _ in 0..BLOCK {
            writer.write(&ours_at, &record, Durability::Power)?;
        }
        let middle = thread_cpu()?;
        for _ in 0..BLOCK {
            bare_write(dir, &bare_at, &bytes, Durability::Power)?;
        }
        ours += middle.saturating_sub(begin);
        bare += thread_cpu()?.saturating_sub(middle);
    }
    let each =
        |total: Duration| Unit::Micros.of(total) / f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    Ok((each(ours), each(bare)))
}

fn reads(dir: &Path, n: usize) -> BenchResult<Row> {
    let path = dir.join("ours");
    let (ours, bare) = Samples::pairs(
        n,
        || read::<Kibibyte>(&path).map(|loaded| drop(loaded.record())),
        || std::fs::read(&path).map(drop),
    )?;
    Ok(Row::against(
        "read, 1 KiB, tmpfs",
        Unit::Micros,
        &ours,
        "std::fs::read",
        &bare,
    ))
}

/// The system calls that a durable replacement needs, and nothing else.
fn bare_write(
    dir: &Path,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> std::io::Result<()> {
    let temp = dir.join(".bare-tmp");
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temp)?;
    file.write_all(bytes)?;
    if durability == Durability::Power {
        file.sync_all()?;
    }
    drop(file);
    rename(&temp, path)?;
    if durability == Durability::Power {
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

fn bare_batch(dir: &Path, paths: &[PathBuf], bytes: &[u8]) -> std::io::Result<()> {
    let handle = File::open(dir)?;
    for path in paths {
        let temp = path.with_extension("tmp");
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(temp)?;
        file.write_all(bytes)?;
    }
    nix::unistd::syncfs(&handle)?;
    for path in paths {
        rename(&path.with_extension("tmp"), path)?;
    }
    handle.sync_all()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the bare peer of the checkpoint crate"
)]
fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)
}

fn thread_cpu() -> BenchResult<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// Where the disk rows are measured.
fn disk_dir() -> BenchResult<PathBuf> {
    if let Some(dir) = std::env::var_os("LONGSHORE_BENCH_DIR") {
        return Ok(dir.into());
    }
    let program = std::env::current_exe()?;
    Ok(program
        .parent()
        .ok_or("this program has no directory")?
        .to_owned())
}

/// The name of the file system at `path`, and whether it is on a disk.
fn file_system(path: &Path) -> BenchResult<(String, bool)> {
    let known: [(FsType, &str, bool); 7] = [
        (nix::sys::statfs::EXT4_SUPER_MAGIC, "ext4", true),
        // nix has no name for it with musl.
        (FsType(0x5846_5342), "xfs", true),
        (nix::sys::statfs::BTRFS_SUPER_MAGIC, "btrfs", true),
        (nix::sys::statfs::F2FS_SUPER_MAGIC, "f2fs", true),
        (nix::sys::statfs::OVERLAYFS_SUPER_MAGIC, "overlayfs", true),
        (nix::sys::statfs::NFS_SUPER_MAGIC, "nfs", true),
        (nix::sys::statfs::TMPFS_MAGIC, "tmpfs", false),
    ];
    let found = statfs(path)?.filesystem_type();
    let name = known.iter().find(|(ty, ..)| *ty == found);
    Ok(name.map_or_else(
        || (format!("type {:#x}", found.0), true),
        |(_, name, disk)| ((*name).to_owned(), *disk),
    ))
}
