//! Bench: tasks of the docker executor, beside the same calls of the engine bare.
//!
//! Needs a Docker engine with the test image, as `cargo xtask bench docker` starts one, or that of
//! `LONGSHORE_TEST_DOCKER`.

mod executor;
mod life;
mod many;
mod output;
mod stopwatch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use longshore_bench::{Failure, Options, Report};
use longshore_docker_executor::{Executor, ExecutorOptions, Launch};
use longshore_engine::spec::LogDriver;
use longshore_engine::{ContainerSpec, DockerConfig, DockerEngine};
use longshore_mesos_api::v1::container_info::docker_info::Network;
use longshore_mesos_api::v1::container_info::{DockerInfo, Type};
use longshore_mesos_api::v1::{AgentId, CommandInfo, ContainerInfo, TaskId, TaskInfo};
use longshore_task_spec::Sandbox;
use longshore_testkit::peers::{self, TEST_IMAGE};

use stopwatch::Stopwatch;

/// An engine, an executor on it, and a place for sandboxes.
pub(crate) struct Bench {
    pub(crate) socket: PathBuf,
    pub(crate) engine: DockerEngine,
    pub(crate) watch: Arc<Stopwatch>,
    pub(crate) executor: Executor,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new(socket: PathBuf) -> Result<Self, Failure> {
        let mut config = DockerConfig::new(format!("unix://{}", socket.display()).parse()?);
        config.client_config = None;
        let engine = DockerEngine::new(config);
        let watch = Arc::new(Stopwatch::new(engine.clone()));
        let dir = tempfile::Builder::new().prefix("ln-").tempdir_in("/tmp")?;
        let options = ExecutorOptions::new(dir.path().join("state"), "bench");
        let executor = Executor::new(Arc::clone(&watch) as Arc<_>, options)?;
        Ok(Self {
            socket,
            engine,
            watch,
            executor,
            dir,
        })
    }

    /// A task that runs `command` by a shell, with a sandbox of its own.
    pub(crate) fn launch(&self, id: &str, command: &str) -> Result<Launch, Failure> {
        let sandbox = self.dir.path().join("sandboxes").join(id);
        std::fs::create_dir_all(&sandbox)?;
        let mut launch = Launch::new(TaskInfo {
            name: id.to_owned(),
            task_id: TaskId {
                value: id.to_owned(),
            },
            agent_id: AgentId::default(),
            command: Some(CommandInfo {
                value: Some(command.to_owned()),
                ..CommandInfo::default()
            }),
            container: Some(ContainerInfo {
                r#type: Type::Docker.into(),
                docker: Some(DockerInfo {
                    image: TEST_IMAGE.to_owned(),
                    network: Some(Network::Host.into()),
                    ..DockerInfo::default()
                }),
                ..ContainerInfo::default()
            }),
            ..TaskInfo::default()
        });
        launch.sandbox = Some(Sandbox {
            host: sandbox.display().to_string(),
            mapped: "/mnt/mesos/sandbox".to_owned(),
        });
        Ok(launch)
    }

    /// The same container, for the engine alone.
    pub(crate) fn spec(&self, command: &str) -> ContainerSpec {
        ContainerSpec {
            image: TEST_IMAGE.to_owned(),
            entrypoint: Some(vec!["/bin/sh".to_owned()]),
            cmd: Some(vec!["-c".to_owned(), command.to_owned()]),
            network: longshore_engine::NetworkMode::Host,
            // As a task has it.
            log: Some(LogDriver {
                driver: "local".to_owned(),
                options: [
                    ("max-size", "64m"),
                    ("max-file", "4"),
                    ("compress", "false"),
                ]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            }),
            ..ContainerSpec::default()
        }
    }

    pub(crate) fn sandbox(&self, id: &str) -> PathBuf {
        self.dir.path().join("sandboxes").join(id)
    }
}

fn main() -> ExitCode {
    let Ok(options) = Options::from_args("bench-docker") else {
        return ExitCode::from(2);
    };
    let mut report = Report::new("docker", options);
    let Some(socket) = peers::docker() else {
        report
            .note("no Docker engine: set LONGSHORE_TEST_DOCKER, or use `cargo xtask bench docker`");
        return ExitCode::FAILURE;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = runtime.map_err(Failure::from).and_then(|runtime| {
        let outcome = runtime.block_on(async {
            let bench = Bench::new(socket)?;
            executor::measure(&mut report, &bench).await?;
            life::measure(&mut report, &bench).await?;
            life::running(&mut report, &bench).await?;
            life::kills(&mut report, &bench).await?;
            output::measure(&mut report, &bench).await?;
            many::measure(&mut report, &bench).await
        });
        runtime.shutdown_timeout(Duration::from_secs(1));
        outcome
    });
    match outcome {
        Ok(()) => report.finish(),
        Err(error) => {
            report.note(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}
