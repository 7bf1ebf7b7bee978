//! The two sides of a comparison: our adaptation and Go's, each with its plugins in processes of their own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longshore_bench::nri::{plugin_index, plugin_name, subject};
use longshore_bench::{Failure, Samples};
use longshore_nri_adaptation::{Adaptation, RequestOptions};
use longshore_testkit::lines::LinePeer;
use longshore_testkit::{interop, peers};
use tokio::task::JoinSet;

use crate::host::{self, Node, Synchronized};
use crate::process::Role;

pub(crate) const CREATE: &str = "CreateContainer";
pub(crate) const START: &str = "StartContainer";
/// Go's processes, and processor time, are measured in turns of this many requests.
pub(crate) const TURN: usize = 100;

/// Our adaptation with its plugins.
pub(crate) struct Ours {
    pub(crate) adaptation: Adaptation,
    /// Ended with this.
    _roles: Vec<Role>,
    _go: Vec<LinePeer>,
    pub(crate) pids: Vec<u32>,
}

/// Go's adaptation with its plugins.
pub(crate) struct Theirs {
    runtime: LinePeer,
    plugins: Vec<LinePeer>,
}

/// The programs in Go.
pub(crate) struct Programs {
    plugin: PathBuf,
    runtime: PathBuf,
}

impl Programs {
    pub(crate) fn build() -> Option<Self> {
        let go = peers::go()?;
        Some(Self {
            plugin: interop::program(&go, "nri-plugin"),
            runtime: interop::program(&go, "nri-runtime"),
        })
    }

    async fn plugins(&self, socket: &Path, count: usize) -> Vec<LinePeer> {
        let mut plugins = Vec::new();
        for nth in 0..count {
            let (name, index) = (plugin_name(nth), plugin_index(nth));
            let spec = subject::go_spec(&name).to_string();
            let arguments = ["-index", &index, "-name", &name, "-spec", &spec, "-socket"];
            let arguments = arguments.map(str::to_owned).into_iter();
            let socket = socket.display().to_string();
            plugins.push(LinePeer::start(&self.plugin, arguments.chain([socket])));
        }
        for plugin in &mut plugins {
            plugin.event("started").await;
        }
        plugins
    }
}

impl Ours {
    pub(crate) async fn with_rust(dir: &Path, count: usize) -> Result<Self, Failure> {
        let socket = dir.join(format!("rust{count}.sock"));
        let adaptation = host::start(&socket, Node::default(), Synchronized::default()).await?;
        let mut roles = Vec::new();
        for nth in 0..count {
            roles.push(Role::plugins(&socket, nth, 1)?);
        }
        host::active(&adaptation, count).await?;
        let pids = roles.iter().map(Role::pid).collect();
        Ok(Self {
            adaptation,
            _roles: roles,
            _go: Vec::new(),
            pids,
        })
    }

    pub(crate) async fn with_go(dir: &Path, programs: &Programs) -> Result<Self, Failure> {
        let socket = dir.join("go1.sock");
        let adaptation = host::start(&socket, Node::default(), Synchronized::default()).await?;
        let go = programs.plugins(&socket, 1).await;
        host::active(&adaptation, 1).await?;
        let pids = go.iter().filter_map(LinePeer::pid).collect();
        Ok(Self {
            adaptation,
            _roles: Vec::new(),
            _go: go,
            pids,
        })
    }

    pub(crate) async fn create(&self, n: usize, samples: &mut Samples) -> Result<(), Failure> {
        let options = RequestOptions::default();
        for _ in 0..n {
            let request = subject::request(0);
            let begin = Instant::now();
            let created = self.adaptation.create_container(request, &options).await?;
            samples.push(begin.elapsed());
            drop(created);
        }
        Ok(())
    }

    pub(crate) async fn state(&self, samples: &mut Samples) -> Result<(), Failure> {
        let options = RequestOptions::default();
        let (pod, container) = (subject::pod(0), subject::container(0));
        for _ in 0..TURN {
            let begin = Instant::now();
            self.adaptation
                .start_container(&pod, &container, &options)
                .await?;
            samples.push(begin.elapsed());
        }
        Ok(())
    }

    /// The time that `n` requests for eight pods take.
    pub(crate) async fn parallel(&self, n: usize) -> Result<Duration, Failure> {
        let mut tasks = JoinSet::new();
        let begin = Instant::now();
        for worker in 0..PARALLEL {
            let adaptation = self.adaptation.clone();
            tasks.spawn(async move {
                let options = RequestOptions::default();
                for _ in 0..n / PARALLEL {
                    let request = subject::request(worker);
                    adaptation.create_container(request, &options).await?;
                }
                Ok::<_, longshore_nri_adaptation::RequestError>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(begin.elapsed())
    }
}

const PARALLEL: usize = 8;

impl Theirs {
    pub(crate) async fn with(dir: &Path, programs: &Programs, count: usize) -> Self {
        let socket = dir.join(format!("theirs{count}.sock"));
        let path = socket.display().to_string();
        let more = ["-quiet", "-request-timeout", "60s", "-socket", &path];
        let mut runtime = LinePeer::start(&programs.runtime, more);
        runtime.event("started").await;
        let plugins = programs.plugins(&socket, count).await;
        let wait = serde_json::json!({"op": "wait", "plugins": count});
        runtime.done(&wait).await;
        Self { runtime, plugins }
    }

    pub(crate) async fn bench(&mut self, what: &str, samples: &mut Samples) -> Result<(), Failure> {
        let measured = self.runtime.done(&subject::go_bench(what, TURN, 1)).await;
        let times = measured["ns"].as_array().ok_or("no times")?;
        for time in times {
            samples.push(Duration::from_nanos(time.as_u64().ok_or("no time")?));
        }
        Ok(())
    }

    pub(crate) async fn parallel(&mut self, n: usize) -> Result<Duration, Failure> {
        let command = subject::go_bench(CREATE, n, PARALLEL);
        let measured = self.runtime.done(&command).await;
        let elapsed = measured["elapsed"].as_u64().ok_or("no time")?;
        Ok(Duration::from_nanos(elapsed))
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        let peers = self.plugins.iter().chain([&self.runtime]);
        peers.filter_map(LinePeer::pid).collect()
    }
}
