//! The `Debug` forms of messages that may hold a secret: they show that there is a value, and not which.

use std::fmt;

use crate::v1::{Credential, Parameter, environment, secret};

/// Stands for a value.
struct Hidden;

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl fmt::Debug for environment::Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variable")
            .field("name", &self.name)
            .field("value", &self.value.as_ref().map(|_| Hidden))
            .field("type", &self.r#type())
            .field("secret", &self.secret)
            .finish()
    }
}

/// Code is generated without the form of what is nested, too.
impl fmt::Debug for environment::variable::Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str_name())
    }
}

impl fmt::Debug for secret::Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Value").field("data", &Hidden).finish()
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("principal", &self.principal)
            .field("secret", &self.secret.as_ref().map(|_| Hidden))
            .finish()
    }
}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parameter")
            .field("key", &self.key)
            .field("value", &Hidden)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::v1::TaskInfo;
    use crate::{DecodeLimits, json};

    #[test]
    fn a_task_shows_names_and_no_values() {
        let text = r#"{"name":"t","task_id":{"value":"t"},"agent_id":{"value":"a"},
            "command":{"environment":{"variables":[{"name":"PLAIN","value":"hunter1"},
                {"name":"HIDDEN","type":"SECRET","secret":{"type":"VALUE","value":{"data":"aHVudGVyMg=="}}}]}},
            "container":{"type":"DOCKER","docker":{"image":"x","parameters":[{"key":"env","value":"A=hunter3"}]},
                "volumes":[{"container_path":"/v","mode":"RW","image":{"type":"DOCKER","docker":
                    {"name":"x","credential":{"principal":"me","secret":"hunter4"}}}}]}}"#;
        let task: TaskInfo = json::from_slice(text.as_bytes(), &DecodeLimits::default()).unwrap();
        let shown = format!("{task:?}");
        for name in ["PLAIN", "HIDDEN", "env", "me"] {
            assert!(shown.contains(name), "{name} is not in {shown}");
        }
        // As text, and as bytes.
        for secret in ["hunter", "104, 117, 110", "aHVud"] {
            assert!(!shown.contains(secret), "{secret} is in {shown}");
        }
    }
}
