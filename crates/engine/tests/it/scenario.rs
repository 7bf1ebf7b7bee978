//! What every engine has to do, from the creation of containers to their removal.

// long: one scenario in the order of a container's life.

use std::time::Duration;

use longshore_engine::spec::LogDriver;
use longshore_engine::{
    ContainerSpec, ContainerStatus, DockerConfig, DockerEngine, Engine as _, EngineError,
    EngineKind, EnvVar, EventFilter, EventItem, ExecSpec, ListFilter, LogOptions, LogSource,
    LogStream, Missing, Mount, NetworkMode, PullPolicy, PullRequest, RemoveOptions, Resources,
    WaitUntil,
};
use longshore_testkit::peers::TEST_IMAGE;

use crate::daemon::PATIENCE;

const FORCE: RemoveOptions = RemoveOptions {
    force: true,
    volumes: true,
};

pub(crate) fn engine(socket: &std::path::Path) -> DockerEngine {
    let address = format!("unix://{}", socket.display());
    let mut config = DockerConfig::new(address.parse().unwrap());
    config.client_config = None;
    // The machine may be busy.
    config.deadlines.quick = PATIENCE * 2;
    config.deadlines.slow = PATIENCE * 4;
    DockerEngine::new(config)
}

/// One engine, and a label that only this test's containers have.
pub(crate) struct Bench {
    pub(crate) engine: DockerEngine,
    label: String,
    kind: EngineKind,
}

impl Bench {
    pub(crate) async fn new(socket: &std::path::Path, test: &str) -> Self {
        let engine = engine(socket);
        let version = engine.version().await.unwrap();
        #[expect(clippy::print_stderr, reason = "versions are printed, never asserted")]
        {
            eprintln!("{version:?}");
        }
        Self {
            engine,
            label: format!("org.longshore.test={test}-{}", std::process::id()),
            kind: version.kind,
        }
    }

    fn spec(&self, script: &str) -> ContainerSpec {
        let (key, value) = self.label.split_once('=').unwrap();
        ContainerSpec {
            cmd: Some(vec!["sh".into(), "-c".into(), script.into()]),
            labels: [(key.to_owned(), value.to_owned())].into(),
            network: NetworkMode::None,
            log: Some(LogDriver {
                driver: if self.kind == EngineKind::Podman {
                    "k8s-file"
                } else {
                    "json-file"
                }
                .into(),
                ..LogDriver::default()
            }),
            ..ContainerSpec::new(TEST_IMAGE)
        }
    }

    async fn created(&self, spec: &ContainerSpec) -> String {
        self.engine.create(spec).await.unwrap().id
    }

    async fn started(&self, script: &str) -> String {
        let id = self.created(&self.spec(script)).await;
        self.engine.start(&id).await.unwrap();
        id
    }

    /// Runs it to its end, and returns the exit code.
    async fn run(&self, spec: &ContainerSpec) -> (String, i64) {
        let id = self.created(spec).await;
        let wait = self.engine.wait(&id, WaitUntil::NextExit).await.unwrap();
        self.engine.start(&id).await.unwrap();
        let exit = tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
        (id, exit.code)
    }

    pub(crate) async fn clean(&self) {
        let left = self
            .engine
            .list(&ListFilter::labelled([&self.label]))
            .await
            .unwrap();
        for container in left {
            self.engine.remove(&container.id, FORCE).await.unwrap();
        }
    }
}

async fn text(logs: &mut LogStream, source: LogSource) -> String {
    let mut text = Vec::new();
    while let Some(frame) = tokio::time::timeout(PATIENCE, logs.next()).await.unwrap() {
        let frame = frame.unwrap();
        if frame.source == source {
            text.extend_from_slice(&frame.data);
        }
    }
    String::from_utf8(text).unwrap()
}

pub(crate) async fn all(bench: &Bench) {
    life(bench).await;
    kills(bench).await;
    output(bench).await;
    exec(bench).await;
    refusals(bench).await;
    settings(bench).await;
    images(bench).await;
    bench.clean().await;
}

/// An image of nothing is made, used and removed.
async fn images(bench: &Bench) {
    let engine = &bench.engine;
    let name = format!("longshore-made-{}", std::process::id());
    let nothing = vec![0; 1024];
    let id = engine
        .import_image(&name, "one", nothing.into())
        .await
        .unwrap();
    let info = engine.inspect_image(&format!("{name}:one")).await.unwrap();
    // Podman leaves the algorithm out.
    assert!(
        id.ends_with(info.id.trim_start_matches("sha256:")),
        "{id} {info:?}"
    );
    assert!(engine.remove_image(&id).await.unwrap());
    assert!(!engine.remove_image(&id).await.unwrap());
    let error = engine
        .import_image("Not A Name", "one", vec![0; 1024].into())
        .await
        .unwrap_err();
    assert!(matches!(error, EngineError::Status { .. }), "{error:?}");
}

/// From creation to removal, with the events of it.
async fn life(bench: &Bench) {
    let engine = &bench.engine;
    let mut events = engine
        .events(&EventFilter::containers_labelled([&bench.label]))
        .await
        .unwrap();
    let (id, code) = bench.run(&bench.spec("exit 7")).await;
    assert_eq!(code, 7);
    let info = engine.inspect(&id).await.unwrap();
    assert_eq!(
        (
            info.state.status.clone(),
            info.state.exit_code,
            info.state.pid
        ),
        (ContainerStatus::Exited, 7, None)
    );
    assert!(
        info.state.started_at.is_some() && info.state.finished_at.is_some(),
        "{info:?}"
    );
    let found = engine
        .list(&ListFilter::labelled([&bench.label]))
        .await
        .unwrap();
    assert!(
        found
            .iter()
            .any(|one| one.id == id && one.status == ContainerStatus::Exited),
        "{found:?}"
    );
    let running = ListFilter {
        all: false,
        ..ListFilter::labelled([&bench.label])
    };
    assert!(engine.list(&running).await.unwrap().is_empty());
    engine.remove(&id, RemoveOptions::default()).await.unwrap();
    assert!(
        engine
            .inspect(&id)
            .await
            .unwrap_err()
            .is_no_such_container()
    );
    let mut seen = Vec::new();
    while seen.last().map(String::as_str) != Some("destroy")
        && seen.last().map(String::as_str) != Some("remove")
    {
        match tokio::time::timeout(PATIENCE, events.next()).await.unwrap() {
            EventItem::Event(event) => {
                assert_eq!(event.id, id);
                if event.action == "die" {
                    assert_eq!(event.exit_code(), Some(7), "{event:?}");
                }
                seen.push(event.action);
            }
            other => panic!("{other:?}"),
        }
    }
    let at = |action: &str| seen.iter().position(|one| one == action);
    assert!(
        at("create") < at("start") && at("start") < at("die") && at("create").is_some(),
        "{seen:?}"
    );
}

/// Signals, the engine's own stop, pausing.
async fn kills(bench: &Bench) {
    let engine = &bench.engine;
    let id = bench.started("sleep 1000").await;
    let info = engine.inspect(&id).await.unwrap();
    assert_eq!(info.state.status, ContainerStatus::Running);
    let pid = info.state.pid.unwrap();
    assert!(
        std::path::Path::new(&format!("/proc/{pid}")).exists(),
        "the pid is that of this machine"
    );
    let wait = engine.wait(&id, WaitUntil::NotRunning).await.unwrap();
    engine.pause(&id).await.unwrap();
    assert_eq!(
        engine.inspect(&id).await.unwrap().state.status,
        ContainerStatus::Paused
    );
    engine.unpause(&id).await.unwrap();
    engine.kill(&id, "SIGKILL").await.unwrap();
    let exit = tokio::time::timeout(PATIENCE, wait).await.unwrap().unwrap();
    assert_eq!(exit.code, 137);
    let error = engine.kill(&id, "TERM").await.unwrap_err();
    assert!(
        error
            .status()
            .is_some_and(|status| status == 409 || status == 500),
        "{error:?}"
    );

    // One that ignores TERM is killed at the end of the grace.
    let id = bench.started("trap '' TERM; sleep 1000").await;
    engine.stop(&id, Duration::from_secs(1)).await.unwrap();
    let state = engine.inspect(&id).await.unwrap().state;
    assert_eq!(
        (state.status, state.exit_code),
        (ContainerStatus::Exited, 137)
    );
    match engine.stop(&id, Duration::ZERO).await {
        Err(EngineError::NotModified { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(engine.remove(&id, FORCE).await.is_ok());
}

/// Both streams, in order, complete; from a terminal; again from a moment on.
async fn output(bench: &Bench) {
    let engine = &bench.engine;
    let (id, _) = bench
        .run(&bench.spec("for i in 1 2 3; do echo out $i; echo err $i >&2; done"))
        .await;
    let mut logs = engine.logs(&id, &LogOptions::default()).await.unwrap();
    assert_eq!(
        text(&mut logs, LogSource::Stdout).await,
        "out 1\nout 2\nout 3\n"
    );
    let only = LogOptions {
        stdout: false,
        timestamps: true,
        ..LogOptions::default()
    };
    let mut logs = engine.logs(&id, &only).await.unwrap();
    let mut times = Vec::new();
    while let Some(frame) = logs.next().await {
        let frame = frame.unwrap();
        let (time, line) = frame.split_time().unwrap_or_else(|| panic!("{frame:?}"));
        assert!(
            frame.source == LogSource::Stderr && line.starts_with(b"err "),
            "{frame:?}"
        );
        times.push(time);
    }
    assert_eq!(times.len(), 3);
    // Whether `since` includes its moment differs.
    let again = LogOptions {
        since: Some(times[2].before(Duration::from_secs(1))),
        ..only
    };
    let mut logs = engine.logs(&id, &again).await.unwrap();
    assert!(
        text(&mut logs, LogSource::Stderr)
            .await
            .ends_with("err 3\n")
    );

    all_output(bench).await;

    let spec = ContainerSpec {
        tty: true,
        ..bench.spec("echo out; echo err >&2")
    };
    let (id, _) = bench.run(&spec).await;
    let mut logs = engine.logs(&id, &LogOptions::default()).await.unwrap();
    assert_eq!(text(&mut logs, LogSource::Stdout).await, "out\r\nerr\r\n");
}

/// Followed to its end, then read again from the last time on: nothing is lost and nothing doubled, though
/// Docker 20.10 ends a follow too early.
async fn all_output(bench: &Bench) {
    let lines = 20_000;
    let script = format!("i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); done");
    let id = bench.started(&script).await;
    let mut wait = bench.engine.wait(&id, WaitUntil::NotRunning).await.unwrap();
    let mut told = Vec::new();
    let (mut last, mut of_last) = (None::<longshore_engine::EngineTime>, 0);
    // Podman leaves out messages in the middle of a follow.
    let reads: &[bool] = match bench.kind {
        EngineKind::Podman => &[false],
        _ => &[true, false],
    };
    for &follow in reads {
        let options = LogOptions {
            follow,
            since: last.map(|time| time.before(Duration::from_secs(1))),
            timestamps: true,
            ..LogOptions::default()
        };
        if !follow {
            let exit = tokio::time::timeout(PATIENCE, &mut wait).await;
            assert_eq!(exit.unwrap().unwrap().code, 0);
        }
        let mut skip = of_last;
        let mut logs = bench.engine.logs(&id, &options).await.unwrap();
        while let Some(frame) = tokio::time::timeout(PATIENCE, logs.next()).await.unwrap() {
            let (time, line) = frame.unwrap().split_time().unwrap();
            if Some(time) < last || (Some(time) == last && skip > 0) {
                skip -= usize::from(Some(time) == last);
                continue;
            }
            of_last = if Some(time) == last { of_last + 1 } else { 1 };
            last = Some(time);
            told.extend_from_slice(&line);
        }
    }
    let expected: String = (0..lines).map(|index| format!("line {index}\n")).collect();
    let told = String::from_utf8(told).unwrap();
    let differs = told
        .lines()
        .zip(expected.lines())
        .position(|(one, other)| one != other);
    assert!(
        told == expected,
        "{} of {} bytes, differing from line {differs:?} on",
        told.len(),
        expected.len()
    );
}

/// A command within a container: its output, its exit code, and its end by its pid.
async fn exec(bench: &Bench) {
    let engine = &bench.engine;
    let id = bench.started("sleep 1000").await;
    let spec = ExecSpec {
        cmd: vec![
            "sh".into(),
            "-c".into(),
            "echo $A; pwd; echo err >&2; exit 3".into(),
        ],
        env: vec![EnvVar::new("A", "b c")],
        working_dir: Some("/tmp".into()),
        ..ExecSpec::default()
    };
    let exec = engine.exec_create(&id, &spec).await.unwrap();
    let mut output = engine.exec_start(&exec).await.unwrap();
    assert_eq!(text(&mut output, LogSource::Stdout).await, "b c\n/tmp\n");
    let ended = until_ended(engine, &exec).await;
    assert_eq!(
        (ended.exit_code, ended.pid, ended.container),
        (Some(3), None, id.clone())
    );

    let spec = ExecSpec {
        cmd: vec!["sleep".into(), "1000".into()],
        ..ExecSpec::default()
    };
    let exec = engine.exec_create(&id, &spec).await.unwrap();
    let mut output = engine.exec_start(&exec).await.unwrap();
    let pid = loop {
        let info = engine.exec_inspect(&exec).await.unwrap();
        if let Some(pid) = info.pid {
            break pid;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    text(&mut output, LogSource::Stdout).await;
    assert_eq!(until_ended(engine, &exec).await.exit_code, Some(137));
    engine.remove(&id, FORCE).await.unwrap();
}

async fn until_ended(engine: &DockerEngine, exec: &str) -> longshore_engine::ExecInfo {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let info = engine.exec_inspect(exec).await.unwrap();
        if !info.running {
            return info;
        }
        assert!(tokio::time::Instant::now() < deadline, "{info:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What an engine refuses, and how that is told apart.
async fn refusals(bench: &Bench) {
    let engine = &bench.engine;
    let none = "0123456789abcdef";
    assert!(engine.start(none).await.unwrap_err().is_no_such_container());
    assert!(
        engine
            .kill(none, "TERM")
            .await
            .unwrap_err()
            .is_no_such_container()
    );
    assert!(
        engine
            .wait(none, WaitUntil::NextExit)
            .await
            .unwrap_err()
            .is_no_such_container()
    );
    assert!(
        engine
            .logs(none, &LogOptions::default())
            .await
            .unwrap_err()
            .is_no_such_container()
    );
    let absent = ContainerSpec {
        image: "longshore-absent:1".into(),
        ..bench.spec("true")
    };
    let error = engine.create(&absent).await.unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::NotFound {
                what: Missing::Image,
                ..
            }
        ),
        "{error:?}"
    );
    let never = PullRequest {
        policy: PullPolicy::Never,
        ..PullRequest::new("longshore-absent:1")
    };
    assert!(
        engine
            .pull(never)
            .done()
            .await
            .unwrap_err()
            .is_no_such_image()
    );
    engine
        .pull(PullRequest::new(TEST_IMAGE))
        .done()
        .await
        .unwrap();
    // Nobody listens there.
    let error = engine
        .pull(PullRequest::new("127.0.0.1:1/nothing"))
        .done()
        .await
        .unwrap_err();
    assert!(
        matches!(error, EngineError::Pull { .. } | EngineError::Status { .. }),
        "{error:?}"
    );

    let name = format!("longshore-test-{}", std::process::id());
    let named = ContainerSpec {
        name: Some(name.clone()),
        ..bench.spec("sleep 1000")
    };
    let id = bench.created(&named).await;
    let error = engine.create(&named).await.unwrap_err();
    let taken = matches!(error, EngineError::Conflict { .. });
    assert!(
        taken || (bench.kind == EngineKind::Podman && error.status() == Some(500)),
        "{error:?}"
    );
    engine.start(&name).await.unwrap();
    assert!(matches!(
        engine.start(&id).await,
        Err(EngineError::NotModified { .. })
    ));
    let error = engine
        .remove(&id, RemoveOptions::default())
        .await
        .unwrap_err();
    assert!(
        error
            .status()
            .is_some_and(|status| status == 409 || status == 500),
        "{error:?}"
    );
    engine.remove(&id, FORCE).await.unwrap();

    for (program, code) in [
        ("/nosuch", 127),
        ("nosuch", 127),
        ("/bin/not-executable", 126),
        ("/etc", 126),
    ] {
        let spec = ContainerSpec {
            cmd: Some(vec![program.into()]),
            ..bench.spec("")
        };
        let id = bench.created(&spec).await;
        let error = engine.start(&id).await.unwrap_err();
        assert_eq!(error.start_exit_code(), code, "{program}: {error:?}");
    }
    let spec = ContainerSpec {
        mounts: vec![Mount::bind("/proc/1/nosuch", "/x")],
        ..bench.spec("true")
    };
    if let Ok(created) = engine.create(&spec).await {
        let error = engine.start(&created.id).await.unwrap_err();
        assert_eq!(error.start_exit_code(), 125, "{error:?}");
    }
}

/// What is asked for is what the container has.
async fn settings(bench: &Bench) {
    let engine = &bench.engine;
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::write(dir.path().join("file"), "from the host").unwrap();
    let spec = ContainerSpec {
        env: vec![EnvVar::new("A", "x=y\nz")],
        user: Some("nobody".into()),
        working_dir: Some("/tmp".into()),
        hostname: Some("somewhere".into()),
        mounts: vec![Mount::bind(dir.path().display().to_string(), "/data").read_only()],
        resources: Resources {
            cpu_shares: Some(512),
            memory: Some(64 << 20),
            ..Resources::default()
        },
        ..bench.spec(
            "echo \"$A\"; id -un; pwd; hostname; cat /data/file; touch /data/x 2>/dev/null || echo read-only",
        )
    };
    let (id, code) = bench.run(&spec).await;
    let mut logs = engine.logs(&id, &LogOptions::default()).await.unwrap();
    let told = text(&mut logs, LogSource::Stdout).await;
    assert_eq!(
        (told.as_str(), code),
        (
            "x=y\nz\nnobody\n/tmp\nsomewhere\nfrom the hostread-only\n",
            0
        )
    );
    let info = engine.inspect(&id).await.unwrap();
    assert!(
        info.env.contains(&EnvVar::new("A", "x=y\nz")) && !info.redacted_json().contains("x=y")
    );
    let mount = info
        .mounts
        .iter()
        .find(|mount| mount.destination == "/data")
        .unwrap();
    assert!(!mount.writable && mount.kind == "bind", "{mount:?}");

    let id = bench.started("sleep 1000").await;
    let limits = Resources {
        cpu_shares: Some(256),
        ..Resources::default()
    };
    engine.update(&id, &limits).await.unwrap();
    assert!(
        engine
            .inspect(&id)
            .await
            .unwrap()
            .redacted_json()
            .contains("\"CpuShares\":256")
    );
    engine.remove(&id, FORCE).await.unwrap();
    let image = engine.inspect_image(TEST_IMAGE).await.unwrap();
    assert_eq!(
        (image.cmd, image.os.as_str()),
        (vec!["sh".to_owned()], "linux")
    );
}
