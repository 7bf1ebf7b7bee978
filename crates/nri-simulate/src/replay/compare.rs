//! The answer that came against the one on record.

use longshore_nri_api::{ContainerAdjustment, ContainerUpdate, Strip};
use longshore_nri_trace::Message;
use longshore_ttrpc::CallError;
use serde_json::{Value, json};

use crate::case;
use crate::compare::{diff, stripped};

/// An answer, recorded or new.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Message(Value),
    /// Status code and text.
    Failure(i32, String),
    /// There is none that could be compared, for this reason.
    Unknown(String),
    /// The plugin did not answer, for this reason.
    None(String),
}

impl Answer {
    /// Of a message of a record, or decoded like one.
    pub(super) fn of(message: Message) -> Self {
        match (message.json, message.problem) {
            (Some(json), _) => Self::Message(json),
            (None, Some(problem)) => Self::Unknown(problem),
            (None, None) => Self::Unknown("the record does not hold it".to_owned()),
        }
    }

    pub(super) fn failed(error: &CallError) -> Self {
        match error {
            CallError::Remote(status) => {
                Self::Failure(status.code.number(), status.message.clone())
            }
            other => Self::None(other.to_string()),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Message(message) => json!({ "message": message }),
            Self::Failure(code, text) => json!({ "failure": { "code": code, "text": text } }),
            Self::Unknown(why) | Self::None(why) => json!({ "problem": why }),
        }
    }
}

/// What differs, and what deserves a look: problems and notes.
pub(super) fn differences(recorded: &Answer, came: &Answer) -> (Vec<String>, Vec<String>) {
    let problem = |text: String| (vec![text], Vec::new());
    let note = |text: String| (Vec::new(), vec![text]);
    match (recorded, came) {
        (_, Answer::None(why)) => problem(format!("no answer: {why}")),
        (Answer::Unknown(why), _) => note(format!("the recorded answer cannot be compared: {why}")),
        (Answer::None(why), _) => note(why.clone()),
        (_, Answer::Unknown(why)) => problem(format!("the answer cannot be read: {why}")),
        (Answer::Message(recorded), Answer::Message(came)) => {
            let (recorded, came) = (normal(recorded), normal(came));
            if recorded == came {
                return (Vec::new(), Vec::new());
            }
            problem(format!("the answer differs:\n{}", diff(&recorded, &came)))
        }
        (Answer::Failure(code, text), Answer::Message(_)) => problem(format!(
            "answered; the record has a failure with status {code}: {text}"
        )),
        (Answer::Message(_), Answer::Failure(code, text)) => problem(format!(
            "failed with status {code}: {text}; the record has an answer"
        )),
        (Answer::Failure(code, text), Answer::Failure(other, other_text)) if code != other => {
            problem(format!(
                "failed with status {other}: {other_text}; the record has status {code}: {text}"
            ))
        }
        (Answer::Failure(_, text), Answer::Failure(_, other)) if text != other => {
            note(format!("fails with {other:?}, in the record with {text:?}"))
        }
        (Answer::Failure(..), Answer::Failure(..)) => (Vec::new(), Vec::new()),
    }
}

/// The same for answers that mean the same: what is empty is absent.
pub(super) fn normal(answer: &Value) -> Value {
    let mut answer = answer.clone();
    let Some(members) = answer.as_object_mut() else {
        return answer;
    };
    for (name, member) in members.iter_mut() {
        match (name.as_str(), &mut *member) {
            ("adjust", adjust) => strip::<ContainerAdjustment>(adjust),
            ("update" | "failed", Value::Array(updates)) => {
                updates.iter_mut().for_each(strip::<ContainerUpdate>);
            }
            _ => {}
        }
    }
    let empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    };
    members.retain(|_, member| !empty(member));
    answer
}

fn strip<M: Strip + Clone + longshore_nri_api::cost::Message>(value: &mut Value) {
    // What is no such message stays as it is, and differs.
    if let Ok(message) = case::message::<M>(value, "an answer") {
        *value = stripped(&message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Answer {
        Answer::Message(serde_json::from_str(text).unwrap())
    }

    fn failure(code: i32, text: &str) -> Answer {
        Answer::Failure(code, text.to_owned())
    }

    #[test]
    fn answers_that_mean_the_same_are_the_same() {
        for (one, other) in [
            ("{}", r#"{"adjust": {"linux": {}}}"#),
            ("{}", r#"{"update": []}"#),
            (
                r#"{"adjust": {"env": [{"key": "A"}]}}"#,
                r#"{"adjust": {"env": [{"key": "A"}], "hooks": {}}, "evict": []}"#,
            ),
        ] {
            let found = differences(&message(one), &message(other));
            assert_eq!(found, (vec![], vec![]), "{one} {other}");
        }
    }

    #[test]
    fn each_difference_is_named() {
        let env = r#"{"adjust": {"env": [{"key": "A", "value": "1"}]}}"#;
        let zero = r#"{"update": [{"container_id": "c", "linux": {"resources": {"cpu": {"shares": {"value": 0}}}}}]}"#;
        for (recorded, came, named) in [
            (message("{}"), message(env), "+"),
            (
                message(zero),
                message(r#"{"update": [{"container_id": "c"}]}"#),
                "the answer differs",
            ),
            (message("{}"), failure(2, "no"), "failed with status 2: no"),
            (
                failure(2, "no"),
                message("{}"),
                "the record has a failure with status 2: no",
            ),
            (
                failure(2, "no"),
                failure(12, "what"),
                "the record has status 2",
            ),
            (
                message("{}"),
                Answer::None("late".into()),
                "no answer: late",
            ),
            (
                message("{}"),
                Answer::Unknown("odd".into()),
                "cannot be read: odd",
            ),
        ] {
            let (problems, notes) = differences(&recorded, &came);
            assert!(notes.is_empty(), "{notes:?}");
            assert!(problems[0].contains(named), "{problems:?}");
        }
    }

    #[test]
    fn what_cannot_be_judged_is_noted() {
        for (recorded, came) in [
            (failure(2, "no"), failure(2, "never")),
            (Answer::Unknown("too large".into()), message("{}")),
        ] {
            let (problems, notes) = differences(&recorded, &came);
            assert_eq!((problems.len(), notes.len()), (0, 1));
        }
    }
}
