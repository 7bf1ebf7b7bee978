//! Records repeated to plugins that do as on record, and to others.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_nri_simulate::{
    Outcome, Plugins, Replay, Report, SimulateError, junit, replay, text,
};
use longshore_nri_stub::Stub;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{command, problems};

/// A record that is made entry by entry.
struct Tape {
    lines: Vec<String>,
}

impl Tape {
    fn new() -> Self {
        let header =
            json!({"longshore_nri_trace": 1, "began_ms": 7, "listen": "/a", "connect": "/b"});
        Self {
            lines: vec![header.to_string()],
        }
    }

    fn entry(mut self, connection: u64, plugin: &str, from: &str, event: Value) -> Self {
        let at_us = self.lines.len();
        let entry = json!({
            "at_us": at_us, "connection": connection, "plugin": plugin, "from": from, "event": event,
        });
        self.lines.push(entry.to_string());
        self
    }

    /// The plugin registers, and is configured.
    fn registers(self, connection: u64, plugin: &str, events: i32) -> Self {
        let (index, name) = plugin.split_once('-').unwrap();
        let who = message(json!({"plugin_idx": index, "plugin_name": name}));
        let register = json!({"request": {"id": 1, "method": "RegisterPlugin", "message": who}});
        let told = json!({"runtime_name": "engine", "runtime_version": "v9"});
        self.entry(connection, plugin, "plugin", register)
            .asks(connection, plugin, 1, "Configure", told)
            .answers(connection, plugin, 1, json!({"events": events}))
    }

    fn asks(self, connection: u64, plugin: &str, id: u32, method: &str, what: Value) -> Self {
        let request =
            json!({"id": id, "method": method, "timeout_ms": 60_000, "message": message(what)});
        self.entry(connection, plugin, "runtime", json!({ "request": request }))
    }

    fn answers(self, connection: u64, plugin: &str, id: u32, what: Value) -> Self {
        let response = json!({"id": id, "method": "M", "message": message(what)});
        self.entry(
            connection,
            plugin,
            "plugin",
            json!({ "response": response }),
        )
    }

    fn fails(self, connection: u64, plugin: &str, id: u32, code: i32) -> Self {
        let failure = json!({"id": id, "code": code, "text": "as on record"});
        self.entry(connection, plugin, "plugin", json!({ "failure": failure }))
    }

    fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    fn written(&self, dir: &TempDir) -> PathBuf {
        let path = dir.path().join("record");
        std::fs::write(&path, self.text()).unwrap();
        path
    }
}

fn message(json: Value) -> Value {
    json!({"bytes": 1, "json": json})
}

fn create(id: &str) -> Value {
    json!({"pod": {"id": "p0"}, "container": {"id": id, "name": id}})
}

/// What the tuner of these tests answers.
fn tuned() -> Value {
    json!({"adjust": {
        "annotations": {"tuned": "yes"},
        "env": [{"key": "TUNED", "value": "yes"}],
        "mounts": [{
            "destination": "/tuned", "source": "/srv", "type": "bind", "options": ["rbind", "ro"],
        }],
        "linux": {"resources": {"memory": {"limit": {"value": 1 << 26}}}},
    }})
}

/// CreateContainer and StopContainer.
const EVENTS: i32 = 0x0208;

async fn repeated(path: &Path, plugins: &[(&str, &str)]) -> Result<Report, SimulateError> {
    let mut record = Replay::read(path)?;
    record.wait = Duration::from_secs(60);
    let commands = plugins.iter().map(|(index, name)| command(index, name));
    replay(&record, &Plugins::Commands(commands.collect())).await
}

#[tokio::test]
async fn a_plugin_that_answers_as_on_record_is_as_expected() {
    let dir = tempfile::tempdir().unwrap();
    let tape = Tape::new()
        .registers(1, "10-tuner", EVENTS)
        .asks(1, "10-tuner", 3, "CreateContainer", create("c0"))
        .answers(1, "10-tuner", 3, tuned())
        // Both are asked before either has answered, and the second one answers first.
        .asks(1, "10-tuner", 5, "CreateContainer", create("c1"))
        .asks(1, "10-tuner", 7, "StopContainer", create("c0"))
        .answers(1, "10-tuner", 7, json!({"update": []}))
        .answers(1, "10-tuner", 5, tuned())
        .asks(
            1,
            "10-tuner",
            9,
            "RunPodSandbox",
            json!({"pod": {"id": "p1"}}),
        );
    let report = repeated(&tape.written(&dir), &[("10", "tuner")])
        .await
        .unwrap();
    assert!(report.ok(), "{:?}", problems(&report));
    let names: Vec<_> = report.steps.iter().map(|step| &*step.name).collect();
    let expected = [
        "10-tuner RegisterPlugin",
        "10-tuner Configure",
        "10-tuner CreateContainer c0",
        "10-tuner CreateContainer c1",
        "10-tuner StopContainer c0",
        "10-tuner RunPodSandbox p1",
    ];
    assert_eq!(names, expected);
    assert_eq!(report.runtime, "engine v9");
    assert_eq!(report.plugins[0].name, "10-tuner");
    assert!(
        report.steps[5].notes[0].contains("the record ends"),
        "{report:?}"
    );
    let json = report.to_json();
    let outcome = &json["steps"][2]["outcome"];
    let answered = &outcome["answered"]["message"]["adjust"]["env"][0]["key"];
    assert_eq!(answered, "TUNED", "{outcome}");
    assert!(text(&report).contains("all as expected"));
}

#[tokio::test]
async fn each_answer_that_differs_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut other = tuned();
    other["adjust"]["env"][0]["value"] = "no".into();
    let tape = Tape::new()
        .registers(1, "10-tuner", 0x0008)
        .asks(1, "10-tuner", 3, "CreateContainer", create("c0"))
        .answers(1, "10-tuner", 3, other)
        .asks(1, "10-tuner", 5, "StopContainer", create("c0"))
        .fails(1, "10-tuner", 5, 2);
    let report = repeated(&tape.written(&dir), &[("10", "tuner")])
        .await
        .unwrap();
    let all = problems(&report);
    assert_eq!(all.len(), 3, "{all:?}");
    assert!(all[0].contains("events"), "{all:?}");
    assert!(all[1].contains("-        \"value\": \"no\""), "{all:?}");
    assert!(
        all[2].contains("the record has a failure with status 2"),
        "{all:?}"
    );
    assert!(junit(&report, "record").contains("failures=\"3\""));
}

#[tokio::test]
async fn a_plugin_that_does_not_come_or_ends_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let tape = Tape::new()
        .registers(1, "10-quitter", EVENTS)
        .asks(1, "10-quitter", 3, "CreateContainer", create("c0"))
        .answers(1, "10-quitter", 3, json!({}));
    let report = repeated(&tape.written(&dir), &[("10", "quitter")])
        .await
        .unwrap();
    let all = problems(&report);
    assert!(all[0].contains("no heart"), "{all:?}");
    assert!(
        all[1..].iter().all(|one| one.contains("is not there")),
        "{all:?}"
    );
}

#[tokio::test]
async fn a_plugin_that_connected_twice_does_so_again_and_others_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let closed = json!({"closed": {"reason": "it hung up"}});
    let tape = Tape::new()
        .registers(1, "10-tuner", EVENTS)
        .registers(2, "20-other", EVENTS)
        .asks(2, "20-other", 3, "CreateContainer", create("c0"))
        .entry(1, "10-tuner", "plugin", closed)
        .registers(3, "10-tuner", EVENTS)
        .asks(3, "10-tuner", 3, "CreateContainer", create("c0"))
        .answers(3, "10-tuner", 3, tuned());
    // Under the base name.
    let report = repeated(&tape.written(&dir), &[("30", "tuner")])
        .await
        .unwrap();
    assert!(report.ok(), "{:?}", problems(&report));
    let registered = report
        .steps
        .iter()
        .filter(|step| step.name.ends_with("RegisterPlugin"));
    assert_eq!(registered.count(), 2);
    let last = report.steps.last().unwrap();
    assert!(last.notes[0].contains("20-other"), "{last:?}");
}

#[tokio::test]
async fn a_plugin_that_comes_by_itself_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let tape = Tape::new()
        .registers(1, "10-tuner", EVENTS)
        .asks(1, "10-tuner", 3, "CreateContainer", create("c0"))
        .answers(1, "10-tuner", 3, tuned());
    let mut record = Replay::read(&tape.written(&dir)).unwrap();
    record.wait = Duration::from_secs(60);
    let socket = dir.path().join("nri.sock");
    let stub = Stub::builder().index("55").name("any").socket(&socket);
    let plugins = Plugins::Listen(socket.clone());
    tokio::select! {
        report = replay(&record, &plugins) => {
            let report = report.unwrap();
            assert!(report.ok(), "{:?}", problems(&report));
        }
        ended = stub.run(crate::plugin::Tuner) => panic!("{ended:?}"),
    }
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_record_that_is_cut_short_is_repeated_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let tape = Tape::new().registers(1, "10-tuner", EVENTS).asks(
        1,
        "10-tuner",
        3,
        "CreateContainer",
        create("c0"),
    );
    let path = tape.written(&dir);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 20]).unwrap();
    let report = repeated(&path, &[("10", "tuner")]).await.unwrap();
    assert!(report.ok(), "{:?}", problems(&report));
    let last = report.steps.last().unwrap();
    assert!(last.notes[0].contains("cut short"), "{last:?}");
}

#[tokio::test]
async fn what_cannot_be_repeated_is_refused_before_anything_is_started() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record");
    let good = Tape::new().registers(1, "10-tuner", EVENTS).text();
    let later = good.replace("\"longshore_nri_trace\":1", "\"longshore_nri_trace\":2");
    for (text, named) in [
        (String::new(), "no record of NRI messages"),
        ("hello\n".to_owned(), "no record of NRI messages"),
        (later, "version 2"),
        (good.clone() + "{}\n", "line 5"),
        (Tape::new().text(), "no plugin registered"),
    ] {
        std::fs::write(&path, &text).unwrap();
        let error = repeated(&path, &[("10", "tuner")]).await.unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        let said = format!("{error}: {}", source.unwrap_or_default());
        assert!(
            said.contains(named) && said.contains("record"),
            "{text}: {said}"
        );
    }
    std::fs::write(&path, good).unwrap();
    let error = repeated(&path, &[("10", "judge"), ("20", "sleeper")])
        .await
        .unwrap_err();
    assert!(error.to_string().contains("10-tuner"), "{error}");
    let missing = Replay::read(&dir.path().join("none")).unwrap_err();
    assert!(matches!(missing, SimulateError::File { .. }), "{missing}");
}

#[tokio::test]
async fn requests_that_are_none_are_left_out_and_nothing_panics() {
    let dir = tempfile::tempdir().unwrap();
    let unknown = json!({"request": {"id": 5, "method": "Explode", "message": message(json!({}))}});
    let huge = json!({"request": {
        "id": 7, "method": "CreateContainer", "message": {"bytes": 9, "problem": "it is too costly"},
    }});
    let tape = Tape::new()
        .registers(1, "10-tuner", EVENTS)
        .asks(1, "10-tuner", 3, "CreateContainer", json!({"pood": 1}))
        .answers(1, "10-tuner", 3, json!({}))
        .entry(1, "10-tuner", "runtime", unknown)
        .entry(1, "10-tuner", "runtime", huge)
        .answers(1, "10-tuner", 99, json!({}))
        .entry(1, "10-tuner", "plugin", json!({"odd": {"text": "noise"}}));
    let report = repeated(&tape.written(&dir), &[("10", "tuner")])
        .await
        .unwrap();
    assert!(report.ok(), "{:?}", problems(&report));
    let skipped = report
        .steps
        .iter()
        .filter(|step| matches!(step.outcome, Outcome::Skipped));
    let skipped: Vec<_> = skipped
        .map(|step| step.skipped.as_deref().unwrap_or_default())
        .collect();
    for (why, named) in skipped.iter().zip(["pood", "Explode", "too costly"]) {
        assert!(why.contains(named), "{skipped:?}");
    }
    assert_eq!(skipped.len(), 3, "{skipped:?}");
}
