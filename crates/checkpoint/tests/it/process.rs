//! A real process ends at each operation in turn, on a real file system.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use longshore_checkpoint::testing::{Fault, FaultFs};
use longshore_checkpoint::{Durability, OsFileSystem, Writer, read, sweep_temps};

use crate::{Plugin, plugin};

const CHILD: &str = "LONGSHORE_CHECKPOINT_CRASH";

/// This test runs itself as the process that ends: with the operation and the path in its environment.
#[test]
fn ck3_a_process_that_ends_at_any_operation_leaves_the_old_record_and_a_temporary_that_is_swept() {
    if let Some(at) = std::env::var_os(CHILD) {
        let (at, path) = (
            at.into_string().unwrap(),
            std::env::var("LONGSHORE_PATH").unwrap(),
        );
        let at: usize = at.parse().unwrap();
        let writer = Writer::with_file_system(FaultFs::new(OsFileSystem, at, Fault::Abort));
        writer
            .write(path, &plugin("new"), Durability::Power)
            .unwrap();
        return;
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state/a");
    let (mut old, mut new, mut swept) = (0, 0, 0);
    for at in 0..100 {
        Writer::new()
            .write(&path, &plugin("old"), Durability::Process)
            .unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--test-threads=1"])
            .env(CHILD, at.to_string())
            .env("LONGSHORE_PATH", &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        let found = read::<Plugin>(&path).unwrap().record().unwrap();
        swept += sweep_temps(path.parent().unwrap()).unwrap();
        assert_eq!(names(path.parent().unwrap()), ["a"], "operation {at}");
        if status.success() {
            assert_eq!(found, plugin("new"));
            break;
        }
        assert_eq!(
            status.signal(),
            Some(nix::libc::SIGABRT),
            "operation {at}: {status}"
        );
        if found == plugin("old") {
            old += 1;
        } else {
            new += 1;
        }
        assert!(
            found == plugin("old") || found == plugin("new"),
            "operation {at}: {found:?}"
        );
    }
    assert!(
        old > 0 && new > 0 && swept > 0,
        "{old} old, {new} new, {swept} swept"
    );
}

fn names(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}
