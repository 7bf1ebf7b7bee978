//! The variables of an [`Environment`](v1::Environment), with its secrets resolved as far as the message itself can.

use crate::v1::environment::Variable;
use crate::v1::environment::variable::Type;
use crate::v1::{self, secret};

/// Why a variable cannot be set. It names the variable and never shows a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("environment variable {name:?} {problem}")]
#[non_exhaustive]
pub struct VariableError {
    /// The name, as given.
    pub name: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// Name and value of each variable, in their order; one that is given twice is there twice.
///
/// A variable of type SECRET gets the value of its secret. A secret by reference needs a resolver, which no message
/// carries: it is refused.
///
/// # Errors
/// [`VariableError`] for the first one that cannot be set as it was meant.
pub fn variables(
    environment: Option<&v1::Environment>,
) -> Result<Vec<(String, String)>, VariableError> {
    environment
        .map(|environment| environment.variables.as_slice())
        .unwrap_or_default()
        .iter()
        .map(variable)
        .collect()
}

fn variable(variable: &Variable) -> Result<(String, String), VariableError> {
    let refuse = |problem| {
        Err(VariableError {
            name: variable.name.chars().take(128).collect(),
            problem,
        })
    };
    let name = &variable.name;
    if name.is_empty() || name.contains(['=', '\0']) {
        return refuse("has a name that cannot be set: it is empty or has a '=' or a NUL byte");
    }
    let kind = variable.r#type.unwrap_or(Type::Value.into());
    let value = match (Type::try_from(kind), &variable.value, &variable.secret) {
        (Ok(Type::Value), Some(value), None) => value.clone(),
        (Ok(Type::Value), None, _) => return refuse("of type VALUE has no value"),
        (Ok(Type::Value), _, Some(_)) => return refuse("of type VALUE has a secret too"),
        (Ok(Type::Secret), Some(_), _) => return refuse("of type SECRET has a plain value too"),
        (Ok(Type::Secret), None, None) => return refuse("of type SECRET has no secret"),
        (Ok(Type::Secret), None, Some(secret)) => match revealed(secret) {
            Ok(value) => value,
            Err(problem) => return refuse(problem),
        },
        (Ok(Type::Unknown) | Err(_), ..) => return refuse("has an unknown type"),
    };
    if value.contains('\0') {
        return refuse("has a NUL byte in its value");
    }
    Ok((name.clone(), value))
}

fn revealed(secret: &v1::Secret) -> Result<String, &'static str> {
    let kind = secret::Type::try_from(secret.r#type.unwrap_or_default());
    match (kind, &secret.reference, &secret.value) {
        (Ok(secret::Type::Value), None, Some(value)) => {
            let text = std::str::from_utf8(&value.data);
            text.map(str::to_owned)
                .map_err(|_| "has a secret that is not UTF-8 text")
        }
        (Ok(secret::Type::Value), ..) => Err("has a secret of type VALUE without one value alone"),
        (Ok(secret::Type::Reference), ..) => {
            Err("has a secret by reference, and there is no secret resolver: give its value")
        }
        (Ok(secret::Type::Unknown) | Err(_), ..) => Err("has a secret of an unknown type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeLimits, json};

    fn of(text: &str) -> Result<Vec<(String, String)>, VariableError> {
        let text = format!(r#"{{"variables":[{text}]}}"#);
        let environment: v1::Environment =
            json::from_slice(text.as_bytes(), &DecodeLimits::default()).unwrap();
        variables(Some(&environment))
    }

    #[test]
    fn values_and_the_values_of_secrets_are_taken_in_order() {
        let text = r#"{"name":"B","value":"1"},
            {"name":"A","type":"SECRET","secret":{"type":"VALUE","value":{"data":"aHVudGVyMg=="}}},
            {"name":"B","type":"VALUE","value":""}"#;
        let expected = [("B", "1"), ("A", "hunter2"), ("B", "")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(of(text).unwrap(), expected);
        assert_eq!(variables(None).unwrap(), []);
    }

    #[test]
    fn what_cannot_be_set_is_refused_by_its_name_and_without_its_value() {
        let secret = r#""secret":{"type":"VALUE","value":{"data":"aHVudGVyMg=="}}"#;
        let cases = [
            (r#"{"name":"","value":"v"}"#.to_owned(), "name that cannot be set"),
            (r#"{"name":"A=B","value":"hunter2"}"#.to_owned(), "name that cannot be set"),
            (r#"{"name":"A"}"#.to_owned(), "VALUE has no value"),
            (format!(r#"{{"name":"A","value":"hunter2",{secret}}}"#), "has a secret too"),
            (r#"{"name":"A","type":"SECRET"}"#.to_owned(), "SECRET has no secret"),
            (format!(r#"{{"name":"A","type":"SECRET","value":"x",{secret}}}"#), "plain value too"),
            (r#"{"name":"A","value":"hunter2\u0000"}"#.to_owned(), "NUL byte"),
            (r#"{"name":"A","type":"UNKNOWN","value":"x"}"#.to_owned(), "unknown type"),
            (r#"{"name":"A","type":"SECRET","secret":{}}"#.to_owned(), "unknown type"),
            (
                r#"{"name":"A","type":"SECRET","secret":{"type":"REFERENCE","reference":{"name":"n"}}}"#.to_owned(),
                "no secret resolver",
            ),
            (
                r#"{"name":"A","type":"SECRET","secret":{"type":"VALUE","value":{"data":"/w=="}}}"#.to_owned(),
                "not UTF-8",
            ),
        ];
        for (text, expected) in cases {
            let error = of(&text).unwrap_err();
            assert!(error.to_string().contains(expected), "{text}: {error}");
            assert!(
                !format!("{error} {error:?}").contains("hunter2"),
                "{error:?}"
            );
        }
    }
}
