//! What was expected against what came.

use longshore_nri_api::{ContainerAdjustment, ContainerUpdate, Strip};
use serde_json::Value;

use crate::report::{Outcome, message};
use crate::{Expected, SimulateError, case};

/// What differs, each in a line or a diff.
pub(crate) fn problems(
    expected: &Expected,
    outcome: &Outcome,
) -> Result<Vec<String>, SimulateError> {
    let mut problems = Vec::new();
    match (&expected.error, outcome) {
        (Some(wanted), Outcome::Failed { error }) if error.contains(wanted.as_str()) => {
            return Ok(problems);
        }
        (Some(wanted), Outcome::Failed { error }) => {
            return Ok(vec![format!(
                "failed with {error:?}, expected an error with {wanted:?}"
            )]);
        }
        (Some(wanted), _) => {
            return Ok(vec![format!(
                "expected to fail with {wanted:?}, and did not"
            )]);
        }
        (None, Outcome::Failed { error }) => return Ok(vec![error.clone()]),
        (None, _) => {}
    }
    if let Some(wanted) = &expected.adjustment {
        let wanted: ContainerAdjustment = case::message(wanted, "expect.adjustment")?;
        let came = match outcome {
            Outcome::Created { adjustment, .. } => (**adjustment).clone(),
            _ => ContainerAdjustment::default(),
        };
        differ(
            "adjustment differs",
            &stripped(&wanted),
            &stripped(&came),
            &mut problems,
        );
    }
    if let Some(wanted) = &expected.updates {
        let wanted: Vec<ContainerUpdate> = wanted
            .iter()
            .map(|update| case::message(update, "expect.updates"))
            .collect::<Result<_, _>>()?;
        let came = match outcome {
            Outcome::Created { updates, .. } | Outcome::Changed { updates, .. } => {
                updates.as_slice()
            }
            _ => &[],
        };
        let all = |updates: &[ContainerUpdate]| updates.iter().map(stripped).collect::<Value>();
        differ("updates differ", &all(&wanted), &all(came), &mut problems);
    }
    if let Some(wanted) = &expected.evictions {
        let came: Value = evicted(outcome).into();
        differ(
            "evictions differ",
            &wanted.clone().into(),
            &came,
            &mut problems,
        );
    }
    Ok(problems)
}

/// The expectations that an outcome fulfils.
pub(crate) fn fulfilled(outcome: &Outcome) -> Option<Expected> {
    let mut expected = Expected::default();
    match outcome {
        Outcome::Told | Outcome::Skipped | Outcome::Answered { .. } => return None,
        Outcome::Created {
            adjustment,
            updates,
            ..
        } => {
            expected.adjustment = Some(stripped(&**adjustment));
            expected.updates = Some(updates.iter().map(stripped).collect());
        }
        Outcome::Changed { updates, .. } => {
            expected.updates = Some(updates.iter().map(stripped).collect());
        }
        Outcome::Failed { error } => {
            expected.error = Some(error.clone());
            return Some(expected);
        }
    }
    expected.evictions = Some(evicted(outcome));
    Some(expected)
}

fn evicted(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Created { evictions, .. } | Outcome::Changed { evictions, .. } => evictions
            .iter()
            .map(|(_, container)| container.clone())
            .collect(),
        _ => Vec::new(),
    }
}

/// The JSON form without empty parts.
pub(crate) fn stripped<M: Strip + Clone + longshore_nri_api::cost::Message>(given: &M) -> Value {
    message(&given.clone().strip().unwrap_or_default())
}

fn differ(what: &str, wanted: &Value, came: &Value, problems: &mut Vec<String>) {
    if wanted != came {
        problems.push(format!("{what}:\n{}", diff(wanted, came)));
    }
}

/// A unified diff of two JSON values, indented.
#[must_use]
pub fn diff(before: &Value, after: &Value) -> String {
    let (before, after) = (format!("{before:#}\n"), format!("{after:#}\n"));
    let diff = similar::TextDiff::from_lines(&before, &after);
    diff.unified_diff().context_radius(2).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created() -> Outcome {
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_env("A", "1");
        adjustment.hooks = Some(Default::default());
        Outcome::Created {
            adjustment: Box::new(adjustment),
            updates: Vec::new(),
            evictions: vec![("10-a".into(), "c1".into())],
            owners: Default::default(),
            before: Value::Null,
            after: Value::Null,
        }
    }

    #[test]
    fn what_is_written_down_is_fulfilled() {
        let failed = Outcome::Failed { error: "no".into() };
        let changed = Outcome::Changed {
            requested: None,
            updates: vec![ContainerUpdate::new("c")],
            evictions: vec![],
        };
        for outcome in [created(), failed, changed] {
            let expected = fulfilled(&outcome).unwrap();
            assert_eq!(problems(&expected, &outcome).unwrap(), Vec::<String>::new());
        }
    }

    #[test]
    fn each_difference_is_found() {
        let text = |json: &str| serde_json::from_str::<Expected>(json).unwrap();
        for (expected, outcome, named) in [
            (r#"{"error": "x"}"#, created(), "did not"),
            (
                r#"{"error": "x"}"#,
                Outcome::Failed { error: "y".into() },
                "\"y\"",
            ),
            ("{}", Outcome::Failed { error: "y".into() }, "y"),
            (r#"{"adjustment": {}}"#, created(), "adjustment differs:"),
            (
                r#"{"updates": [{"container_id": "c"}]}"#,
                created(),
                "updates differ",
            ),
            (r#"{"evictions": []}"#, created(), "evictions differ"),
        ] {
            let problems = problems(&text(expected), &outcome).unwrap();
            assert!(
                problems.len() == 1 && problems[0].contains(named),
                "{expected}: {problems:?}"
            );
        }
    }
}
