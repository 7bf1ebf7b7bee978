//! Health checks and checks in a real container.

use super::*;

fn health(more: &str, command: &str) -> String {
    format!(
        r#""health_check":{{"type":"COMMAND","delay_seconds":0,"interval_seconds":0.2,"grace_period_seconds":0,{more}"command":{{{command}}}}},"#
    )
}

/// Waits for this many statuses about health, and says which.
async fn healths(task: &Task, count: usize) -> Vec<bool> {
    let mut updates = task.updates();
    let mut seen = Vec::new();
    while seen.len() < count {
        let status = soon(updates.next()).await;
        assert!(!bed::is_last(&status), "{status:?}");
        if status.reason.is_some() {
            seen.extend(status.healthy);
        }
    }
    seen
}

#[tokio::test]
async fn hc_05_hc_19_a_check_has_the_environment_of_the_container_and_its_own() {
    if let Some(bed) = Bed::new() {
        environment(bed).await;
    }
}

pub(super) async fn environment(bed: Bed) {
    let check = health(
        "",
        r#""value":"[ $MESOS_CONTAINER_NAME = $(hostname) ]; exit $STATUS","environment":{"variables":[{"name":"STATUS","value":"0"}]}"#,
    );
    let task = bed.shell("t", "sleep 1000", &check);
    assert_eq!(healths(&task, 1).await, [true]);
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
}

#[tokio::test]
async fn hc_08_a_check_that_hangs_is_killed_inside_the_container() {
    if let Some(bed) = Bed::new() {
        hangs(bed).await;
    }
}

pub(super) async fn hangs(bed: Bed) {
    // It starts others, and one of them leaves its session.
    let command = r#""value":"sleep 7531 & setsid sleep 7531 & sleep 7531""#;
    let check = health(
        r#""timeout_seconds":1,"consecutive_failures":1000,"#,
        command,
    );
    let task = bed.ready("t", "sleep 1000", &check).await;
    assert_eq!(healths(&task, 2).await, [false, false]);
    let init = bed.inspect(&task).await;
    let left = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| {
            let cgroup = std::fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let shell = String::from_utf8_lossy(&line).contains("setsid sleep 7531 &");
            cgroup.contains(&init.id) && shell
        })
        .count();
    // One run may be under way.
    assert!(left <= 1, "{left} shells of checks are left");
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
    let check = health(
        r#""timeout_seconds":1,"consecutive_failures":1,"#,
        r#""value":"sleep 120""#,
    );
    let task = bed.shell("killed", "sleep 1000", &check);
    let last = bed.end(&task).await;
    assert_eq!(word(&last), "KILLED killed-by-health-check", "{last:?}");
    assert_eq!(last.healthy, Some(false));
}

#[tokio::test]
async fn hc_10_http_and_tcp_are_asked_inside_the_containers_network() {
    let Some(bed) = Bed::new() else { return };
    if peers::root().is_none() {
        return;
    }
    let serve = "mkdir /www; echo hi > /www/index.html; httpd -f -p 127.0.0.1:18080 -h /www";
    let timing = r#""delay_seconds":0,"interval_seconds":0.2,"grace_period_seconds":1000,"#;
    for (id, check) in [
        (
            "http",
            r#""type":"HTTP","http":{"port":18080,"path":"/index.html"}"#,
        ),
        ("tcp", r#""type":"TCP","tcp":{"port":18080}"#),
    ] {
        let check = format!(r#""health_check":{{{timing}{check}}},"#);
        let task = bed.shell(id, serve, &check);
        assert_eq!(healths(&task, 1).await, [true], "{id}");
        // Nobody listens there outside.
        assert!(std::net::TcpStream::connect(("127.0.0.1", 18080)).is_err());
        bed.killed(&task, Kill::within(Duration::ZERO)).await;
    }
}

#[tokio::test]
async fn hc_11_a_check_sees_the_files_of_the_container() {
    let Some(bed) = Bed::new() else { return };
    let toggle = bed.dir.path().join("toggle");
    std::fs::write(&toggle, "host").unwrap();
    let path = toggle.display();
    let command = format!(
        r#""value":"mkdir -p $(dirname {path}); if [ -e {path} ]; then rm {path}; exit 1; else echo > {path}; fi""#
    );
    let task = bed.shell(
        "t",
        "sleep 1000",
        &health(r#""consecutive_failures":1000,"#, &command),
    );
    assert_eq!(healths(&task, 3).await, [true, false, true]);
    assert_eq!(std::fs::read_to_string(&toggle).unwrap(), "host");
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
}

#[tokio::test]
async fn hc_21_a_check_that_somebody_kills_is_a_failure_and_no_more() {
    let Some(bed) = Bed::new() else { return };
    let check = health(
        r#""consecutive_failures":1000,"#,
        r#""value":"kill -KILL $$""#,
    );
    let task = bed.shell("t", "sleep 1000", &check);
    assert_eq!(healths(&task, 2).await, [false, false]);
    let state = bed.inspect(&task).await.state.status;
    assert_eq!(state, ContainerStatus::Running);
    bed.killed(&task, Kill::within(Duration::ZERO)).await;
}
