//! The calls of [`Engine`].

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::http::{Call, encode, newest_api};
use super::logs::DockerLogs;
use super::{DockerEngine, answers, create, wire};
use crate::check;
use crate::container::{ContainerInfo, ContainerSummary};
use crate::engine::{Created, Engine, EngineFuture, ListFilter, RemoveOptions};
use crate::error::{EngineError, Missing};
use crate::event::{EventFilter, EventStream};
use crate::exec::{ExecInfo, ExecSpec};
use crate::exit::{ExitWait, WaitUntil};
use crate::image::ImageInfo;
use crate::log::{LogOptions, LogStream};
use crate::pull::{Pull, PullRequest};
use crate::spec::{ContainerSpec, Resources};
use crate::version::{ApiVersion, EngineKind, EngineVersion};

/// Most bytes of a list: some 10,000 containers.
const LIST: usize = 32 << 20;
const SUBJECT: &str = "id";

impl DockerEngine {
    fn quick(&self) -> Duration {
        self.config.deadlines.quick
    }

    fn slow(&self) -> Duration {
        self.config.deadlines.slow
    }

    /// A call about a container or an exec instance: `METHOD /KIND/ID/VERB`.
    pub(super) fn about(
        name: &'static str,
        id: &str,
        method: Method,
        (kind, verb): (&str, &str),
        deadline: Duration,
    ) -> Result<Call, EngineError> {
        if !check::is_id(id) {
            let reason = "is no id or name";
            return Err(check::invalid(SUBJECT, id, reason));
        }
        let verb = if verb.is_empty() {
            String::new()
        } else {
            format!("/{verb}")
        };
        Ok(Call::new(
            name,
            id,
            method,
            format!("/{kind}/{id}{verb}"),
            deadline,
        ))
    }

    /// A call about a container whose answer has no content.
    async fn order(
        &self,
        name: &'static str,
        id: &str,
        verb: &str,
        deadline: Duration,
    ) -> Result<(), EngineError> {
        let call = Self::about(name, id, Method::POST, ("containers", verb), deadline)?;
        self.http.whole(&call).await.map(drop)
    }

    async fn ask_version(&self) -> Result<EngineVersion, EngineError> {
        // What is asked is who is there now.
        self.http.forget();
        let call = Call::new("version", "", Method::GET, "/version", self.quick());
        let ask = async {
            let ping = self.http.exchange(&call, "/_ping").await?;
            let newest = newest_api(&ping.head.headers);
            let is_podman = ping.head.headers.contains_key("libpod-api-version");
            let api = self.http.api(&call).await?;
            let told: wire::Version = self.http.json(&call).await?;
            let names_podman =
                |part: &wire::Component| part.name.to_ascii_lowercase().contains("podman");
            let kind = if is_podman || told.components.iter().any(names_podman) {
                EngineKind::Podman
            } else {
                EngineKind::Docker
            };
            Ok(EngineVersion {
                version: told.version,
                api,
                newest_api: newest.unwrap_or(api),
                kind,
                os: told.os,
                arch: told.arch,
            })
        };
        let ended = tokio::time::timeout(call.deadline, ask).await;
        ended.unwrap_or_else(|_| Err(call.timeout()))
    }

    pub(super) async fn ask_image(&self, image: &str) -> Result<ImageInfo, EngineError> {
        check::texts("Image", [&image.to_owned()])?;
        let path = format!("/images/{}/json", encode(image, b"/:@"));
        let call = Call::new("inspect image", image, Method::GET, path, self.quick())
            .missing(Missing::Image);
        let info = answers::image(self.http.json(&call).await?);
        if info.id.is_empty() {
            return Err(call.undecodable("it holds no id"));
        }
        Ok(info)
    }

    async fn make(&self, spec: &ContainerSpec) -> Result<Created, EngineError> {
        let subject = spec.name.as_deref().unwrap_or(&spec.image);
        let path = "/containers/create";
        let mut call =
            Call::new("create", subject, Method::POST, path, self.slow()).missing(Missing::Image);
        if let Some(name) = &spec.name {
            call = call.query("name", name);
        }
        if let Some(platform) = &spec.platform {
            call = call.query("platform", platform);
        }
        let api = self.negotiated(&call).await?;
        let call = call.json(&create::body(spec, api)?);
        let made: wire::Created = self.http.json(&call).await?;
        if !check::is_id(&made.id) {
            return Err(call.undecodable("it holds no id"));
        }
        Ok(Created {
            id: made.id,
            warnings: made.warnings,
        })
    }

    async fn negotiated(&self, call: &Call) -> Result<ApiVersion, EngineError> {
        tokio::time::timeout(call.deadline, self.http.api(call))
            .await
            .unwrap_or_else(|_| Err(call.timeout()))
    }

    async fn subscribe(&self, id: &str, until: WaitUntil) -> Result<ExitWait, EngineError> {
        let call = Self::about(
            "wait",
            id,
            Method::POST,
            ("containers", "wait"),
            self.quick(),
        )?
        .query("condition", until.as_str());
        let answer = self.http.open(&call).await?;
        Ok(ExitWait::new(Box::pin(async move {
            let text = answer.body.whole(&call).await?;
            // An engine that is stopped closes what it holds open.
            if text.iter().all(u8::is_ascii_whitespace) {
                return Err(call.gone(None));
            }
            call.decode(&text).map(answers::exit)
        })))
    }

    async fn look(&self, id: &str) -> Result<ContainerInfo, EngineError> {
        let call = Self::about(
            "inspect",
            id,
            Method::GET,
            ("containers", "json"),
            self.quick(),
        )?;
        let text = self.http.whole(&call).await?;
        let info = answers::container(text.clone(), call.decode(&text)?);
        if info.id.is_empty() {
            return Err(call.undecodable("it holds no id"));
        }
        Ok(info)
    }

    async fn enumerate(&self, filter: &ListFilter) -> Result<Vec<ContainerSummary>, EngineError> {
        let mut filters = serde_json::Map::new();
        for (key, values) in [
            ("label", &filter.labels),
            ("name", &filter.names),
            ("id", &filter.ids),
        ] {
            if !values.is_empty() {
                filters.insert(key.to_owned(), json!(values));
            }
        }
        let mut call = Call::new("list", "", Method::GET, "/containers/json", self.quick())
            .query("all", if filter.all { "1" } else { "0" });
        call.limit = LIST;
        if !filters.is_empty() {
            call = call.query("filters", &serde_json::Value::Object(filters).to_string());
        }
        let told: Vec<wire::Summary> = self.http.json(&call).await?;
        if told.iter().any(|one| one.id.is_empty()) {
            return Err(call.undecodable("a container without an id"));
        }
        Ok(told.into_iter().map(answers::summary).collect())
    }

    async fn change(&self, id: &str, resources: &Resources) -> Result<Vec<String>, EngineError> {
        let body = create::update_body(resources)?;
        let call = Self::about(
            "update",
            id,
            Method::POST,
            ("containers", "update"),
            self.quick(),
        )?
        .json(&body);
        let told: wire::Warnings = self.http.json(&call).await?;
        Ok(told.warnings)
    }

    async fn open_logs(&self, id: &str, options: &LogOptions) -> Result<LogStream, EngineError> {
        let flag = |value: bool| if value { "1" } else { "0" };
        let mut call = Self::about(
            "logs",
            id,
            Method::GET,
            ("containers", "logs"),
            self.quick(),
        )?
        .query("stdout", flag(options.stdout))
        .query("stderr", flag(options.stderr))
        .query("follow", flag(options.follow))
        .query("timestamps", flag(options.timestamps));
        if let Some(since) = options.since {
            call = call.query("since", &since.to_string());
        }
        if let Some(tail) = options.tail {
            call = call.query("tail", &tail.to_string());
        }
        // Older engines do not say whether the stream is framed, and Podman says so of one that is not.
        let raw = self.look(id).await?.tty;
        let answer = self.http.open(&call).await?;
        Ok(LogStream::docker(DockerLogs::new(call, answer.body, raw)))
    }

    async fn prepare(&self, id: &str, spec: &ExecSpec) -> Result<String, EngineError> {
        check::exec(spec)?;
        let mut body = json!({
            "AttachStdout": true,
            "AttachStderr": true,
            "Cmd": spec.cmd,
            "Env": create::env(&spec.env),
            "Privileged": spec.privileged,
        });
        if let Some(user) = &spec.user {
            body["User"] = json!(user);
        }
        if let Some(directory) = &spec.working_dir {
            body["WorkingDir"] = json!(directory);
        }
        let call = Self::about(
            "exec",
            id,
            Method::POST,
            ("containers", "exec"),
            self.quick(),
        )?
        .json(&body);
        let made: wire::ExecCreated = self.http.json(&call).await?;
        if !check::is_id(&made.id) {
            return Err(call.undecodable("it holds no id"));
        }
        Ok(made.id)
    }

    async fn run(&self, exec: &str) -> Result<LogStream, EngineError> {
        let call = Self::about(
            "exec start",
            exec,
            Method::POST,
            ("exec", "start"),
            self.quick(),
        )?
        .json(&json!({"Detach": false, "Tty": false}))
        .missing(Missing::Exec);
        let answer = self.http.open(&call).await?;
        Ok(LogStream::docker(DockerLogs::new(call, answer.body, false)))
    }

    async fn look_at_exec(&self, exec: &str) -> Result<ExecInfo, EngineError> {
        let call = Self::about(
            "exec inspect",
            exec,
            Method::GET,
            ("exec", "json"),
            self.quick(),
        )?
        .missing(Missing::Exec);
        Ok(answers::exec(self.http.json(&call).await?))
    }
}

impl Engine for DockerEngine {
    fn version(&self) -> EngineFuture<'_, EngineVersion> {
        Box::pin(self.ask_version())
    }

    fn pull(&self, request: PullRequest) -> Pull {
        let engine = self.clone();
        self.pulls.join(request, |request, progress| {
            super::pull::pull(engine, request, progress)
        })
    }

    fn inspect_image<'a>(&'a self, image: &'a str) -> EngineFuture<'a, ImageInfo> {
        Box::pin(self.ask_image(image))
    }

    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> EngineFuture<'a, Created> {
        Box::pin(self.make(spec))
    }

    fn start<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(self.order("start", id, "start", self.slow()))
    }

    fn wait<'a>(&'a self, id: &'a str, until: WaitUntil) -> EngineFuture<'a, ExitWait> {
        Box::pin(self.subscribe(id, until))
    }

    fn kill<'a>(&'a self, id: &'a str, signal: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let good = |byte: u8| byte.is_ascii_alphanumeric() || b"+-".contains(&byte);
            if signal.is_empty() || signal.len() > 20 || !signal.bytes().all(good) {
                return Err(check::invalid("signal", signal, "is no signal"));
            }
            let call = Self::about(
                "kill",
                id,
                Method::POST,
                ("containers", "kill"),
                self.quick(),
            )?
            .query("signal", signal);
            self.http.whole(&call).await.map(drop)
        })
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let grace = create::whole_seconds(grace);
            let deadline = self
                .config
                .deadlines
                .stop
                .saturating_add(Duration::from_secs(grace));
            let call = Self::about("stop", id, Method::POST, ("containers", "stop"), deadline)?
                .query("t", &grace.to_string());
            self.http.whole(&call).await.map(drop)
        })
    }

    fn pause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(self.order("pause", id, "pause", self.quick()))
    }

    fn unpause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(self.order("unpause", id, "unpause", self.quick()))
    }

    fn remove<'a>(&'a self, id: &'a str, options: RemoveOptions) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let flag = |value: bool| if value { "1" } else { "0" };
            let call = Self::about(
                "remove",
                id,
                Method::DELETE,
                ("containers", ""),
                self.slow(),
            )?
            .query("force", flag(options.force))
            .query("v", flag(options.volumes));
            self.http.whole(&call).await.map(drop)
        })
    }

    fn inspect<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ContainerInfo> {
        Box::pin(self.look(id))
    }

    fn list<'a>(&'a self, filter: &'a ListFilter) -> EngineFuture<'a, Vec<ContainerSummary>> {
        Box::pin(self.enumerate(filter))
    }

    fn update<'a>(
        &'a self,
        id: &'a str,
        resources: &'a Resources,
    ) -> EngineFuture<'a, Vec<String>> {
        Box::pin(self.change(id, resources))
    }

    fn logs<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> EngineFuture<'a, LogStream> {
        Box::pin(self.open_logs(id, options))
    }

    fn events<'a>(&'a self, filter: &'a EventFilter) -> EngineFuture<'a, EventStream> {
        Box::pin(async move {
            let opened = super::events::DockerEvents::open(self.http.clone(), filter).await?;
            Ok(EventStream::docker(opened))
        })
    }

    fn exec_create<'a>(&'a self, id: &'a str, spec: &'a ExecSpec) -> EngineFuture<'a, String> {
        Box::pin(self.prepare(id, spec))
    }

    fn exec_start<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, LogStream> {
        Box::pin(self.run(exec))
    }

    fn exec_inspect<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, ExecInfo> {
        Box::pin(self.look_at_exec(exec))
    }
}
