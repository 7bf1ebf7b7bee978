//! The demo's task, where an engine answers: a container of the host's own programs, so that nothing is pulled.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use longshore_control_api::v1::{
    RunTaskRequest, Task, TaskLogsRequest, TaskPhase, WatchTaskRequest,
};
use longshore_engine::{DockerConfig, DockerEngine, EngineEndpoint};
use longshore_mesos_api::v1 as mesos;
use longshore_supervisor::{Config, Flags, Sources};
use prost::Message as _;

use crate::control::{call, refused};
use crate::local_tasks::LocalTasks;
use crate::output::{Out, Tone};
use crate::verbs::task::client;

const REPOSITORY: &str = "longshore-demo";
const IMAGE: &str = "longshore-demo:latest";
/// What the image, which is empty, needs of this host to run a shell.
const PROGRAMS: [&str; 5] = ["/bin", "/lib", "/lib32", "/lib64", "/usr"];
const SCRIPT: &str = "echo \"hello from a container, with $(ls / | wc -l) directories\"";
const GRACE: Duration = Duration::from_secs(2);

/// What is to be removed in the end.
#[derive(Debug, Default)]
pub(super) struct DemoTask {
    tasks: Option<LocalTasks>,
    image: Option<(DockerEngine, String)>,
}

impl DemoTask {
    /// Runs it. An engine that is not there, or cannot run it, is told and is no failure.
    pub(super) async fn show(&mut self, out: &mut Out) -> Result<()> {
        match self.run(out).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let why = format!("no task: {error:#}");
                out.line(format_args!("  {}", out.paint(Tone::Dim, &why)))?;
                let how = "with Docker on this machine (Debian: apt-get install docker.io) the demo runs one in a container";
                out.line(format_args!("  {}", out.paint(Tone::Dim, how)))?;
                Ok(out.flush()?)
            }
        }
    }

    async fn run(&mut self, out: &mut Out) -> Result<()> {
        let settings = Config::load(&Sources::of_process(None, Flags::default()), None)?.tasks;
        let tasks = self.tasks.insert(LocalTasks::with(&settings).await?);
        let endpoint = EngineEndpoint::parse(tasks.engine(), "the engine")?;
        let engine = DockerEngine::new(DockerConfig::new(endpoint));
        // Of a demo that was killed.
        engine.remove_image(IMAGE).await?;
        // The end of a tar archive, and nothing before it.
        let nothing = vec![0; 1024];
        let id = engine
            .import_image(REPOSITORY, "latest", nothing.into())
            .await?;
        self.image = Some((engine, id));
        let container = format!("longshore-demo-{}", std::process::id());
        tasks.watch(&container, Some(GRACE));
        let mut client = client(tasks.channel().await?);
        let request = RunTaskRequest {
            task_info: info().encode_to_vec(),
            container_name: container.clone(),
            ..RunTaskRequest::default()
        };
        let id = call(client.run_task(request)).await?.id;
        let mut changes = call(client.watch_task(WatchTaskRequest { id: id.clone() })).await?;
        let mut told_running = false;
        let ended: Task = loop {
            let change = changes.message().await.map_err(|status| refused(&status))?;
            let task = change.context("the task was forgotten")?;
            let runs = matches!(task.phase(), TaskPhase::Running | TaskPhase::Ended);
            if runs && !std::mem::replace(&mut told_running, true) {
                super::step(out, "started", &format!("task {id}: container {container}"))?;
            }
            if task.phase() == TaskPhase::Ended {
                break task;
            }
        };
        let request = TaskLogsRequest {
            id: id.clone(),
            follow: true,
            tail_lines: None,
        };
        let mut chunks = call(client.task_logs(request)).await?;
        let mut said = Vec::new();
        while let Some(chunk) = chunks.message().await.map_err(|status| refused(&status))? {
            said.extend_from_slice(&chunk.data);
        }
        let said = String::from_utf8_lossy(&said);
        if ended.ending != "exited" || ended.exit_code != 0 {
            bail!("the task ended so: {} {}", ended.message, said.trim_end());
        }
        let told = format!("task {id}: {:?}, exit status 0", said.trim_end());
        super::step(out, "ended", &told)
    }

    /// Removes what there is. Also after an interrupt.
    pub(super) async fn end(self) -> Result<()> {
        let ended = match self.tasks {
            Some(tasks) => tasks.end().await,
            None => Ok(()),
        };
        if let Some((engine, id)) = self.image {
            engine.remove_image(&id).await?;
        }
        ended
    }
}

fn info() -> mesos::TaskInfo {
    let volumes = PROGRAMS.iter().filter(|path| Path::new(path).is_dir());
    let volumes = volumes.map(|path| mesos::Volume {
        mode: mesos::volume::Mode::Ro.into(),
        container_path: (*path).to_owned(),
        host_path: Some((*path).to_owned()),
        ..Default::default()
    });
    mesos::TaskInfo {
        name: "hello".to_owned(),
        task_id: mesos::TaskId {
            value: "hello".to_owned(),
        },
        command: Some(mesos::CommandInfo {
            value: Some(SCRIPT.to_owned()),
            ..Default::default()
        }),
        container: Some(mesos::ContainerInfo {
            r#type: mesos::container_info::Type::Docker.into(),
            volumes: volumes.collect(),
            docker: Some(mesos::container_info::DockerInfo {
                image: IMAGE.to_owned(),
                network: Some(mesos::container_info::docker_info::Network::None.into()),
                parameters: vec![mesos::Parameter {
                    key: "pull".to_owned(),
                    value: "never".to_owned(),
                }],
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}
