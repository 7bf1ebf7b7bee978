//! The embedded agent with containers of images, on a real Docker.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_agent::images::ImageRuntime;
use longshore_agent::service::{
    ContainerService as _, LaunchError, LaunchErrorKind, LaunchRequest, Launched, NotFound, Output,
    Phase,
};
use longshore_agent::{AgentOptions, Containers, ShimCommand};
use longshore_engine::{
    ContainerSummary, DockerConfig, DockerEngine, Engine as _, ListFilter, RemoveOptions,
};
use longshore_image_containers::{ImageContainers, ImageOptions};
use longshore_mesos_api::v1::container_info::docker_info::Network;
use longshore_mesos_api::v1::container_info::{DockerInfo, MesosInfo, Type};
use longshore_mesos_api::v1::volume::source::{HostPath, Type as SourceType};
use longshore_mesos_api::v1::{
    CommandInfo, ContainerInfo, Image, MountPropagation, Parameter, Resource, Volume, image,
    mount_propagation, value, volume,
};
use longshore_paths::ContainerId;
use longshore_sandbox::Rotation;
use longshore_testkit::peers::{self, TEST_IMAGE};
use tokio::time::timeout;

/// Long enough for a busy machine; no test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A root of an agent, and an engine.
struct Bed {
    engine: DockerEngine,
    root: tempfile::TempDir,
}

impl Bed {
    fn new() -> Option<Self> {
        let socket = peers::docker()?;
        let mut config = DockerConfig::new(format!("unix://{}", socket.display()).parse().unwrap());
        config.client_config = None;
        config.deadlines.quick = PATIENCE;
        config.deadlines.slow = PATIENCE;
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        Some(Self {
            engine: DockerEngine::new(config),
            root,
        })
    }

    /// An agent on this root. Dropping it is what its death is to its containers.
    async fn agent(&self) -> Containers {
        let state = self.root.path().join("state");
        let mut options = AgentOptions::new(
            &state,
            self.root.path().join("run"),
            self.root.path().join("socket/agent.sock"),
            ShimCommand::new("/bin/false", [""; 0]),
        );
        let images = ImageContainers::new(
            Arc::new(self.engine.clone()),
            ImageOptions {
                state_dir: state.join("images"),
                rotation: Rotation {
                    max_bytes: 1 << 20,
                    keep: 1,
                },
                patience: Duration::from_secs(3),
            },
        );
        options.images = Some(Arc::new(images.unwrap()) as Arc<dyn ImageRuntime>);
        Containers::start(&options).await.unwrap()
    }

    /// The containers of this root that the engine has.
    async fn in_engine(&self) -> Vec<ContainerSummary> {
        let root = self.root.path().join("state/images");
        let label = format!("dev.longshore.root={}", root.display());
        let listed = self.engine.list(&ListFilter::labelled([label])).await;
        listed.unwrap()
    }

    async fn nothing_is_left(&self) {
        while !self.in_engine().await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn clean(self) {
        for container in self.in_engine().await {
            let options = RemoveOptions {
                force: true,
                volumes: true,
            };
            let _gone = self.engine.remove(&container.id, options).await;
        }
    }

    fn sandbox(&self, name: &str) -> PathBuf {
        self.root.path().join("state/containers").join(name)
    }
}

fn id(name: &str) -> ContainerId {
    name.parse().unwrap()
}

fn shell(command: &str) -> CommandInfo {
    CommandInfo {
        value: Some(command.to_owned()),
        ..CommandInfo::default()
    }
}

fn docker(name: &str) -> ContainerInfo {
    ContainerInfo {
        r#type: Type::Docker.into(),
        docker: Some(DockerInfo {
            image: name.to_owned(),
            network: Some(Network::Host.into()),
            ..DockerInfo::default()
        }),
        ..ContainerInfo::default()
    }
}

fn mesos(name: &str) -> ContainerInfo {
    ContainerInfo {
        r#type: Type::Mesos.into(),
        mesos: Some(MesosInfo {
            image: Some(Image {
                r#type: image::Type::Docker.into(),
                docker: Some(image::Docker {
                    name: name.to_owned(),
                    ..image::Docker::default()
                }),
                ..Image::default()
            }),
        }),
        ..ContainerInfo::default()
    }
}

fn request(name: &str, command: CommandInfo, container: ContainerInfo) -> LaunchRequest {
    LaunchRequest {
        id: id(name),
        command: Some(command),
        container: Some(container),
        resources: Vec::new(),
        limits: BTreeMap::new(),
    }
}

async fn exit(agent: &Containers, name: &str) -> longshore_agent::service::ExitInfo {
    let id = id(name);
    timeout(PATIENCE, agent.wait(&id)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_container_of_an_image_runs_writes_and_ends() {
    let Some(bed) = Bed::new() else { return };
    let agent = bed.agent().await;
    for (name, container) in [("docker", docker(TEST_IMAGE)), ("mesos", mesos(TEST_IMAGE))] {
        let command = shell("echo out; echo err >&2; echo kept > $MESOS_SANDBOX/file; exit 3");
        let launched = agent.launch(request(name, command, container)).await;
        assert_eq!(launched, Ok(Launched::New));
        let ended = exit(&agent, name).await;
        assert_eq!(
            (ended.status, ended.reason),
            (Some(3 << 8), None),
            "{ended:?}"
        );
        for (stream, text) in [("stdout", "out\n"), ("stderr", "err\n")] {
            let output = Output::parse(&format!("/containers/{name}/{stream}")).unwrap();
            let read = agent.read(&output, 0, 1024).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&read.data), text, "{name}");
        }
        let kept = std::fs::read_to_string(bed.sandbox(name).join("file")).unwrap();
        assert_eq!(kept, "kept\n");
        agent.remove(&id(name)).await.unwrap();
        assert!(!bed.sandbox(name).exists());
        assert_eq!(agent.wait(&id(name)).await, Err(NotFound));
    }
    bed.nothing_is_left().await;
    agent.shutdown().await;
    bed.clean().await;
}

#[tokio::test]
async fn kills_are_answered_as_for_processes() {
    let Some(bed) = Bed::new() else { return };
    let agent = bed.agent().await;
    let deaf = "trap '' TERM; trap 'exit 7' USR1; echo up; while :; do sleep 0.1; done";
    for (name, signals, status) in [("usr1", vec![10], 7 << 8), ("deaf", vec![15, 9], 9)] {
        let launched = agent
            .launch(request(name, shell(deaf), docker(TEST_IMAGE)))
            .await;
        assert_eq!(launched, Ok(Launched::New));
        let output = Output::parse(&format!("/containers/{name}/stdout")).unwrap();
        while !agent
            .read(&output, 0, 64)
            .await
            .is_ok_and(|read| read.data == b"up\n")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let view = agent
            .list()
            .into_iter()
            .find(|view| view.id == id(name))
            .unwrap();
        assert_eq!(view.phase, Phase::Running);
        assert!(std::fs::exists(format!("/proc/{}", view.pid.unwrap())).unwrap());
        for signal in signals {
            agent.kill(&id(name), signal).await.unwrap();
        }
        assert_eq!(exit(&agent, name).await.status, Some(status), "{name}");
    }
    bed.nothing_is_left().await;
    agent.shutdown().await;
    bed.clean().await;
}

#[tokio::test]
async fn what_cannot_run_says_so_and_leaves_nothing() {
    let Some(bed) = Bed::new() else { return };
    let agent = bed.agent().await;
    let missing = request(
        "missing",
        shell("true"),
        docker("localhost/no-such-image:v1"),
    );
    let refused: LaunchError = agent.launch(missing).await.unwrap_err();
    assert!(refused.message.contains("no-such-image"), "{refused}");
    let mut unknown = docker(TEST_IMAGE);
    unknown.docker.as_mut().unwrap().network = Some(Network::User.into());
    let refused = agent
        .launch(request("network", shell("true"), unknown))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, LaunchErrorKind::BadRequest, "{refused}");
    assert!(agent.list().is_empty());
    assert!(!bed.sandbox("missing").exists() && !bed.sandbox("network").exists());

    // A program that is not there is no failure of the launch.
    let absent = CommandInfo {
        value: Some("/no/such/program".to_owned()),
        shell: Some(false),
        ..CommandInfo::default()
    };
    let launched = agent
        .launch(request("absent", absent, docker(TEST_IMAGE)))
        .await;
    assert_eq!(launched, Ok(Launched::New));
    assert_eq!(exit(&agent, "absent").await.status, Some(127 << 8));
    bed.nothing_is_left().await;
    agent.shutdown().await;
    bed.clean().await;
}

#[tokio::test]
async fn containers_outlive_the_agent_and_are_taken_over() {
    let Some(bed) = Bed::new() else { return };
    let agent = bed.agent().await;
    for (name, command) in [
        (
            "lives",
            "echo first; while ! test -e $MESOS_SANDBOX/go; do sleep 0.1; done; echo last",
        ),
        (
            "ends",
            "while ! test -e $MESOS_SANDBOX/go; do sleep 0.1; done; exit 4",
        ),
    ] {
        let launched = agent
            .launch(request(name, shell(command), docker(TEST_IMAGE)))
            .await;
        assert_eq!(launched, Ok(Launched::New));
    }
    drop(agent);
    std::fs::write(bed.sandbox("ends").join("go"), "").unwrap();
    while bed.in_engine().await.iter().any(|one| {
        one.status != longshore_engine::ContainerStatus::Exited
            && one.labels["dev.longshore.task"] == "ends"
    }) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let agent = bed.agent().await;
    // It ended while nobody watched.
    assert_eq!(exit(&agent, "ends").await.status, Some(4 << 8));
    let again = request("lives", shell("true"), docker(TEST_IMAGE));
    assert_eq!(agent.launch(again).await, Ok(Launched::AlreadyPresent));
    std::fs::write(bed.sandbox("lives").join("go"), "").unwrap();
    assert_eq!(exit(&agent, "lives").await.status, Some(0));
    let output = std::fs::read_to_string(bed.sandbox("lives").join("stdout")).unwrap();
    assert_eq!(output, "first\nlast\n");
    drop(agent);

    // An exit is kept over one more start.
    let agent = bed.agent().await;
    assert_eq!(exit(&agent, "lives").await.status, Some(0));
    agent.remove(&id("lives")).await.unwrap();
    agent.remove(&id("ends")).await.unwrap();
    bed.nothing_is_left().await;
    agent.shutdown().await;
    let agent = bed.agent().await;
    // The records went a moment after the answer; until then it is known still.
    while agent.wait(&id("lives")).await.is_ok() {
        agent.remove(&id("lives")).await.unwrap();
    }
    agent.shutdown().await;
    bed.clean().await;
}

#[tokio::test]
async fn a_memory_limit_has_its_reason() {
    let Some(bed) = Bed::new() else { return };
    let agent = bed.agent().await;
    let mut greedy = request(
        "greedy",
        shell("head -c 200m /dev/zero | tail > /dev/null"),
        docker(TEST_IMAGE),
    );
    greedy.resources = vec![Resource {
        name: "mem".to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value: 32.0 }),
        ..Resource::default()
    }];
    assert_eq!(agent.launch(greedy).await, Ok(Launched::New));
    let view = agent.list().pop();
    assert!(view.is_none_or(|view| view.mem_limit_bytes == Some(32 << 20)));
    let ended = exit(&agent, "greedy").await;
    // The kernel may kill a child of the shell only, which then exits by itself.
    let by_the_limit = matches!(
        ended.reason,
        Some(longshore_agent::service::ExitReason::MemoryLimit { limit_bytes }) if limit_bytes == 32 << 20
    );
    assert!(
        by_the_limit || ended.status == Some(137 << 8) || ended.status == Some(9),
        "{ended:?}"
    );
    agent.shutdown().await;
    bed.clean().await;
}

#[tokio::test]
async fn mounts_in_a_shared_volume_are_seen_outside() {
    let (Some(bed), Some(())) = (Bed::new(), peers::root()) else {
        return;
    };
    let agent = bed.agent().await;
    let shared = bed.root.path().join("mounts");
    let mut container = docker(TEST_IMAGE);
    // A privileged one would need every capability of the host, which not every host has.
    container.docker.as_mut().unwrap().parameters = [
        ("cap-add", "SYS_ADMIN"),
        ("security-opt", "apparmor=unconfined"),
    ]
    .map(|(key, value)| Parameter {
        key: key.to_owned(),
        value: value.to_owned(),
    })
    .into();
    container.volumes = vec![Volume {
        mode: volume::Mode::Rw.into(),
        container_path: "/mounts".to_owned(),
        source: Some(volume::Source {
            r#type: Some(SourceType::HostPath.into()),
            host_path: Some(HostPath {
                path: shared.display().to_string(),
                mount_propagation: Some(MountPropagation {
                    mode: Some(mount_propagation::Mode::Bidirectional.into()),
                }),
            }),
            ..volume::Source::default()
        }),
        ..Volume::default()
    }];
    let command = shell(
        "mkdir -p /mounts/m; mount -t tmpfs none /mounts/m; echo inside > /mounts/m/file; \
         while ! test -e /mounts/done; do sleep 0.1; done; umount /mounts/m",
    );
    assert_eq!(
        agent.launch(request("mounter", command, container)).await,
        Ok(Launched::New)
    );
    let file = shared.join("m/file");
    let seen = async {
        while std::fs::read_to_string(&file).ok().as_deref() != Some("inside\n") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, seen).await.unwrap();
    std::fs::write(shared.join("done"), "").unwrap();
    assert_eq!(exit(&agent, "mounter").await.status, Some(0));
    agent.shutdown().await;
    let _unmounted = nix_umount(&shared);
    bed.clean().await;
}

/// The volume was made a mount of itself; the temporary directory goes only without it.
fn nix_umount(path: &std::path::Path) -> std::process::ExitStatus {
    std::process::Command::new("umount")
        .arg("-l")
        .arg(path)
        .status()
        .unwrap()
}
