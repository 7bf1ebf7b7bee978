//! Each call's codes, as in section 5.2 of the survey and as observed on a Mesos agent.

use std::sync::atomic::Ordering;

use longshore_agent::service::{ExitInfo, ExitReason};

use super::raw::{Connection, JSON, call, call_about, call_json, request};
use super::{eventually, serve};

const EXITED: ExitInfo = ExitInfo {
    status: Some(768),
    reason: None,
    message: None,
};

#[tokio::test]
async fn the_agent_says_who_it_is() {
    let served = serve().await;
    let version = call(&served.socket, r#"{"type":"GET_VERSION"}"#).await;
    assert!(
        version.text().contains(r#""version":"1.11.0-longshore."#),
        "{}",
        version.text()
    );
    let agent = call(&served.socket, r#"{"type":"GET_AGENT"}"#).await;
    assert!(
        agent.text().contains(r#""id":{"value":"node-7"}"#),
        "{}",
        agent.text()
    );
    assert!(agent.text().contains(r#""hostname":""#), "{}", agent.text());
    served.server.shutdown().await;
}

#[tokio::test]
async fn launch_answers_200_then_202_with_nothing_in_them() {
    let served = serve().await;
    for status in [200, 202, 202] {
        let reply = call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("content-length"), Some("0"));
        assert_eq!(reply.header("content-type"), None);
    }
    served.containers.end("c1", EXITED);
    assert_eq!(
        call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "")
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn launch_passes_on_what_it_was_given() {
    let served = serve().await;
    let rest = r#","command":{"shell":false,"value":"/bin/true","arguments":["true"]},
        "resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":0.1}}],
        "container":{"type":"MESOS","hostname":"h"},"limits":{"mem":{"value":32}}"#;
    assert_eq!(
        call_about(&served.socket, "LAUNCH_CONTAINER", "c1", rest)
            .await
            .status,
        200
    );
    let launches = served.containers.launches.lock().unwrap();
    let launch = &launches[0];
    assert_eq!(launch.id.to_string(), "c1");
    assert_eq!(launch.command.as_ref().unwrap().arguments, ["true"]);
    assert_eq!(launch.resources[0].scalar.unwrap().value, 0.1);
    assert_eq!(launch.container.as_ref().unwrap().hostname(), "h");
    assert_eq!(launch.limits["mem"].value, 32.0);
}

#[tokio::test]
async fn a_failed_launch_is_400_or_500_with_its_reason() {
    let served = serve().await;
    for (id, status, text) in [
        ("bad", 400, "the image cannot be run here"),
        ("broken", 500, "Failed to create sandbox"),
        ("panics", 500, "see the agent's log"),
        (
            "nobody.child",
            400,
            "Parent container nobody does not exist",
        ),
        ("a b", 400, "'launch_container.container_id' is invalid"),
    ] {
        let reply = call_about(&served.socket, "LAUNCH_CONTAINER", id, "").await;
        assert_eq!(reply.status, status, "{id}");
        assert!(reply.text().contains(text), "{id}: {}", reply.text());
    }
    assert_eq!(
        call(&served.socket, r#"{"type":"GET_HEALTH"}"#)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn wait_sends_no_byte_until_the_end_and_answers_every_waiter() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let mut waiter = Connection::open(&served.socket).await;
        let body = call_json("WAIT_CONTAINER", "c1", "");
        waiter
            .send(&request("POST /api/v1", &[JSON], body.as_bytes()))
            .await;
        waiters.push(waiter);
    }
    eventually("three waiters", || served.containers.waiting() == 3).await;
    for waiter in &mut waiters {
        assert!(waiter.is_silent().await);
    }
    served.containers.end("c1", EXITED);
    for waiter in &mut waiters {
        let reply = waiter.reply().await;
        assert_eq!(reply.status, 200);
        assert_eq!(
            reply.text(),
            r#"{"type":"WAIT_CONTAINER","wait_container":{"exit_status":768}}"#
        );
    }
}

#[tokio::test]
async fn a_waiter_that_goes_away_takes_nobody_with_it() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    let body = call_json("WAIT_CONTAINER", "c1", "");
    let wait = request("POST /api/v1", &[JSON], body.as_bytes());
    let mut gone = Connection::open(&served.socket).await;
    let mut stays = Connection::open(&served.socket).await;
    gone.send(&wait).await;
    stays.send(&wait).await;
    eventually("two waiters", || served.containers.waiting() == 2).await;
    drop(gone);
    eventually("one waiter is dropped", || served.containers.waiting() == 1).await;
    served.containers.end("c1", EXITED);
    assert_eq!(stays.reply().await.status, 200);
}

#[tokio::test]
async fn aa12_a_late_wait_is_answered_as_long_as_the_containers_know() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    served.containers.end("c1", EXITED);
    for _ in 0..2 {
        let reply = call_about(&served.socket, "WAIT_CONTAINER", "c1", "").await;
        assert!(
            reply.text().contains(r#""exit_status":768"#),
            "{}",
            reply.text()
        );
    }
}

#[tokio::test]
async fn wait_says_why_when_it_was_a_limit() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    let exit = ExitInfo {
        status: Some(9),
        reason: Some(ExitReason::MemoryLimit {
            limit_bytes: 32 << 20,
        }),
        message: Some("Memory limit exceeded".into()),
    };
    served.containers.end("c1", exit);
    let reply = call_about(&served.socket, "WAIT_CONTAINER", "c1", "").await;
    for part in [
        "TASK_FAILED",
        "REASON_CONTAINER_LIMITATION_MEMORY",
        r#""value":32.0"#,
        "exceeded",
    ] {
        assert!(reply.text().contains(part), "{part}: {}", reply.text());
    }
}

#[tokio::test]
async fn aa3_unknown_containers_are_404_for_wait_and_kill() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    for (kind, id, text) in [
        (
            "WAIT_CONTAINER",
            "unknown",
            "Container unknown cannot be found",
        ),
        ("WAIT_CONTAINER", "c1.n", "Container c1.n cannot be found"),
        (
            "WAIT_NESTED_CONTAINER",
            "zzz.n1",
            "Container zzz.n1 cannot be found",
        ),
        (
            "KILL_CONTAINER",
            "unknown",
            "Container 'unknown' cannot be found (or is already killed)",
        ),
        (
            "KILL_NESTED_CONTAINER",
            "c1.n",
            "Container 'c1.n' cannot be found (or is already killed)",
        ),
    ] {
        let reply = call_about(&served.socket, kind, id, "").await;
        assert_eq!((reply.status, reply.text()), (404, text), "{kind}");
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
    }
}

#[tokio::test]
async fn kill_answers_at_once_and_the_wait_follows() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    for (rest, status) in [
        (r#","signal":0"#, 200),
        (r#","signal":15"#, 200),
        (r#","signal":99"#, 500),
        (r#","signal":-1"#, 500),
        (r#","signal":"9""#, 200),
        ("", 404),
    ] {
        let reply = call_about(&served.socket, "KILL_CONTAINER", "c1", rest).await;
        assert_eq!(reply.status, status, "{rest}");
        if status == 500 {
            assert_eq!(
                reply.text(),
                "Unable to send signal to container: Invalid argument"
            );
        }
    }
    let reply = call_about(&served.socket, "WAIT_CONTAINER", "c1", "").await;
    assert!(
        reply.text().contains(r#""exit_status":9"#),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn aa13_remove_works_on_a_top_level_container() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    assert_eq!(
        call_about(&served.socket, "REMOVE_CONTAINER", "c1", "")
            .await
            .status,
        500
    );
    served.containers.end("c1", EXITED);
    let removed = call_about(&served.socket, "REMOVE_CONTAINER", "c1", "").await;
    assert_eq!((removed.status, removed.body.len()), (200, 0));
    assert_eq!(
        call_about(&served.socket, "WAIT_CONTAINER", "c1", "")
            .await
            .status,
        404
    );
    let unknown = call_about(&served.socket, "REMOVE_CONTAINER", "zzz.n", "").await;
    assert_eq!(
        (unknown.status, unknown.text()),
        (500, "Unknown root container")
    );
}

#[tokio::test]
async fn aa1_nested_containers_work_by_both_names() {
    for (launch, wait, kill, remove) in [
        (
            "LAUNCH_CONTAINER",
            "WAIT_CONTAINER",
            "KILL_CONTAINER",
            "REMOVE_CONTAINER",
        ),
        (
            "LAUNCH_NESTED_CONTAINER",
            "WAIT_NESTED_CONTAINER",
            "KILL_NESTED_CONTAINER",
            "REMOVE_NESTED_CONTAINER",
        ),
    ] {
        let served = serve().await;
        call_about(&served.socket, "LAUNCH_CONTAINER", "root", "").await;
        assert_eq!(
            call_about(&served.socket, launch, "root.n", "")
                .await
                .status,
            200
        );
        assert_eq!(
            call_about(&served.socket, launch, "root.n", "")
                .await
                .status,
            202
        );
        assert_eq!(
            call_about(&served.socket, remove, "root.n", "")
                .await
                .status,
            500
        );
        let mut waiter = Connection::open(&served.socket).await;
        let body = call_json(wait, "root.n", "");
        waiter
            .send(&request("POST /api/v1", &[JSON], body.as_bytes()))
            .await;
        eventually("the waiter", || served.containers.waiting() == 1).await;
        assert_eq!(
            call_about(&served.socket, kill, "root.n", "").await.status,
            200
        );
        let member = wait.to_lowercase();
        let expected = format!(r#"{{"type":"{wait}","{member}":{{"exit_status":9}}}}"#);
        assert_eq!(waiter.reply().await.text(), expected);
        assert_eq!(
            call_about(&served.socket, remove, "root.n", "")
                .await
                .status,
            200
        );
        assert_eq!(
            call_about(&served.socket, remove, "root.n", "")
                .await
                .status,
            200
        );
    }
}

#[tokio::test]
async fn the_nested_names_need_a_parent() {
    let served = serve().await;
    for kind in ["LAUNCH", "WAIT", "KILL", "REMOVE"] {
        let reply = call_about(&served.socket, &format!("{kind}_NESTED_CONTAINER"), "c", "").await;
        assert_eq!(reply.status, 400, "{kind}");
        assert!(
            reply.text().contains("container_id.parent' to be present"),
            "{}",
            reply.text()
        );
    }
}

#[tokio::test]
async fn aa8_get_containers_shows_what_was_asked_for() {
    let served = serve().await;
    let list = async |flags: &str| {
        let body = format!(r#"{{"type":"GET_CONTAINERS","get_containers":{{{flags}}}}}"#);
        String::from_utf8(call(&served.socket, &body).await.body).unwrap()
    };
    let all = r#""show_nested":true,"show_standalone":true"#;
    assert_eq!(list(all).await, r#"{"type":"GET_CONTAINERS"}"#);
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1.n4", "").await;
    assert_eq!(list("").await, r#"{"type":"GET_CONTAINERS"}"#);
    let plain = call(&served.socket, r#"{"type":"GET_CONTAINERS"}"#).await;
    assert_eq!(plain.text(), r#"{"type":"GET_CONTAINERS"}"#);
    let standalone = list(r#""show_standalone":true"#).await;
    assert!(
        standalone.contains("c1") && !standalone.contains("n4"),
        "{standalone}"
    );
    let nested = list(r#""show_nested":true"#).await;
    let entry = concat!(
        r#""container_id":{"value":"n4","parent":{"value":"c1"}},"#,
        r#""container_status":{"executor_pid":31756,"container_id":{"value":"n4","parent":{"value":"c1"}}}"#,
    );
    assert!(nested.contains(entry), "{nested}");
    let both = list(all).await;
    assert_eq!(both.matches("resource_statistics").count(), 2, "{both}");
    for limit in [
        r#""cpus_limit":0.2"#,
        r#""mem_limit_bytes":33554432"#,
        r#""cpus_soft_limit":0.1"#,
    ] {
        assert!(both.contains(limit), "{limit}: {both}");
    }
    served.containers.end("c1", EXITED);
    let rest = list(all).await;
    assert_eq!(rest.matches("executor_pid").count(), 1, "{rest}");
}

#[tokio::test]
async fn a_client_that_goes_away_during_a_launch_neither_loses_nor_doubles_it() {
    let served = serve().await;
    let mut gone = Connection::open(&served.socket).await;
    let body = call_json("LAUNCH_CONTAINER", "held", "");
    gone.send(&request("POST /api/v1", &[JSON], body.as_bytes()))
        .await;
    eventually("the launch", || {
        served.containers.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    drop(gone);
    served.containers.gate.add_permits(1);
    eventually("the container", || {
        served.containers.launches.lock().unwrap().len() == 1
    })
    .await;
    served.containers.gate.add_permits(1);
    assert_eq!(
        call_about(&served.socket, "LAUNCH_CONTAINER", "held", "")
            .await
            .status,
        202
    );
    assert_eq!(served.containers.launches.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn output_is_read_by_its_path_and_every_other_path_is_404() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c", "").await;
    let read = async |path: &str, rest: &str| {
        let json =
            format!(r#"{{"type":"READ_FILE","read_file":{{"path":"{path}","offset":3{rest}}}}}"#);
        call(&served.socket, &json).await
    };
    let reply = read("/containers/c/stderr", r#","length":7"#).await;
    assert_eq!(reply.status, 200);
    // "stderr 3 7"
    let whole = r#"{"type":"READ_FILE","read_file":{"size":"12","data":"c3RkZXJyIDMgNw=="}}"#;
    let loose = whole.replace(r#""12""#, "12");
    assert!([whole, &loose].contains(&reply.text()), "{}", reply.text());
    for (path, status, text) in [
        (
            "/containers/x/stdout",
            404,
            "No such file: /containers/x/stdout",
        ),
        ("/containers/c", 404, "No such file: /containers/c"),
        ("/etc/passwd", 404, "No such file: /etc/passwd"),
        ("/containers/broken/stdout", 500, "Failed to read: bad disk"),
    ] {
        let reply = read(path, "").await;
        assert_eq!((reply.status, reply.text()), (status, text), "{path}");
    }
    let reply = call(&served.socket, r#"{"type":"READ_FILE"}"#).await;
    assert_eq!(reply.status, 400, "{}", reply.text());
}
