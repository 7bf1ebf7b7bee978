//! Pages that say what the program prints, held against it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use longshore_testkit::peers;
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

/// The members of documents, one or a line each, that `docs/json.md` does not name.
fn undocumented(command: &str, output: &[u8]) -> String {
    let page = include_str!("../../../../docs/json.md");
    let documented: BTreeSet<_> = page.split('`').skip(1).step_by(2).collect();
    let documents = serde_json::Deserializer::from_slice(output).into_iter::<Value>();
    let mut found = BTreeSet::new();
    for document in documents {
        let document = document.unwrap_or_else(|error| panic!("{command}: {error}"));
        assert_eq!(document["version"], 1, "{command}");
        members(&document, &mut found);
    }
    assert!(found.len() > 1, "{command} printed nothing");
    let missing = found
        .iter()
        .filter(|member| !documented.contains(member.as_str()));
    missing.fold(String::new(), |text, member| {
        format!("{text}{command}: {member}\n")
    })
}

#[tokio::test]
async fn every_member_of_a_tasks_document_is_on_its_page() {
    let Some(engine) = peers::docker() else {
        return;
    };
    let mut daemon = Daemon::new();
    let engine = engine.display();
    daemon.configure(&format!("[tasks]\nengine = \"unix://{engine}\"\n"));
    daemon.start();
    daemon.until("an answer", |_| Ok(())).await;
    let mut missing = String::new();
    for command in [
        "task run --json -d --name page --label a=b longshore-test:latest sh -c read",
        "task wait page --json",
        "task run --json longshore-test:latest echo hello",
        "task run --json -d --restart always --name kept longshore-test:latest sleep 1d",
        "task ls -a --json",
        "task logs page --json",
        "task inspect kept --json",
        "task inspect page --json",
        "task stop kept --json -t 0s",
        "task start kept --json",
        "task rm -f kept --json",
        "task rm page --json",
        "status --json",
    ] {
        let output = daemon.run(&command.split(' ').collect::<Vec<_>>());
        if command != "task logs page --json" {
            missing.push_str(&undocumented(command, &output.stdout));
        }
        assert!(
            output.status.code().is_some_and(|code| code < 125),
            "{command}: {output:?}"
        );
    }
    assert_eq!(missing, "", "members that docs/json.md does not name");
}

/// The words behind `longshore ` in a page, as far as they may be verbs.
fn commands(page: &str) -> impl Iterator<Item = Vec<&str>> {
    page.split("longshore ").skip(1).map(|rest| {
        let mut verbs = Vec::new();
        let line = rest.lines().next().unwrap_or_default();
        for word in line.split(' ').take(2) {
            let end = word.find(|c: char| !(c.is_ascii_lowercase() || c == '-'));
            let verb = &word[..end.unwrap_or(word.len())];
            if verb.is_empty() || verb.starts_with('-') {
                break;
            }
            verbs.push(verb);
            if end.is_some() {
                break;
            }
        }
        verbs
    })
}

/// The verbs that a help lists.
fn verbs(words: &[&str]) -> Vec<String> {
    let output = Command::new(longshore()).args(words).arg("--help").output();
    let help = String::from_utf8(output.unwrap().stdout).unwrap();
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let first = lines.filter_map(|line| line.split_whitespace().next());
    first.map(str::to_owned).collect()
}

#[test]
fn the_pages_name_commands_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for entry in fs::read_dir(root.join("docs")).unwrap().flatten() {
        pages.extend(
            Some(entry.path()).filter(|path| path.extension().is_some_and(|it| it == "md")),
        );
    }
    let top = verbs(&[]);
    assert!(top.len() > 5, "{top:?}");
    let (mut seen, mut unknown) = (BTreeSet::new(), String::new());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for words in commands(&text) {
            let [first, rest @ ..] = words.as_slice() else {
                continue;
            };
            // Prose goes on with other words.
            if !top.iter().any(|verb| verb == first) {
                continue;
            }
            if let [second] = rest
                && seen.insert(format!("{first} {second}"))
            {
                let below = verbs(&[first]);
                if !below.is_empty() && !below.iter().any(|verb| verb == second) {
                    writeln!(unknown, "{}: {first} {second}", page.display()).unwrap();
                }
            }
        }
    }
    assert!(seen.len() > 20, "{seen:?}");
    assert_eq!(unknown, "", "commands that there are not");
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
        missing.push_str(&undocumented(command, &daemon.run(&arguments).stdout));
    }
    assert_eq!(missing, "", "members that docs/json.md does not name");
    daemon.run(&["csi", "stop", "disks"]);
}
