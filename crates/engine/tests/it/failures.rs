//! Every way in which an answer can be wrong, and what the caller is told.

use std::time::Duration;

use longshore_engine::{
    ContainerSpec, Engine as _, EngineError, EnvVar, ExecSpec, ListFilter, LogOptions, Missing,
    RemoveOptions, WaitUntil,
};

use crate::daemon::{Daemon, PATIENCE, Reply, answer, stream};

/// Runs each kind of call that has an answer and an end, and hands over what became of it.
async fn each_call(daemon: &Daemon, mut judge: impl FnMut(&str, Option<EngineError>)) {
    let engine = daemon.engine();
    let spec = ContainerSpec::new("i");
    let exec = ExecSpec {
        cmd: vec!["x".into()],
        ..ExecSpec::default()
    };
    let (list, logs, remove) = (
        ListFilter::default(),
        LogOptions::default(),
        RemoveOptions::default(),
    );
    judge("inspect", engine.inspect("c1").await.err());
    judge("inspect image", engine.inspect_image("i").await.err());
    judge("create", engine.create(&spec).await.err());
    judge("start", engine.start("c1").await.err());
    judge("kill", engine.kill("c1", "TERM").await.err());
    judge("stop", engine.stop("c1", Duration::ZERO).await.err());
    judge("pause", engine.pause("c1").await.err());
    judge("unpause", engine.unpause("c1").await.err());
    judge("remove", engine.remove("c1", remove).await.err());
    judge("list", engine.list(&list).await.err());
    judge("exec", engine.exec_create("c1", &exec).await.err());
    judge("exec inspect", engine.exec_inspect("e1").await.err());
    judge(
        "update",
        engine.update("c1", &Default::default()).await.err(),
    );
    judge("logs", engine.logs("c1", &logs).await.err());
    judge("wait", engine.wait("c1", WaitUntil::NextExit).await.err());
    judge("events", engine.events(&Default::default()).await.err());
}

#[tokio::test]
async fn a_status_becomes_an_error_of_its_kind_with_the_engines_words() {
    for status in [304, 400, 404, 409, 500, 503] {
        let daemon = Daemon::start(move |_, _| {
            let body = if status == 304 {
                ""
            } else {
                r#"{"message":"No such container: c1"}"#
            };
            answer(status, body)
        });
        each_call(&daemon, |call, error| {
            let error = error.unwrap_or_else(|| panic!("{call} took {status}"));
            assert_eq!(error.status(), Some(status), "{call}: {error}");
            let good = match status {
                304 => matches!(error, EngineError::NotModified { .. }),
                404 => error.is_no_such_container(),
                409 => matches!(error, EngineError::Conflict { .. }),
                _ => matches!(error, EngineError::Status { .. }),
            };
            assert!(good, "{call}: {error:?}");
            assert_eq!(error.is_retryable(), status >= 500, "{call}");
            assert!(
                status == 304 || error.to_string().contains("No such container: c1"),
                "{error}"
            );
        })
        .await;
    }
}

#[tokio::test]
async fn half_an_answer_is_never_taken_for_a_whole_one() {
    for bytes in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"Id\":\"c1\"",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"Id\"",
        "HTTP/1.1 404 x\r\nContent-Length: 100\r\n\r\n{\"message\":\"No such",
        "garbage\r\n\r\n",
    ] {
        let daemon = Daemon::start(move |_, _| Reply::Bytes(bytes.as_bytes().to_vec()));
        let engine = daemon.engine();
        let error = engine.inspect("c1").await.unwrap_err();
        assert!(
            matches!(error, EngineError::Gone { .. }),
            "{bytes:?}: {error:?}"
        );
        assert!(error.is_engine_absent() && error.is_retryable());
        let error = engine.start("c1").await.unwrap_err();
        assert!(
            matches!(error, EngineError::Gone { .. }),
            "{bytes:?}: {error:?}"
        );
    }
}

#[tokio::test]
async fn what_is_not_the_json_that_was_asked_for_is_refused_without_being_shown() {
    for body in [
        "",
        "hunter2",
        r#"{"Id": 7, "x": "hunter2"}"#,
        "[]",
        r#"{"State": "hunter2"}"#,
    ] {
        let daemon = Daemon::start(move |_, _| answer(200, body));
        let error = daemon.engine().inspect("c1").await.unwrap_err();
        assert!(
            matches!(error, EngineError::Decode { .. }),
            "{body}: {error:?}"
        );
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    // An answer without an id would name nothing, or another thing.
    for id in ["", "../x", "a b"] {
        let daemon = Daemon::start(move |_, _| answer(201, &format!(r#"{{"Id":"{id}"}}"#)));
        let error = daemon
            .engine()
            .create(&ContainerSpec::new("i"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, EngineError::Decode { .. }),
            "{id}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_huge_answer_is_refused_by_its_length_and_while_it_comes() {
    let announced = Daemon::start(|_, _| {
        Reply::Stay(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n".to_vec())
    });
    let error = announced.engine().inspect("c1").await.unwrap_err();
    assert!(matches!(error, EngineError::TooLarge { .. }), "{error:?}");
    let endless = || Daemon::start(|_, _| Reply::Endless(stream(""), vec![b' '; 65536]));
    let daemon = endless();
    let error = daemon.engine().inspect("c1").await.unwrap_err();
    assert!(matches!(error, EngineError::TooLarge { .. }), "{error:?}");
    daemon.until_left().await;
    // The text of an error is cut.
    let daemon =
        Daemon::start(|_, _| Reply::Endless(b"HTTP/1.1 500 x\r\n\r\n".to_vec(), vec![b'x'; 65536]));
    let error = daemon.engine().start("c1").await.unwrap_err();
    assert_eq!(
        error.message().unwrap().len(),
        longshore_engine::MAX_MESSAGE
    );
    daemon.until_left().await;
    // A head without an end.
    let daemon = Daemon::start(|_, _| {
        Reply::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"X-A: b\r\n".repeat(1000))
    });
    let error = daemon.engine().inspect("c1").await.unwrap_err();
    assert!(matches!(error, EngineError::Gone { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_hangs_ends_every_call_at_its_deadline() {
    for bytes in ["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"] {
        let daemon = Daemon::start(move |_, _| Reply::Stay(bytes.as_bytes().to_vec()));
        each_call(&daemon, |call, error| {
            let opened = !bytes.is_empty() && matches!(call, "logs" | "wait" | "events");
            match error {
                Some(EngineError::Timeout { deadline, .. }) => assert_eq!(deadline, PATIENCE),
                None if opened => {}
                other => panic!("{call}: {other:?}"),
            }
        })
        .await;
        daemon.until_left().await;
    }
}

#[tokio::test]
async fn a_dropped_call_closes_its_connection() {
    let daemon = Daemon::start(|_, _| Reply::Stay(Vec::new()));
    let engine = daemon.engine();
    let call = tokio::spawn(async move { engine.stop("c1", Duration::from_secs(1)).await });
    while daemon.log().is_empty() {
        tokio::task::yield_now().await;
    }
    call.abort();
    daemon.until_left().await;
}

#[tokio::test]
async fn nobody_there_is_told_apart_from_somebody_who_left() {
    let mut daemon = Daemon::start(|_, _| Reply::Bytes(Vec::new()));
    let engine = daemon.engine();
    assert!(matches!(
        engine.start("c1").await,
        Err(EngineError::Gone { .. })
    ));
    daemon.stop().await;
    let error = engine.start("c1").await.unwrap_err();
    assert!(
        matches!(error, EngineError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("d.sock") && error.is_engine_absent());
}

#[tokio::test]
async fn the_version_is_negotiated_once_and_again_when_another_engine_is_there() {
    let daemon = Daemon::start(|number, request| match number {
        1 => answer(204, ""),
        2 => answer(
            400,
            r#"{"message":"client version 1.45 is too new. Maximum supported API version is 1.41"}"#,
        ),
        _ => {
            assert!(request.line.starts_with("POST /v1.45/containers/c1/start"));
            answer(204, "")
        }
    });
    let engine = daemon.engine();
    engine.start("c1").await.unwrap();
    engine.start("c1").await.unwrap();
    assert_eq!(daemon.log().len(), 3);
}

#[tokio::test]
async fn an_exit_has_no_deadline_and_a_broken_wait_is_no_exit() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let whole = format!("{head}11\r\n{{\"StatusCode\":137}}\r\n0\r\n\r\n");
    assert_eq!(r#"{"StatusCode":137}"#.len(), 0x12);
    let whole = whole.replace("11\r\n{", "12\r\n{");
    for (bytes, code) in [
        (whole, Some(137)),
        (format!("{head}5\r\n{{\"Sta"), None),
        (head.to_owned(), None),
        (format!("{head}0\r\n\r\n"), None),
    ] {
        let daemon = Daemon::start(move |_, _| Reply::Bytes(bytes.clone().into_bytes()));
        let wait = daemon
            .engine()
            .wait("c1", WaitUntil::NextExit)
            .await
            .unwrap();
        match (wait.await, code) {
            (Ok(exit), Some(code)) => assert_eq!(exit.code, code),
            (Err(EngineError::Gone { .. }), None) => {}
            other => panic!("{other:?}"),
        }
        assert!(daemon.log()[0].line.contains("/wait?condition=next-exit "));
    }
    // Virtual time that passes while it is awaited ends nothing.
    tokio::time::pause();
    let daemon = Daemon::start(move |_, _| Reply::Stay(head.as_bytes().to_vec()));
    let mut wait = daemon
        .engine()
        .wait("c1", WaitUntil::NextExit)
        .await
        .unwrap();
    let day = Duration::from_secs(86_400);
    assert!(tokio::time::timeout(day, &mut wait).await.is_err());
    drop(wait);
    daemon.until_left().await;
}

#[tokio::test]
async fn what_cannot_be_an_id_or_a_signal_is_not_sent() {
    let daemon = Daemon::start(|_, _| answer(204, ""));
    let engine = daemon.engine();
    for id in ["", "..", "a/b", "a?force=1", "a b", "a\r\nX: y", "\u{e9}"] {
        for error in [
            engine.start(id).await.unwrap_err(),
            engine
                .remove(id, RemoveOptions::default())
                .await
                .unwrap_err(),
            engine.exec_inspect(id).await.unwrap_err(),
        ] {
            assert!(
                matches!(error, EngineError::InvalidSpec { .. }),
                "{id}: {error}"
            );
        }
    }
    for signal in ["", "TERM&x=y", "a b", "\u{e9}"] {
        assert!(matches!(
            engine.kill("c1", signal).await,
            Err(EngineError::InvalidSpec { .. })
        ));
    }
    assert!(daemon.log().is_empty());
}

#[tokio::test]
async fn members_that_are_missing_null_or_of_another_type_are_empty() {
    let bodies = [
        r#"{"Id":"c1"}"#,
        r#"{"Id":"c1","Name":null,"State":null,"Config":null,"HostConfig":null,"NetworkSettings":null,"Mounts":null}"#,
        r#"{"Id":"c1","Created":"0001-01-01T00:00:00Z","State":{"Status":"stopping","Health":null},
            "Config":{"Entrypoint":"/entry","Cmd":null,"Env":null,"StopSignal":15,"Labels":null,"Healthcheck":null},
            "NetworkSettings":{"Ports":{"80/tcp":null,"x":[]},"Networks":{"a.b":null,"c":{"IPAddress":"","Aliases":null}}}}"#,
    ];
    for body in bodies {
        let daemon = Daemon::start(move |_, _| answer(200, body));
        let info = daemon.engine().inspect("c1").await.unwrap();
        assert_eq!(
            (info.id.as_str(), info.state.pid, info.ports.len()),
            ("c1", None, 0),
            "{body}"
        );
        assert!(info.redacted_json().contains("c1"));
    }
    let list = r#"[{"Id":"c1","Names":null,"Labels":null,"State":"stopped","Created":"2020-07-28T15:14:05Z"},{"Id":"c2","State":"new"}]"#;
    let daemon = Daemon::start(move |_, _| answer(200, list));
    let found = daemon
        .engine()
        .list(&ListFilter::labelled(["a=b"]))
        .await
        .unwrap();
    assert_eq!(found.len(), 2);
    assert!(
        daemon.log()[0]
            .line
            .contains("all=1&filters=%7B%22label%22%3A%5B%22a%3Db%22%5D%7D")
    );
}

#[tokio::test]
async fn no_secret_of_the_environment_is_shown() {
    let body = r#"{"Id":"c1","Config":{"Env":["TOKEN=hunter2"]}}"#;
    let daemon = Daemon::start(move |_, _| answer(200, body));
    let info = daemon.engine().inspect("c1").await.unwrap();
    assert_eq!(info.env[0].value, "hunter2");
    let shown = format!("{info:?} {}", info.redacted_json());
    assert!(
        shown.contains("TOKEN") && !shown.contains("hunter2"),
        "{shown}"
    );

    let daemon = Daemon::start(move |_, _| answer(400, r#"{"message":"bad"}"#));
    let spec = ContainerSpec {
        env: vec![EnvVar::new("TOKEN", "hunter2")],
        ..ContainerSpec::new("i")
    };
    let error = daemon.engine().create(&spec).await.unwrap_err();
    assert!(!format!("{error} {error:?} {:?}", daemon.engine()).contains("hunter2"));
    // It was sent in the body: in no line or header.
    let request = &daemon.log()[0];
    assert!(request.body.contains("TOKEN=hunter2") && !request.line.contains("hunter2"));
}

#[tokio::test]
async fn logs_that_break_off_in_a_frame_are_told_to_have() {
    let frame = "\x01\0\0\0\0\0\0\x03abc";
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.multiplexed-stream\r\n\r\n";
    for (rest, whole) in [
        ("", true),
        ("\x01\0\0", false),
        ("\x01\0\0\0\0\0\0\x03ab", false),
    ] {
        let daemon = Daemon::start(move |_, request| {
            if request.line.contains("/json") {
                return answer(200, r#"{"Id":"c1"}"#);
            }
            Reply::Bytes(format!("{head}{frame}{rest}").into_bytes())
        });
        let mut logs = daemon
            .engine()
            .logs("c1", &LogOptions::follow())
            .await
            .unwrap();
        assert_eq!(&logs.next().await.unwrap().unwrap().data[..], b"abc");
        match logs.next().await {
            None => assert!(whole, "{rest:?}"),
            Some(Err(EngineError::Gone { .. })) => assert!(!whole, "{rest:?}"),
            other => panic!("{other:?}"),
        }
        assert!(logs.next().await.is_none());
    }
}

#[tokio::test]
async fn a_404_of_a_creation_says_what_is_missing() {
    for (message, what) in [
        ("No such image: i:latest", Missing::Image),
        ("network nowhere not found", Missing::Network),
    ] {
        let daemon =
            Daemon::start(move |_, _| answer(404, &format!(r#"{{"message":"{message}"}}"#)));
        match daemon.engine().create(&ContainerSpec::new("i")).await {
            Err(EngineError::NotFound { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{other:?}"),
        }
    }
}
