//! Every built-in case against a plugin that does well, and against one that does not.

use longshore_nri_simulate::{Case, EXAMPLE, Outcome, SimulateError, run};

use crate::{built_in, play, played, problems};

const TUNER: &[(&str, &str)] = &[("10", "tuner")];

#[tokio::test]
async fn the_example_shows_what_changes_in_the_spec() {
    let report = played(Case::parse(EXAMPLE, "example").unwrap(), TUNER).await;
    assert!(report.ok(), "{:?}", problems(&report));
    let text = longshore_nri_simulate::text(&report);
    for line in [
        "TUNED=yes",
        "+        \"limit\": 67108864",
        "+      \"destination\": \"/tuned\"",
        "all as expected",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

#[tokio::test]
async fn the_case_slow_is_kept_up_with_and_tells_who_does_not() {
    // A machine with much work gives a process less than the case does.
    let mut easy = built_in("slow");
    easy.policy.request_timeout_ms = Some(20_000);
    let report = played(easy, TUNER).await;
    assert!(report.ok(), "{:?}", problems(&report));
    assert_eq!(report.steps.len(), 21);

    let report = played(built_in("slow"), &[("10", "sleeper")]).await;
    let problems = problems(&report);
    let closed = |problem: &&str| problem.contains("\"10-sleeper\" was closed");
    assert!(problems.iter().any(closed), "{problems:?}");
}

#[tokio::test]
async fn the_case_big_sync_comes_in_parts() {
    let report = played(built_in("big-sync"), TUNER).await;
    assert!(report.ok(), "{:?}", problems(&report));
    let mut old = built_in("big-sync");
    old.runtime = "containerd@1.7.7".into();
    let error = run(&play(old, TUNER)).await.unwrap_err();
    assert!(matches!(error, SimulateError::Ended { .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("the runtime closed it"), "{error}");
}

#[tokio::test]
async fn the_case_restart_brings_the_plugin_back() {
    let report = played(built_in("restart"), TUNER).await;
    assert!(report.ok(), "{:?}", problems(&report));
    let last = &report.steps[4];
    assert!(matches!(last.outcome, Outcome::Created { .. }), "{last:?}");
}

#[tokio::test]
async fn the_case_idle_peers_delays_nobody() {
    let report = played(built_in("idle-peers"), TUNER).await;
    assert!(report.ok(), "{:?}", problems(&report));
}

#[tokio::test]
async fn the_case_required_fails_creations_while_the_plugin_is_away() {
    let report = played(built_in("required"), TUNER).await;
    assert!(report.ok(), "{:?}", problems(&report));
    let Outcome::Failed { error } = &report.steps[2].outcome else {
        panic!("{:?}", report.steps[2]);
    };
    assert!(error.contains("10-tuner"), "{error}");
}

#[tokio::test]
async fn the_case_conflict_names_both() {
    let report = played(built_in("conflict"), TUNER).await;
    assert!(report.ok(), "{:?}", problems(&report));
    let Outcome::Failed { error } = &report.steps[0].outcome else {
        panic!("{:?}", report.steps[0]);
    };
    assert!(
        error.contains("10-tuner") && error.contains("99-rival"),
        "{error}"
    );
    // A plugin that sets nothing has nothing to quarrel about.
    let report = played(built_in("conflict"), &[("10", "judge")]).await;
    assert!(report.ok(), "{report:?}");
    let skipped = report.steps[0].skipped.as_deref();
    assert!(
        skipped.is_some_and(|why| why.contains("nothing was adjusted")),
        "{skipped:?}"
    );
}

#[tokio::test]
async fn several_plugins_stand_in_one_chain() {
    let case = Case::parse(EXAMPLE, "example").unwrap();
    let report = played(case, &[("20", "judge"), ("10", "tuner")]).await;
    assert!(!report.ok());
    let names: Vec<_> = report.plugins.iter().map(|plugin| &*plugin.name).collect();
    assert_eq!(names, ["10-tuner", "20-judge"]);
    let problems = problems(&report);
    assert!(problems[0].contains("no tuning here"), "{problems:?}");
}

#[tokio::test]
async fn old_runtimes_are_imitated() {
    for (runtime, only) in [("containerd@1.7", true), ("cri-o@1.35", true), ("", false)] {
        let mut case = Case::parse(EXAMPLE, "example").unwrap();
        case.runtime = runtime.into();
        let report = played(case, TUNER).await;
        assert!(report.ok(), "{runtime}: {:?}", problems(&report));
        assert_eq!(report.plugins[0].state_change_only, only, "{runtime}");
    }
}

#[tokio::test]
async fn a_plugin_that_ends_at_once_is_quoted() {
    let case = Case::parse(EXAMPLE, "example").unwrap();
    let error = run(&play(case, &[("10", "quitter")])).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("\"10-quitter\" exited with status 0") && text.ends_with("no heart"),
        "{text}"
    );
}
