//! Images that are made and removed here rather than pulled.

use bytes::Bytes;
use http::{HeaderValue, Method, header::CONTENT_TYPE};
use serde::Deserialize;

use super::DockerEngine;
use super::http::{Call, encode};
use crate::check;
use crate::error::{EngineError, Missing};

/// What the engine says of an import, in its last line.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    status: String,
    #[serde(default)]
    error: String,
}

impl DockerEngine {
    /// Makes an image of a file system, a tar archive, and returns its id (`POST /images/create?fromSrc=-`).
    /// `repository` and `tag` are its name, which an image that had it before loses.
    ///
    /// # Errors
    /// [`EngineError::Status`] for an archive or a name that the engine does not take, and those of every call.
    pub async fn import_image(
        &self,
        repository: &str,
        tag: &str,
        archive: Bytes,
    ) -> Result<String, EngineError> {
        let slow = self.config.deadlines.slow;
        let mut call = Call::new(
            "import image",
            repository,
            Method::POST,
            "/images/create",
            slow,
        )
        .missing(Missing::Image)
        .query("fromSrc", "-")
        .query("repo", repository)
        .query("tag", tag);
        call.header = Some((CONTENT_TYPE, HeaderValue::from_static("application/x-tar")));
        call.body = Some(archive);
        let text = self.http.whole(&call).await?;
        let mut id = String::new();
        for line in text.split(|byte| *byte == b'\n' || *byte == b'\r') {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let said: Said = call.decode(line)?;
            if !said.error.is_empty() {
                return Err(EngineError::Status {
                    call: call.name,
                    subject: call.subject,
                    status: 200,
                    message: said.error,
                });
            }
            if said.status.starts_with("sha256:") {
                id = said.status;
            }
        }
        if id.is_empty() {
            return Err(call.undecodable("it holds no id"));
        }
        Ok(id)
    }

    /// Removes an image with all its names, unless a container needs it (`DELETE /images/NAME?force=1`). False: there is none.
    ///
    /// # Errors
    /// [`EngineError::Conflict`] while a container runs from it, and those of every call.
    pub async fn remove_image(&self, image: &str) -> Result<bool, EngineError> {
        check::texts("Image", [&image.to_owned()])?;
        let path = format!("/images/{}", encode(image, b"/:@"));
        let slow = self.config.deadlines.slow;
        let call = Call::new("remove image", image, Method::DELETE, path, slow)
            .missing(Missing::Image)
            .query("force", "1");
        match self.http.whole(&call).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_no_such_image() => Ok(false),
            Err(error) => Err(error),
        }
    }
}
