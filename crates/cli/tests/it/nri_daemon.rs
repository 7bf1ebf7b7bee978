//! NRI plugins of a daemon: its tasks on a real Docker pass through them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_engine::{DockerConfig, DockerEngine, Engine as _, EngineEndpoint};
use longshore_nri_stub::api::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, LinuxContainerUpdate,
    LinuxResources, Mount, PodSandbox, UpdateContainersRequest,
};
use longshore_nri_stub::{Environment, Handle, Stub, plugin};
use longshore_testkit::peers::{self, TEST_IMAGE};
use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::{Daemon, Done, Home, eventually};

fn daemon(nri: &str) -> Option<Daemon> {
    let engine = format!("unix://{}", peers::docker()?.display());
    let config = format!("[tasks]\nengine = {engine:?}\n[nri]\nenabled = true\n{nri}\n");
    let home = Home::new();
    let (plugins, drop_ins) = (home.join("plugins"), home.join("conf.d"));
    std::fs::create_dir(&plugins).unwrap();
    let config = format!("{config}plugin_dir = {plugins:?}\nconfig_dir = {drop_ins:?}\n");
    Some(Daemon::start(home, &config))
}

/// What the plugin of the test has seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn until(&self, text: &str) {
        eventually(text, || {
            self.all()
                .iter()
                .any(|seen| seen.starts_with(text))
                .then_some(())
        });
    }
}

/// Gives each container a variable and a directory of the host.
struct Injector {
    seen: Seen,
    directory: PathBuf,
}

#[plugin]
impl Injector {
    async fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Vec<ContainerUpdate> {
        let names: Vec<_> = containers.iter().map(|it| it.name.as_str()).collect();
        self.seen
            .note(format!("synchronize {} {names:?}", pods.len()));
        Vec::new()
    }

    async fn create_container(&self, pod: PodSandbox, container: Container) -> ContainerAdjustment {
        self.seen
            .note(format!("create {} {}", container.name, container.id));
        let mut adjustment = ContainerAdjustment::default();
        adjustment
            .add_env("INJECTED", pod.namespace)
            .add_mount(Mount {
                destination: "/injected".to_owned(),
                r#type: "bind".to_owned(),
                source: self.directory.display().to_string(),
                options: vec!["rbind".to_owned(), "ro".to_owned()],
            });
        adjustment.resources_mut().set_memory_limit(96 << 20);
        adjustment
    }

    async fn post_start_container(&self, _: PodSandbox, container: Container) {
        self.seen
            .note(format!("started {} {}", container.name, container.pid > 0));
    }

    async fn stop_container(&self, _: PodSandbox, container: Container) -> Vec<ContainerUpdate> {
        self.seen.note(format!("stop {}", container.name));
        Vec::new()
    }

    async fn remove_pod_sandbox(&self, pod: PodSandbox) {
        self.seen.note(format!("remove {}", pod.name));
    }
}

/// The plugin, connected for as long as this is there; it comes again when the daemon does.
struct Plugin {
    seen: Seen,
    handle: Handle,
    runtime: Runtime,
}

impl Plugin {
    fn of(daemon: &Daemon) -> Self {
        let directory = daemon.home.join("injected");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("file"), "from the host\n").unwrap();
        let seen = Seen::default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let injector = Injector {
            seen: seen.clone(),
            directory,
        };
        let stub = Stub::builder()
            .environment(Environment::default())
            .index("10")
            .name("injector")
            .socket(daemon.home.join("r/nri.sock"))
            .build(injector)
            .unwrap();
        let handle = stub.handle();
        runtime.spawn(async move { stub.run().await });
        seen.until("synchronize");
        Self {
            seen,
            handle,
            runtime,
        }
    }

    fn want(&self, request: UpdateContainersRequest) -> Vec<ContainerUpdate> {
        let within = Duration::from_secs(30);
        let asked = self.handle.update_and_evict(request, within);
        self.runtime.block_on(asked).unwrap()
    }

    /// The id of the container of this name.
    fn id(&self, name: &str) -> String {
        let start = format!("create {name} ");
        let all = self.seen.all();
        let found = all.iter().find_map(|seen| seen.strip_prefix(&start));
        found.unwrap_or_else(|| panic!("{all:?}")).to_owned()
    }
}

fn launch(daemon: &Daemon, id: &str, more: &[&str], script: &str) -> Done {
    let mut args = vec!["task", "run", "-d", "--name", id];
    args.extend(more);
    args.extend([TEST_IMAGE, "sh", "-c", script]);
    daemon.run(args)
}

fn run(daemon: &Daemon, id: &str, more: &[&str], script: &str) {
    launch(daemon, id, more, script).exits(0);
}

/// It ends without having run, with these words.
fn refused(daemon: &Daemon, id: &str, more: &[&str], words: &str) {
    let done = launch(daemon, id, more, "true").exits(125);
    assert!(done.stderr.contains(words), "{done:?}");
    let ended = until(daemon, id, "ended");
    assert_eq!(ended["ending"], "not-wanted", "{ended}");
}

fn task(daemon: &Daemon, id: &str) -> Value {
    let done = daemon.run(["task", "inspect", id, "--json"]).exits(0);
    done.json()["task"].clone()
}

fn until(daemon: &Daemon, id: &str, phase: &str) -> Value {
    eventually("the task is that far", || {
        let task = task(daemon, id);
        (task["phase"] == phase).then_some(task)
    })
}

fn plugins(daemon: &Daemon) -> Vec<Value> {
    let list = daemon.run(["nri", "ls", "--json"]).exits(0).json();
    list["plugins"].as_array().unwrap().clone()
}

fn until_active(daemon: &Daemon, name: &str) {
    eventually("the plugin is active", || {
        let all = plugins(daemon);
        let active = |it: &&Value| it["name"] == name && it["state"] == "active";
        all.iter().find(active).map(drop)
    });
}

#[test]
fn a_plugin_changes_a_task_and_sees_all_of_its_life_over_a_crash_of_the_daemon() {
    let Some(mut daemon) = daemon("") else { return };
    let plugin = Plugin::of(&daemon);
    until_active(&daemon, "10-injector");
    run(
        &daemon,
        "nri-web",
        &[],
        "cat /injected/file; echo $INJECTED; touch /injected/x || echo read-only; exec sleep 1000",
    );
    let shown = eventually("its output is there", || {
        let done = daemon.run(["task", "logs", "nri-web"]).exits(0);
        done.stdout.contains("read-only").then_some(done.stdout)
    });
    assert_eq!(shown, "from the host\nlongshore\nread-only\n");
    plugin.seen.until("started nri-web true");
    until(&daemon, "nri-web", "running");

    // It changes what runs; what it cannot have is its answer.
    let id = plugin.id("nri-web");
    let update = |id: &str, change: fn(&mut LinuxResources)| {
        let mut resources = LinuxResources::default();
        change(&mut resources);
        ContainerUpdate {
            container_id: id.to_owned(),
            linux: Some(LinuxContainerUpdate {
                resources: Some(resources),
            }),
            ignore_failure: false,
        }
    };
    let lower = update(&id, |it| {
        it.set_memory_limit(80 << 20);
    });
    let nowhere = update("nowhere", |it| {
        it.set_memory_limit(80 << 20);
    });
    let failed = plugin.want(UpdateContainersRequest {
        update: vec![lower, nowhere.clone()],
        ..UpdateContainersRequest::default()
    });
    assert_eq!(failed, [nowhere]);
    let memory = inspected(&daemon, "nri-web", "/HostConfig/Memory");
    assert_eq!(memory, 80 << 20);

    // The daemon dies: the task goes on, and the plugin, which comes again, is told of it.
    daemon.crash();
    daemon.start_again();
    plugin.seen.until("synchronize 1 [\"nri-web\"]");
    until_active(&daemon, "10-injector");
    assert_eq!(task(&daemon, "nri-web")["phase"], "running");

    // It is evicted, and everything of it is told once.
    plugin.want(UpdateContainersRequest {
        evict: vec![ContainerEviction {
            container_id: id,
            reason: "the room is needed".to_owned(),
        }],
        ..UpdateContainersRequest::default()
    });
    let ended = until(&daemon, "nri-web", "ended");
    assert_eq!(ended["ending"], "evicted");
    let message = ended["message"].as_str().unwrap();
    assert!(
        message.contains("10-injector") && message.contains("the room is needed"),
        "{ended}"
    );
    plugin.seen.until("remove nri-web");
    let seen = plugin.seen.all();
    for once in [
        "create nri-web",
        "started nri-web",
        "stop nri-web",
        "remove nri-web",
    ] {
        let times = seen.iter().filter(|it| it.starts_with(once)).count();
        assert_eq!(times, 1, "{once}: {seen:?}");
    }
}

#[test]
fn a_csi_plugin_that_is_an_image_passes_plugins_each_time_that_it_is_started() {
    let (Some(socket), Some(())) = (peers::docker(), peers::root()) else {
        return;
    };
    let home = Home::new();
    let none = home.join("none");
    let config = crate::image::config(&home, &format!("unix://{}", socket.display()));
    let nri = format!("[nri]\nenabled = true\nplugin_dir = {none:?}\nconfig_dir = {none:?}\n");
    let daemon = Daemon::start(home, &format!("{config}\n{nri}"));
    let uri = daemon.endpoint("disks");
    let plugin = Plugin::of(&daemon);
    let name = daemon.plugin("disks")["containers"][0]["id"].clone();
    let name = name.as_str().unwrap();
    // It was there before.
    plugin.seen.until(&format!("synchronize 1 [{name:?}]"));
    kill(daemon.plugin_pid("disks"), Signal::SIGKILL).unwrap();
    plugin.seen.until(&format!("stop {name}"));
    plugin.seen.until(&format!("started {name} true"));
    assert_eq!(daemon.endpoint("disks"), uri);
    let pid = daemon.plugin_pid("disks");
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    assert!(
        environment.contains("INJECTED=longshore"),
        "{environment:?}"
    );
    let removed = daemon.run(["csi", "stop", "disks"]);
    assert_eq!(removed.code, 0, "{removed:?}");
}

/// An engine that says these things of itself, and knows nothing else.
fn engine_that_says(socket: PathBuf, info: &'static str) {
    let listener = std::os::unix::net::UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = String::new();
            let mut lines = BufReader::new(&stream);
            while lines.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let (status, body) = match head.split(' ').nth(1).unwrap_or_default() {
                path if path.ends_with("/_ping") => (200, "OK"),
                path if path.ends_with("/info") => (200, info),
                _ => (404, r#"{"message":"no"}"#),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status} x\r\nApi-Version: 1.45\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            let _gone = stream.write_all(answer.as_bytes());
        }
    });
}

#[test]
fn an_engine_with_plugins_of_its_own_is_named_when_the_daemon_starts() {
    let home = Home::new();
    let socket = home.join("e.sock");
    engine_that_says(
        socket.clone(),
        r#"{"NRI":{"Info":[["name","of-the-engine"]]}}"#,
    );
    let engine = format!("unix://{}", socket.display());
    let plugins = home.join("plugins");
    let config = format!(
        "[tasks]\nengine = {engine:?}\n[nri]\nenabled = true\nplugin_dir = {plugins:?}\nconfig_dir = {plugins:?}\n"
    );
    let daemon = Daemon::start(home, &config);
    let log = eventually("it is named", || {
        let log = daemon.log();
        log.contains("NRI plugins of its own").then_some(log)
    });
    assert!(
        log.contains(&engine) && log.contains("of-the-engine"),
        "{log}"
    );
}

/// A member of the container's description by its engine.
fn inspected(daemon: &Daemon, id: &str, pointer: &str) -> Value {
    let shown = task(daemon, id);
    let container = shown["container"]
        .as_str()
        .unwrap_or_else(|| panic!("{shown}"));
    let address = format!("unix://{}", peers::docker().unwrap().display());
    let endpoint = EngineEndpoint::parse(&address, "the test").unwrap();
    let engine = DockerEngine::new(DockerConfig::new(endpoint));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let info = runtime.block_on(engine.inspect(container)).unwrap();
    let json: Value = serde_json::from_str(&info.redacted_json()).unwrap();
    json.pointer(pointer).cloned().unwrap_or_default()
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The bundled plugin, as a process of its own.
fn bundled(daemon: &Daemon, socket: &Path) -> Killed {
    let mut command = daemon
        .home
        .command(["nri", "plugin", "--index", "20", "--name", "bundled"]);
    command.arg("--socket").arg(socket);
    Killed(command.stderr(Stdio::null()).spawn().unwrap())
}

#[test]
fn a_label_speaks_to_a_plugin_whose_death_leaves_tasks_alone() {
    let Some(daemon) = daemon("required = [\"bundled\"]") else {
        return;
    };
    // Nothing is made while a required plugin is missing.
    refused(&daemon, "nri-early", &[], "\"bundled\" is required");

    let socket = daemon.home.join("r/nri.sock");
    let mut plugin = bundled(&daemon, &socket);
    until_active(&daemon, "20-bundled");
    let label = "env.longshore.dev/container.nri-labelled=FROM_LABEL=yes";
    run(
        &daemon,
        "nri-labelled",
        &["--label", label],
        "echo $FROM_LABEL; exec sleep 1000",
    );
    eventually("its output is there", || {
        let done = daemon.run(["task", "logs", "nri-labelled"]).exits(0);
        (done.stdout == "yes\n").then_some(())
    });
    until(&daemon, "nri-labelled", "running");
    plugin.0.kill().unwrap();
    plugin.0.wait().unwrap();
    eventually("the plugin is missed", || {
        let all = plugins(&daemon);
        let missing = |it: &&Value| it["state"] == "missing";
        all.iter().find(missing).map(drop)
    });
    assert_eq!(task(&daemon, "nri-labelled")["phase"], "running");

    // A container may require a plugin by itself.
    let _plugin = bundled(&daemon, &socket);
    until_active(&daemon, "20-bundled");
    let label = "required-plugins.noderesource.dev=[absent]";
    refused(
        &daemon,
        "nri-wants",
        &["--label", label],
        "\"absent\" is not there",
    );
    // What a plugin cannot understand fails the one task, with its name.
    let label = "cpu-shares.longshore.dev=many";
    refused(&daemon, "nri-wrong", &["--label", label], "20-bundled");
    daemon.run(["task", "rm", "-f", "nri-labelled"]).exits(0);
}
