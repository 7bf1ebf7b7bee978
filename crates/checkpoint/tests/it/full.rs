//! A disk that is full, and one that is read-only, as the kernel has them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use longshore_checkpoint::{AnyRecord, Durability, Loaded, Writer, read};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::{Plugin, plugin};

/// Runs `test` with a disk of 64 KiB, in a thread with mounts of its own. Needs the right to mount.
fn with_small_disk(test: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    let thread = || {
        let none = None::<&str>;
        let mounted = unshare(CloneFlags::CLONE_NEWNS)
            .and_then(|()| mount(none, "/", none, MsFlags::MS_PRIVATE | MsFlags::MS_REC, none))
            .and_then(|()| {
                let options = Some("size=64k,nr_inodes=16");
                mount(
                    Some("tmpfs"),
                    dir.path(),
                    Some("tmpfs"),
                    MsFlags::empty(),
                    options,
                )
            });
        match mounted {
            Ok(()) => test(dir.path()),
            Err(errno) => skip(&format!("mounting is not allowed here: {errno}")),
        }
    };
    std::thread::scope(|scope| scope.spawn(thread).join()).unwrap();
}

/// Names the test as skipped, as those are that need another program; it needs CAP_SYS_ADMIN.
#[expect(clippy::print_stdout, reason = "a skipped test says so")]
fn skip(why: &str) {
    let required = std::env::var("LONGSHORE_TEST_REQUIRE").unwrap_or_default();
    assert!(
        required.split(',').all(|name| name != "mounts"),
        "mounts are required: {why}"
    );
    let line = format!("skipped: root: {why}");
    println!("{line}");
    if let Some(list) = std::env::var_os("LONGSHORE_TEST_SKIPS") {
        let mut list = File::options()
            .create(true)
            .append(true)
            .open(list)
            .unwrap();
        writeln!(list, "{line}").unwrap();
    }
}

/// Fills the disk up to its last block.
fn fill(dir: &Path) -> PathBuf {
    let path = dir.join("ballast");
    let mut file = File::create(&path).unwrap();
    while file.write_all(&[7; 4096]).is_ok() {}
    path
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_full_disk_keeps_the_old_records_and_works_again_when_there_is_space() {
    with_small_disk(|dir| {
        let (a, b) = (dir.join("a"), dir.join("b"));
        let writer = Writer::new();
        writer.write(&a, &plugin("old"), Durability::Power).unwrap();
        writer.write(&b, &plugin("old"), Durability::Power).unwrap();
        let ballast = fill(dir);
        let new = plugin("new");
        for durability in [Durability::Process, Durability::Power] {
            let error = writer.write(&a, &new, durability).unwrap_err();
            assert!(error.is_no_space(), "{error}");
            let expected = "/a: free space or inodes on its file system";
            assert!(error.to_string().ends_with(expected), "{error}");
            let records = [(&a, &new as &dyn AnyRecord), (&b, &new)];
            assert!(
                writer
                    .write_batch(&records, durability)
                    .unwrap_err()
                    .is_no_space()
            );
            assert_eq!(names(dir), ["a", "b", "ballast"]);
            assert_eq!(read::<Plugin>(&a).unwrap().record(), Some(plugin("old")));
            assert_eq!(read::<Plugin>(&b).unwrap().record(), Some(plugin("old")));
        }
        fs::remove_file(ballast).unwrap();
        writer.write(&a, &new, Durability::Power).unwrap();
        assert_eq!(read::<Plugin>(&a).unwrap().record(), Some(new));
    });
}

#[test]
fn a_disk_without_inodes_keeps_the_old_record() {
    with_small_disk(|dir| {
        let path = dir.join("a");
        Writer::new()
            .write(&path, &plugin("old"), Durability::Power)
            .unwrap();
        let mut nth = 0;
        while File::create(dir.join(format!("ballast-{nth}"))).is_ok() {
            nth += 1;
        }
        let error = Writer::new()
            .write(&path, &plugin("new"), Durability::Process)
            .unwrap_err();
        assert!(error.is_no_space(), "{error}");
        assert_eq!(read::<Plugin>(&path).unwrap().record(), Some(plugin("old")));
    });
}

#[test]
fn a_read_only_disk_is_read_and_its_damage_named() {
    with_small_disk(|dir| {
        let (path, damaged) = (dir.join("a"), dir.join("damaged"));
        let writer = Writer::new();
        writer
            .write(&path, &plugin("old"), Durability::Power)
            .unwrap();
        fs::write(&damaged, "garbage").unwrap();
        let none = None::<&str>;
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, dir, none, flags, none).unwrap();
        for durability in [Durability::Process, Durability::Power] {
            let text = writer
                .write(&path, &plugin("new"), durability)
                .unwrap_err()
                .to_string();
            assert!(
                text.ends_with("/a: mount its file system read-write"),
                "{text}"
            );
            let text = writer
                .create_dir_all(dir.join("x/y"), durability)
                .unwrap_err()
                .to_string();
            assert!(
                text.ends_with("/x: mount its file system read-write"),
                "{text}"
            );
        }
        assert_eq!(read::<Plugin>(&path).unwrap().record(), Some(plugin("old")));
        assert!(matches!(
            read::<Plugin>(&damaged).unwrap(),
            Loaded::Damaged(_)
        ));
        assert!(writer.quarantine(&damaged).unwrap_err().is_no_space());
        assert_eq!(names(dir), ["a", "damaged"]);
    });
}
