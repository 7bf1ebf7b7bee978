//! Mapped tasks and captured output, on a real Docker.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use longshore_engine::{
    ContainerSpec, DockerConfig, DockerEngine, Engine as _, RemoveOptions, WaitUntil,
};
use longshore_mesos_api::v1::TaskInfo;
use longshore_mesos_api::{DecodeLimits, json};
use longshore_sandbox::Rotation;
use longshore_task_spec::logs::{Gap, LogCapture, LogPosition};
use longshore_task_spec::{DefaultDns, Sandbox, TaskContext, map_task};
use longshore_testkit::peers::{self, TEST_IMAGE};
use tokio::time::timeout;

/// Long enough for a busy machine; no test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(120);
const ROTATION: Rotation = Rotation {
    max_bytes: 16 << 20,
    keep: 4,
};

/// An engine, and a sandbox that every user may write to.
struct Bed {
    engine: DockerEngine,
    sandbox: tempfile::TempDir,
}

impl Bed {
    fn new() -> Option<Self> {
        let socket = peers::docker()?;
        let address = format!("unix://{}", socket.display());
        let mut config = DockerConfig::new(address.parse().unwrap());
        config.client_config = None;
        config.deadlines.quick = PATIENCE;
        config.deadlines.slow = PATIENCE;
        let sandbox = tempfile::tempdir().unwrap();
        fs::set_permissions(sandbox.path(), fs::Permissions::from_mode(0o777)).unwrap();
        Some(Self {
            engine: DockerEngine::new(config),
            sandbox,
        })
    }

    /// A task with these members of `docker`, `container` and `command`, each with its comma.
    fn map(&self, name: &str, docker: &str, container: &str, command: &str) -> ContainerSpec {
        let text = format!(
            r#"{{"name":"t","task_id":{{"value":"t"}},"agent_id":{{"value":"a"}},"command":{{{command}"shell":true}},
                "resources":[{{"name":"cpus","type":"SCALAR","scalar":{{"value":0.5}}}},
                    {{"name":"mem","type":"SCALAR","scalar":{{"value":64}}}},
                    {{"name":"ports","type":"RANGES","ranges":{{"range":[{{"begin":31000,"end":32000}}]}}}}],
                "container":{{"type":"DOCKER",{container}"docker":{{{docker}"image":"{TEST_IMAGE}"}}}}}}"#
        );
        let task: TaskInfo = json::from_slice(text.as_bytes(), &DecodeLimits::default()).unwrap();
        let context = TaskContext {
            container_name: format!("longshore-test-{name}-{}", std::process::id()),
            sandbox: Some(Sandbox {
                host: self.sandbox.path().display().to_string(),
                mapped: "/mnt/mesos/sandbox".to_owned(),
            }),
            task_environment: Vec::new(),
            default_dns: DefaultDns::default(),
            enable_cfs: true,
            host_memory: 16 << 30,
            prepared_by_agent: true,
        };
        map_task(&task, &context).unwrap().container
    }

    /// Runs it to its end; its id and exit code.
    async fn run(&self, spec: &ContainerSpec) -> (String, i64) {
        let id = self.engine.create(spec).await.unwrap().id;
        let wait = self.engine.wait(&id, WaitUntil::NextExit).await.unwrap();
        self.engine.start(&id).await.unwrap();
        let exit = timeout(PATIENCE, wait).await.unwrap().unwrap();
        (id, exit.code)
    }

    async fn remove(&self, id: &str) {
        let options = RemoveOptions {
            force: true,
            volumes: true,
        };
        self.engine.remove(id, options).await.unwrap();
    }

    fn capture(&self, position: &LogPosition) -> LogCapture {
        let dir = longshore_sandbox::dirs::open(self.sandbox.path()).unwrap();
        LogCapture::open(&dir, None, ROTATION, position).unwrap()
    }

    /// Reads until the end, or until so many pieces were taken.
    async fn follow(&self, id: &str, capture: &mut LogCapture, pieces: usize) -> (bool, Vec<Gap>) {
        let mut stream = self.engine.logs(id, &capture.options()).await.unwrap();
        capture.reopened().unwrap();
        let mut gaps = Vec::new();
        for _ in 0..pieces {
            match timeout(PATIENCE, stream.next()).await.unwrap() {
                Some(frame) => gaps.extend(capture.take(&frame.unwrap())),
                None => {
                    gaps.extend(capture.ended());
                    return (true, gaps);
                }
            }
        }
        (false, gaps)
    }

    fn read(&self, name: &str) -> String {
        read(&self.sandbox.path().join(name))
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn docker_makes_of_a_task_what_it_says() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("in"), "from the host").unwrap();
    let script = r#"cat /host/in; echo; echo \"$LINES\"; echo $MESOS_SANDBOX $MESOS_CONTAINER_NAME; id -u; ulimit -n;
        hostname; echo x > /mnt/mesos/sandbox/out; echo y > /host/in; echo no >&2; exit 3"#;
    let script = script.replace('\n', " ");
    let spec = bed.map(
        "everything",
        r#""network":"BRIDGE","port_mappings":[{"host_port":31999,"container_port":80}],
            "parameters":[{"key":"tmpfs","value":"/scratch:size=1m"},{"key":"label","value":"a=b"},
                {"key":"cap-drop","value":"NET_RAW"},{"key":"init","value":"false"}],"#,
        &format!(
            r#""hostname":"dock","rlimit_info":{{"rlimits":[{{"type":"RLMT_NOFILE","soft":77,"hard":88}}]}},
                "volumes":[{{"host_path":"{}","container_path":"/host","mode":"RO"}},
                    {{"host_path":"sub","container_path":"/sub","mode":"RW"}}],"#,
            host.path().display()
        ),
        &format!(
            r#""value":"{script}","user":"1234","environment":{{"variables":[{{"name":"LINES","value":"one\ntwo"}}]}},"#
        ),
    );
    let (id, code) = bed.run(&spec).await;
    assert_eq!(code, 3);
    let mut capture = bed.capture(&LogPosition::default());
    let (ended, gaps) = bed.follow(&id, &mut capture, usize::MAX).await;
    assert!(ended && gaps.is_empty(), "{gaps:?}");
    let name = spec.name.as_deref().unwrap();
    let expected = format!("from the host\none\ntwo\n/mnt/mesos/sandbox {name}\n1234\n77\ndock\n");
    assert_eq!(bed.read("stdout"), expected);
    let errors = bed.read("stderr");
    assert!(
        errors.ends_with("no\n") && errors.contains("/host/in"),
        "{errors}"
    );
    assert_eq!(bed.read("out"), "x\n");
    assert_eq!(read(&host.path().join("in")), "from the host", "read-only");
    assert!(bed.sandbox.path().join("sub").is_dir());
    bed.remove(&id).await;
}

#[tokio::test]
async fn dx8_output_is_whole_though_its_stream_breaks_and_we_die() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let script = "i=0; while [ $i -lt 3000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let spec = bed.map(
        "logs",
        r#""network":"NONE","#,
        "",
        &format!(r#""value":"{script}","#),
    );
    let id = bed.engine.create(&spec).await.unwrap().id;
    bed.engine.start(&id).await.unwrap();
    let mut capture = bed.capture(&LogPosition::default());
    let mut position = capture.position();
    let mut pieces = 1;
    for round in 0.. {
        assert!(round < 100, "it never ends");
        let (ended, gaps) = bed.follow(&id, &mut capture, pieces).await;
        assert_eq!(gaps, [], "round {round}");
        if ended {
            break;
        }
        pieces = pieces * 2 + 37;
        match round % 3 {
            // The stream alone breaks; then with a record; then we die, with a record that is one round old.
            0 => {}
            1 => position = capture.position(),
            _ => capture = bed.capture(&position),
        }
    }
    for (name, word) in [("stdout", "out"), ("stderr", "err")] {
        let expected: String = (0..3000).map(|n| format!("{word} {n}\n")).collect();
        let found = bed.read(name);
        assert!(
            found == expected,
            "{name}: {} bytes for {}",
            found.len(),
            expected.len()
        );
    }
    bed.remove(&id).await;
}

#[tokio::test]
async fn dx8_a_terminals_output_is_whole_too() {
    let Some(bed) = Bed::new() else {
        return;
    };
    // Lines short and long, and a last one without an end.
    let script = "x=0123456789abcdef; for n in 1 2 3 4 5 6 7 8 9 10 11; do x=$x$x; done; i=0; \
        while [ $i -lt 500 ]; do echo line $i; i=$((i+1)); done; echo $x; echo done; printf prompt";
    let script = script.replace('\n', " ");
    let spec = bed.map(
        "terminal",
        r#""network":"NONE","#,
        r#""tty_info":{"window_size":{"rows":24,"columns":80}},"#,
        &format!(r#""value":"{script}","#),
    );
    let id = bed.engine.create(&spec).await.unwrap().id;
    bed.engine.start(&id).await.unwrap();
    let mut capture = bed.capture(&LogPosition::default()).of_terminal();
    let mut position = capture.position();
    let mut pieces = 1;
    for round in 0.. {
        assert!(round < 100, "it never ends");
        let (ended, gaps) = bed.follow(&id, &mut capture, pieces).await;
        pieces = pieces * 2 + 5;
        assert_eq!(gaps, [], "round {round}");
        if ended {
            break;
        }
        match round % 3 {
            0 => {}
            1 => position = capture.position(),
            _ => capture = bed.capture(&position).of_terminal(),
        }
    }
    let lines: String = (0..500).map(|n| format!("line {n}\r\n")).collect();
    let long = "0123456789abcdef".repeat(1 << 11);
    let expected = format!("{lines}{long}\r\ndone\r\nprompt");
    let found = bed.read("stdout");
    assert!(
        found == expected,
        "{} bytes for {}",
        found.len(),
        expected.len()
    );
    bed.remove(&id).await;
}

#[tokio::test]
async fn what_docker_has_rotated_out_is_a_gap() {
    let Some(bed) = Bed::new() else {
        return;
    };
    let script = "echo first; cat; i=0; while [ $i -lt 3000 ]; do echo more $i; i=$((i+1)); done";
    let logs = r#""parameters":[{"key":"log-driver","value":"json-file"},{"key":"log-opt","value":"max-size=20k"},
        {"key":"log-opt","value":"max-file=2"}],"network":"NONE","#;
    let spec = bed.map("gap", logs, "", &format!(r#""value":"{script}","#));
    let (id, code) = bed.run(&spec).await;
    assert_eq!(code, 0);
    // As if only the first line had been read before all the others came.
    let mut capture = bed.capture(&LogPosition::default());
    let first = longshore_engine::LogFrame {
        source: longshore_engine::LogSource::Stdout,
        data: "2020-01-01T00:00:00.000000000Z first\n".to_owned().into(),
        continues: false,
    };
    assert_eq!(capture.take(&first), None);
    let (ended, gaps) = bed.follow(&id, &mut capture, usize::MAX).await;
    assert!(ended);
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].before.is_some());
    let found = bed.read("stdout");
    assert!(found.starts_with("first\nmore "), "{}", &found[..40]);
    assert!(found.ends_with("more 2999\n") && !found.contains("more 0\n"));
    bed.remove(&id).await;
}
