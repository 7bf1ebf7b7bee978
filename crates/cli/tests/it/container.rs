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
    daemon.run(["container", "rm", "one"]).exits(0);

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
    ] {
        let mut line = vec!["container"];
        line.extend(verb);
        let done = daemon.run(line).exits(1);
        assert_eq!(done.stderr.lines().count(), 1, "{done:#?}");
    }
}
