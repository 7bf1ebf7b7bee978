//! Containers of images, with a runtime that does what a test tells it: what the agent makes of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use longshore_agent::images::{FoundImage, ImageContainer, ImageFuture, ImageOrder, ImageRuntime};
use longshore_agent::service::{
    ContainerService as _, ExitInfo, KillError, LaunchError, LaunchErrorKind, LaunchRequest,
    Launched, NotFound, Phase,
};
use longshore_mesos_api::v1::container_info::{DockerInfo, MesosInfo, Type};
use longshore_mesos_api::v1::{ContainerInfo, Image, image};
use tokio::sync::watch;

use super::{Node, id, request, shell, with_container};

/// A container that starts, fails and ends when a test says so.
#[derive(Debug)]
struct Puppet {
    started: watch::Sender<Option<Result<Option<u32>, LaunchError>>>,
    exit: watch::Sender<Option<ExitInfo>>,
    signals: Mutex<Vec<i32>>,
    forgotten: watch::Sender<bool>,
}

impl Default for Puppet {
    fn default() -> Self {
        Self {
            started: watch::Sender::new(None),
            exit: watch::Sender::new(None),
            signals: Mutex::default(),
            forgotten: watch::Sender::new(false),
        }
    }
}

impl Puppet {
    fn start(&self, pid: Option<u32>) {
        self.started.send_replace(Some(Ok(pid)));
    }

    fn end(&self, status: i32) {
        self.exit.send_replace(Some(exited(status)));
    }

    fn signals(&self) -> Vec<i32> {
        self.signals.lock().unwrap().clone()
    }
}

fn exited(status: i32) -> ExitInfo {
    ExitInfo {
        status: Some(status),
        ..ExitInfo::default()
    }
}

impl ImageContainer for Puppet {
    fn started(&self) -> ImageFuture<'_, Result<Option<u32>, LaunchError>> {
        let mut started = self.started.subscribe();
        Box::pin(async move {
            let known = started.wait_for(Option::is_some).await.unwrap();
            known.clone().unwrap()
        })
    }

    fn signal(&self, signal: i32) {
        self.signals.lock().unwrap().push(signal);
    }

    fn ended(&self) -> ImageFuture<'_, ExitInfo> {
        let mut exit = self.exit.subscribe();
        Box::pin(async move {
            exit.wait_for(Option::is_some)
                .await
                .unwrap()
                .clone()
                .unwrap()
        })
    }

    fn forget(&self) {
        self.forgotten.send_replace(true);
    }
}

#[derive(Debug, Default)]
struct Puppets {
    all: watch::Sender<BTreeMap<String, (ImageOrder, Arc<Puppet>)>>,
    found: Mutex<Vec<FoundImage>>,
}

impl ImageRuntime for Puppets {
    fn check(&self, request: &LaunchRequest) -> Result<(), LaunchError> {
        let docker = request
            .container
            .as_ref()
            .and_then(|one| one.docker.as_ref());
        if docker.is_some_and(|docker| docker.image == "refused") {
            return Err(bad("the image is refused"));
        }
        Ok(())
    }

    fn launch(&self, order: ImageOrder) -> Arc<dyn ImageContainer> {
        let puppet = Arc::new(Puppet::default());
        let id = order.request.id.to_string();
        self.all.send_modify(|all| {
            all.insert(id, (order, Arc::clone(&puppet)));
        });
        puppet
    }

    fn recover(&self) -> ImageFuture<'_, Vec<FoundImage>> {
        Box::pin(async { self.found.lock().unwrap().drain(..).collect() })
    }
}

impl Puppets {
    async fn get(&self, id: &str) -> (ImageOrder, Arc<Puppet>) {
        let mut all = self.all.subscribe();
        let all = all.wait_for(|all| all.contains_key(id)).await.unwrap();
        all[id].clone()
    }
}

fn bad(message: &str) -> LaunchError {
    LaunchError {
        kind: LaunchErrorKind::BadRequest,
        message: message.to_owned(),
    }
}

fn docker(name: &str) -> ContainerInfo {
    ContainerInfo {
        r#type: Type::Docker.into(),
        docker: Some(DockerInfo {
            image: name.to_owned(),
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

fn node() -> (Node, Arc<Puppets>) {
    let mut node = Node::new();
    let puppets = Arc::new(Puppets::default());
    node.options.images = Some(Arc::clone(&puppets) as Arc<dyn ImageRuntime>);
    (node, puppets)
}

fn of_image(name: &str, container: ContainerInfo) -> LaunchRequest {
    with_container(request(name, shell("true")), container)
}

#[tokio::test]
async fn a_container_of_an_image_has_the_life_of_any_other() {
    let (node, puppets) = node();
    let containers = node.start().await;
    for (name, container) in [("typed", docker("busybox")), ("imaged", mesos("busybox"))] {
        let launch = tokio::spawn({
            let containers = containers.clone();
            let request = of_image(name, container);
            async move { containers.launch(request).await }
        });
        let (order, puppet) = puppets.get(name).await;
        assert_eq!(order.sandbox, node.sandbox(name));
        assert!(order.sandbox.is_dir());
        let listed = containers.list();
        assert_eq!(listed.last().map(|view| view.phase), Some(Phase::Starting));
        let again = containers.launch(of_image(name, docker("other"))).await;
        assert_eq!(again, Ok(Launched::AlreadyPresent));
        assert!(!launch.is_finished());
        puppet.start(Some(77));
        assert_eq!(launch.await.unwrap(), Ok(Launched::New));
        let view = containers.list().pop().unwrap();
        assert_eq!((view.phase, view.pid), (Phase::Running, Some(77)));

        containers.kill(&id(name), 15).await.unwrap();
        assert_eq!(puppet.signals(), [15]);
        containers.kill(&id(name), 9).await.unwrap();
        assert_eq!(puppet.signals(), [15, 9]);
        let waiting = tokio::spawn({
            let containers = containers.clone();
            async move { containers.wait(&id(name)).await }
        });
        puppet.end(9);
        assert_eq!(waiting.await.unwrap(), Ok(exited(9)));
        assert_eq!(containers.wait(&id(name)).await, Ok(exited(9)));
        assert_eq!(
            containers.kill(&id(name), 9).await,
            Err(KillError::NotFound)
        );
        assert!(containers.list().is_empty());

        containers.remove(&id(name)).await.unwrap();
        assert!(*puppet.forgotten.borrow());
        assert!(!order.sandbox.exists());
        assert_eq!(containers.wait(&id(name)).await, Err(NotFound));
    }
    assert!(node.records().is_empty());
    containers.shutdown().await;
}

#[tokio::test]
async fn what_cannot_be_launched_leaves_nothing() {
    let (node, puppets) = node();
    let containers = node.start().await;
    let refused = containers.launch(of_image("c", docker("refused"))).await;
    assert_eq!(refused, Err(bad("the image is refused")));

    let launch = tokio::spawn({
        let containers = containers.clone();
        async move { containers.launch(of_image("c", docker("missing"))).await }
    });
    let (order, puppet) = puppets.get("c").await;
    puppet.started.send_replace(Some(Err(bad("no such image"))));
    assert_eq!(launch.await.unwrap(), Err(bad("no such image")));
    assert!(*puppet.forgotten.borrow());
    assert!(!order.sandbox.exists());
    assert!(containers.list().is_empty());
    assert_eq!(containers.wait(&id("c")).await, Err(NotFound));
    containers.shutdown().await;
}

#[tokio::test]
async fn a_kill_during_the_pull_does_not_wait_for_it() {
    for signal in [9, 15] {
        let (node, puppets) = node();
        let containers = node.start().await;
        let launch = tokio::spawn({
            let containers = containers.clone();
            async move { containers.launch(of_image("c", docker("large"))).await }
        });
        let (_, puppet) = puppets.get("c").await;
        // The order is known a moment before the container is at its place.
        while puppet.signals().is_empty() {
            containers.kill(&id("c"), signal).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(puppet.signals().first(), Some(&9));
        puppet.started.send_replace(Some(Err(bad("it was killed"))));
        assert_eq!(launch.await.unwrap(), Err(bad("it was killed")));
        containers.shutdown().await;
    }
}

#[tokio::test]
async fn images_and_processes_are_not_nested_in_each_other() {
    let (node, puppets) = node();
    let containers = node.start().await;
    let launch = tokio::spawn({
        let containers = containers.clone();
        async move {
            containers
                .launch(of_image("image", docker("busybox")))
                .await
        }
    });
    let (_, puppet) = puppets.get("image").await;
    puppet.start(None);
    launch.await.unwrap().unwrap();
    let below = containers
        .launch(request("image.child", shell("true")))
        .await;
    assert_eq!(below.unwrap_err().kind, LaunchErrorKind::BadRequest);

    containers
        .launch(request("process", shell("sleep 600")))
        .await
        .unwrap();
    let below = containers
        .launch(of_image("process.child", docker("busybox")))
        .await;
    assert_eq!(below.unwrap_err().kind, LaunchErrorKind::BadRequest);
    assert_eq!(containers.list().len(), 2);
    containers.kill(&id("process"), 9).await.unwrap();
    containers.wait(&id("process")).await.unwrap();
    puppet.end(0);
    containers.shutdown().await;
}

#[tokio::test]
async fn what_an_earlier_agent_has_left_is_taken_over() {
    let (node, puppets) = node();
    let (living, ended) = (Arc::new(Puppet::default()), Arc::new(Puppet::default()));
    let at = SystemTime::now() - Duration::from_secs(5);
    puppets.found.lock().unwrap().extend([
        FoundImage {
            request: of_image("living", docker("busybox")),
            launched: at,
            exited: None,
            container: Arc::clone(&living) as Arc<dyn ImageContainer>,
        },
        FoundImage {
            request: of_image("ended", docker("busybox")),
            launched: at,
            exited: Some((exited(256), at)),
            container: Arc::clone(&ended) as Arc<dyn ImageContainer>,
        },
    ]);
    let containers = node.start().await;
    assert_eq!(containers.wait(&id("ended")).await, Ok(exited(256)));
    let listed: Vec<_> = containers.list().into_iter().map(|view| view.id).collect();
    assert_eq!(listed, [id("living")]);
    let again = containers
        .launch(of_image("living", docker("busybox")))
        .await;
    assert_eq!(again, Ok(Launched::AlreadyPresent));
    containers.kill(&id("living"), 2).await.unwrap();
    assert_eq!(living.signals(), [2]);
    living.end(0);
    assert_eq!(containers.wait(&id("living")).await, Ok(exited(0)));
    // A new launch of an ended one forgets the old.
    let relaunched = tokio::spawn({
        let containers = containers.clone();
        async move {
            containers
                .launch(of_image("ended", docker("busybox")))
                .await
        }
    });
    let (_, puppet) = puppets.get("ended").await;
    assert!(*ended.forgotten.borrow());
    puppet.start(None);
    assert_eq!(relaunched.await.unwrap(), Ok(Launched::New));
    containers.shutdown().await;
}

#[tokio::test]
async fn without_a_runtime_images_are_refused() {
    let node = Node::new();
    let containers = node.start().await;
    for container in [docker("busybox"), mesos("busybox")] {
        let refused = containers
            .launch(of_image("c", container))
            .await
            .unwrap_err();
        assert_eq!(refused.kind, LaunchErrorKind::BadRequest);
        assert!(refused.message.contains("engine"), "{refused}");
    }
    containers.shutdown().await;
}
