//! What stands in for docker's command line needs: answers as they came, and output without a log driver.

use bytes::Bytes;
use http::Method;

use super::DockerEngine;
use super::http::{Call, encode};
use super::logs::DockerLogs;
use crate::check;
use crate::engine::Engine as _;
use crate::error::{EngineError, Missing};
use crate::log::LogStream;

impl DockerEngine {
    /// The answer of `GET /containers/ID/json` as it came: JSON, with the secrets that it holds.
    ///
    /// # Errors
    /// As [`Engine::inspect`](crate::Engine::inspect).
    pub async fn container_json(&self, id: &str) -> Result<Bytes, EngineError> {
        let call = Self::about(
            "inspect",
            id,
            Method::GET,
            ("containers", "json"),
            self.config.deadlines.quick,
        )?;
        self.http.whole(&call).await
    }

    /// The answer of `GET /images/NAME/json` as it came.
    ///
    /// # Errors
    /// As [`Engine::inspect_image`](crate::Engine::inspect_image).
    pub async fn image_json(&self, image: &str) -> Result<Bytes, EngineError> {
        check::texts("Image", [&image.to_owned()])?;
        let path = format!("/images/{}/json", encode(image, b"/:@"));
        let quick = self.config.deadlines.quick;
        let call = Call::new("inspect image", image, Method::GET, path, quick);
        self.http.whole(&call.missing(Missing::Image)).await
    }

    /// The output of a container from here on, whatever its log driver (`POST /containers/ID/attach`). Attached
    /// before the start it is the whole output; it ends with the container. A reader that is behind slows the container down.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Conflict`] and those of every call.
    pub async fn attach(&self, id: &str) -> Result<LogStream, EngineError> {
        let raw = self.inspect(id).await?.tty;
        let call = Self::about(
            "attach",
            id,
            Method::POST,
            ("containers", "attach"),
            self.config.deadlines.quick,
        )?
        .query("stream", "1")
        .query("stdout", "1")
        .query("stderr", "1");
        let answer = self.http.open(&call).await?;
        Ok(LogStream::docker(DockerLogs::new(call, answer.body, raw)))
    }
}
