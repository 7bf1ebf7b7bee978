//! What an engine says of itself beyond its version.

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::DockerEngine;
use super::http::Call;
use crate::error::EngineError;

/// The part of it that matters here.
#[derive(Deserialize)]
struct Info {
    #[serde(rename = "NRI", default)]
    nri: Value,
}

impl DockerEngine {
    /// What the engine says of NRI plugins that it serves itself (member `NRI` of `GET /info`, from Docker 29 on), in its
    /// own words, which may be none; `None`: it serves none.
    ///
    /// # Errors
    /// Those of every call.
    pub async fn own_nri(&self) -> Result<Option<String>, EngineError> {
        let quick = self.config.deadlines.quick;
        let call = Call::new("info", "", Method::GET, "/info", quick);
        let info: Info = self.http.json(&call).await?;
        if info.nri.is_null() {
            return Ok(None);
        }
        let mut words = Vec::new();
        collect(&info.nri, &mut words);
        Ok(Some(words.join(" ")))
    }
}

/// All texts of a value, in their order.
fn collect<'a>(value: &'a Value, words: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => words.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(members) => members.values().for_each(|item| collect(item, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
