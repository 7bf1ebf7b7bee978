//! Modes, links, pipes and full directories, as the kernel has them.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use longshore_checkpoint::{
    AnyRecord, CheckpointError, CodecError, Damage, Durability, Loaded, Writer, bincode_decode,
    bincode_encode, create_dir_all, judge, quarantine, read, recover, remove, set_aside_in,
    sweep_temps,
};
use nix::sys::stat::Mode;

use crate::{Plugin, plugin};

fn mode(path: &std::path::Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_record_comes_back_with_mode_0600_in_directories_of_0700() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("csi/type/plugin.rec");
    for durability in [Durability::Process, Durability::Power] {
        Writer::new()
            .write(&path, &plugin("a"), durability)
            .unwrap();
        assert_eq!(read::<Plugin>(&path).unwrap().record(), Some(plugin("a")));
    }
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&root.path().join("csi")), 0o700);
    assert_eq!(
        fs::read_dir(path.parent().unwrap()).unwrap().count(),
        1,
        "no temporary is left"
    );
}

#[test]
fn each_write_is_a_new_file_and_readers_of_the_old_one_keep_it() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    let writer = Writer::new();
    writer
        .write(&path, &plugin("old"), Durability::Power)
        .unwrap();
    let (mut old, inode) = (
        fs::File::open(&path).unwrap(),
        fs::metadata(&path).unwrap().ino(),
    );
    writer
        .write(&path, &plugin("new"), Durability::Power)
        .unwrap();
    assert_ne!(fs::metadata(&path).unwrap().ino(), inode);
    let mut kept = Vec::new();
    old.read_to_end(&mut kept).unwrap();
    assert_eq!(kept, plugin("old").to_file(&path).unwrap());
    assert_eq!(read::<Plugin>(&path).unwrap().record(), Some(plugin("new")));
}

#[test]
fn a_batch_over_many_directories_is_written_whole() {
    let root = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..300)
        .map(|nth| root.path().join(format!("{}/{nth}", nth % 150)))
        .collect();
    let plugins: Vec<_> = (0..300).map(|nth| plugin(&nth.to_string())).collect();
    let records: Vec<_> = paths
        .iter()
        .zip(&plugins)
        .map(|(path, plugin)| (path, plugin as &dyn AnyRecord))
        .collect();
    for durability in [Durability::Process, Durability::Power] {
        Writer::new().write_batch(&records, durability).unwrap();
    }
    for (path, plugin) in paths.iter().zip(plugins) {
        assert_eq!(read::<Plugin>(path).unwrap().record(), Some(plugin));
    }
    assert_eq!(fs::read_dir(root.path().join("149")).unwrap().count(), 2);
}

#[test]
fn a_link_planted_at_the_target_is_replaced_and_its_target_untouched() {
    let root = tempfile::tempdir().unwrap();
    let (victim, path) = (root.path().join("victim"), root.path().join("a"));
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &path).unwrap();
    let error = read::<Plugin>(&path).unwrap_err();
    assert!(matches!(error, CheckpointError::NotAFile { .. }), "{error}");
    Writer::new()
        .write(&path, &plugin("a"), Durability::Power)
        .unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn a_link_planted_as_the_records_directory_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, root.path().join("dir")).unwrap();
    let path = root.path().join("dir/a");
    for durability in [Durability::Process, Durability::Power] {
        let error = Writer::new()
            .write(&path, &plugin("a"), durability)
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with("/dir: a symbolic link or file lies in the way"),
            "{text}"
        );
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_root_whose_parent_is_an_administrators_link_works() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("run")).unwrap();
    symlink(root.path().join("run"), root.path().join("var-run")).unwrap();
    let path = root.path().join("var-run/longshore/a");
    Writer::new()
        .write(&path, &plugin("a"), Durability::Power)
        .unwrap();
    assert_eq!(read::<Plugin>(&path).unwrap().record(), Some(plugin("a")));
}

#[test]
fn a_pipe_and_a_directory_in_the_place_of_a_record_neither_block_nor_read() {
    let root = tempfile::tempdir().unwrap();
    let (pipe, dir) = (root.path().join("pipe"), root.path().join("dir"));
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    fs::create_dir(&dir).unwrap();
    for path in [&pipe, &dir] {
        let error = read::<Plugin>(path).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("is not a regular file: remove what was put there")
        );
    }
    assert!(quarantine(&pipe).unwrap().ends_with("pipe.corrupt-1"));
    Writer::new()
        .write(&dir, &plugin("a"), Durability::Process)
        .unwrap_err();
    assert_eq!(
        fs::read_dir(root.path()).unwrap().count(),
        2,
        "no temporary is left"
    );
}

#[test]
fn damage_on_disk_is_told_apart_and_set_aside() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    let whole = plugin("a").to_file(&path).unwrap();
    assert!(matches!(read::<Plugin>(&path).unwrap(), Loaded::Missing));
    fs::write(&path, "").unwrap();
    assert!(matches!(read::<Plugin>(&path).unwrap(), Loaded::Empty));
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(matches!(
        read::<Plugin>(&path).unwrap(),
        Loaded::Damaged(Damage::Torn { .. })
    ));
    for nth in 1..4 {
        fs::write(&path, "not a record").unwrap();
        drop(recover::<Plugin>(&path).unwrap());
        let aside = root.path().join(format!("a.corrupt-{nth}"));
        assert_eq!(fs::read_to_string(aside).unwrap(), "not a record");
    }
    assert!(matches!(read::<Plugin>(&path).unwrap(), Loaded::Missing));
}

#[test]
fn what_was_set_aside_is_found_and_judged_again() {
    let root = tempfile::tempdir().unwrap();
    let judged = |name: &str| judge(root.path().join(name)).unwrap().unwrap().to_string();
    let whole = plugin("a").to_file(root.path()).unwrap();
    for bytes in [b"not a record", &whole[..20], &whole, b""] {
        fs::write(root.path().join("a"), bytes).unwrap();
        quarantine(root.path().join("a")).unwrap();
    }
    std::os::unix::fs::symlink("/", root.path().join("link.corrupt-7")).unwrap();
    fs::write(root.path().join("a"), &whole).unwrap();
    fs::create_dir(root.path().join("below")).unwrap();
    fs::write(root.path().join("below/b.corrupt-1"), "deeper").unwrap();
    let mut expected = [
        "a.corrupt-1",
        "a.corrupt-2",
        "a.corrupt-3",
        "a.corrupt-4",
        "link.corrupt-7",
    ]
    .map(|name| root.path().join(name));
    assert_eq!(set_aside_in(root.path()).unwrap(), expected);
    assert_eq!(
        judged("a.corrupt-1"),
        "corrupt: it does not begin as a record does"
    );
    assert_eq!(judged("a.corrupt-2"), "torn: 20 of 24 bytes are there");
    assert_eq!(
        judged("a.corrupt-3"),
        "an intact record of kind \"plugin\", version 1, that was of no use there"
    );
    assert_eq!(judged("a.corrupt-4"), "empty");
    assert_eq!(judged("link.corrupt-7"), "not a regular file");
    for path in &mut expected {
        fs::remove_file(&path).unwrap();
        assert!(judge(path).unwrap().is_none());
    }
    assert!(set_aside_in(root.path()).unwrap().is_empty());
    assert!(
        set_aside_in(root.path().join("missing"))
            .unwrap()
            .is_empty()
    );
}

#[test]
fn stale_temporaries_are_swept_and_those_of_running_processes_kept() {
    let root = tempfile::tempdir().unwrap();
    let (ours, parent) = (std::process::id(), nix::unistd::getppid());
    for name in [
        // No process has this id, and we have not come to that number.
        ".longshore-tmp-4194305-0".to_owned(),
        format!(".longshore-tmp-{ours}-ffffffffffff"),
        ".longshore-tmp-odd".to_owned(),
    ] {
        fs::write(root.path().join(name), "half").unwrap();
    }
    let kept = [format!(".longshore-tmp-{parent}-0"), "kept".to_owned()];
    for name in &kept {
        fs::write(root.path().join(name), "kept").unwrap();
    }
    assert_eq!(sweep_temps(root.path()).unwrap(), 3);
    assert!(kept.iter().all(|name| root.path().join(name).exists()));
}

#[test]
fn sweeping_does_not_disturb_a_writer_of_the_same_directory() {
    let root = tempfile::tempdir().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..500 {
                let path = root.path().join("a");
                Writer::new()
                    .write(path, &plugin("a"), Durability::Process)
                    .unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !done.load(std::sync::atomic::Ordering::Acquire) {
            assert_eq!(sweep_temps(root.path()).unwrap(), 0);
        }
    });
}

#[test]
fn a_removed_record_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    Writer::new()
        .write(&path, &plugin("a"), Durability::Process)
        .unwrap();
    assert!(remove(&path, Durability::Power).unwrap());
    assert!(!remove(&path, Durability::Power).unwrap());
    assert!(matches!(read::<Plugin>(&path).unwrap(), Loaded::Missing));
}

#[test]
fn a_directory_that_others_own_is_an_error_that_says_what_to_check() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    Writer::new()
        .write(&path, &plugin("old"), Durability::Power)
        .unwrap();
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let write = || {
        if nix::unistd::geteuid().is_root() {
            // Modes do not bind root. This makes the thread, and it alone, somebody else to the file system.
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
        }
        let written = Writer::new().write(&path, &plugin("new"), Durability::Power);
        let removed = remove(&path, Durability::Process);
        let aside = quarantine(&path);
        let created = create_dir_all(root.path().join("b/c"), Durability::Power);
        let errors = [written.err(), removed.err(), aside.err(), created.err()];
        errors.map(|error| error.unwrap().to_string())
    };
    let errors = std::thread::scope(|scope| scope.spawn(write).join()).unwrap();
    let actions = ["write", "remove", "set aside", "create directory"];
    for (error, action) in errors.iter().zip(actions) {
        assert!(
            error.starts_with(&format!("cannot {action} {}", root.path().display())),
            "{error}"
        );
        assert!(error.ends_with(": check its owner and mode"), "{error}");
    }
    assert_eq!(read::<Plugin>(&path).unwrap().record(), Some(plugin("old")));
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(
        fs::read_dir(root.path()).unwrap().count(),
        1,
        "nothing is left"
    );
}

#[test]
fn a_path_below_a_file_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "kept").unwrap();
    for durability in [Durability::Process, Durability::Power] {
        let error = Writer::new()
            .write(file.join("a"), &plugin("a"), durability)
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.ends_with(": a symbolic link or file lies in the way"),
            "{text}"
        );
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn bincode_bodies_must_be_consumed_whole_and_cannot_claim_memory() {
    let body = bincode_encode(&plugin("a")).unwrap();
    assert_eq!(body, b"\x01a\x03\x01\xfb\x2c\x01\xfc\x70\x11\x01\0\x01");
    assert_eq!(bincode_decode::<Plugin>(&body).unwrap(), plugin("a"));
    let longer = [body.as_slice(), &[0]].concat();
    let error = bincode_decode::<Plugin>(&longer).unwrap_err();
    assert!(
        matches!(error, CodecError::TrailingBytes { count: 1 }),
        "{error}"
    );
    // A name of 2^62 bytes.
    let absurd = [&[0xFD], (1u64 << 62).to_le_bytes().as_slice()].concat();
    let error = bincode_decode::<Plugin>(&absurd).unwrap_err();
    assert!(matches!(error, CodecError::Decode { .. }), "{error}");
    for length in 0..body.len() {
        bincode_decode::<Plugin>(&body[..length]).unwrap_err();
    }
}
