//! Tasks on a real Docker. Every wait ends with an event; the deadline is for machines that are very busy.

// long: one test a row of the digest.

use std::future::Future;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_docker_executor::{Executor, ExecutorOptions, Kill, Launch, Task, labels};
use longshore_engine::{
    ContainerInfo, ContainerStatus, DockerConfig, DockerEngine, Engine as _, ListFilter,
    RemoveOptions,
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
        let socket = peers::docker()?;
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
        Some(Self {
            engine,
            dir,
            executor,
        })
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
    let Some(bed) = Bed::new() else { return };
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
    let Some(bed) = Bed::new() else { return };
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
    let Some(bed) = Bed::new() else { return };
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
    let Some(bed) = Bed::new() else { return };
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
    let Some(bed) = Bed::new() else { return };
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
    let Some(mut bed) = Bed::new() else { return };
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
    let Some(bed) = Bed::new() else { return };
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
    let Some(bed) = Bed::new() else { return };
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
    let Some(bed) = Bed::new() else { return };
    let limit = r#""max_completion_time":{"nanoseconds":3000000000},"#;
    let task = bed.shell("t", "trap '' TERM; while true; do sleep 1; done", limit);
    let last = bed.end(&task).await;
    assert_eq!(word(&last), "FAILED out-of-time", "{last:?}");
}

#[tokio::test]
async fn behind_our_back_each_deed_has_its_ending() {
    let Some(bed) = Bed::new() else { return };
    let script = "trap 'exit 0' TERM; while true; do sleep 1 & wait; done";
    for (deed, expected) in [
        ("stop", "FAILED stopped-by-other"),
        ("kill", "FAILED stopped-by-other"),
        ("remove", "FAILED removed-by-other"),
        ("restart", "FAILED restarted-by-other"),
        ("pause", ""),
        ("update", ""),
    ] {
        let task = bed.ready(deed, script, "").await;
        let info = bed.inspect(&task).await;
        let id = info.id.as_str();
        match deed {
            "stop" => bed.engine.stop(id, PATIENCE).await.unwrap(),
            "kill" => bed.engine.kill(id, "KILL").await.unwrap(),
            "remove" => bed.engine.remove(id, FORCE).await.unwrap(),
            "pause" => {
                bed.engine.pause(id).await.unwrap();
                let mut view = task.watch();
                soon(view.wait_for(|view| view.paused)).await.unwrap();
            }
            "restart" => {
                drop(bed.engine.stop(id, PATIENCE).await);
                // Between the two it may have been told, and removed.
                drop(bed.engine.start(id).await);
            }
            _ => {
                let more = longshore_engine::Resources {
                    cpu_shares: Some(512),
                    ..longshore_engine::Resources::default()
                };
                bed.engine.update(id, &more).await.unwrap();
            }
        }
        if expected.is_empty() {
            assert!(!task.watch().borrow().over, "{deed}");
            let last = bed.killed(&task, Kill::asked()).await;
            assert_eq!(word(&last), "KILLED killed", "{deed}: {last:?}");
            // A frozen one was thawed, and heard its signal.
            assert!(last.message().contains("exit code 0"), "{deed}: {last:?}");
        } else {
            let last = bed.end(&task).await;
            let told = word(&last);
            let or = ["FAILED stopped-by-other", "FAILED restarted-by-other"];
            assert!(
                told == expected || (deed == "restart" && or.contains(&told.as_str())),
                "{deed}: {last:?}"
            );
        }
    }
}

#[tokio::test]
async fn while_we_were_down_each_deed_has_its_ending() {
    let Some(mut bed) = Bed::new() else { return };
    for (deed, expected) in [
        ("nothing", ""),
        ("exit", "FAILED exited"),
        ("remove", "FAILED removed-by-other"),
        ("restart", "FAILED restarted-by-other"),
    ] {
        let script = "trap 'exit 4' TERM; while true; do sleep 1 & wait; done";
        let task = bed.ready(deed, script, "").await;
        let id = bed.inspect(&task).await.id;
        drop(task);
        let engine = bed.engine.clone();
        let dir = {
            let Bed { dir, executor, .. } = bed;
            drop(executor);
            dir
        };
        match deed {
            "exit" => engine.stop(&id, PATIENCE).await.unwrap(),
            "remove" => engine.remove(&id, FORCE).await.unwrap(),
            "restart" => {
                engine.stop(&id, PATIENCE).await.unwrap();
                engine.start(&id).await.unwrap();
            }
            _ => {}
        }
        let options = ExecutorOptions::new(dir.path().join("state"), "it");
        let executor = Executor::new(Arc::new(engine.clone()), options).unwrap();
        bed = Bed {
            engine,
            dir,
            executor,
        };
        let recovery = bed.executor.recover().unwrap();
        assert!(recovery.damaged.is_empty(), "{recovery:?}");
        let task = bed.executor.task(deed).unwrap();
        let last = if expected.is_empty() {
            soon(async {
                while task.watch().borrow().container.is_none() {
                    tokio::time::sleep(SECOND / 50).await;
                }
            })
            .await;
            bed.killed(&task, Kill::asked()).await
        } else {
            bed.end(&task).await
        };
        let expected = if expected.is_empty() {
            "KILLED killed"
        } else {
            expected
        };
        assert_eq!(word(&last), expected, "{deed}: {last:?}");
    }
}

#[tokio::test]
async fn two_on_one_engine_never_reap_each_other() {
    let (Some(one), Some(other)) = (Bed::new(), Bed::new()) else {
        return;
    };
    let task = one.ready("t", "sleep 1000", "").await;
    assert_eq!(
        other.executor.remove_strays(Duration::ZERO).await.unwrap(),
        [""; 0]
    );
    assert_eq!(
        one.executor.remove_strays(Duration::ZERO).await.unwrap(),
        [""; 0]
    );
    // A record that is lost makes a stray of it, for its own.
    let name = task.container_name().to_owned();
    let Bed {
        engine,
        dir,
        executor,
    } = one;
    drop(executor);
    std::fs::remove_dir_all(dir.path().join("state/tasks")).unwrap();
    let options = ExecutorOptions::new(dir.path().join("state"), "it");
    let executor = Executor::new(Arc::new(engine.clone()), options).unwrap();
    assert_eq!(
        other.executor.remove_strays(Duration::ZERO).await.unwrap(),
        [""; 0]
    );
    let young = executor
        .remove_strays(Duration::from_secs(86_400))
        .await
        .unwrap();
    assert_eq!(young, [""; 0]);
    assert_eq!(
        executor.remove_strays(Duration::ZERO).await.unwrap(),
        [name]
    );
}

fn health(more: &str, command: &str) -> String {
    format!(
        r#""health_check":{{"type":"COMMAND","delay_seconds":0,"interval_seconds":0.2,"grace_period_seconds":0,{more}"command":{{{command}}}}},"#
    )
}

/// Waits for this many statuses about health, and says which.
async fn healths(task: &Task, count: usize) -> Vec<bool> {
    let mut updates = task.updates();
    let mut seen = Vec::new();
    while seen.len() < count {
        let status = soon(updates.next()).await;
        assert!(!bed::is_last(&status), "{status:?}");
        if status.reason.is_some() {
            seen.extend(status.healthy);
        }
    }
    seen
}

#[tokio::test]
async fn hc_05_hc_19_a_check_has_the_environment_of_the_container_and_its_own() {
    let Some(bed) = Bed::new() else { return };
    let check = health(
        "",
        r#""value":"[ $MESOS_CONTAINER_NAME = $(hostname) ]; exit $STATUS","environment":{"variables":[{"name":"STATUS","value":"0"}]}"#,
    );
    let task = bed.shell("t", "sleep 1000", &check);
    assert_eq!(healths(&task, 1).await, [true]);
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
}

#[tokio::test]
async fn hc_08_a_check_that_hangs_is_killed_inside_the_container() {
    let Some(bed) = Bed::new() else { return };
    // It starts others, and one of them leaves its session.
    let command = r#""value":"sleep 7531 & setsid sleep 7531 & sleep 7531""#;
    let check = health(
        r#""timeout_seconds":1,"consecutive_failures":1000,"#,
        command,
    );
    let task = bed.ready("t", "sleep 1000", &check).await;
    assert_eq!(healths(&task, 2).await, [false, false]);
    let init = bed.inspect(&task).await;
    let left = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            let cgroup = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let shell = String::from_utf8_lossy(&line).contains("setsid sleep 7531 &");
            cgroup.contains(&init.id) && shell
        })
        .count();
    // One run may be under way.
    assert!(left <= 1, "{left} shells of checks are left");
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
    let check = health(
        r#""timeout_seconds":1,"consecutive_failures":1,"#,
        r#""value":"sleep 120""#,
    );
    let task = bed.shell("killed", "sleep 1000", &check);
    let last = bed.end(&task).await;
    assert_eq!(word(&last), "KILLED killed-by-health-check", "{last:?}");
    assert_eq!(last.healthy, Some(false));
}

#[tokio::test]
async fn hc_10_http_and_tcp_are_asked_inside_the_containers_network() {
    let Some(bed) = Bed::new() else { return };
    if peers::root().is_none() {
        return;
    }
    let serve = "mkdir /www; echo hi > /www/index.html; httpd -f -p 127.0.0.1:18080 -h /www";
    let timing = r#""delay_seconds":0,"interval_seconds":0.2,"grace_period_seconds":1000,"#;
    for (id, check) in [
        (
            "http",
            r#""type":"HTTP","http":{"port":18080,"path":"/index.html"}"#,
        ),
        ("tcp", r#""type":"TCP","tcp":{"port":18080}"#),
    ] {
        let check = format!(r#""health_check":{{{timing}{check}}},"#);
        let task = bed.shell(id, serve, &check);
        assert_eq!(healths(&task, 1).await, [true], "{id}");
        // Nobody listens there outside.
        assert!(std::net::TcpStream::connect(("127.0.0.1", 18080)).is_err());
        bed.killed(&task, Kill::within(Duration::ZERO)).await;
    }
}

#[tokio::test]
async fn hc_11_a_check_sees_the_files_of_the_container() {
    let Some(bed) = Bed::new() else { return };
    let toggle = bed.dir.path().join("toggle");
    std::fs::write(&toggle, "host").unwrap();
    let path = toggle.display();
    let command = format!(
        r#""value":"mkdir -p $(dirname {path}); if [ -e {path} ]; then rm {path}; exit 1; else echo > {path}; fi""#
    );
    let task = bed.shell(
        "t",
        "sleep 1000",
        &health(r#""consecutive_failures":1000,"#, &command),
    );
    assert_eq!(healths(&task, 3).await, [true, false, true]);
    assert_eq!(std::fs::read_to_string(&toggle).unwrap(), "host");
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
}

#[tokio::test]
async fn hc_21_a_check_that_somebody_kills_is_a_failure_and_no_more() {
    let Some(bed) = Bed::new() else { return };
    let check = health(
        r#""consecutive_failures":1000,"#,
        r#""value":"kill -KILL $$""#,
    );
    let task = bed.shell("t", "sleep 1000", &check);
    assert_eq!(healths(&task, 2).await, [false, false]);
    let state = bed.inspect(&task).await.state.status;
    assert_eq!(state, ContainerStatus::Running);
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
}
