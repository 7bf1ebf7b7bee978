//! Plugins that do odd things, each the only one of a case.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use longshore_nri_api::PluginId;
use longshore_nri_simulate::{Case, Command, Play, Plugins, SimulateError, run};

use crate::{command, play, played, problems};

const CASE: &str = "
policy: {request_timeout_ms: 600000}
pods: [{id: p0}]
steps:
  - {event: CreateContainer, pod: p0, container: {id: c0}}
";

fn case() -> Case {
    Case::parse(CASE, "case").unwrap()
}

/// A runtime that starts a plugin knows who it is; what it says itself means nothing there.
#[tokio::test]
async fn a_plugin_is_who_it_was_started_as_whatever_it_registers_as() {
    let report = played(case(), &[("10", "alias")]).await;
    assert!(report.ok(), "{:?}", problems(&report));
    assert_eq!(report.plugins[0].name, "10-alias");
}

#[tokio::test]
async fn two_plugins_of_one_name_are_refused() {
    let twins = vec![command("10", "tuner"), command("10", "tuner")];
    let error = Play::new(case(), Plugins::Commands(twins)).unwrap_err();
    assert!(
        matches!(&error, SimulateError::Twins { name } if name == "10-tuner"),
        "{error}"
    );
    let (one, other) = (command("10", "tuner"), command("11", "tuner"));
    Play::new(case(), Plugins::Commands(vec![one, other])).unwrap();
}

/// Nothing can come of a connection that is closed: nobody waits for it.
#[tokio::test]
async fn a_connection_that_is_closed_before_it_registers_is_told_at_once_with_the_reason() {
    for (script, reason) in [
        ("printf 12345678901234567890 >&3", "a frame of"),
        ("exec 3>&-", "the peer closed"),
    ] {
        let script = format!("{script}; exec 3>&- /bin/sleep 600");
        let args = ["-c", &script].map(OsString::from);
        let id = PluginId::new("10", "odd").unwrap();
        let shell = Command::new(id, Path::new("/bin/sh"), args.into(), Path::new("/")).unwrap();
        let mut play = Play::new(case(), Plugins::Commands(vec![shell])).unwrap();
        play.wait = Duration::from_secs(600);
        let error = run(&play).await.unwrap_err();
        assert!(matches!(error, SimulateError::Closed { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn what_a_plugin_asks_for_by_itself_is_kept_up_to_a_bound() {
    let report = run(&play(case(), &[("10", "greedy")])).await.unwrap();
    assert!(report.ok(), "{:?}", problems(&report));
    let step = &report.steps[0];
    assert_eq!(step.unsolicited.len(), 1024);
    assert!(
        step.notes[0].starts_with("76 more times"),
        "{:?}",
        step.notes
    );
}
