//! The process or the machine ends before any one operation.

use super::*;

/// Every state that the file system may be in afterwards: of the next process, and after each power cut.
fn aftermaths(fs: &MemoryFs, durability: Durability) -> Vec<MemoryFs> {
    let mut all = vec![fs.after_process_crash()];
    if durability == Durability::Power {
        all.extend(fs.after_power_failure());
    }
    all
}

/// Checks that only the states of `allowed` follow a crash at any operation, and that each does.
fn check_crashes(
    name: &str,
    before: impl Fn(&Writer<&MemoryFs>),
    durability: Durability,
    action: impl Fn(&Writer<FaultFs<&MemoryFs>>) -> Result<(), CheckpointError>,
    paths: &[&str],
    allowed: &[&str],
) {
    let scene = scene(before);
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    every_fault(&scene, Fault::Crash, action, |at, fs, _| {
        for after in aftermaths(fs, durability) {
            for path in paths {
                let found = found(&after, path);
                assert!(
                    allowed.contains(&found),
                    "{name}, operation {at}: {path} is {found}"
                );
                seen.borrow_mut().insert(found);
            }
            // The next start sweeps, and can write again.
            let writer = Writer::with_file_system(&after);
            let dir = Path::new(paths[0]).parent().unwrap();
            writer.sweep_temps(dir).unwrap();
            assert_eq!(
                temps(&after, dir.to_str().unwrap()),
                0,
                "{name}, operation {at}"
            );
            writer.write(paths[0], &NEW, durability).unwrap();
            assert_eq!(found(&after, paths[0]), NEW.0, "{name}, operation {at}");
        }
    });
    assert_eq!(
        seen.into_inner().len(),
        allowed.len(),
        "{name}: every outcome can happen"
    );
}

const BOTH: [Durability; 2] = [Durability::Process, Durability::Power];

#[test]
fn ck3_a_crash_at_any_operation_of_a_write_leaves_the_old_or_the_new_record() {
    for durability in BOTH {
        check_crashes(
            "replacing",
            |writer| writer.write("/state/a", &OLD, Durability::Power).unwrap(),
            durability,
            |writer| writer.write("/state/a", &NEW, durability),
            &["/state/a"],
            // The crash before the last operation of the process class is before its rename.
            if durability == Durability::Power {
                &[OLD.0, NEW.0]
            } else {
                &[OLD.0]
            },
        );
    }
}

#[test]
fn ck3_a_crash_at_any_operation_of_a_first_write_leaves_no_record_or_the_new_one() {
    for durability in BOTH {
        check_crashes(
            "creating, with its directories",
            |_| {},
            durability,
            |writer| writer.write("/state/csi/type/a", &NEW, durability),
            &["/state/csi/type/a"],
            if durability == Durability::Power {
                &["missing", NEW.0]
            } else {
                &["missing"]
            },
        );
    }
}

#[test]
fn ck3_a_crash_at_any_operation_of_a_batch_leaves_each_record_old_or_new() {
    for durability in BOTH {
        let paths = ["/state/a", "/state/b", "/state/deep/c"];
        check_crashes(
            "batch",
            |writer| {
                for path in paths {
                    writer.write(path, &OLD, Durability::Power).unwrap();
                }
            },
            durability,
            |writer| {
                let records = paths.map(|path| (path, &NEW as &dyn AnyRecord));
                writer.write_batch(&records, durability)
            },
            &paths,
            &[OLD.0, NEW.0],
        );
    }
}

/// From eight records on the file system is synchronised as a whole, once.
#[test]
fn ck3_a_crash_at_any_operation_of_a_large_batch_leaves_each_record_old_or_new() {
    let paths = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| format!("/state/{name}"));
    let paths = paths.each_ref().map(String::as_str);
    check_crashes(
        "large batch",
        |writer| {
            for path in paths {
                writer.write(path, &OLD, Durability::Power).unwrap();
            }
        },
        Durability::Power,
        |writer| {
            let records = paths.map(|path| (path, &NEW as &dyn AnyRecord));
            writer.write_batch(&records, Durability::Power)
        },
        &paths,
        &[OLD.0, NEW.0],
    );
}

#[test]
fn ck3_a_crash_at_any_operation_of_a_removal_leaves_the_record_or_none() {
    for durability in BOTH {
        check_crashes(
            "removal",
            |writer| writer.write("/state/a", &OLD, Durability::Power).unwrap(),
            durability,
            |writer| writer.remove("/state/a", durability).map(drop),
            &["/state/a"],
            if durability == Durability::Power {
                &[OLD.0, "missing"]
            } else {
                &[OLD.0]
            },
        );
    }
}

#[test]
fn a_crash_at_any_operation_of_a_quarantine_keeps_the_damaged_bytes_under_one_name() {
    let scene = scene(|writer| {
        damage(writer, "/state/a", b"damaged 1");
        writer.quarantine("/state/a").unwrap();
        damage(writer, "/state/a", b"damaged 2");
    });
    every_fault(
        &scene,
        Fault::Crash,
        |writer| writer.quarantine("/state/a"),
        |at, fs, _| {
            for after in aftermaths(fs, Durability::Power) {
                let bytes = |name: &str| match after.read_file(Path::new(name), 100) {
                    Ok(Contents::Bytes(bytes)) => bytes,
                    _ => Vec::new(),
                };
                assert_eq!(bytes("/state/a.corrupt-1"), b"damaged 1", "operation {at}");
                let here = bytes("/state/a") == b"damaged 2";
                let aside = bytes("/state/a.corrupt-2") == b"damaged 2";
                assert!(here != aside, "operation {at}: here {here}, aside {aside}");
                if here {
                    // The next start sets it aside for good, and overwrites nothing.
                    let writer = Writer::with_file_system(&after);
                    let moved = writer.quarantine("/state/a").unwrap();
                    assert_eq!(bytes(moved.to_str().unwrap()), b"damaged 2");
                    assert_eq!(bytes("/state/a.corrupt-1"), b"damaged 1");
                }
            }
        },
    );
}

#[test]
fn a_directory_that_a_crashed_process_created_is_made_durable_by_the_next_write() {
    let path = "/state/csi/type/a";
    let scene = MemoryFs::new();
    let create = |writer: &Writer<FaultFs<&MemoryFs>>| writer.write(path, &NEW, Durability::Power);
    every_fault(&scene, Fault::Crash, create, |first, fs, _| {
        // The second process crashes, too, at any operation of its own.
        every_fault(fs, Fault::Crash, create, |second, fs, _| {
            let next = fs.after_process_crash();
            Writer::with_file_system(&next)
                .write(path, &NEW, Durability::Power)
                .unwrap();
            for after in next.after_power_failure() {
                assert_eq!(
                    found(&after, path),
                    NEW.0,
                    "operations {first} and {second}"
                );
            }
        });
    });
}

#[test]
fn a_power_failure_after_a_power_durable_write_loses_nothing() {
    let fs = MemoryFs::new();
    let writer = Writer::with_file_system(&fs);
    writer.write("/state/a/b", &OLD, Durability::Power).unwrap();
    writer.write("/state/a/b", &NEW, Durability::Power).unwrap();
    let paths: Vec<String> = (0..20).map(|nth| format!("/state/batch/{nth}")).collect();
    let records: Vec<_> = paths
        .iter()
        .map(|path| (path, &NEW as &dyn AnyRecord))
        .collect();
    writer.write_batch(&records, Durability::Power).unwrap();
    writer.remove("/state/batch/0", Durability::Power).unwrap();
    for after in fs.after_power_failure() {
        assert_eq!(found(&after, "/state/a/b"), NEW.0);
        assert_eq!(found(&after, "/state/batch/0"), "missing");
        assert!(paths[1..].iter().all(|path| found(&after, path) == NEW.0));
    }
}

/// After a power failure a process-durable record may be anything, but reading never invents one.
#[test]
fn a_power_failure_after_a_process_durable_write_is_told_from_a_record() {
    let fs = scene(|writer| writer.write("/run/a", &OLD, Durability::Power).unwrap());
    Writer::with_file_system(&fs)
        .write("/run/a", &NEW, Durability::Process)
        .unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for after in fs.after_power_failure() {
        seen.insert(found(&after, "/run/a"));
    }
    assert_eq!(
        seen.into_iter().collect::<Vec<_>>(),
        ["damaged", "empty", NEW.0, OLD.0]
    );
}

pub(super) fn damage(writer: &Writer<&MemoryFs>, path: &str, bytes: &[u8]) {
    let (dir, name) = split(Path::new(path)).unwrap();
    let fs = writer.file_system();
    writer.create_dir_all(dir, Durability::Power).unwrap();
    let dir = fs.open_dir(dir).unwrap();
    let mut file = fs.create_file(&dir, name).unwrap();
    fs.write_all(&mut file, bytes).unwrap();
}
