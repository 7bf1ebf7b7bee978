//! Pages that say what the program prints, held against it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::daemon::{Daemon, longshore};

/// The sources of the program, tests left out.
fn sources(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "tests" && name != "gen" {
                sources(&path, text);
            }
        } else if name != "tests.rs" && path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

/// The texts in backticks in the first column of each table.
fn first_column(page: &str) -> Vec<&str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" | ").next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

#[test]
fn the_runbook_goes_by_words_that_the_program_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut program = String::new();
    for entry in fs::read_dir(root.join("crates")).unwrap().flatten() {
        if entry.file_name() != "testkit" {
            sources(&entry.path().join("src"), &mut program);
        }
    }
    // A text may go on in the next line of its source.
    let program = program
        .split("\\\n")
        .map(str::trim_start)
        .collect::<String>();
    let mut unknown = String::new();
    for page in ["runbook.md", "kubelet.md"] {
        let page = fs::read_to_string(root.join("docs").join(page)).unwrap();
        let words = first_column(&page);
        assert!(words.len() > 6, "{words:?}");
        let parts = words.iter().flat_map(|words| words.split(".."));
        for part in parts.map(|part| part.trim_start_matches("error: ").trim()) {
            // A key of the configuration is a path of names.
            let key = part.rsplit('.').next().unwrap_or(part);
            let known = program.contains(part) || (part.contains('.') && program.contains(key));
            if !known {
                writeln!(unknown, "{part}").unwrap();
            }
        }
    }
    assert_eq!(unknown, "", "words that nothing says");
}

/// The names of members, at any depth; not those that a plugin or an operator has chosen.
fn members(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                let chosen = [
                    "labels",
                    "manifest",
                    "topology",
                    "config",
                    "info",
                    "container",
                    "context",
                ];
                if !chosen.contains(&name.as_str())
                    || name == "config" && value.get("path").is_some()
                {
                    members(value, found);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| members(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_member_of_a_json_document_is_on_its_page() {
    let mut daemon = Daemon::new();
    let (program, volumes) = (longshore(), daemon.root().join("volumes"));
    let registry = daemon.root().join("missing");
    daemon.configure(&format!(
        "[nri]\nenabled = true\n[kubelet]\nregister = true\nregistration_dir = {registry:?}\n\
         [plugins.disks]\ntype = \"test.disks\"\n[[plugins.disks.containers]]\n\
         services = [\"controller\", \"node\"]\n\
         command = [{program:?}, \"csi\", \"hostpath\", \"--state-dir\", {volumes:?}]\n"
    ));
    daemon.start();
    let ready = |status: &Value| match &status["plugins"][0]["driver"] {
        Value::Null => Err(status.to_string()),
        _ => Ok(()),
    };
    daemon.until("ready", ready).await;
    let page = include_str!("../../../../docs/json.md");
    let documented: BTreeSet<_> = page.split('`').skip(1).step_by(2).collect();
    let mut missing = String::new();
    for command in [
        "status",
        "status disks",
        "csi ls",
        "csi inspect disks",
        "csi endpoint disks",
        "csi probe disks",
        "csi volume create disks one",
        "csi volume list disks",
        "csi restart disks",
        "container ls",
        "task ls",
        "config show",
        "config default",
        "config check",
        "reload",
        "nri ls",
    ] {
        let arguments: Vec<_> = command.split(' ').chain(["--json"]).collect();
        if command.starts_with("csi volume") || command.starts_with("csi endpoint") {
            daemon.until("ready", ready).await;
        }
        let output = daemon.run(&arguments).stdout;
        let document: Value =
            serde_json::from_slice(&output).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert_eq!(document["version"], 1, "{command}");
        let mut found = BTreeSet::new();
        members(&document, &mut found);
        assert!(found.len() > 1, "{command}: {document}");
        for member in found {
            if !documented.contains(member.as_str()) {
                writeln!(missing, "{command}: {member}").unwrap();
            }
        }
    }
    assert_eq!(missing, "", "members that docs/json.md does not name");
    daemon.run(&["csi", "stop", "disks"]);
}
