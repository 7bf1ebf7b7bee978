use longshore_engine::spec::{NetworkMode, Propagation};
use longshore_engine::{ContainerSpec, MountKind, PullPolicy};

use super::*;
use crate::{DefaultDns, MappedTask, TaskContext, map_task, schedule};

fn nothing(_: &str) -> Option<String> {
    None
}

fn build(flags: &[(&str, &str)], words: &[&str]) -> Result<Built> {
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    let flags: Vec<_> = flags
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    from_flags(flags.into(), &words, Path::new("/here"), &nothing)
}

fn mapped(flags: &[(&str, &str)], words: &[&str]) -> MappedTask {
    let built = build(flags, words).unwrap();
    let context = TaskContext {
        container_name: "c".to_owned(),
        sandbox: None,
        task_environment: Vec::new(),
        default_dns: DefaultDns::default(),
        enable_cfs: false,
        host_memory: 1 << 30,
        prepared_by_agent: false,
    };
    map_task(&built.task, &context).unwrap()
}

fn container(flags: &[(&str, &str)]) -> ContainerSpec {
    mapped(flags, &["busybox"]).container
}

fn refused(flags: &[(&str, &str)], words: &[&str]) -> String {
    format!("{:#}", build(flags, words).unwrap_err())
}

#[test]
fn an_image_alone_runs_its_own_command_on_the_bridge() {
    let task = mapped(&[], &["busybox"]);
    assert_eq!(task.container.image, "docker.io/library/busybox:latest");
    assert_eq!(
        (task.container.cmd, task.container.entrypoint),
        (None, None)
    );
    assert_eq!(task.container.network, NetworkMode::Bridge);
    assert_eq!(task.pull, PullPolicy::Missing);
}

#[test]
fn words_and_entrypoint_are_dockers() {
    let words = ["busybox", "sh", "-c", "exit 3"];
    let spec = mapped(&[("entrypoint", "/bin/env")], &words).container;
    assert_eq!(spec.cmd.unwrap(), ["sh", "-c", "exit 3"]);
    assert_eq!(spec.entrypoint.unwrap(), ["/bin/env"]);
}

#[test]
fn flags_arrive_in_the_container() {
    let spec = container(&[
        ("env", "A=1"),
        ("volume", "./data:/data:ro,rslave"),
        ("mount", "type=bind,source=/etc,target=/e"),
        ("publish", "8080:80"),
        ("user", "1000:1000"),
        ("workdir", "/w"),
        ("label", "k=v"),
        ("cpus", "0.5"),
        ("memory", "64m"),
        ("device", "/dev/null"),
        ("privileged", "true"),
        ("cap-add", "NET_ADMIN"),
        ("stop-signal", "SIGINT"),
        ("network", "mine"),
    ]);
    assert!(spec.env.iter().any(|v| v.name == "A" && v.value == "1"));
    let MountKind::Bind {
        source,
        propagation,
        ..
    } = &spec.mounts[0].kind
    else {
        panic!("{:?}", spec.mounts[0])
    };
    assert_eq!(source, "/here/./data");
    assert_eq!(*propagation, Some(Propagation::RSlave));
    assert!(spec.mounts[0].read_only);
    assert_eq!(spec.mounts[1].target, "/e");
    assert_eq!(spec.ports[0].host_port, Some(8080));
    assert_eq!(spec.user.as_deref(), Some("1000:1000"));
    assert_eq!(spec.working_dir.as_deref(), Some("/w"));
    assert_eq!(spec.labels["k"], "v");
    assert_eq!(spec.resources.nano_cpus, Some(500_000_000));
    assert_eq!(spec.resources.memory, Some(64 << 20));
    assert_eq!(spec.resources.devices.len(), 1);
    assert!(spec.privileged);
    assert_eq!(spec.cap_add, ["NET_ADMIN"]);
    assert_eq!(spec.stop_signal.as_deref(), Some("SIGINT"));
    assert_eq!(spec.network, NetworkMode::Named("mine".to_owned()));
}

#[test]
fn a_name_is_id_and_container_and_never_an_agents() {
    let built = build(&[("name", "web-1")], &["busybox"]).unwrap();
    assert_eq!(built.task.task_id.value, "web-1");
    assert_eq!(built.container_name.as_deref(), Some("web-1"));
    let unnamed = build(&[], &["busybox"]).unwrap();
    assert_eq!(
        unnamed.task.task_id.value, "",
        "whoever keeps it gives it one"
    );
    for name in ["mesos-1", "", "a", "-ab", "a/b", "ä1", "a b"] {
        let text = refused(&[("name", name)], &["busybox"]);
        assert!(text.contains("--name"), "{name}: {text}");
    }
}

#[test]
fn times_pulls_and_health_checks() {
    let built = build(
        &[
            ("stop-timeout", "3"),
            ("pull", "always"),
            ("health-cmd", "test -e /ok"),
            ("health-interval", "1m30s"),
            ("health-timeout", "500ms"),
            ("health-retries", "2"),
        ],
        &["busybox"],
    )
    .unwrap();
    let times = schedule(&built.task).unwrap();
    assert_eq!(times.grace, Some(std::time::Duration::from_secs(3)));
    let check = built.task.health_check.unwrap();
    assert_eq!(check.command.as_ref().unwrap().value(), "test -e /ok");
    assert_eq!(
        (check.interval_seconds(), check.timeout_seconds()),
        (90.0, 0.5)
    );
    assert_eq!(
        (check.consecutive_failures(), check.grace_period_seconds()),
        (2, 0.0)
    );
    for (value, policy) in [
        ("always", PullPolicy::Always),
        ("missing", PullPolicy::Missing),
        ("never", PullPolicy::Never),
    ] {
        assert_eq!(mapped(&[("pull", value)], &["i"]).pull, policy);
    }
}

/// Flags, words, and what the error names.
type Bad<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a [&'a str]);

#[test]
fn bad_input_is_refused_by_flag_and_value() {
    let cases: &[Bad<'_>] = &[
        (&[], &[], &["no image"]),
        (&[], &["UPPER case"], &["UPPER case"]),
        (&[("stop-timeout", "-1")], &["i"], &["--stop-timeout", "-1"]),
        (&[("pull", "often")], &["i"], &["pull", "often", "never"]),
        (
            &[("health-retries", "2")],
            &["i"],
            &["--health-retries", "--health-cmd"],
        ),
        (
            &[("health-interval", "5s")],
            &["i"],
            &["--health-interval", "--health-cmd"],
        ),
        (
            &[("health-cmd", "x"), ("health-interval", "-5s")],
            &["i"],
            &["--health-interval", "-5s"],
        ),
        (
            &[("health-cmd", "x"), ("health-retries", "0")],
            &["i"],
            &["--health-retries", "0"],
        ),
        (
            &[("volume", "data:relative")],
            &["i"],
            &["--volume", "data:relative"],
        ),
        (&[("memory", "lots")], &["i"], &["--memory", "lots"]),
        (
            &[("restart", "always")],
            &["i"],
            &["--restart cannot be served"],
        ),
    ];
    for (flags, words, parts) in cases {
        let text = refused(flags, words);
        for part in *parts {
            assert!(text.contains(part), "{flags:?} {words:?}: {text}");
        }
    }
}

#[test]
fn no_value_of_a_variable_is_in_an_error() {
    let long = "x".repeat(100);
    for (name, value) in [
        ("log-opt", "=hidden"),
        ("sysctl", "hidden"),
        ("label", "=hidden"),
    ] {
        let text = refused(&[("env", &format!("A={long}")), (name, value)], &["i"]);
        assert!(!text.contains(&long), "{text}");
    }
}

#[test]
fn times_are_gos() {
    for (text, seconds) in [
        ("0", Some(0.0)),
        ("30s", Some(30.0)),
        ("1h1m1s", Some(3661.0)),
        ("1.5m", Some(90.0)),
        ("", None),
        ("30", None),
        ("-1s", None),
        ("s", None),
        ("1x", None),
    ] {
        assert_eq!(docker_duration(text), seconds, "{text}");
    }
}

#[test]
fn a_file_is_a_task_of_mesos_and_may_leave_out_what_is_an_agents() {
    let text = br#"{"command": {"shell": false}, "container": {"type": "DOCKER",
        "docker": {"image": "busybox"}}, "comand": {}}"#;
    let (built, unknown) = from_file(text, Path::new("task.json")).unwrap();
    assert_eq!(unknown, ["comand"]);
    assert_eq!(built.task.name, "task");
    assert_eq!(built.task.task_id.value, "");
    assert_eq!(built.container_name, None);
    let text = br#"{"task_id": {"value": "one"}}"#;
    let (built, _) = from_file(text, Path::new("task.json")).unwrap();
    assert_eq!(
        (built.task.name.as_str(), built.task.task_id.value.as_str()),
        ("one", "one")
    );
    for bad in ["", "[]", "{", r#"{"task_id": 3}"#, r#"{"command": "x"}"#] {
        let error = from_file(bad.as_bytes(), Path::new("task.json")).unwrap_err();
        assert!(
            format!("{error:#}").contains("task.json"),
            "{bad}: {error:#}"
        );
    }
}
