//! `docker inspect`: what the engine says, with `ContainerConfig` put back.

use longshore_engine::{DockerEngine, EngineError};
use serde_json::Value;

use crate::{Failed, complain, say};

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Container,
    Image,
}

/// `inspect [--type=KIND] NAME...`; without a kind a container is looked for first.
#[derive(Debug)]
pub(crate) struct Inspect {
    pub(crate) kind: Option<Kind>,
    pub(crate) names: Vec<String>,
}

/// Prints what was found as one list, even if it is empty. What was not found makes the exit code 1.
pub(crate) async fn inspect(engine: &DockerEngine, inspect: &Inspect) -> Result<u8, Failed> {
    let (mut found, mut failed) = (Vec::new(), false);
    for name in &inspect.names {
        match look(engine, inspect.kind, name).await {
            Ok(value) => found.push(value),
            Err(failure) => {
                failed = true;
                complain(&failure.message);
            }
        }
    }
    say(&format!("{:#}", Value::Array(found)));
    Ok(u8::from(failed))
}

async fn look(engine: &DockerEngine, kind: Option<Kind>, name: &str) -> Result<Value, Failed> {
    let container = async || read(name, &engine.container_json(name).await?);
    let image = async || read(name, &engine.image_json(name).await?).map(with_container_config);
    match kind {
        Some(Kind::Container) => container().await,
        Some(Kind::Image) => image().await,
        None => match engine.container_json(name).await {
            Ok(answer) => read(name, &answer),
            Err(EngineError::NotFound { .. } | EngineError::InvalidSpec { .. }) => image().await,
            Err(error) => Err(error.into()),
        },
    }
}

fn read(name: &str, answer: &[u8]) -> Result<Value, Failed> {
    serde_json::from_slice(answer).map_err(|error| {
        Failed::new(
            1,
            format!("{name}: the engine's answer is no JSON: {error}"),
        )
    })
}

/// A Mesos agent takes an image's entrypoint and environment from `ContainerConfig`, and no image without one. Where an engine has none
/// the image's `Config` says the same.
fn with_container_config(mut image: Value) -> Value {
    let Some(members) = image.as_object_mut() else {
        return image;
    };
    let has_one = members.get("ContainerConfig").is_some_and(|known| {
        ["Entrypoint", "Env"]
            .iter()
            .all(|key| known.get(key).is_some())
    });
    if has_one {
        return image;
    }
    let mut config = members.get("Config").cloned().unwrap_or(Value::Null);
    if !config.is_object() {
        config = Value::Object(serde_json::Map::new());
    }
    // The agent looks for both, and takes null for none.
    if let Some(config) = config.as_object_mut() {
        for key in ["Entrypoint", "Env"] {
            config.entry(key).or_insert(Value::Null);
        }
    }
    members.insert("ContainerConfig".to_owned(), config);
    image
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_without_a_container_config_gets_one_from_its_config() {
        let image = json!({"Id": "sha256:1", "Config": {"Env": ["PATH=/bin"], "Entrypoint": ["/x"], "Cmd": ["sh"]}});
        let whole = with_container_config(image.clone());
        assert_eq!(whole["ContainerConfig"], image["Config"]);
        assert_eq!(whole["Config"], image["Config"]);
    }

    #[test]
    fn the_two_members_that_an_agent_looks_for_are_always_there() {
        for image in [
            json!({"Id": "x"}),
            json!({"Config": null}),
            json!({"Config": {"Cmd": ["sh"]}}),
            json!({"Config": {"Env": ["A=1"]}, "ContainerConfig": {}}),
            json!({"ContainerConfig": null}),
            json!({"ContainerConfig": 1, "Config": []}),
        ] {
            let whole = with_container_config(image.clone());
            let config = whole["ContainerConfig"].as_object().unwrap();
            assert!(config.contains_key("Entrypoint"), "{image}");
            assert!(config.contains_key("Env"), "{image}");
        }
    }

    #[test]
    fn what_an_older_engine_says_is_left_alone() {
        let image = json!({"Config": {"Env": ["A=1"]}, "ContainerConfig": {"Env": ["B=1"], "Entrypoint": null}});
        assert_eq!(with_container_config(image.clone()), image);
        assert_eq!(with_container_config(json!([])), json!([]));
    }
}
