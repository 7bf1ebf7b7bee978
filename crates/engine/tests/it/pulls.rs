//! Pulls against a scripted daemon.

use std::time::Duration;

use longshore_engine::{Engine as _, EngineError, PullAuth, PullPolicy, PullRequest, RegistryAuth};

use crate::daemon::{Daemon, Reply, answer, stream};

const IMAGE: &str = r#"{"Id":"sha256:1"}"#;
const MISSING: &str = r#"{"message":"No such image: i:latest"}"#;

/// The image is there only after a pull, which answers `pull`.
fn registry(pull: Reply) -> Daemon {
    let pulled = std::sync::atomic::AtomicBool::new(false);
    Daemon::start(move |_, request| {
        use std::sync::atomic::Ordering::SeqCst;
        if request.line.starts_with("POST") {
            pulled.store(true, SeqCst);
            return pull.clone();
        }
        if pulled.load(SeqCst) {
            answer(200, IMAGE)
        } else {
            answer(404, MISSING)
        }
    })
}

fn pulls(daemon: &Daemon) -> Vec<String> {
    let log = daemon.log().into_iter();
    log.map(|request| request.line)
        .filter(|line| line.starts_with("POST"))
        .collect()
}

#[tokio::test]
async fn an_image_that_is_there_is_not_pulled_unless_it_is_forced() {
    let daemon = Daemon::start(|_, request| {
        if request.line.starts_with("POST") {
            Reply::Bytes(stream(""))
        } else {
            answer(200, IMAGE)
        }
    });
    let engine = daemon.engine();
    assert_eq!(
        engine.pull(PullRequest::new("i")).done().await.unwrap().id,
        "sha256:1"
    );
    assert!(pulls(&daemon).is_empty());
    assert!(
        daemon.log()[0]
            .line
            .starts_with("GET /v1.45/images/i:latest/json "),
        "{:?}",
        daemon.log()
    );
    let forced = PullRequest {
        policy: PullPolicy::Always,
        ..PullRequest::new("i")
    };
    engine.pull(forced).done().await.unwrap();
    assert_eq!(pulls(&daemon).len(), 1);
}

#[tokio::test]
async fn untagged_means_latest_and_a_missing_image_is_pulled() {
    for (image, asked) in [
        ("i", "i%3Alatest"),
        ("i:2", "i%3A2"),
        ("host:5000/a/i", "host%3A5000%2Fa%2Fi%3Alatest"),
    ] {
        let daemon = registry(Reply::Bytes(stream("{\"status\":\"Pulling\"}\r\n")));
        daemon
            .engine()
            .pull(PullRequest::new(image))
            .done()
            .await
            .unwrap();
        let expected = format!("POST /v1.45/images/create?fromImage={asked} HTTP/1.1");
        assert_eq!(pulls(&daemon), [expected]);
    }
    let daemon = registry(Reply::Bytes(stream("")));
    let never = PullRequest {
        policy: PullPolicy::Never,
        ..PullRequest::new("i")
    };
    assert!(
        daemon
            .engine()
            .pull(never)
            .done()
            .await
            .unwrap_err()
            .is_no_such_image()
    );
    for bad in ["", "UPPER", "a b"] {
        let error = daemon
            .engine()
            .pull(PullRequest::new(bad))
            .done()
            .await
            .unwrap_err();
        assert!(
            matches!(error, EngineError::Reference { .. }),
            "{bad}: {error}"
        );
    }
    // An id names no registry.
    let id = PullRequest::new(format!("sha256:{}", "1".repeat(64)));
    assert!(
        daemon
            .engine()
            .pull(id)
            .done()
            .await
            .unwrap_err()
            .is_no_such_image()
    );
    assert!(pulls(&daemon).is_empty());
}

#[tokio::test]
async fn waiters_share_one_pull_and_its_failure_and_the_next_one_asks_anew() {
    let failure = "{\"status\":\"x\"}\r\n{\"errorDetail\":{\"message\":\"no space left\"},\"error\":\"no space left\"}\r\n";
    let daemon = Daemon::start(move |_, request| {
        if request.line.starts_with("POST") {
            Reply::Bytes(stream(failure))
        } else {
            answer(404, MISSING)
        }
    });
    let engine = daemon.engine();
    let (mut one, mut two) = (
        engine.pull(PullRequest::new("i")),
        engine.clone().pull(PullRequest::new("i")),
    );
    let mut other = engine.pull(PullRequest::new("other"));
    let (one, two, other) = tokio::join!(one.done(), two.done(), other.done());
    for error in [one.unwrap_err(), two.unwrap_err(), other.unwrap_err()] {
        assert!(matches!(error, EngineError::Pull { .. }), "{error:?}");
        assert!(error.to_string().contains("no space left"));
    }
    assert_eq!(pulls(&daemon).len(), 2);
    engine.pull(PullRequest::new("i")).done().await.unwrap_err();
    assert_eq!(pulls(&daemon).len(), 3);
}

#[tokio::test]
async fn progress_is_told_and_the_last_waiter_gone_gives_the_pull_up() {
    let text = "{\"status\":\"Downloading\",\"id\":\"a\",\"progressDetail\":{\"current\":5,\"total\":10}}\r\n";
    let daemon = registry(Reply::Stay(stream(text)));
    let engine = daemon.engine();
    let one = engine.pull(PullRequest::new("i"));
    let two = engine.pull(PullRequest::new("i"));
    let mut progress = one.progress();
    let now = progress
        .wait_for(|now| now.layers == 1)
        .await
        .unwrap()
        .clone();
    assert_eq!(
        (now.bytes, now.bytes_total, now.status.as_str()),
        (5, 10, "Downloading")
    );
    drop(one);
    // The other one still waits.
    let three = engine.pull(PullRequest::new("i"));
    assert_eq!(pulls(&daemon).len(), 1);
    drop((two, three));
    daemon.until_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_pull_that_stalls_is_given_up() {
    for reply in [
        Reply::Stay(Vec::new()),
        Reply::Stay(stream("{\"status\":\"x\"}\r\n")),
    ] {
        let daemon = registry(reply);
        let request = PullRequest {
            inactivity: Duration::from_secs(7),
            ..PullRequest::new("i")
        };
        let error = daemon.engine().pull(request).done().await.unwrap_err();
        assert!(
            matches!(error, EngineError::PullStalled { .. }),
            "{error:?}"
        );
        daemon.until_left().await;
    }
}

#[tokio::test]
async fn a_pull_that_breaks_off_is_no_success() {
    let half = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n{\"status\":\"x\"}";
    let daemon = registry(Reply::Bytes(half.as_bytes().to_vec()));
    let error = daemon
        .engine()
        .pull(PullRequest::new("i"))
        .done()
        .await
        .unwrap_err();
    assert!(matches!(error, EngineError::Gone { .. }), "{error:?}");
}

#[tokio::test]
async fn credentials_are_in_the_header_alone() {
    let daemon = registry(Reply::Bytes(stream("")));
    let auth = RegistryAuth::Password {
        user: "ann".into(),
        password: "hunter2".into(),
    };
    let request = PullRequest {
        auth: PullAuth::Given(auth),
        ..PullRequest::new("quay.io/i")
    };
    assert!(!format!("{request:?}").contains("hunter2"));
    daemon.engine().pull(request).done().await.unwrap();
    let log = daemon.log();
    let request = log
        .iter()
        .find(|request| request.line.starts_with("POST"))
        .unwrap();
    // {"password":"hunter2","serveraddress":"quay.io","username":"ann"}
    let expected =
        "eyJwYXNzd29yZCI6Imh1bnRlcjIiLCJzZXJ2ZXJhZGRyZXNzIjoicXVheS5pbyIsInVzZXJuYW1lIjoiYW5uIn0=";
    assert_eq!(request.headers["x-registry-auth"], expected);
    assert!(!request.line.contains("hunter2"));
}

#[tokio::test]
async fn dx31_what_an_image_says_of_itself_is_read_from_config_in_each_of_its_forms() {
    let read = async |config: &str| {
        let text = format!(
            r#"{{"Id":"sha256:1","ContainerConfig":{{"Entrypoint":["no"],"Env":["NO=1"]}}{config}}}"#
        );
        let daemon = Daemon::start(move |_, _| answer(200, &text));
        let engine = daemon.engine();
        let result = engine.pull(PullRequest::new("i")).done().await;
        result.map(|image| {
            let env: Vec<_> = image.env.iter().map(|it| format!("{it:?}")).collect();
            (image.entrypoint, env.len())
        })
    };
    for nothing in [
        "",
        r#","Config":null"#,
        r#","Config":{}"#,
        r#","Config":{"Entrypoint":null,"Env":null}"#,
        r#","Config":{"Entrypoint":[],"Env":[]}"#,
    ] {
        assert_eq!(read(nothing).await.unwrap(), (vec![], 0), "{nothing}");
    }
    let both = r#","Config":{"Entrypoint":["./a","b c"],"Env":["A=1","B=x=y","A=2","C"]}"#;
    let entrypoint = vec!["./a".to_owned(), "b c".to_owned()];
    // A name that is there twice is no fault of ours.
    assert_eq!(read(both).await.unwrap(), (entrypoint, 4));
    // One text is a list of one.
    let text = r#","Config":{"Entrypoint":"./a"}"#;
    assert_eq!(read(text).await.unwrap(), (vec!["./a".to_owned()], 0));
    for wrong in [
        r#","Config":{"Entrypoint":{"a":1}}"#,
        r#","Config":{"Env":"A=1"}"#,
        r#","Config":{"Env":[1]}"#,
        r#","Config":"text""#,
    ] {
        let error = read(wrong).await.unwrap_err();
        assert!(
            matches!(&error, EngineError::Decode { .. }),
            "{wrong}: {error:?}"
        );
        assert!(!error.to_string().contains("A=1"), "{error}");
    }
}

#[tokio::test]
async fn a_pull_is_told_before_the_engine_says_a_word_of_it_and_an_image_that_is_there_has_none() {
    let daemon = registry(Reply::Stay(Vec::new()));
    let pull = daemon.engine().pull(PullRequest::new("i"));
    let mut progress = pull.progress();
    let asked = progress.wait_for(|now| !now.status.is_empty());
    let asked = tokio::time::timeout(Duration::from_secs(60), asked).await;
    assert_eq!(asked.unwrap().unwrap().status, "the registry is asked");
    let daemon = Daemon::start(|_, _| answer(200, IMAGE));
    let mut pull = daemon.engine().pull(PullRequest::new("i"));
    pull.done().await.unwrap();
    assert_eq!(pull.progress().borrow().status, "");
}
