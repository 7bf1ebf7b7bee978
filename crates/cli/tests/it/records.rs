//! A record that cannot be read, from the crash that damaged it to its removal.

use longshore_checkpoint::{AnyRecord as _, CodecError, Record};

use crate::support::{Daemon, Home, eventually, eventually_is, hostpath};

#[test]
fn a_damaged_record_is_shown_until_it_is_removed() {
    let home = Home::new();
    let config = hostpath(&home, "disks", "v1");
    let mut daemon = Daemon::start(home, &config);
    let uri = daemon.endpoint("disks");
    let containers = daemon.home.join("s/csi/test.disks/default/containers");
    let dir = std::fs::read_dir(&containers)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let record = dir.join("container.info");
    let pid = daemon.plugin_pid("disks");
    daemon.crash();
    let length = std::fs::metadata(&record).unwrap().len();
    std::fs::File::options()
        .write(true)
        .open(&record)
        .unwrap()
        .set_len(length - 1)
        .unwrap();

    let aside = dir.join("container.info.corrupt-1");
    let shown = |daemon: &Daemon| {
        eventually("the record is shown", || {
            let status = daemon.run(["status", "--json"]).json();
            let found = status["quarantined"][0].clone();
            found.is_object().then_some(found)
        })
    };
    daemon.start_again();
    let found = shown(&daemon);
    assert_eq!(found["path"], aside.to_str().unwrap());
    let torn = format!("torn: {} of {length} bytes are there", length - 1);
    assert_eq!(found["reason"], torn.as_str());
    assert!(
        found["advice"].as_str().unwrap().contains("delete"),
        "{found}"
    );
    assert!(found["at"].is_string(), "{found}");
    // The plugin is not hindered, not even restarted, and all is ready.
    assert_eq!(daemon.endpoint("disks"), uri);
    assert_eq!(daemon.plugin_pid("disks"), pid);
    let status = daemon.run(["status"]).exits(0).stdout;
    let line = format!("set aside: {}: {torn} (", aside.display());
    assert!(status.starts_with(&line), "{status}");

    daemon.crash();
    daemon.start_again();
    assert_eq!(shown(&daemon), found, "still there for the next daemon");
    std::fs::remove_file(&aside).unwrap();
    eventually("it is no longer shown", || {
        let status = daemon.run(["status", "--json"]).json();
        (status["quarantined"] == serde_json::json!([])).then_some(())
    });
}

/// A record of the plugins' kind in a version of tomorrow.
struct Newer;

impl Record for Newer {
    const KIND: &'static str = "csi-container";
    const VERSION: u16 = 99;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(b"who knows".to_vec())
    }

    fn decode(version: u16, _body: &[u8]) -> Result<Self, CodecError> {
        Err(CodecError::UnsupportedVersion { version })
    }
}

#[test]
fn corrupt_newer_and_foreign_records_are_set_aside_and_hinder_nothing() {
    let home = Home::new();
    let names = ["one", "two", "three"];
    let config: String = names.map(|name| hostpath(&home, name, "v1")).concat();
    let mut daemon = Daemon::start(home, &config);
    let uris = names.map(|name| daemon.endpoint(name));
    let records = names.map(|name| {
        let dir = daemon
            .home
            .join(&format!("s/csi/test.{name}/default/containers"));
        let mut containers = std::fs::read_dir(dir).unwrap();
        containers
            .next()
            .unwrap()
            .unwrap()
            .path()
            .join("container.info")
    });
    daemon.crash();
    let mut corrupt = std::fs::read(&records[0]).unwrap();
    let last = corrupt.len() - 1;
    corrupt[last] ^= 1;
    let damaged = [
        corrupt,
        Newer.to_file(&records[1]).unwrap(),
        std::fs::read(daemon.home.join("s/instance")).unwrap(),
    ];
    for (record, bytes) in records.iter().zip(&damaged) {
        std::fs::write(record, bytes).unwrap();
    }
    daemon.start_again();
    assert_eq!(names.map(|name| daemon.endpoint(name)), uris);
    for (record, bytes) in records.iter().zip(&damaged) {
        let aside = record.with_extension("info.corrupt-1");
        assert_eq!(std::fs::read(aside).unwrap(), *bytes, "kept as it was");
    }
    let expected = [
        "an intact record of kind \"csi-container\", version 99, that was of no use there",
        "an intact record of kind \"instance\", version 1, that was of no use there",
        "corrupt: its checksum does not match",
    ]
    .map(str::to_owned);
    eventually_is("all three are shown", &expected.to_vec(), || {
        let status = daemon.run(["status", "--json"]).json();
        let shown = status["quarantined"].as_array().unwrap();
        let reasons = shown
            .iter()
            .map(|record| record["reason"].as_str().unwrap());
        let mut reasons: Vec<_> = reasons.map(str::to_owned).collect();
        reasons.sort_unstable();
        reasons
    });
}

#[test]
fn a_history_that_is_no_record_is_named_in_the_status_and_in_the_log() {
    let home = Home::new();
    let config = hostpath(&home, "disks", "v1");
    let mut daemon = Daemon::start(home, &config);
    daemon.endpoint("disks");
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
    let dir = daemon.home.join("s/history");
    let files: Vec<_> = std::fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 2, "a history and totals: {files:?}");
    for file in &files {
        std::fs::write(file, "junk").unwrap();
    }
    daemon.start_again();
    eventually("both are shown", || {
        let status = daemon.run(["status", "--json"]).json();
        let shown = status["quarantined"].as_array().unwrap().clone();
        let both = files.iter().all(|file| {
            let aside = format!("{}.corrupt-1", file.display());
            shown.iter().any(|record| record["path"] == aside.as_str())
        });
        both.then_some(())
    });
    for file in &files {
        let aside = format!("{}.corrupt-1", file.display());
        assert!(daemon.log().contains(&aside), "{}", daemon.log());
        assert_eq!(std::fs::read_to_string(aside).unwrap(), "junk");
    }
}
