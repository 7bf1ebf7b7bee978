use std::time::Duration;

use longshore_mesos_api::{ApiMessage, DecodeLimits, json};

use super::*;

fn of<M: ApiMessage>(text: &str) -> M {
    json::from_slice(text.as_bytes(), &DecodeLimits::default()).unwrap()
}

fn health(text: &str) -> Result<(Probe, HealthPolicy), HealthError> {
    health_check(&of(text))
}

fn generic(text: &str) -> Result<(Probe, Timing), HealthError> {
    check(&of(text))
}

#[test]
fn defaults_are_those_of_mesos() {
    let (probe, policy) = health(r#"{"type":"TCP","tcp":{"port":80}}"#).unwrap();
    assert_eq!(policy, HealthPolicy::default());
    assert_eq!(probe, Probe::Tcp(TcpProbe::new(80, Family::V4).unwrap()));
    let (_, timing) = generic(r#"{"type":"TCP","tcp":{"port":80}}"#).unwrap();
    assert_eq!(timing, Timing::default());
}

#[test]
fn every_field_of_a_health_check_arrives() {
    let (probe, policy) = health(
        r#"{"type":"HTTP","http":{"port":8443,"path":"/ok?x","scheme":"https","statuses":[200,401],"protocol":"IPv6"},
            "delay_seconds":0,"interval_seconds":0.5,"timeout_seconds":0,"consecutive_failures":1,
            "grace_period_seconds":9999}"#,
    )
    .unwrap();
    let mut expected = HttpProbe::new(8443, "/ok?x", &[200, 401]).unwrap();
    expected.scheme = Scheme::Https;
    expected.family = Family::V6;
    assert_eq!(probe, Probe::Http(expected));
    let timing = Timing {
        delay: Duration::ZERO,
        interval: Duration::from_millis(500),
        timeout: Duration::ZERO,
    };
    assert_eq!(
        policy,
        HealthPolicy {
            timing,
            consecutive_failures: 1,
            grace_period: Duration::from_secs(9999),
        }
    );
    assert_eq!(timing.limit(), None, "zero is no limit");
}

/// MESOS-5848: a quote or a dollar in a command is passed on as it is.
#[test]
fn commands_are_in_exec_form_with_their_environment_and_user() {
    let argv = |text: &str| match health(text).unwrap().0 {
        Probe::Command(command) => command,
        other => panic!("{other:?}"),
    };
    let shell = argv(
        r#"{"type":"COMMAND","command":{"value":"test \"$STATUS\" = '0'","user":"app",
            "environment":{"variables":[{"name":"STATUS","value":"0"}]}}}"#,
    );
    assert_eq!(shell.argv(), ["/bin/sh", "-c", "test \"$STATUS\" = '0'"]);
    assert_eq!(shell.environment, [("STATUS".to_owned(), "0".to_owned())]);
    assert_eq!(shell.user.as_deref(), Some("app"));
    let exec = argv(
        r#"{"type":"COMMAND","command":{"shell":false,"value":"/bin/test","arguments":["-e","a b"]}}"#,
    );
    assert_eq!(exec.argv(), ["/bin/test", "-e", "a b"]);
}

#[test]
fn hc9_a_missing_type_is_that_of_the_only_payload() {
    let (probe, _) = health(r#"{"http":{"port":80}}"#).unwrap();
    assert!(matches!(probe, Probe::Http(_)));
    let (probe, _) = health(r#"{"command":{"value":"true"}}"#).unwrap();
    assert!(matches!(probe, Probe::Command(_)));
    for text in ["{}", r#"{"http":{"port":80},"command":{"value":"true"}}"#] {
        let error = health(text).unwrap_err().to_string();
        assert!(error.contains("'type'"), "{error}");
    }
}

#[test]
fn hc18_invalid_checks_are_refused_with_field_and_value() {
    let both = [
        (r#"{"type":"COMMAND"}"#, "'command' must be set"),
        (r#"{"type":"HTTP"}"#, "'http' must be set"),
        (r#"{"type":"TCP","http":{"port":80}}"#, "'tcp' must be set"),
        (r#"{"type":"UNKNOWN","http":{"port":80}}"#, "'type' 0"),
        (
            r#"{"type":"HTTP","http":{"port":80,"path":"healthz"}}"#,
            "\"healthz\"",
        ),
        (r#"{"type":"HTTP","http":{"port":0}}"#, "port 0"),
        (r#"{"type":"TCP","tcp":{"port":65536}}"#, "port 65536"),
        (
            r#"{"type":"TCP","tcp":{"port":80},"delay_seconds":-1.5}"#,
            "delay_seconds -1.5",
        ),
        (
            r#"{"type":"TCP","tcp":{"port":80},"interval_seconds":-1}"#,
            "interval_seconds -1",
        ),
        (
            r#"{"type":"TCP","tcp":{"port":80},"timeout_seconds":"-Infinity"}"#,
            "timeout_seconds -inf",
        ),
        (
            r#"{"type":"TCP","tcp":{"port":80},"timeout_seconds":"NaN"}"#,
            "timeout_seconds NaN",
        ),
    ];
    for (text, expected) in both {
        let error = health(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        let error = generic(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let health_only = [
        (r#"{"type":"COMMAND","command":{}}"#, "line for the shell"),
        (
            r#"{"type":"COMMAND","command":{"shell":false,"arguments":["x"]}}"#,
            "must be the program",
        ),
        (
            r#"{"type":"COMMAND","command":{"value":"x","environment":{"variables":[{"name":"A=","value":"s3cret"}]}}}"#,
            "\"A=\"",
        ),
        (
            r#"{"type":"HTTP","http":{"port":80,"scheme":"ftp"}}"#,
            "\"ftp\"",
        ),
        (
            r#"{"type":"HTTP","http":{"port":80,"statuses":[20]}}"#,
            "status 20",
        ),
        (
            r#"{"type":"TCP","tcp":{"port":80},"grace_period_seconds":-2}"#,
            "grace_period_seconds -2",
        ),
    ];
    for (text, expected) in health_only {
        let error = health(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{error}");
    }
    let error = generic(r#"{"tcp":{"port":80}}"#).unwrap_err().to_string();
    assert!(error.contains("'type'"), "{error}");
    let mut unknown = v1::HealthCheck {
        r#type: Some(77),
        ..v1::HealthCheck::default()
    };
    let error = health_check(&unknown).unwrap_err().to_string();
    assert!(error.contains("77"), "{error}");
    unknown.r#type = Some(health_check::Type::Tcp.into());
    unknown.tcp = Some(health_check::TcpCheckInfo {
        port: 80,
        protocol: Some(9),
    });
    let error = health_check(&unknown).unwrap_err().to_string();
    assert!(error.contains("'tcp.protocol' 9"), "{error}");
}

#[test]
fn hc18_a_check_status_says_what_its_type_promises() {
    for status in [
        CheckStatus::Command(None),
        CheckStatus::Command(Some(3)),
        CheckStatus::Http(Some(200)),
        CheckStatus::Http(None),
        CheckStatus::Tcp(Some(false)),
    ] {
        validate_check_status(&check_status(status)).unwrap();
    }
    let info = check_status(CheckStatus::Command(Some(1)));
    assert_eq!(info.command.unwrap().exit_code, Some(1));
    let cases = [
        ("{}", "'type'"),
        (r#"{"type":"UNKNOWN"}"#, "'type' 0"),
        (
            r#"{"type":"HTTP","command":{"exit_code":1}}"#,
            "'http' must be set",
        ),
        (r#"{"type":"COMMAND"}"#, "'command' must be set"),
        (r#"{"type":"TCP"}"#, "'tcp' must be set"),
    ];
    for (text, expected) in cases {
        let error = validate_check_status(&of(text)).unwrap_err();
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
}
