//! The `container` verbs against the daemon's embedded agent.

use crate::support::{Daemon, Home, eventually};

#[test]
fn a_container_is_launched_waited_for_killed_and_removed() {
    let daemon = Daemon::start(Home::new(), "");
    assert_eq!(
        daemon.run(["container", "ls"]).exits(0).stdout,
        "no containers\n"
    );
    let launch = |id: &str, command: &[&str]| {
        let mut line = vec!["container", "launch", id, "--env", "GREETING=hello", "--"];
        line.extend(command);
        daemon.run(line)
    };
    launch("one", &["/bin/sh", "-c", "echo $GREETING; exit 3"]).exits(0);
    let waited = daemon.run(["container", "wait", "one"]).exits(1);
    assert!(waited.stdout.starts_with("one: exit 3"), "{waited:#?}");
    let waited = daemon
        .run(["container", "wait", "one", "--json"])
        .exits(0)
        .json();
    assert_eq!(waited["exit_status"], 3 << 8);
    assert_eq!(
        daemon.run(["container", "logs", "one"]).exits(0).stdout,
        "hello\n"
    );
    let nothing = daemon
        .run(["container", "logs", "one", "--stderr"])
        .exits(0);
    assert_eq!(nothing.stdout, "");
    let tail = daemon.run(["container", "logs", "one", "--tail", "3"]);
    assert_eq!(tail.exits(0).stdout, "lo\n");
    daemon.run(["container", "rm", "one"]).exits(0);
    let gone = daemon.run(["container", "logs", "one"]).exits(1);
    assert_eq!(
        gone.stderr,
        "error: no stdout of a container one is known\n"
    );

    launch("two", &["/bin/sleep", "1000"]).exits(0);
    let again = launch("two", &["/bin/sleep", "1000"]).exits(1);
    assert!(again.stderr.contains("is there already"), "{again:#?}");
    let listed = daemon.run(["container", "ls", "--json"]).exits(0).json();
    assert_eq!(listed["containers"][0]["id"], "two");
    daemon
        .run(["container", "kill", "two", "-s", "TERM"])
        .exits(0);
    let waited = daemon.run(["container", "wait", "two"]).exits(1);
    assert!(waited.stdout.starts_with("two: SIGTERM"), "{waited:#?}");
    eventually("it is gone from the list", || {
        (daemon.run(["container", "ls"]).stdout == "no containers\n").then_some(())
    });
}

#[test]
fn what_is_not_there_or_not_an_id_is_one_line() {
    let daemon = Daemon::start(Home::new(), "");
    for verb in [
        &["wait", "nothing"][..],
        &["kill", "nothing"],
        &["wait", "a/b"],
        &["kill", ".."],
        &["logs", "nothing"],
        &["logs", "a/b"],
    ] {
        let mut line = vec!["container"];
        line.extend(verb);
        let done = daemon.run(line).exits(1);
        assert_eq!(done.stderr.lines().count(), 1, "{done:#?}");
    }
}

#[test]
fn the_output_of_a_nested_container_is_followed_to_its_end_through_an_agents_url() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let daemon = Daemon::start(Home::new(), "");
    let trigger = daemon.home.join("trigger");
    let script = format!(
        "yes | head -c 200000 >&2; echo first; while ! test -e {}; do sleep 0.05; done; echo last",
        trigger.display()
    );
    daemon
        .run(["container", "launch", "p", "--", "/bin/sleep", "1000"])
        .exits(0);
    daemon
        .run(["container", "launch", "p.n", "--", "/bin/sh", "-c", &script])
        .exits(0);
    let url = format!(
        "unix://{}",
        daemon.home.join("r/agent/agent.sock").display()
    );
    let mut follow = daemon.home.command(["container", "logs", "-f", "p.n"]);
    let mut follow = follow
        .args(["--agent", &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    // Longer than one answer.
    let errors = daemon.run(["container", "logs", "p.n", "--stderr", "--agent", &url]);
    assert_eq!(errors.exits(0).stdout.len(), 200_000);
    std::fs::write(&trigger, "").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "last");
    assert!(lines.next().is_none());
    assert_eq!(follow.wait().unwrap().code(), Some(0));
    daemon.run(["container", "kill", "p"]).exits(0);
}

#[test]
fn each_verb_has_a_document_for_programs() {
    let daemon = Daemon::start(Home::new(), "");
    let script = "printf 'one\\ntw\\377o\\nthree'";
    let launch = [
        "container",
        "launch",
        "c",
        "--json",
        "--",
        "/bin/sh",
        "-c",
        script,
    ];
    let launched = daemon.run(launch).exits(0).json();
    assert_eq!(
        (&launched["action"], &launched["id"]),
        (&"launch".into(), &"c".into())
    );
    daemon.run(["container", "wait", "c"]).exits(0);
    let logs = daemon.run(["container", "logs", "c", "--json"]).exits(0);
    let lines: Vec<serde_json::Value> = logs
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let line = |text: &str| serde_json::json!({"version": 1, "container": "c", "stream": "stdout", "line": text});
    assert_eq!(lines, [line("one"), line("tw\u{fffd}o"), line("three")]);
    let removed = daemon
        .run(["container", "rm", "c", "--json"])
        .exits(0)
        .json();
    assert_eq!(
        (&removed["action"], &removed["id"]),
        (&"rm".into(), &"c".into())
    );
    let launch = ["container", "launch", "d", "--", "/bin/sleep", "1000"];
    daemon.run(launch).exits(0);
    let killed = daemon.run(["container", "kill", "d", "-s", "TERM", "--json"]);
    let killed = killed.exits(0).json();
    assert_eq!(
        (&killed["action"], &killed["id"], &killed["signal"]),
        (&"kill".into(), &"d".into(), &15.into())
    );
    // What was not done has no document.
    let none = daemon
        .run(["container", "kill", "nothing", "--json"])
        .exits(1);
    assert_eq!(none.stdout, "");
}
