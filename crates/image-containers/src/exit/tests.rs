use longshore_mesos_api::v1::{Label, Labels, Resource, TaskResourceLimitation, value};

use super::*;

fn status(word: &str, code: Option<i32>) -> TaskStatus {
    let mut all = vec![Label {
        key: labels::ENDING.to_owned(),
        value: Some(word.to_owned()),
    }];
    all.extend(code.map(|code| Label {
        key: labels::EXIT_CODE.to_owned(),
        value: Some(code.to_string()),
    }));
    TaskStatus {
        labels: Some(Labels { labels: all }),
        message: Some("words".to_owned()),
        timestamp: Some(1.5),
        ..TaskStatus::default()
    }
}

#[test]
fn an_exit_is_what_wait_would_have_said_of_a_process() {
    for (word, code, raw, says) in [
        ("exited", Some(0), Some(0), None),
        ("exited", Some(3), Some(3 << 8), None),
        ("exited", Some(255), Some(255 << 8), None),
        ("signaled", Some(143), Some(15), None),
        ("killed", Some(137), Some(9), None),
        ("killed", Some(0), Some(0), None),
        (
            "program-not-found",
            Some(127),
            Some(127 << 8),
            Some("words"),
        ),
        ("stopped-by-other", Some(143), Some(15), Some("words")),
        ("engine-gone", Some(125), None, Some("words")),
    ] {
        let exit = of_status(&status(word, code));
        assert_eq!(exit.status, raw, "{word} {code:?}");
        assert_eq!(exit.message.as_deref(), says, "{word} {code:?}");
        assert_eq!(exit.reason, None);
    }
}

#[test]
fn memory_and_reboots_have_a_reason() {
    let mut out = status("out-of-memory", Some(137));
    out.limitation = Some(TaskResourceLimitation {
        resources: vec![Resource {
            name: "mem".to_owned(),
            scalar: Some(value::Scalar { value: 64.0 }),
            ..Resource::default()
        }],
    });
    let exit = of_status(&out);
    let limit_bytes = 64 << 20;
    assert_eq!(exit.reason, Some(ExitReason::MemoryLimit { limit_bytes }));
    assert_eq!(exit.status, Some(9));
    let exit = of_status(&status("rebooted", None));
    assert_eq!(
        (exit.reason, exit.status),
        (Some(ExitReason::Rebooted), None)
    );
}

#[test]
fn only_what_never_had_a_process_is_a_failed_launch() {
    for (word, kind) in [
        ("image-missing", LaunchErrorKind::BadRequest),
        ("invalid", LaunchErrorKind::BadRequest),
        ("pull-failed", LaunchErrorKind::Internal),
        ("killed-during-launch", LaunchErrorKind::Internal),
    ] {
        assert_eq!(launch_failure(&status(word, None)).unwrap().kind, kind);
    }
    for word in [
        "exited",
        "killed",
        "program-not-found",
        "program-not-executable",
    ] {
        assert_eq!(launch_failure(&status(word, Some(1))), None, "{word}");
    }
}

#[test]
fn a_pid_is_read_from_what_the_engine_says() {
    let with = |data: &[u8]| {
        pid_of(&TaskStatus {
            data: Some(data.to_vec()),
            ..TaskStatus::default()
        })
    };
    assert_eq!(with(br#"[{"State": {"Pid": 42}}]"#), Some(42));
    for odd in [
        &b"[]"[..],
        b"",
        b"{}",
        br#"[{"State": {"Pid": 0}}]"#,
        b"\xff",
    ] {
        assert_eq!(with(odd), None);
    }
}
