//! The file system refuses any one operation, once or from then on.

use nix::errno::Errno;

use super::crash::damage;
use super::*;

const ERRNOS: [Errno; 3] = [Errno::ENOSPC, Errno::EROFS, Errno::EIO];

fn errno(error: &CheckpointError) -> Option<Errno> {
    let (CheckpointError::Io { source, .. } | CheckpointError::NotDurable { source, .. }) = error
    else {
        return None;
    };
    source.raw_os_error().map(Errno::from_raw)
}

#[test]
fn a_write_that_fails_at_any_operation_leaves_the_old_record_and_no_temporary() {
    let scene = scene(|writer| writer.write("/state/a", &OLD, Durability::Power).unwrap());
    for fault in ERRNOS {
        for durability in [Durability::Process, Durability::Power] {
            every_fault(
                &scene,
                Fault::Fail(fault as i32),
                |writer| writer.write("/state/a", &NEW, durability),
                |at, fs, result| {
                    let error = result.unwrap_err();
                    assert_eq!(errno(&error), Some(fault), "operation {at}: {error}");
                    let durable = !matches!(error, CheckpointError::NotDurable { .. });
                    let expected = if durable { OLD.0 } else { NEW.0 };
                    assert_eq!(found(fs, "/state/a"), expected, "operation {at}");
                    assert_eq!(temps(fs, "/state"), 0, "operation {at}");
                    assert_eq!(error.is_no_space(), fault != Errno::EIO);
                },
            );
        }
    }
}

#[test]
fn a_disk_that_stays_read_only_keeps_the_old_record() {
    let scene = scene(|writer| writer.write("/state/a", &OLD, Durability::Power).unwrap());
    every_fault(
        &scene,
        Fault::FailOn(Errno::EROFS as i32),
        |writer| writer.write("/state/a", &NEW, Durability::Power),
        |at, fs, result| {
            let error = result.unwrap_err();
            let durable = !matches!(error, CheckpointError::NotDurable { .. });
            assert_eq!(found(fs, "/state/a"), if durable { OLD.0 } else { NEW.0 });
            // What could not be removed is swept when the disk is back.
            Writer::with_file_system(fs).sweep_temps("/state").unwrap();
            assert_eq!(temps(fs, "/state"), 0, "operation {at}");
        },
    );
}

#[test]
fn a_batch_that_fails_at_any_operation_leaves_each_record_whole_and_no_temporary() {
    let paths: Vec<String> = (0..9)
        .map(|nth| format!("/state/{}/{nth}", nth % 2))
        .collect();
    let scene = scene(|writer| {
        for path in &paths {
            writer.write(path, &OLD, Durability::Power).unwrap();
        }
    });
    for fault in ERRNOS {
        for (count, durability) in [
            (9, Durability::Process),
            (9, Durability::Power),
            (3, Durability::Power),
        ] {
            let records: Vec<_> = paths[..count]
                .iter()
                .map(|path| (path, &NEW as &dyn AnyRecord))
                .collect();
            every_fault(
                &scene,
                Fault::Fail(fault as i32),
                |writer| writer.write_batch(&records, durability),
                |at, fs, result| {
                    assert_eq!(errno(&result.unwrap_err()), Some(fault), "operation {at}");
                    let new = paths.iter().filter(|path| found(fs, path) == NEW.0).count();
                    let old = paths.iter().filter(|path| found(fs, path) == OLD.0).count();
                    assert_eq!(new + old, paths.len(), "operation {at}");
                    assert_eq!(
                        temps(fs, "/state/0") + temps(fs, "/state/1"),
                        0,
                        "operation {at}"
                    );
                },
            );
        }
    }
}

#[test]
fn a_record_that_cannot_be_encoded_stops_its_batch_before_anything_is_replaced() {
    #[derive(Debug)]
    struct Unwritable;
    impl Record for Unwritable {
        const KIND: &'static str = "unwritable";
        const VERSION: u16 = 1;
        fn encode(&self) -> Result<Vec<u8>, CodecError> {
            Err(CodecError::encode("no encoding"))
        }
        fn decode(_version: u16, _body: &[u8]) -> Result<Self, CodecError> {
            Ok(Self)
        }
    }
    let fs = scene(|writer| writer.write("/state/a", &OLD, Durability::Power).unwrap());
    let writer = Writer::with_file_system(&fs);
    let records: [(&str, &dyn AnyRecord); 2] = [("/state/a", &NEW), ("/state/b", &Unwritable)];
    let error = writer
        .write_batch(&records, Durability::Process)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot encode the unwritable record for /state/b"
    );
    assert_eq!((found(&fs, "/state/a"), temps(&fs, "/state")), (OLD.0, 0));
}

#[test]
fn a_record_over_its_limit_is_not_written_and_a_file_over_it_is_not_read() {
    #[derive(Debug)]
    struct Long(usize);
    impl Record for Long {
        const KIND: &'static str = "note";
        const VERSION: u16 = 1;
        fn encode(&self) -> Result<Vec<u8>, CodecError> {
            Ok(vec![b'x'; self.0])
        }
        fn decode(_version: u16, body: &[u8]) -> Result<Self, CodecError> {
            Ok(Self(body.len()))
        }
    }
    let fs = MemoryFs::new();
    let writer = Writer::with_file_system(&fs);
    writer
        .write("/a", &Long(Long::MAX_BODY), Durability::Power)
        .unwrap();
    let error = writer
        .write("/a", &Long(Long::MAX_BODY + 1), Durability::Power)
        .unwrap_err();
    let expected = "the note record for /a has 1048577 bytes, at most 1048576 are allowed: \
                    keep less in it";
    assert_eq!(error.to_string(), expected);
    let loaded = writer.read::<Note>("/a").unwrap();
    let Loaded::Damaged(damage) = loaded else {
        panic!("{loaded:?}")
    };
    let expected = "1048604 bytes long, more than the 4124 that such a record can have";
    assert_eq!(damage.to_string(), expected);
}

#[test]
fn a_quarantine_that_fails_at_any_operation_leaves_the_record_where_it_was() {
    let scene = scene(|writer| damage(writer, "/state/a", b"damaged"));
    for fault in ERRNOS {
        every_fault(
            &scene,
            Fault::Fail(fault as i32),
            |writer| writer.quarantine("/state/a"),
            |at, fs, result| {
                let error = result.unwrap_err();
                let names = fs.names(Path::new("/state")).unwrap();
                let expected = match error {
                    CheckpointError::NotDurable { .. } => "a.corrupt-1",
                    _ => "a",
                };
                assert_eq!(names, [expected], "operation {at}");
            },
        );
    }
}

#[test]
fn a_quarantine_takes_the_next_free_number_and_overwrites_nothing() {
    let fs = scene(|writer| {
        damage(writer, "/state/a.corrupt-7", b"seven");
        damage(writer, "/state/a.corrupt-x", b"x");
        damage(writer, "/state/ab.corrupt-9", b"of another");
        damage(writer, "/state/a", b"damaged");
    });
    fs.plant_link(Path::new("/state/a.corrupt-8")).unwrap();
    let writer = Writer::with_file_system(&fs);
    assert_eq!(
        writer.quarantine("/state/a").unwrap(),
        Path::new("/state/a.corrupt-9")
    );
    let error = writer.quarantine("/state/a").unwrap_err();
    assert!(
        matches!(
            error,
            CheckpointError::Io {
                action: "set aside",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs.names(Path::new("/state")).unwrap().len(), 5);
}

#[test]
fn a_quarantine_of_the_longest_name_cuts_it() {
    let long = format!("/{}", "n".repeat(255));
    let fs = scene(|writer| damage(writer, &long, b"damaged"));
    let aside = Writer::with_file_system(&fs).quarantine(&long).unwrap();
    let expected = format!("/{}.corrupt-1", "n".repeat(255 - 10));
    assert_eq!(aside.to_str(), Some(expected.as_str()));
}

#[test]
fn recovery_sets_damage_aside_and_goes_on_but_leaves_newer_records() {
    let fs = scene(|writer| {
        writer
            .write("/state/good", &NEW, Durability::Power)
            .unwrap();
        damage(writer, "/state/empty", b"");
        damage(
            writer,
            "/state/torn",
            &NEW.to_file(Path::new("x")).unwrap()[..30 - 3],
        );
        damage(writer, "/state/corrupt", b"garbage");
        writer
            .write("/state/newer", &Newer, Durability::Power)
            .unwrap();
        writer
            .write("/state/other", &Other, Durability::Power)
            .unwrap();
    });
    let writer = Writer::with_file_system(&fs);
    let recover = |path: &str| match writer.recover::<Note>(path).unwrap() {
        Recovered::Nothing => "nothing".to_owned(),
        Recovered::Record(note) => note.0.to_owned(),
        Recovered::Newer { damage } => damage.to_string(),
        Recovered::Quarantined { damage, moved_to } => {
            format!("{damage} -> {}", moved_to.unwrap().display())
        }
    };
    for (path, expected) in [
        ("/state/missing", "nothing"),
        ("/state/empty", "nothing"),
        ("/state/good", "new"),
        (
            "/state/torn",
            "torn: 27 of 31 bytes are there -> /state/torn.corrupt-1",
        ),
        (
            "/state/corrupt",
            "corrupt: it does not begin as a record does -> /state/corrupt.corrupt-1",
        ),
        (
            "/state/newer",
            "written by a newer release: version 2, this one reads up to 1",
        ),
        (
            "/state/other",
            "a record of another kind, \"other\" -> /state/other.corrupt-1",
        ),
    ] {
        assert_eq!(recover(path), expected, "{path}");
    }
    assert_eq!(found(&fs, "/state/newer"), "damaged");
    assert_eq!(found(&fs, "/state/torn"), "missing");
}

#[test]
fn a_read_only_root_does_not_stop_recovery() {
    let fs = scene(|writer| damage(writer, "/state/a", b"garbage"));
    let writer = Writer::with_file_system(FaultFs::new(&fs, 1, Fault::FailOn(Errno::EROFS as i32)));
    let recovered = writer.recover::<Note>("/state/a").unwrap();
    let Recovered::Quarantined { damage, moved_to } = recovered else {
        panic!("{recovered:?}")
    };
    assert!(matches!(damage, Damage::Corrupt(_)));
    let expected = "cannot set aside /state/a: mount its file system read-write";
    assert_eq!(moved_to.unwrap_err().to_string(), expected);
}

#[test]
fn planted_links_are_replaced_or_passed_by_and_never_followed() {
    let fs = scene(|writer| writer.create_dir_all("/state", Durability::Power).unwrap());
    fs.plant_link(Path::new("/state/a")).unwrap();
    // Plant the next names of temporary files, too; other tests may use some of them up.
    let next = temp::next().into_string().unwrap();
    let (stem, nth) = next.rsplit_once('-').unwrap();
    let nth = u64::from_str_radix(nth, 16).unwrap();
    for nth in nth..nth + 50 {
        fs.plant_link(Path::new(&format!("/state/{stem}-{nth:x}")))
            .unwrap();
    }
    let writer = Writer::with_file_system(&fs);
    writer.write("/state/a", &NEW, Durability::Power).unwrap();
    assert_eq!(found(&fs, "/state/a"), NEW.0);
    assert_eq!(writer.sweep_temps("/state").unwrap(), 50);
}

#[test]
fn sweeping_takes_temporaries_alone_and_a_missing_directory_is_swept() {
    let fs = scene(|writer| {
        damage(writer, "/state/.longshore-tmp-1-0", b"half");
        damage(writer, "/state/.longshore-tmp-99-ff", b"");
        damage(writer, "/state/.longshore-other", b"kept");
        damage(writer, "/state/a.corrupt-1", b"kept");
    });
    let writer = Writer::with_file_system(&fs);
    assert_eq!(writer.sweep_temps("/state").unwrap(), 2);
    let names = fs.names(Path::new("/state")).unwrap();
    assert_eq!(names, [".longshore-other", "a.corrupt-1"]);
    assert_eq!(writer.sweep_temps("/missing").unwrap(), 0);
}

#[test]
fn removing_tells_whether_there_was_a_record() {
    let fs = scene(|writer| writer.write("/state/a", &OLD, Durability::Power).unwrap());
    let writer = Writer::with_file_system(&fs);
    assert!(writer.remove("/state/a", Durability::Power).unwrap());
    assert!(!writer.remove("/state/a", Durability::Power).unwrap());
    assert!(!writer.remove("/missing/a", Durability::Process).unwrap());
    let error = writer.remove("/state/..", Durability::Process).unwrap_err();
    assert_eq!(error.to_string(), "/state/.. names no file");
}

/// [`Note`] as the next release writes it.
#[derive(Debug)]
struct Newer;

impl Record for Newer {
    const KIND: &'static str = "note";
    const VERSION: u16 = 2;
    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(b"of tomorrow".to_vec())
    }
    fn decode(_version: u16, _body: &[u8]) -> Result<Self, CodecError> {
        Ok(Self)
    }
}

/// A record of another kind.
#[derive(Debug)]
struct Other;

impl Record for Other {
    const KIND: &'static str = "other";
    const VERSION: u16 = 1;
    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(Vec::new())
    }
    fn decode(_version: u16, _body: &[u8]) -> Result<Self, CodecError> {
        Ok(Self)
    }
}
