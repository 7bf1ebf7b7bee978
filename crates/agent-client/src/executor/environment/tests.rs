use super::*;

/// The environment that a Mesos 1.11 agent was seen to give.
const SEEN: &[(&str, &str)] = &[
    ("LIBPROCESS_IP", "127.0.0.1"),
    ("LIBPROCESS_PORT", "0"),
    ("MESOS_AGENT_ENDPOINT", "127.0.0.1:5051"),
    ("MESOS_CHECKPOINT", "1"),
    ("MESOS_DIRECTORY", "/var/lib/mesos/runs/1"),
    ("MESOS_EXECUTOR_ID", "executor"),
    ("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", "7secs"),
    ("MESOS_FRAMEWORK_ID", "framework-0000"),
    ("MESOS_HTTP_COMMAND_EXECUTOR", "0"),
    ("MESOS_RECOVERY_TIMEOUT", "15mins"),
    ("MESOS_SANDBOX", "/mnt/mesos/sandbox"),
    ("MESOS_SLAVE_ID", "agent-S0"),
    ("MESOS_SLAVE_PID", "slave(1)@127.0.0.1:5051"),
    ("MESOS_SUBSCRIPTION_BACKOFF_MAX", "2secs"),
];

/// Variables with another value, or without one.
type Changes<'a> = &'a [(&'a str, Option<&'a str>)];

fn with(changes: Changes<'_>) -> Result<ExecutorEnvironment, AgentError> {
    let mut variables: Vec<(String, OsString)> = SEEN
        .iter()
        .map(|(name, value)| ((*name).to_owned(), OsString::from(*value)))
        .collect();
    for (name, value) in changes {
        variables.retain(|(known, _)| known != name);
        if let Some(value) = value {
            variables.push(((*name).to_owned(), OsString::from(*value)));
        }
    }
    ExecutorEnvironment::from_variables(variables)
}

#[test]
fn what_an_agent_gives_is_read_whole() {
    let read = with(&[]).unwrap();
    assert_eq!(read.framework_id, "framework-0000");
    assert_eq!(read.executor_id, "executor");
    assert_eq!(read.agent_id.as_deref(), Some("agent-S0"));
    assert_eq!(
        read.endpoint.to_string(),
        "http://127.0.0.1:5051/slave(1)/api/v1/executor"
    );
    assert_eq!(read.directory, Some("/var/lib/mesos/runs/1".into()));
    assert_eq!(read.sandbox, Some("/mnt/mesos/sandbox".into()));
    let expected = Checkpoint {
        recovery_timeout: Duration::from_secs(900),
        backoff_max: Duration::from_secs(2),
    };
    assert_eq!(read.checkpoint, Some(expected));
    assert_eq!(read.shutdown_grace, Duration::from_secs(7));
    assert!(read.token.is_none() && !read.http_command_executor && !read.local);
    assert_eq!(read.tls, TlsOptions::default());
}

#[test]
fn the_address_of_the_agent_is_found_in_each_form() {
    let cases: &[(Changes<'_>, &str)] = &[
        (
            &[("MESOS_SLAVE_PID", Some("slave(3)@10.0.0.1:5051"))],
            "http://127.0.0.1:5051/slave(3)/api/v1/executor",
        ),
        (
            &[("MESOS_SLAVE_PID", None)],
            "http://127.0.0.1:5051/slave(1)/api/v1/executor",
        ),
        (
            &[("MESOS_AGENT_ENDPOINT", None)],
            "http://127.0.0.1:5051/slave(1)/api/v1/executor",
        ),
        (
            &[("MESOS_AGENT_ENDPOINT", Some("[::1]:5051"))],
            "http://[::1]:5051/slave(1)/api/v1/executor",
        ),
        (
            &[("LIBPROCESS_SSL_ENABLED", Some("1"))],
            "https://127.0.0.1:5051/slave(1)/api/v1/executor",
        ),
        (
            &[
                ("MESOS_DOMAIN_SOCKET", Some("/run/mesos/agent.sock")),
                ("MESOS_AGENT_ENDPOINT", None),
                ("MESOS_SLAVE_PID", Some("slave(2)@10.0.0.1:5051")),
            ],
            "unix:///run/mesos/agent.sock",
        ),
    ];
    for (changes, expected) in cases {
        let read = with(changes).unwrap();
        assert_eq!(read.endpoint.to_string(), *expected, "{changes:?}");
    }
    let socket = with(cases[5].0).unwrap().endpoint;
    assert_eq!(socket.path(), "/slave(2)/api/v1/executor");
}

#[test]
fn what_may_be_absent_has_its_default() {
    let read = with(&[
        ("MESOS_SLAVE_ID", None),
        ("MESOS_DIRECTORY", Some("")),
        ("MESOS_SANDBOX", None),
        ("MESOS_CHECKPOINT", Some("0")),
        ("MESOS_RECOVERY_TIMEOUT", None),
        ("MESOS_SUBSCRIPTION_BACKOFF_MAX", Some("rubbish")),
        ("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", None),
    ])
    .unwrap();
    assert_eq!((read.agent_id, read.checkpoint), (None, None));
    assert_eq!((read.directory, read.sandbox), (None, None));
    assert_eq!(read.shutdown_grace, Duration::from_secs(5));
    let read = with(&[("MESOS_CHECKPOINT", None)]).unwrap();
    assert_eq!(read.checkpoint, None);
}

#[test]
fn options_are_read() {
    let read = with(&[
        ("MESOS_LOCAL", Some("yes")),
        ("MESOS_HTTP_COMMAND_EXECUTOR", Some("1")),
        ("LIBPROCESS_SSL_ENABLED", Some("true")),
        ("LIBPROCESS_SSL_CA_FILE", Some("/etc/ca.pem")),
        (
            "MESOS_EXECUTOR_AUTHENTICATION_TOKEN",
            Some("aaa.hunter2.ccc"),
        ),
    ])
    .unwrap();
    assert!(read.local && read.http_command_executor);
    assert_eq!(read.tls.ca_file, Some("/etc/ca.pem".into()));
    assert!(!format!("{read:?}").contains("hunter2"));
    let header = read.token.unwrap().header();
    assert_eq!(header.to_str().unwrap(), "Bearer aaa.hunter2.ccc");
    assert!(header.is_sensitive());
}

#[test]
fn each_variable_that_cannot_be_used_is_named_with_its_value_and_why() {
    for (name, value, expected) in [
        ("MESOS_FRAMEWORK_ID", None, "is not set"),
        ("MESOS_FRAMEWORK_ID", Some(""), "is not set"),
        ("MESOS_EXECUTOR_ID", None, "is not set"),
        ("MESOS_EXECUTOR_ID", Some("a\nb"), "control characters"),
        ("MESOS_SLAVE_ID", Some("\u{7}"), "control characters"),
        ("MESOS_AGENT_ENDPOINT", Some("localhost"), "port is missing"),
        ("MESOS_AGENT_ENDPOINT", Some("h:0"), "1 to 65535"),
        ("MESOS_SLAVE_PID", Some("127.0.0.1:1"), "slave(1)@"),
        ("MESOS_SLAVE_PID", Some("a b@127.0.0.1:1"), "no name"),
        ("MESOS_SLAVE_PID", Some("../x@127.0.0.1:1"), "no name"),
        (
            "MESOS_DOMAIN_SOCKET",
            Some("run/agent.sock"),
            "absolute path",
        ),
        ("MESOS_CHECKPOINT", Some("2"), "neither 1 nor 0"),
        ("MESOS_RECOVERY_TIMEOUT", None, "is not set"),
        ("MESOS_RECOVERY_TIMEOUT", Some("15"), "no unit"),
        ("MESOS_SUBSCRIPTION_BACKOFF_MAX", None, "is not set"),
        ("MESOS_SUBSCRIPTION_BACKOFF_MAX", Some("-1secs"), "negative"),
        (
            "MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD",
            Some("soon"),
            "no unit",
        ),
        (
            "MESOS_HTTP_COMMAND_EXECUTOR",
            Some("maybe"),
            "neither 1 nor 0",
        ),
        ("LIBPROCESS_SSL_ENABLED", Some("maybe"), "neither 1 nor 0"),
        (
            "MESOS_EXECUTOR_AUTHENTICATION_TOKEN",
            Some("hunter2 x"),
            "no header",
        ),
    ] {
        let error = with(&[(name, value)]).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(expected), "{error}");
        match value {
            Some(value) if name.contains("TOKEN") => assert!(!error.contains(value), "{error}"),
            Some("" | "a\nb" | "\u{7}") | None => {}
            Some(value) => {
                let shown = value.split('@').next().unwrap_or_default();
                assert!(error.contains(shown), "{error}");
            }
        }
    }
    let error = with(&[("MESOS_AGENT_ENDPOINT", None), ("MESOS_SLAVE_PID", None)]).unwrap_err();
    assert!(error.to_string().contains("MESOS_AGENT_ENDPOINT"));
}

#[test]
fn what_is_no_text_is_refused_where_text_is_needed_alone() {
    use std::os::unix::ffi::OsStringExt as _;
    let bytes = OsString::from_vec(vec![b'/', 0xff]);
    let variables = |name: &str| {
        let mut all: Vec<(OsString, OsString)> = SEEN
            .iter()
            .map(|(name, value)| (OsString::from(*name), OsString::from(*value)))
            .collect();
        all.retain(|(known, _)| known != name);
        all.push((OsString::from(name), bytes.clone()));
        ExecutorEnvironment::from_variables(all)
    };
    assert!(variables("MESOS_FRAMEWORK_ID").is_err());
    let read = variables("MESOS_DIRECTORY").unwrap();
    assert_eq!(read.directory.unwrap().as_os_str(), bytes);
}
