//! Expectations and forms of the report.

use std::path::Path;

use longshore_nri_simulate::{Case, EXAMPLE, junit, run, updated};

use crate::{play, played, problems};

const TUNER: &[(&str, &str)] = &[("10", "tuner")];

#[tokio::test]
async fn expectations_are_written_held_against_and_missed() {
    let case = Case::parse(EXAMPLE, "example").unwrap();
    let report = played(case.clone(), TUNER).await;
    let written = updated(&case, &report);
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
    assert!(problems[0].contains("adjustment differ"), "{problems:?}");
    let failures = other
        .steps
        .iter()
        .filter(|step| !step.problems.is_empty())
        .count();
    assert!(junit(&other, "case").contains(&format!("failures=\"{failures}\"")));
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
    assert!(
        created["owners"].to_string().contains("10-tuner"),
        "{}",
        created["owners"]
    );
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
