//! What a real agent was seen to answer, call by call, asked of both.

use super::target::{Target, id, run, shell};
use super::{on_both_agents, on_the_embedded_agent};
use crate::http::raw::{JSON, call_json};
use longshore_agent_client::Launched;

on_both_agents! {
    aa9_the_header_matrix_has_the_same_answers,
    calls_have_the_same_codes,
    a_container_gets_the_environment_that_it_is_given_and_little_else,
    a_running_container_is_launched_once,
}

on_the_embedded_agent! {
    what_we_answer_where_a_mesos_agent_answers_otherwise_or_not_at_all,
}

async fn aa9_the_header_matrix_has_the_same_answers(target: &Target) {
    let recordio = ("Content-Type", "application/recordio");
    for (headers, status) in [
        (&[][..], 400),
        (&[("Content-Type", "text/plain")][..], 415),
        (&[recordio][..], 400),
        (&[recordio, ("Message-Content-Type", "text/plain")][..], 415),
        (
            &[recordio, ("Message-Content-Type", "application/json")][..],
            400,
        ),
        (
            &[JSON, ("Message-Content-Type", "application/json")][..],
            415,
        ),
        (&[JSON][..], 200),
        (&[JSON, ("Accept", "*/*")][..], 200),
        (&[JSON, ("Accept", "application/*")][..], 200),
        (&[JSON, ("Accept", "application/json; q=0.5")][..], 200),
        (&[JSON, ("Accept", "application/json;q=0")][..], 406),
        (&[JSON, ("Accept", "text/html")][..], 406),
        (&[JSON, ("Accept", "application/recordio")][..], 406),
        (
            &[
                JSON,
                ("Accept", "application/recordio"),
                ("Message-Accept", "text/plain"),
            ][..],
            406,
        ),
        (&[JSON, ("Message-Accept", "application/json")][..], 406),
    ] {
        let reply = target.post(headers, br#"{"type":"GET_HEALTH"}"#).await;
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
    }
}

async fn calls_have_the_same_codes(target: &Target) {
    target
        .launch(&id("run"), run("/bin/sleep", &["1000"]))
        .await;
    target
        .launch(&id("run.n"), run("/bin/sleep", &["1000"]))
        .await;
    target.launch(&id("run.ended"), run("/bin/true", &[])).await;
    assert_eq!(target.wait(&id("run.ended")).await, Some(0));
    let command = |rest: &str| format!(r#","command":{{"value":"true"{rest}}}"#);
    let resource = |value: &str| {
        format!(r#","resources":[{{"name":"cpus","type":"SCALAR","scalar":{{"value":{value}}}}}]"#)
    };
    let about = |kind: &str, id: &str, rest: &str| call_json(kind, id, rest);
    for (body, status) in [
        (r#"{"type":"GET_HEALTH"}"#.to_owned(), 200),
        (r#"{"type":"GET_VERSION"}"#.to_owned(), 200),
        (r#"{"type":"GET_AGENT"}"#.to_owned(), 200),
        (r#"{"type":"GET_CONTAINERS"}"#.to_owned(), 200),
        (r#"{"type":"UNKNOWN"}"#.to_owned(), 501),
        (r#"{"type":"get_health"}"#.to_owned(), 400),
        (r#"{"type":1}"#.to_owned(), 400),
        (r#"{"type":null}"#.to_owned(), 400),
        ("{}".to_owned(), 400),
        ("[]".to_owned(), 400),
        (String::new(), 400),
        (r#"{"type":"LAUNCH_CONTAINER"}"#.to_owned(), 400),
        (r#"{"type":"ATTACH_CONTAINER_INPUT"}"#.to_owned(), 400),
        (
            r#"{"type":"ATTACH_CONTAINER_INPUT","attach_container_input":{"type":"CONTAINER_ID","container_id":{"value":"run"}}}"#
                .to_owned(),
            415,
        ),
        (
            r#"{"type":"ATTACH_CONTAINER_INPUT","attach_container_input":{"type":"CONTAINER_ID"}}"#.to_owned(),
            400,
        ),
        // LAUNCH
        (about("LAUNCH_CONTAINER", "run", ""), 202),
        (about("LAUNCH_CONTAINER", "run.n", &command("")), 202),
        (about("LAUNCH_NESTED_CONTAINER", "run.n", &command("")), 202),
        (about("LAUNCH_CONTAINER", "nobody.n", &command("")), 400),
        (about("LAUNCH_NESTED_CONTAINER", "run", &command("")), 400),
        (about("LAUNCH_CONTAINER", "plain", ""), 200),
        (
            about(
                "LAUNCH_CONTAINER",
                "much",
                &(command("") + &resource("1000")),
            ),
            200,
        ),
        (
            about("LAUNCH_CONTAINER", "zero", &(command("") + &resource("0"))),
            200,
        ),
        (
            about("LAUNCH_CONTAINER", "less", &(command("") + &resource("-1"))),
            400,
        ),
        (about("LAUNCH_CONTAINER", "a b", &command("")), 400),
        (about("LAUNCH_CONTAINER", "a/b", &command("")), 400),
        (about("LAUNCH_CONTAINER", "", &command("")), 400),
        (about("LAUNCH_CONTAINER", "a:b_c-é", &command("")), 200),
        (
            about("LAUNCH_CONTAINER", &"x".repeat(242), &command("")),
            200,
        ),
        (
            about("LAUNCH_CONTAINER", &"x".repeat(243), &command("")),
            400,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "user",
                &command(r#","user":"no-such-user""#),
            ),
            500,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "env",
                &command(r#","environment":{"variables":[{"name":"A"}]}"#),
            ),
            400,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "prog",
                r#","command":{"shell":false,"value":"/no/such/program"}"#,
            ),
            200,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "shares",
                r#","container":{"type":"MESOS","linux_info":{"share_cgroups":true}}"#,
            ),
            400,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "vol",
                r#","container":{"type":"MESOS","volumes":[{"container_path":"/c","mode":"RW"}]}"#,
            ),
            400,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "image",
                r#","container":{"type":"MESOS","mesos":{"image":{"type":"DOCKER","docker":{"name":"busybox"}}}}"#,
            ),
            400,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "docker",
                r#","container":{"type":"DOCKER","docker":{"image":"busybox"}}"#,
            ),
            400,
        ),
        (about("LAUNCH_CONTAINER", "run.n.deep", &resource("1")), 400),
        (
            about(
                "LAUNCH_CONTAINER",
                "run.n.deep",
                r#","limits":{"cpus":{"value":1}}"#,
            ),
            400,
        ),
        // KILL
        (about("KILL_CONTAINER", "run", r#","signal":0"#), 200),
        (about("KILL_CONTAINER", "run", r#","signal":99"#), 500),
        (about("KILL_CONTAINER", "run", r#","signal":-1"#), 500),
        (about("KILL_CONTAINER", "unknown", ""), 404),
        (about("KILL_NESTED_CONTAINER", "run", ""), 400),
        (about("KILL_NESTED_CONTAINER", "run.unknown", ""), 404),
        // WAIT
        (about("WAIT_CONTAINER", "unknown", ""), 404),
        (about("WAIT_CONTAINER", "a/b", ""), 400),
        (about("WAIT_NESTED_CONTAINER", "run", ""), 400),
        (about("WAIT_NESTED_CONTAINER", "zzz.n1", ""), 404),
        (about("WAIT_CONTAINER", "run.ended", ""), 200),
        (about("WAIT_NESTED_CONTAINER", "run.ended", ""), 200),
        // REMOVE
        (about("REMOVE_CONTAINER", "run.n", ""), 500),
        (about("REMOVE_CONTAINER", "run.ended", ""), 200),
        (about("REMOVE_CONTAINER", "run.ended", ""), 200),
        (about("REMOVE_NESTED_CONTAINER", "run.never", ""), 200),
        (about("REMOVE_CONTAINER", "zzz.n1", ""), 500),
        (about("WAIT_CONTAINER", "run.ended", ""), 404),
    ] {
        let reply = target.post(&[JSON], body.as_bytes()).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text());
        if status >= 400 {
            let media_type = reply.header("content-type").unwrap();
            assert!(media_type.starts_with("text/plain"), "{body}: {media_type}");
        }
    }
}

async fn a_container_gets_the_environment_that_it_is_given_and_little_else(target: &Target) {
    let out = target.dir().join("env");
    let mut command = shell(&format!(
        "env > {0}.new; umask >> {0}.new; mv {0}.new {0}",
        out.display()
    ));
    command.environment = Some(longshore_mesos_api::v1::Environment {
        variables: vec![longshore_mesos_api::v1::environment::Variable {
            name: "GIVEN".to_owned(),
            value: Some("yes".to_owned()),
            ..Default::default()
        }],
    });
    target.launch(&id("c"), command).await;
    target.file_appears(&out).await;
    let text = std::fs::read_to_string(&out).unwrap();
    let names: std::collections::BTreeSet<_> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    assert!(text.contains("GIVEN=yes\n"), "{text}");
    assert!(text.ends_with("0022\n"), "{text}");
    for needed in ["PATH", "MESOS_SANDBOX", "PWD"] {
        assert!(names.contains(needed), "{needed}: {text}");
    }
    // What a shell adds by itself is not ours to forbid.
    let known = [
        "PATH",
        "MESOS_SANDBOX",
        "PWD",
        "GIVEN",
        "SHLVL",
        "_",
        "OLDPWD",
    ];
    let foreign: Vec<_> = names.iter().filter(|name| !known.contains(name)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

async fn a_running_container_is_launched_once(target: &Target) {
    let container = id("c");
    let sleep = || run("/bin/sleep", &["1000"]);
    let launched = tokio::join!(
        target.launch(&container, sleep()),
        target.launch(&container, sleep()),
        target.launch(&container, sleep())
    );
    let new = [launched.0, launched.1, launched.2]
        .into_iter()
        .filter(|one| *one == Launched::New);
    assert_eq!(new.count(), 1);
    assert_eq!(target.list(false, true).await.len(), 1);
}

async fn what_we_answer_where_a_mesos_agent_answers_otherwise_or_not_at_all(target: &Target) {
    target
        .launch(&id("run"), run("/bin/sleep", &["1000"]))
        .await;
    let about = |kind: &str, id: &str, rest: &str| call_json(kind, id, rest);
    let resource =
        r#","resources":[{"name":"cpus","type":"SCALAR","role":"ops","scalar":{"value":1}}]"#;
    for (body, status) in [
        // Mesos serves these.
        (r#"{"type":"GET_STATE"}"#.to_owned(), 501),
        // Mesos aborts.
        (about("REMOVE_CONTAINER", "never", ""), 200),
        (about("REMOVE_CONTAINER", "run", ""), 500),
        (about("LAUNCH_CONTAINER", "role", resource), 400),
        // Mesos launches with what makes no sense.
        (
            about(
                "LAUNCH_CONTAINER",
                "less",
                r#","limits":{"cpus":{"value":-1}}"#,
            ),
            400,
        ),
        (
            about(
                "LAUNCH_CONTAINER",
                "env",
                r#","command":{"value":"true","environment":{"variables":[{"name":"","value":"x"}]}}"#,
            ),
            400,
        ),
    ] {
        let reply = target.post(&[JSON], body.as_bytes()).await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text());
    }
    let charset = ("Content-Type", "application/json; charset=utf-8");
    assert_eq!(
        target
            .post(&[charset], br#"{"type":"GET_HEALTH"}"#)
            .await
            .status,
        200
    );
}
