//! Declared tasks: what needs no engine, and all of it on a real Docker.

use longshore_testkit::peers::{self, TEST_IMAGE};
use serde_json::Value;

use crate::support::{Daemon, Home, eventually, hostpath};

/// Restarts that a test can wait for.
const RESTART: &str = "[tasks.restart]\ninitial = \"100ms\"\nmax = \"200ms\"\nstable_after = \"1h\"\nslow_retry = \"1h\"\n";

fn home() -> Home {
    let home = Home::new();
    std::fs::create_dir(home.join("tasks.d")).unwrap();
    home
}

fn config(engine: &str) -> String {
    format!("[tasks]\nengine = {engine:?}\nmax_age = \"1h\"\n{RESTART}")
}

fn start(home: Home) -> Option<Daemon> {
    let socket = peers::docker()?;
    let engine = format!("unix://{}", socket.display());
    Some(Daemon::start(home, &config(&engine)))
}

fn declare(home: &Home, name: &str, text: &str) {
    home.write(
        &format!("tasks.d/{name}.toml"),
        format!("image = {TEST_IMAGE:?}\n{text}"),
    );
}

fn declared(daemon: &Daemon, name: &str) -> Value {
    let listed = daemon.run(["task", "ls", "--json"]).exits(0).json();
    let all = listed["declared"].as_array().unwrap().clone();
    all.into_iter()
        .find(|it| it["name"] == name)
        .unwrap_or(Value::Null)
}

fn until(daemon: &Daemon, name: &str, what: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    let begun = std::time::Instant::now();
    loop {
        let now = declared(daemon, name);
        if what(&now) {
            return now;
        }
        assert!(
            begun.elapsed() < 2 * crate::support::SOON,
            "{name}: {now}\nbefore: {last}\n{}",
            daemon.log()
        );
        last = now;
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
}

fn until_state(daemon: &Daemon, name: &str, state: &str) -> Value {
    until(daemon, name, |it| it["state"] == state)
}

/// Ends what an engine runs for a home before it goes.
fn clean(daemon: &Daemon) {
    for entry in std::fs::read_dir(daemon.home.join("tasks.d")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    daemon.run(["reload"]).exits(0);
    eventually("nothing is declared any more", || {
        let listed = daemon.run(["task", "ls", "--json"]).exits(0).json();
        listed["declared"]
            .as_array()
            .unwrap()
            .is_empty()
            .then_some(())
    });
}

#[test]
fn broken_files_are_told_with_file_line_and_key_and_stop_no_other() {
    let home = home();
    let file = home.write("longshore.toml", config("unix:///nowhere.sock"));
    for (name, text) in [
        (
            "good.toml",
            "image = \"busybox\"\nneeds = [\"task/nobody\"]\n",
        ),
        (
            "other.json",
            r#"{"task_id":{"value":"good"},"restart":"no","command":{"shell":false},"container":{"type":"DOCKER","docker":{"image":"busybox"}}}"#,
        ),
        ("syntax.toml", "image = \"busybox\"\nmemory = = 1\n"),
        ("flag.toml", "image = \"busybox\"\n\nmemory = \"lots\"\n"),
        ("unknown.toml", "image = \"busybox\"\nmemroy = \"1g\"\n"),
        ("refused.toml", "image = \"busybox\"\ninteractive = true\n"),
        ("ours.toml", "image = \"busybox\"\ndetach = true\n"),
        ("secret.toml", "image = \"busybox\"\nenv = [\"=hunter2\"]\n"),
        ("image.toml", "command = [\"sh\"]\n"),
        (
            "rule.toml",
            "image = \"busybox\"\nrestart = \"unless-stopped\"\n",
        ),
        ("need.toml", "image = \"busybox\"\nneeds = [\"web\"]\n"),
        ("bad name.toml", "image = \"busybox\"\n"),
        (
            "circle1.toml",
            "image = \"busybox\"\nneeds = [\"task/circle2\"]\n",
        ),
        (
            "circle2.toml",
            "image = \"busybox\"\nneeds = [\"task/circle1\"]\n",
        ),
        ("syntax.json", "{\n\"restart\": ]\n}"),
        (
            "member.json",
            "{\"command\": {\"shell\": false},\n\"container\": {\"type\": \"DOCKER\", \"docker\": {\"image\": \"A b\"}}\n}",
        ),
    ] {
        home.write(&format!("tasks.d/{name}"), text);
    }
    let done = home
        .command(["config", "check", "-c"])
        .arg(&file)
        .output()
        .unwrap();
    let done = crate::support::Done::from(done).exits(78);
    for words in [
        "tasks.d/syntax.toml:2: ",
        "tasks.d/flag.toml:3: memory: \"lots\"",
        "tasks.d/unknown.toml:2: memroy: is no flag",
        "tasks.d/refused.toml:2: interactive: cannot be served",
        "tasks.d/ours.toml:2: detach: ",
        "tasks.d/secret.toml:2: env: ",
        "tasks.d/image.toml:1: image: no image is named",
        "tasks.d/rule.toml:2: restart: \"unless-stopped\" is what \"always\" is here",
        "tasks.d/need.toml:2: needs: \"web\" is no need",
        "tasks.d/bad name.toml:1: name: ",
        "tasks.d/circle1.toml:2: needs: circle1 needs circle2 needs circle1",
        "tasks.d/circle2.toml:2: needs: ",
        "tasks.d/syntax.json:2: ",
        "tasks.d/member.json:2: ",
        "tasks.d/other.json: a task `good` is declared by another file",
    ] {
        let told = done.stderr.contains(words) || done.stdout.contains(words);
        assert!(told, "{words}\n{done:#?}");
    }
    assert!(!done.stderr.contains("hunter2"), "{done:#?}");
    // However the file is named.
    let from_here = home
        .run(["config", "check", "-c", "longshore.toml"])
        .exits(78);
    assert_eq!(from_here.stderr, done.stderr);
    // The others go on.
    let daemon = Daemon::start(home, &config("unix:///nowhere.sock"));
    let good = until_state(&daemon, "good", "waiting");
    let reason = good["reason"].as_str().unwrap();
    assert!(reason.contains("task/nobody"), "{good}");
    let shown = daemon.run(["status"]);
    assert!(shown.stdout.contains("flag.toml:3"), "{shown:#?}");
    // It has no attempt to look at, and can be stopped and started all the same.
    let logs = daemon.run(["task", "logs", "good"]);
    assert!(
        logs.code != 0 && logs.stderr.contains("no attempt"),
        "{logs:?}"
    );
    daemon.run(["task", "stop", "good"]).exits(0);
    until_state(&daemon, "good", "stopped");
    daemon.run(["task", "start", "good"]).exits(0);
    until_state(&daemon, "good", "waiting");
    let shown = daemon.run(["task", "inspect", "good"]).exits(0);
    assert!(shown.stdout.contains("task/nobody"), "{shown:?}");
}

#[test]
fn a_declared_task_starts_ends_and_starts_again_and_every_attempt_is_told() {
    let home = home();
    declare(
        &home,
        "crash",
        "command = [\"sh\", \"-c\", \"echo attempt; exit 7\"]\n",
    );
    declare(
        &home,
        "once",
        "command = [\"sh\", \"-c\", \"echo done\"]\nrestart = \"no\"\n",
    );
    declare(
        &home,
        "ok",
        "command = [\"true\"]\nrestart = \"on-failure\"\n",
    );
    let Some(daemon) = start(home) else { return };
    let crash = until_state(&daemon, "crash", "failing");
    assert_eq!(crash["attempts"], 5, "{crash}");
    assert!(crash["next_try_at"].is_string(), "{crash}");
    let last = crash["last_reason"].as_str().unwrap();
    assert!(
        last.starts_with("attempt 5: ") && last.contains('7'),
        "{crash}"
    );
    for name in ["once", "ok"] {
        assert_eq!(until_state(&daemon, name, "done")["attempts"], 1, "{name}");
    }
    let tasks = &daemon.run(["status", "--json"]).exits(0).json()["tasks"];
    assert_eq!(
        (&tasks["declared"], &tasks["declared_waiting"]),
        (&3.into(), &1.into()),
        "{tasks}"
    );
    let shown = daemon.run(["status"]).exits(0).stdout;
    assert!(shown.contains("declared tasks: 3, 1 waiting;"), "{shown}");
    let found = daemon
        .run(["task", "inspect", "crash", "--json"])
        .exits(0)
        .json();
    let history = found["declared"]["history"].as_array().unwrap();
    assert_eq!(history.len(), 5, "{found}");
    assert!(history.iter().all(|it| it["exit_code"] == 7), "{found}");
    assert_eq!(found["task"]["id"], "crash.5");
    let shown = daemon.run(["task", "inspect", "crash"]).exits(0);
    assert!(
        shown.stdout.contains("crash.3") && shown.stdout.contains("next try"),
        "{shown:?}"
    );
    let listed = daemon.run(["task", "ls"]).exits(0).stdout;
    assert!(
        listed.contains("ATTEMPTS") && listed.contains("failing"),
        "{listed}"
    );
    assert_eq!(
        daemon.run(["task", "logs", "crash"]).exits(0).stdout,
        "attempt\n"
    );
    assert_eq!(
        daemon.run(["task", "logs", "crash.4"]).exits(0).stdout,
        "attempt\n"
    );
    let ended = daemon.run(["task", "ls", "-a", "--json"]).exits(0).json();
    let attempts = ended["tasks"].as_array().unwrap();
    let of_crash = attempts.iter().filter(|it| it["name"] == "crash");
    assert_eq!(
        of_crash.filter(|it| it["phase"] == "ended").count(),
        5,
        "{ended}"
    );
    // An operator's start is a new beginning.
    daemon.run(["task", "start", "crash", "once"]).exits(0);
    until(&daemon, "crash", |it| it["attempts"].as_u64() > Some(5));
    until(&daemon, "once", |it| {
        it["attempts"] == 2 && it["state"] == "done"
    });
    clean(&daemon);
}

#[test]
fn a_stop_holds_over_a_restart_of_the_daemon_and_files_are_followed() {
    let home = home();
    declare(
        &home,
        "web",
        "command = [\"sleep\", \"1000\"]\nstop-timeout = 1\n",
    );
    let Some(mut daemon) = start(home) else {
        return;
    };
    until_state(&daemon, "web", "running");
    daemon.run(["task", "stop", "web"]).exits(0);
    until_state(&daemon, "web", "stopped");
    daemon.crash();
    daemon.start_again();
    assert_eq!(until_state(&daemon, "web", "stopped")["attempts"], 1);
    daemon.run(["task", "start", "web"]).exits(0);
    until(&daemon, "web", |it| {
        it["state"] == "running" && it["attempts"] == 2
    });
    // The end of one attempt by its own id is not the task's.
    daemon.run(["task", "stop", "web.2"]).exits(0);
    until(&daemon, "web", |it| {
        it["state"] == "running" && it["attempts"] == 3
    });
    daemon.run(["task", "kill", "web"]).exits(0);
    until_state(&daemon, "web", "stopped");
    daemon.run(["task", "start", "web"]).exits(0);
    until(&daemon, "web", |it| {
        it["state"] == "running" && it["attempts"] == 4
    });
    // Another content replaces it, a broken one changes nothing, none ends it.
    declare(
        &daemon.home,
        "web",
        "command = [\"sleep\", \"2000\"]\nstop-timeout = 1\n",
    );
    let web = until(&daemon, "web", |it| {
        it["state"] == "running" && it["attempts"] == 5
    });
    assert_eq!(web["generation"], 2, "{web}");
    daemon.home.write("tasks.d/web.toml", "image = 5 5\n");
    daemon.run(["reload"]).exits(78);
    daemon.crash();
    daemon.start_again();
    let web = until_state(&daemon, "web", "running");
    assert_eq!(web["attempts"], 5, "{web}");
    let refused = daemon.run(["task", "rm", "-f", "web"]).exits(1);
    assert!(refused.stderr.contains("tasks.d/web.toml"), "{refused:?}");
    clean(&daemon);
    let left = daemon.run(["task", "ls", "--json"]).exits(0).json();
    assert_eq!(left["tasks"], serde_json::json!([]));
}

#[test]
fn a_failed_health_check_and_a_killed_container_are_ends_and_a_need_is_waited_for() {
    let home = home();
    declare(
        &home,
        "ill",
        "command = [\"sleep\", \"1000\"]\nhealth-cmd = \"false\"\nhealth-interval = \"1s\"\nhealth-retries = 1\nstop-timeout = 1\n",
    );
    declare(
        &home,
        "web",
        "command = [\"sleep\", \"1000\"]\nneeds = [\"csi/disk\"]\nstop-timeout = 1\n",
    );
    declare(
        &home,
        "after",
        "command = [\"sleep\", \"1000\"]\nneeds = [\"task/web\"]\nstop-timeout = 1\n",
    );
    let Some(daemon) = start(home) else { return };
    let web = until_state(&daemon, "web", "waiting");
    assert!(
        web["reason"].as_str().unwrap().contains("csi/disk"),
        "{web}"
    );
    until(&daemon, "after", |it| it["reason"] == "task/web is waiting");
    let plain = std::fs::read_to_string(daemon.home.join("longshore.toml")).unwrap();
    let with = format!("{plain}\n{}", hostpath(&daemon.home, "disk", "v1"));
    daemon.home.write("longshore.toml", with);
    daemon.run(["reload"]).exits(0);
    until_state(&daemon, "web", "running");
    until_state(&daemon, "after", "running");
    let ill = until(&daemon, "ill", |it| it["attempts"].as_u64() > Some(1));
    assert!(
        ill["last_reason"].as_str().unwrap().starts_with("attempt "),
        "{ill}"
    );
    let found = daemon
        .run(["task", "inspect", "ill", "--json"])
        .exits(0)
        .json();
    let first = &found["declared"]["history"][0];
    assert_eq!(first["ending"], "killed-by-health-check", "{found}");
    // By whomever it is killed.
    let pid = daemon
        .run(["task", "inspect", "web", "--json"])
        .exits(0)
        .json();
    let pid = pid["container"][0]["State"]["Pid"].as_i64().unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    until(&daemon, "web", |it| {
        it["state"] == "running" && it["attempts"] == 2
    });
    daemon.home.write("longshore.toml", plain);
    clean(&daemon);
}

#[test]
fn a_task_that_a_command_declares_is_kept_until_it_is_removed() {
    let Some(mut daemon) = start(home()) else {
        return;
    };
    let run = [
        "task",
        "run",
        "-d",
        "--restart",
        "always",
        "--name",
        "web",
        "--stop-timeout",
        "1",
    ];
    let words = [TEST_IMAGE, "sleep", "1000"];
    let done = daemon.run(run.iter().chain(&words)).exits(0);
    assert_eq!(done.stdout, "web\n");
    until_state(&daemon, "web", "running");
    let again = daemon.run(run.iter().chain(&words));
    assert!(
        again.code == 125 && again.stderr.contains("web"),
        "{again:?}"
    );
    let wrong = ["task", "run", "-d", "--restart", "on-failure:3", TEST_IMAGE];
    let wrong = daemon.run(wrong);
    assert!(
        wrong.code == 125 && wrong.stderr.contains("tasks.restart"),
        "{wrong:?}"
    );
    for _ in 0..3 {
        daemon.crash();
        daemon.start_again();
    }
    assert_eq!(until_state(&daemon, "web", "running")["attempts"], 1);
    daemon.run(["task", "rm", "web"]).exits(1);
    daemon.run(["task", "rm", "-f", "web"]).exits(0);
    assert_eq!(declared(&daemon, "web"), Value::Null);
    let no = daemon.run(["task", "start", "web.1"]).exits(1);
    assert!(no.stderr.contains("not declared"), "{no:?}");
}

#[test]
fn a_daemon_that_is_killed_at_any_moment_runs_one_attempt_of_each() {
    let home = home();
    // Nobody else sleeps so long.
    let seconds = format!("4{:08}", std::process::id());
    declare(
        &home,
        "one",
        &format!("command = [\"sleep\", \"{seconds}\"]\nstop-timeout = 1\n"),
    );
    let Some(mut daemon) = start(home) else {
        return;
    };
    for round in 0..12 {
        // From before the intent to long after the start.
        std::thread::park_timeout(std::time::Duration::from_millis(round * 25));
        daemon.crash();
        daemon.start_again();
    }
    let one = until_state(&daemon, "one", "running");
    assert_eq!(one["attempts"], 1, "{one}\n{}", daemon.log());
    assert_eq!(sleepers(&seconds), 1);
    let listed = daemon.run(["task", "ls", "-a", "--json"]).exits(0).json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
    clean(&daemon);
    eventually("it has ended", || (sleepers(&seconds) == 0).then_some(()));
}

/// The processes that sleep so long.
fn sleepers(seconds: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with("sleep\0") && line.contains(seconds)
    })
    .count()
}
