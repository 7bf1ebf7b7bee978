//! Expectations and forms of the report.

use std::path::Path;

use longshore_nri_simulate::{Case, EXAMPLE, junit, run, updated};

use crate::{built_in, play, played, problems};

const TUNER: &[(&str, &str)] = &[("10", "tuner")];

#[tokio::test]
async fn expectations_are_written_held_against_and_missed() {
    let case = Case::parse(EXAMPLE, "example").unwrap();
    let report = played(case.clone(), TUNER).await;
    let written = updated(&case, &report).unwrap();
    let expected = written.steps[1].expect.as_ref().unwrap();
    assert_eq!(
        expected.adjustment.as_ref().unwrap()["env"][0]["key"],
        "TUNED"
    );
    // Through a file and back.
    let text = written.to_text(Path::new("case.yaml")).unwrap();
    let read = Case::parse(&text, "case.yaml").unwrap();
    assert_eq!(read, written);
    let again = played(read.clone(), TUNER).await;
    assert!(again.ok(), "{:?}", problems(&again));
    // Another plugin does not fulfil it.
    let other = played(read, &[("10", "judge")]).await;
    assert!(!other.ok());
    let problems = problems(&other);
    assert!(problems[0].contains("adjustment differs"), "{problems:?}");
    let accepted = other.clone().accepted();
    assert!(accepted.ok(), "once it is written down");
    let notes = accepted.steps.iter().flat_map(|step| &step.notes);
    assert_eq!(notes.count(), problems.len(), "and still shown");
    let failures = other
        .steps
        .iter()
        .filter(|step| !step.problems.is_empty())
        .count();
    assert!(junit(&other, "case").contains(&format!("failures=\"{failures}\"")));
}

#[tokio::test]
async fn nothing_is_expected_of_a_plugin_that_was_lost() {
    let case = built_in("slow");
    let report = played(case.clone(), &[("10", "sleeper")]).await;
    let lost = report.steps.iter().find(|step| !step.losses.is_empty());
    let loss = &lost.unwrap().losses[0];
    assert!(loss.contains("no answer within 100ms"), "{loss}");
    assert!(updated(&case, &report).is_none());
    assert!(!report.accepted().ok());
}

#[tokio::test]
async fn an_update_shows_what_plugins_change_and_not_what_the_runtime_asked_for() {
    let case = "
pods: [{id: p0}]
containers: [{id: c0, pod_sandbox_id: p0}, {id: c1, pod_sandbox_id: p0}]
steps:
  - {event: UpdateContainer, container: c0, resources: {cpu: {shares: {value: 7}}}}
";
    for (plugin, shown) in [("tuner", false), ("updater", true)] {
        let report = played(Case::parse(case, "case").unwrap(), &[("10", plugin)]).await;
        assert!(report.ok(), "{:?}", problems(&report));
        let text = longshore_nri_simulate::text(&report);
        assert!(!text.contains("updates c0"), "{text}");
        assert_eq!(text.contains("+      \"value\": 8"), shown, "{text}");
        assert_eq!(text.contains("updates c1"), shown, "{text}");
        let json = report.to_json();
        let outcome = &json["steps"][0]["outcome"];
        assert_eq!(
            outcome["requested"]["cpu"]["shares"]["value"], 7,
            "{outcome}"
        );
        assert_eq!(outcome["updates"][0]["container_id"], "c0", "{outcome}");
    }
}

#[tokio::test]
async fn the_json_form_has_the_adjustment_and_its_owners() {
    let report = played(Case::parse(EXAMPLE, "example").unwrap(), TUNER).await;
    let json = report.to_json();
    assert_eq!(
        (json["version"].as_u64(), json["ok"].as_bool()),
        (Some(1), Some(true))
    );
    let created = &json["steps"][1]["outcome"];
    assert_eq!(created["adjustment"]["env"][0]["value"], "yes");
    let owners = &created["owners"]["ctr0"];
    assert_eq!(owners["Env"]["TUNED"], "10-tuner", "{owners}");
    assert_eq!(owners["MemLimit"], "10-tuner", "{owners}");
    let pid = &json["plugins"][0]["pid"];
    assert!(pid.as_u64().is_some_and(|pid| pid > 1), "{pid}");
    let env = created["spec_after"]["process"]["env"].to_string();
    assert!(env.contains("TUNED=yes"), "{env}");
}

#[tokio::test]
async fn a_step_that_makes_no_sense_is_named() {
    for (text, named) in [
        (
            "steps: [{event: CreateContainer, pod: nobody, container: {id: c}}]",
            "step 1",
        ),
        (
            "steps: [{event: StartContainer, container: nobody}]",
            "\"nobody\"",
        ),
        ("steps: [{event: StartContainer}]", "no container"),
    ] {
        let case = Case::parse(text, "case").unwrap();
        let error = run(&play(case, TUNER)).await.unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
}
