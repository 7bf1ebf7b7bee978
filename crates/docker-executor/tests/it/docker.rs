//! Tasks on a real Docker. Every wait ends with an event; the deadline is for machines that are very busy.

mod behind;
mod engines;
mod health;

use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_docker_executor::{Executor, ExecutorOptions, Kill, Launch, Task, labels};
use longshore_engine::{
    ContainerInfo, ContainerStatus, DockerConfig, DockerEngine, Engine as _, EngineKind,
    ListFilter, RemoveOptions,
};
use longshore_mesos_api::v1::task_status::Reason;
use longshore_mesos_api::v1::{TaskState, TaskStatus};
use longshore_task_spec::{DefaultDns, Sandbox};
use longshore_testkit::peers::{self, TEST_IMAGE};

use crate::bed::{self, word};

/// Long enough for a busy machine; no test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(180);
const SECOND: Duration = Duration::from_secs(1);
const FORCE: RemoveOptions = RemoveOptions {
    force: true,
    volumes: true,
};

async fn soon<T>(what: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, what).await {
        Ok(value) => value,
        Err(_) => panic!("not within {PATIENCE:?}"),
    }
}

struct Bed {
    engine: DockerEngine,
    dir: tempfile::TempDir,
    executor: Executor,
}

impl Bed {
    fn new() -> Option<Self> {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut ExecutorOptions)) -> Option<Self> {
        Some(Self::at(&peers::docker()?, change))
    }

    /// On the engine that listens there.
    fn at(socket: &Path, change: impl FnOnce(&mut ExecutorOptions)) -> Self {
        let address = format!("unix://{}", socket.display());
        let mut config = DockerConfig::new(address.parse().unwrap());
        config.client_config = None;
        config.deadlines.quick = PATIENCE;
        config.deadlines.slow = PATIENCE;
        let dir = tempfile::tempdir().unwrap();
        let sandbox = dir.path().join("sandbox");
        std::fs::create_dir(&sandbox).unwrap();
        for path in [dir.path(), &sandbox] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let engine = DockerEngine::new(config);
        let mut options = ExecutorOptions::new(dir.path().join("state"), "it");
        change(&mut options);
        let executor = Executor::new(Arc::new(engine.clone()), options).unwrap();
        Self {
            engine,
            dir,
            executor,
        }
    }

    fn sandbox(&self) -> PathBuf {
        self.dir.path().join("sandbox")
    }

    /// A task with these members of `docker`, `command` and the task itself, each with its comma.
    fn launch(&self, id: &str, docker: &str, command: &str, rest: &str) -> Task {
        let network = if docker.contains("\"network\"") {
            ""
        } else {
            r#""network":"NONE","#
        };
        let text = format!(
            r#"{rest}"container":{{"type":"DOCKER","docker":{{{docker}{network}"image":"{TEST_IMAGE}"}}}},{command}"#
        );
        self.executor.launch(Launch {
            framework: "f".to_owned(),
            sandbox: Some(Sandbox {
                host: self.sandbox().display().to_string(),
                mapped: "/mnt/mesos/sandbox".to_owned(),
            }),
            tell_killing: true,
            ..Launch::new(bed::task(id, &text))
        })
    }

    fn shell(&self, id: &str, script: &str, rest: &str) -> Task {
        self.launch(id, "", &shell(script), rest)
    }

    /// One that runs, and has said `ready`.
    async fn ready(&self, id: &str, script: &str, rest: &str) -> Task {
        let script = format!("echo > /mnt/mesos/sandbox/ready; {script}");
        let task = self.shell(id, &script, rest);
        soon(bed::until(&task, TaskState::TaskRunning)).await;
        let ready = self.sandbox().join("ready");
        soon(async {
            while !ready.exists() {
                tokio::time::sleep(SECOND / 50).await;
            }
        })
        .await;
        std::fs::remove_file(ready).unwrap();
        task
    }

    async fn is_podman(&self) -> bool {
        self.engine.version().await.unwrap().kind == EngineKind::Podman
    }

    async fn inspect(&self, task: &Task) -> ContainerInfo {
        self.engine.inspect(task.container_name()).await.unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.sandbox().join(name)).unwrap_or_default()
    }

    async fn killed(&self, task: &Task, kill: Kill) -> TaskStatus {
        task.kill(kill);
        self.end(task).await
    }

    /// How it ended; and that nothing is left of it.
    async fn end(&self, task: &Task) -> TaskStatus {
        let last = soon(task.ended()).await;
        soon(task.finished()).await;
        let filter = ListFilter::labelled([format!(
            "{}={}",
            labels::ROOT,
            self.dir.path().join("state").display()
        )]);
        let left = self.engine.list(&filter).await.unwrap();
        let left = left
            .iter()
            .filter(|it| it.labels.get(labels::TASK).map(String::as_str) == Some(task.id()));
        assert_eq!(left.count(), 0, "a container is left");
        last
    }

    /// We die, and somebody comes after us.
    fn restarted(self) -> Self {
        let Self {
            engine,
            dir,
            executor,
        } = self;
        drop(executor);
        let options = ExecutorOptions::new(dir.path().join("state"), "it");
        let executor = Executor::new(Arc::new(engine.clone()), options).unwrap();
        Self {
            engine,
            dir,
            executor,
        }
    }
}

fn shell(script: &str) -> String {
    format!(r#""command":{{"shell":true,"value":"{script}"}},"#)
}

async fn words(task: &Task) -> Vec<String> {
    soon(bed::words(task)).await
}

#[tokio::test]
async fn dx_01_a_task_runs_and_is_described() {
    if let Some(bed) = Bed::new() {
        described(bed).await;
    }
}

async fn described(bed: Bed) {
    let secret = r#""command":{"shell":true,"value":"sleep 1000","environment":{"variables":[{"name":"TOKEN","value":"hunter2"}]}},"#;
    let task = bed.launch("t", "", secret, "");
    let mut updates = task.updates();
    let starting = soon(updates.next()).await;
    assert_eq!(starting.state(), TaskState::TaskStarting);
    let running = soon(updates.next()).await;
    assert_eq!(running.state(), TaskState::TaskRunning);
    let data: serde_json::Value = serde_json::from_slice(running.data()).unwrap();
    let info = bed.inspect(&task).await;
    assert_eq!(data[0]["Id"], info.id);
    assert!(data[0]["State"]["Pid"].as_u64().unwrap() > 0);
    assert!(!data.to_string().contains("hunter2") && data.to_string().contains("TOKEN"));
    assert_eq!(info.labels[labels::OWNER], "it");
    assert_eq!(
        word(&bed.killed(&task, Kill::within(SECOND)).await),
        "KILLED killed"
    );
}

#[tokio::test]
async fn dx_03_a_killed_task_is_down() {
    if let Some(bed) = Bed::new() {
        killed(bed).await;
    }
}

async fn killed(bed: Bed) {
    let task = bed
        .ready(
            "t",
            "trap 'exit 3' TERM; while true; do sleep 1 & wait; done",
            "",
        )
        .await;
    let pid = bed.inspect(&task).await.state.pid.unwrap();
    let last = bed.killed(&task, Kill::within(PATIENCE)).await;
    assert_eq!(word(&last), "KILLED killed");
    assert!(last.message().contains("exit code 3"), "{last:?}");
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
    assert_eq!(
        words(&task).await,
        ["STARTING", "RUNNING", "KILLING", "KILLED killed"]
    );
}

#[tokio::test]
async fn dx_06_a_task_that_exits_with_0_when_it_is_killed_was_killed() {
    if let Some(bed) = Bed::new() {
        killed_with_0(bed).await;
    }
}

async fn killed_with_0(bed: Bed) {
    let task = bed
        .ready(
            "t",
            "trap 'exit 0' TERM; while true; do sleep 1 & wait; done",
            "",
        )
        .await;
    let last = bed.killed(&task, Kill::asked()).await;
    assert_eq!(word(&last), "KILLED killed");
}

#[tokio::test]
async fn dx_07_a_task_that_ignores_its_signal_is_killed_when_a_shorter_grace_comes() {
    if let Some(bed) = Bed::new() {
        stubborn(bed).await;
    }
}

async fn stubborn(bed: Bed) {
    let policy = r#""kill_policy":{"grace_period":{"nanoseconds":600000000000}},"#;
    let task = bed
        .ready("t", "trap '' TERM; while true; do sleep 1; done", policy)
        .await;
    task.kill(Kill::asked());
    soon(bed::until(&task, TaskState::TaskKilling)).await;
    let last = bed
        .killed(&task, Kill::within(Duration::from_nanos(100)))
        .await;
    assert_eq!(word(&last), "KILLED killed");
    assert!(last.message().contains("SIGKILL"), "{last:?}");
}

#[tokio::test]
async fn dx_08_output_is_separate_and_whole_when_the_last_status_comes() {
    if let Some(bed) = Bed::new() {
        output(bed).await;
    }
}

async fn output(bed: Bed) {
    let script = "i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let task = bed.shell("t", script, "");
    soon(task.ended()).await;
    let last = bed.end(&task).await;
    assert_eq!(word(&last), "FINISHED exited");
    for (name, said) in [("stdout", "out"), ("stderr", "err")] {
        let expected: String = (0..2000).map(|n| format!("{said} {n}\n")).collect();
        assert!(
            bed.read(name) == expected,
            "{name}: {} bytes",
            bed.read(name).len()
        );
    }
}

#[tokio::test]
async fn dx_08_output_goes_on_after_a_restart_of_ours_without_loss_or_doubling() {
    if let Some(bed) = Bed::new() {
        output_over_restarts(bed).await;
    }
}

async fn output_over_restarts(mut bed: Bed) {
    let script = "i=0; while [ $i -lt 3000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); [ $((i % 300)) = 0 ] && sleep 1; done; true";
    let mut task = bed.shell("t", script, "");
    soon(bed::until(&task, TaskState::TaskRunning)).await;
    for lines in [200, 1000, 2000] {
        soon(async {
            while !bed.read("stdout").contains(&format!("out {lines}\n")) {
                tokio::time::sleep(SECOND / 20).await;
            }
        })
        .await;
        bed = bed.restarted();
        task = bed.executor.recover().unwrap().tasks[0].clone();
    }
    assert_eq!(word(&bed.end(&task).await), "FINISHED exited");
    for (name, said) in [("stdout", "out"), ("stderr", "err")] {
        let expected: String = (0..3000).map(|n| format!("{said} {n}\n")).collect();
        assert!(
            bed.read(name) == expected,
            "{name}: {} bytes",
            bed.read(name).len()
        );
    }
}

#[tokio::test]
async fn dx_09_the_images_command_and_what_replaces_it() {
    if let Some(bed) = Bed::new() {
        commands(bed).await;
    }
}

async fn commands(bed: Bed) {
    for (id, command, expected) in [
        // The image's is `sh`, whose standard input is at its end.
        ("default", r#""command":{"shell":false},"#, ""),
        (
            "value",
            r#""command":{"shell":false,"value":"hostname","arguments":[]},"#,
            "\n",
        ),
        (
            "arguments",
            r#""command":{"shell":false,"value":"echo","arguments":["a  b","$c"]},"#,
            "a  b $c\n",
        ),
        (
            "shell",
            r#""command":{"shell":true,"value":"echo $((1+2))"},"#,
            "3\n",
        ),
    ] {
        let task = bed.launch(id, "", command, "");
        assert_eq!(
            words(&task).await,
            ["STARTING", "RUNNING", "FINISHED exited"],
            "{id}"
        );
        bed.end(&task).await;
        assert!(
            bed.read("stdout").ends_with(expected),
            "{id}: {}",
            bed.read("stdout")
        );
    }
}

#[tokio::test]
async fn dx_18_dx_20_dx_23_dx_24_what_the_task_asks_for_is_what_the_container_has() {
    let dns =
        r#"{"mesos":[],"docker":[{"network_mode":"BRIDGE","dns":{"nameservers":["192.0.2.1"]}}]}"#;
    let Some(bed) = Bed::with(|options| {
        options.enable_cfs = true;
        options.default_dns = DefaultDns::parse(dns).unwrap();
    }) else {
        return;
    };
    let resources = r#""resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":0.5},"role":"web",
        "allocation_info":{"role":"web"}}],"#;
    let task = bed.launch(
        "limits",
        r#""parameters":[{"key":"dns","value":"192.0.2.7"}],"#,
        &shell("cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null; echo role $MESOS_ALLOCATION_ROLE; cat /etc/resolv.conf; true"),
        resources,
    );
    assert_eq!(word(&bed.end(&task).await), "FINISHED exited");
    let said = bed.read("stdout");
    assert!(said.contains("50000"), "{said}");
    assert!(said.contains("role web\n"), "{said}");
    let mut info = bed::task("infinite", "");
    info.clone_from(&bed::task(
        "infinite",
        &format!(
            r#""container":{{"type":"DOCKER","docker":{{"network":"NONE","image":"{TEST_IMAGE}"}}}},{}"#,
            shell("cat /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null; true")
        ),
    ));
    for name in ["cpus", "mem"] {
        let infinite = longshore_mesos_api::v1::value::Scalar {
            value: f64::INFINITY,
        };
        info.limits.insert(name.to_owned(), infinite);
    }
    std::fs::write(bed.sandbox().join("stdout"), "").unwrap();
    let task = bed.executor.launch(Launch {
        sandbox: Some(Sandbox {
            host: bed.sandbox().display().to_string(),
            mapped: "/mnt/mesos/sandbox".to_owned(),
        }),
        ..Launch::new(info)
    });
    let last = bed.end(&task).await;
    assert_eq!(word(&last), "FINISHED exited", "{last:?}");
    let said = bed.read("stdout");
    assert!(said.contains("max") || said.contains("-1"), "{said}");
}

#[tokio::test]
async fn dx_37_ends_are_told_apart() {
    if let Some(bed) = Bed::new() {
        ends(bed).await;
    }
}

async fn ends(bed: Bed) {
    let memory = r#""resources":[{"name":"mem","type":"SCALAR","scalar":{"value":32}}],"#;
    let exec = |value: &str| format!(r#""command":{{"shell":false,"value":"{value}"}},"#);
    for (id, command, rest, expected, reason) in [
        (
            "nosuch",
            exec("/nosuch"),
            "",
            "FAILED program-not-found",
            Some(Reason::ContainerLaunchFailed),
        ),
        (
            "etc",
            exec("/etc"),
            "",
            "FAILED program-not-executable",
            Some(Reason::ContainerLaunchFailed),
        ),
        ("three", shell("exit 3"), "", "FAILED exited", None),
        (
            "itself",
            shell("kill -KILL 1; kill -ABRT $$; exit 134"),
            "",
            "FAILED signaled",
            None,
        ),
        (
            "hog",
            shell("x=0123456789abcdef; while true; do x=$x$x; done"),
            memory,
            "FAILED out-of-memory",
            Some(Reason::ContainerLimitationMemory),
        ),
    ] {
        let task = bed.launch(id, "", &command, rest);
        let last = bed.end(&task).await;
        assert_eq!(word(&last), expected, "{id}: {last:?}");
        assert_eq!(last.reason.map(|_| last.reason()), reason, "{id}");
    }
    // Somebody kills the process itself.
    let task = bed.ready("killed", "sleep 1000", "").await;
    let pid = bed.inspect(&task).await.state.pid.unwrap();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    assert_eq!(word(&bed.end(&task).await), "FAILED signaled");
}

#[tokio::test]
async fn its_time_is_over() {
    if let Some(bed) = Bed::new() {
        out_of_time(bed).await;
    }
}

async fn out_of_time(bed: Bed) {
    let limit = r#""max_completion_time":{"nanoseconds":3000000000},"#;
    let task = bed.shell("t", "trap '' TERM; while true; do sleep 1; done", limit);
    let last = bed.end(&task).await;
    assert_eq!(word(&last), "FAILED out-of-time", "{last:?}");
}
