//! One pull.

use std::collections::BTreeMap;
use std::path::Path;

use http::{HeaderName, HeaderValue, Method};
use tokio::sync::watch;

use super::http::Call;
use super::lines::Lines;
use super::{DockerEngine, wire};
use crate::EngineError;
use crate::auth::{ClientConfig, RegistryAuth};
use crate::error::Missing;
use crate::image::{ImageInfo, ImageReference, is_image_id};
use crate::pull::{PullAuth, PullPolicy, PullProgress, PullRequest};

const REGISTRY_AUTH: HeaderName = HeaderName::from_static("x-registry-auth");
/// The status of a pull before the engine has said a word of it.
const ASKED: &str = "the registry is asked";
/// So many layers are counted.
const MAX_LAYERS: usize = 1000;
/// Longest status that is kept.
const MAX_STATUS: usize = 200;

pub(super) async fn pull(
    engine: DockerEngine,
    request: PullRequest,
    progress: watch::Sender<PullProgress>,
) -> Result<ImageInfo, EngineError> {
    // An id names what is here, in no registry.
    if is_image_id(&request.image) {
        return engine.ask_image(&request.image).await;
    }
    let reference = ImageReference::parse(&request.image)?;
    // As the user wrote it, since engines differ in where a short name leads, but never without a tag.
    let image = if reference.tag.as_deref() == Some("latest") && !request.image.contains(":latest")
    {
        format!("{}:latest", request.image)
    } else {
        request.image.clone()
    };
    if request.policy != PullPolicy::Always {
        match engine.ask_image(&image).await {
            Err(error) if error.is_no_such_image() && request.policy == PullPolicy::Missing => {}
            other => return other,
        }
    }
    let auth = credentials(&engine, &request.auth, &reference.registry).await?;
    load(
        &engine,
        &request,
        &image,
        auth.map(|auth| auth.header(&reference.registry)),
        &progress,
    )
    .await?;
    engine.ask_image(&image).await
}

async fn credentials(
    engine: &DockerEngine,
    auth: &PullAuth,
    registry: &str,
) -> Result<Option<RegistryAuth>, EngineError> {
    let from = |path: &Path| ClientConfig::load(path);
    let config = match auth {
        PullAuth::Given(auth) => return Ok(Some(auth.clone())),
        PullAuth::Anonymous => return Ok(None),
        PullAuth::File(path) => from(path)?,
        PullAuth::Config => match &engine.config.client_config {
            Some(path) => from(path)?,
            None => return Ok(None),
        },
    };
    config.auth_for(registry).await
}

async fn load(
    engine: &DockerEngine,
    request: &PullRequest,
    image: &str,
    auth: Option<String>,
    progress: &watch::Sender<PullProgress>,
) -> Result<(), EngineError> {
    let mut call = Call::new(
        "pull",
        image,
        Method::POST,
        "/images/create",
        request.inactivity,
    )
    .query("fromImage", image)
    .missing(Missing::Image);
    if let Some(platform) = &request.platform {
        call = call.query("platform", platform);
    }
    if let Some(auth) = auth {
        let mut value = HeaderValue::from_str(&auth)
            .map_err(|_| call.undecodable("the credentials fit no header"))?;
        value.set_sensitive(true);
        call.header = Some((REGISTRY_AUTH, value));
    }
    progress.send_modify(|now| ASKED.clone_into(&mut now.status));
    let stalled = || EngineError::PullStalled {
        image: image.to_owned(),
        after: request.inactivity,
    };
    let answer = match engine.http.open(&call).await {
        Err(EngineError::Timeout { .. }) => return Err(stalled()),
        other => other?,
    };
    let mut lines = Lines::new(answer.body);
    let mut layers = Layers::default();
    loop {
        let line = tokio::time::timeout(request.inactivity, lines.next())
            .await
            .map_err(|_| stalled())?;
        let line = match line {
            None => return Ok(()),
            Some(line) => line.map_err(|error| call.gone(Some(error)))?,
        };
        let message: wire::PullMessage = call.decode(&line)?;
        match layers.take(message) {
            Ok(now) => progress.send_replace(now),
            Err(message) => {
                return Err(EngineError::Pull {
                    image: image.to_owned(),
                    message,
                });
            }
        };
    }
}

/// What is known of the layers of an image that is being loaded.
#[derive(Debug, Default)]
struct Layers {
    layers: BTreeMap<String, Layer>,
}

#[derive(Debug, Default)]
struct Layer {
    bytes: u64,
    total: u64,
    done: bool,
}

impl Layers {
    /// Takes one message; the engine's failure is an error.
    fn take(&mut self, message: wire::PullMessage) -> Result<PullProgress, String> {
        let failure = [message.detail.message, message.error];
        if let Some(failure) = failure.into_iter().find(|text| !text.is_empty()) {
            return Err(failure);
        }
        let status = message.status;
        // `Pulling from library/busybox` has the tag as its id.
        let of_a_layer = !message.id.is_empty() && !status.starts_with("Pulling from");
        if of_a_layer && (self.layers.len() < MAX_LAYERS || self.layers.contains_key(&message.id)) {
            let layer = self.layers.entry(message.id).or_default();
            match status.as_str() {
                "Downloading" => {
                    layer.bytes = message.progress.current;
                    layer.total = message.progress.total.max(layer.total);
                }
                "Pull complete" | "Already exists" => layer.done = true,
                _ => {}
            }
            if layer.done || status == "Download complete" {
                layer.bytes = layer.total;
            }
        }
        let sum = |of: fn(&Layer) -> u64| self.layers.values().map(of).fold(0, u64::saturating_add);
        Ok(PullProgress {
            status: status.chars().take(MAX_STATUS).collect(),
            layers: self.layers.len(),
            layers_done: self.layers.values().filter(|layer| layer.done).count(),
            bytes: sum(|layer| layer.bytes),
            bytes_total: sum(|layer| layer.total),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(layers: &mut Layers, text: &str) -> Result<PullProgress, String> {
        layers.take(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn progress_is_the_sum_of_the_layers() {
        let mut layers = Layers::default();
        for text in [
            r#"{"status": "Pulling from library/busybox", "id": "latest"}"#,
            r#"{"status": "Pulling fs layer", "progressDetail": {}, "id": "a"}"#,
            r#"{"status": "Downloading", "progressDetail": {"current": 10, "total": 100}, "id": "a"}"#,
            r#"{"status": "Already exists", "progressDetail": {}, "id": "b"}"#,
        ] {
            take(&mut layers, text).unwrap();
        }
        let now = take(
            &mut layers,
            r#"{"status": "Downloading", "progressDetail": {"current": 50, "total": 100}, "id": "a"}"#,
        );
        let now = now.unwrap();
        assert_eq!(
            (now.layers, now.layers_done, now.bytes, now.bytes_total),
            (2, 1, 50, 100)
        );
        let now = take(&mut layers, r#"{"status": "Pull complete", "id": "a"}"#).unwrap();
        assert_eq!((now.layers_done, now.bytes, now.bytes_total), (2, 100, 100));
        let failed = take(
            &mut layers,
            r#"{"errorDetail": {"message": "no space"}, "error": "no space"}"#,
        );
        assert_eq!(failed.unwrap_err(), "no space");
    }

    #[test]
    fn an_image_of_endless_layers_takes_no_endless_memory() {
        let mut layers = Layers::default();
        for index in 0..5000 {
            take(
                &mut layers,
                &format!(r#"{{"status": "Waiting", "id": "{index}"}}"#),
            )
            .unwrap();
        }
        assert_eq!(layers.layers.len(), MAX_LAYERS);
    }
}
