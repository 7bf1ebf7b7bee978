//! `longshore task ..`: what needs no engine, and tasks on a real Docker.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use longshore_testkit::peers::{self, TEST_IMAGE};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Daemon, Done, Home, eventually};

/// A home whose tasks run on the test engine.
fn home() -> Option<(Home, String)> {
    let socket = peers::docker()?;
    Some((Home::new(), format!("unix://{}", socket.display())))
}

fn run(home: &Home, engine: &str, args: &[&str]) -> Done {
    command(home, engine, args).output().unwrap().into()
}

fn command(home: &Home, engine: &str, args: &[&str]) -> Command {
    let mut command = home.command(["task"]);
    command.args(args).env("LONGSHORE_ENGINE", engine);
    command
}

fn daemon(home: Home, engine: &str) -> Daemon {
    Daemon::start(home, &format!("[tasks]\nengine = {engine:?}\n"))
}

fn task(daemon: &Daemon, id: &str) -> serde_json::Value {
    daemon
        .run(["task", "inspect", id, "--json"])
        .exits(0)
        .json()["task"]
        .clone()
}

fn until_phase(daemon: &Daemon, id: &str, phase: &str) -> serde_json::Value {
    eventually("the task is that far", || {
        let task = task(daemon, id);
        (task["phase"] == phase).then_some(task)
    })
}

fn interrupt(child: &Child) {
    kill(
        Pid::from_raw(i32::try_from(child.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
}

#[test]
fn without_a_daemon_all_verbs_but_run_say_how_to_start_one() {
    let home = Home::new();
    for args in [
        &["ls"][..],
        &["inspect", "x"],
        &["logs", "x"],
        &["wait", "x"],
        &["stop", "x"],
        &["kill", "x"],
        &["rm", "x"],
    ] {
        let done = run(&home, "unix:///nowhere.sock", args).exits(4);
        assert!(done.stderr.contains("longshore daemon"), "{done:?}");
    }
    let done = run(&home, "unix:///nowhere.sock", &["run", "-d", "image"]).exits(125);
    assert!(done.stderr.contains("longshore daemon"), "{done:?}");
    let done = run(&home, "unix:///nowhere.sock", &["run", "image"]).exits(125);
    assert!(
        done.stderr.contains("/nowhere.sock") && done.stderr.contains("tasks.engine"),
        "{done:?}"
    );
    assert_eq!(
        std::fs::read_dir(home.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn bad_input_is_refused_by_name_as_docker_exits() {
    let home = Home::new();
    let cases: &[(&[&str], &str)] = &[
        (&["run"], "no image"),
        (
            &["run", "--restart", "always", "image"],
            "--restart always: nothing stays",
        ),
        (&["run", "-it", "image"], "--interactive cannot be served"),
        (&["run", "--no-such-flag", "image"], "--no-such-flag"),
        (&["run", "-m", "lots", "image"], "--memory"),
        (&["run", "-v", "a:b", "image"], "--volume"),
        (&["run", "--name", "mesos-1", "image"], "--name"),
        (&["run", "--env-file", "none", "image"], "--env-file"),
        (&["run", "-f", "none.json"], "none.json"),
        (&["run", "-f", "none.json", "--cpus", "1"], "--cpus"),
    ];
    for (args, words) in cases {
        let done = run(&home, "unix:///nowhere.sock", args).exits(125);
        assert!(done.stderr.contains(words), "{args:?}: {done:?}");
    }
    // A good reason stands alone.
    for args in [
        &["run", "-it", "image"][..],
        &["run", "--link", "a", "image"],
    ] {
        let done = run(&home, "unix:///nowhere.sock", args).exits(125);
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    }
    let remote = run(&home, "tcp://host:2375", &["run", "image"]).exits(125);
    assert!(remote.stderr.contains("tcp://host:2375"), "{remote:?}");
}

#[test]
fn a_daemon_without_an_engine_starts_and_says_so() {
    let daemon = daemon(Home::new(), "unix:///nowhere.sock");
    let status = eventually("the engine has been asked", || {
        let status = daemon.run(["status", "--json"]).exits(0).json();
        (!status["tasks"]["engine"]["error"].is_null()).then_some(status)
    });
    assert!(
        !status["tasks"]["engine"]["silent_since"].is_null(),
        "{status}"
    );
    let shown = daemon.run(["status"]).exits(0);
    assert!(shown.stdout.contains("/nowhere.sock"), "{shown:?}");
}

#[test]
fn a_daemon_that_dies_under_a_launch_leaves_the_id_of_its_task() {
    let mut daemon = daemon(Home::new(), "unix:///nowhere.sock");
    let mut known = Vec::new();
    for words in [&["--name", "web"][..], &[]] {
        let mut command = daemon.home.command(["task", "run", "-d"]);
        let child = command
            .args(words)
            .arg("image")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let accepted = eventually("it is taken", || {
            let listed = daemon.run(["task", "ls", "--json"]).json();
            let tasks = listed["tasks"].as_array().unwrap();
            let mut ids = tasks.iter().map(|task| task["id"].as_str().unwrap());
            ids.find(|id| !known.iter().any(|it| it == id))
                .map(str::to_owned)
        });
        known.push(accepted.clone());
        daemon.crash();
        let done = Done::from(child.wait_with_output().unwrap()).exits(125);
        for text in [&*accepted, "the daemon ended", "next daemon"] {
            assert!(done.stderr.contains(text), "{text}: {done:?}");
        }
        daemon.start_again();
    }
}

#[test]
fn in_the_foreground_a_task_exits_as_with_docker() {
    let Some((home, engine)) = home() else { return };
    let done = run(
        &home,
        &engine,
        &[
            "run",
            "-e",
            "A=secret-value",
            TEST_IMAGE,
            "sh",
            "-c",
            "echo $A; echo err >&2; exit 7",
        ],
    );
    let done = done.exits(7);
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("secret-value\n", "err\n")
    );
    for (command, code, words) in [
        (&["true"][..], 0, ""),
        (&["/no/such/program"], 127, "not found"),
        (&["/etc"], 126, ""),
    ] {
        let mut args = vec!["run", TEST_IMAGE];
        args.extend(command);
        let done = run(&home, &engine, &args).exits(code);
        assert!(done.stderr.contains(words), "{done:?}");
    }
    let done = run(
        &home,
        &engine,
        &["run", "--network", "no-such-network", TEST_IMAGE, "true"],
    )
    .exits(125);
    assert!(done.stderr.contains("no-such-network"), "{done:?}");
    let done = run(
        &home,
        &engine,
        &["run", "--json", TEST_IMAGE, "sh", "-c", "echo one; exit 3"],
    )
    .exits(3);
    let lines: Vec<serde_json::Value> = done
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["line"], "one");
    assert_eq!(
        (&lines[1]["task"]["exit_code"], &lines[1]["task"]["ending"]),
        (&3.into(), &"exited".into())
    );
    assert_eq!(
        std::fs::read_dir(home.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn in_the_foreground_an_interrupt_stops_and_a_second_one_kills() {
    let Some((home, engine)) = home() else { return };
    for (script, interrupts, code) in [
        (
            "trap 'exit 5' TERM; echo up; while :; do sleep 0.1; done",
            1,
            5,
        ),
        ("trap '' TERM; echo up; while :; do sleep 0.1; done", 2, 137),
    ] {
        let mut child = command(
            &home,
            &engine,
            &[
                "run",
                "--stop-timeout",
                "600",
                TEST_IMAGE,
                "sh",
                "-c",
                script,
            ],
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "up");
        let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
        for number in 0..interrupts {
            interrupt(&child);
            if number == 0 {
                // Only then is the next one another one.
                let line = told.next().unwrap().unwrap();
                assert!(line.contains("stopping"), "{line}");
            }
        }
        assert_eq!(child.wait().unwrap().code(), Some(code), "{script}");
    }
    assert_eq!(
        std::fs::read_dir(home.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn in_the_foreground_a_task_ends_with_a_process_that_is_killed_and_what_it_left_with_the_next() {
    let Some((home, engine)) = home() else { return };
    let name = format!("killed-{}", std::process::id());
    let words =
        |script| ["run", "--name", &name, TEST_IMAGE, "sh", "-c", script].map(str::to_owned);
    let script = words("trap '' TERM; echo up; while :; do sleep 0.1; done");
    let script: Vec<_> = script.iter().map(String::as_str).collect();
    let mut args = vec!["run", "--stop-timeout", "1"];
    args.extend(&script[1..]);
    let mut child = command(&home, &engine, &args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        std::fs::read_dir(home.path()).unwrap().count(),
        1,
        "its root"
    );
    let again = words("exit 6");
    let again: Vec<_> = again.iter().map(String::as_str).collect();
    // The name is free once the first container is gone.
    eventually("the container is gone", || {
        let done = run(&home, &engine, &again);
        (done.code == 6).then_some(())
    });
    assert_eq!(
        std::fs::read_dir(home.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn output_that_is_no_text_comes_through_as_it_is() {
    let Some((home, engine)) = home() else { return };
    let script = "head -c 300000 /dev/urandom > /f; md5sum < /f >&2; cat /f";
    let mut command = command(&home, &engine, &["run", TEST_IMAGE, "sh", "-c", script]);
    let done = command.output().unwrap();
    assert_eq!(done.stdout.len(), 300_000);
    let mut sum = Command::new("md5sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = sum.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &done.stdout).unwrap();
    drop(input);
    assert_eq!(sum.wait_with_output().unwrap().stdout, done.stderr);
}

#[test]
fn an_image_is_not_pulled_where_it_never_is() {
    let Some((home, engine)) = home() else { return };
    let done = run(
        &home,
        &engine,
        &["run", "--pull", "never", "longshore.invalid/no/such:image"],
    )
    .exits(125);
    assert!(done.stderr.contains("no/such"), "{done:?}");
    assert!(!done.stderr.contains("pulled:"), "{done:?}");
    run(
        &home,
        &engine,
        &["run", "--rm", "--pull", "never", TEST_IMAGE, "true"],
    )
    .exits(0);
}

#[test]
fn a_task_outlives_its_daemon_and_ends_with_the_right_code() {
    let Some((home, engine)) = home() else { return };
    let mut daemon = daemon(home, &engine);
    let script =
        "echo before; until [ -e /mnt/mesos/sandbox/go ]; do sleep 0.1; done; echo after; exit 9";
    let id = daemon
        .run(["task", "run", "-d", TEST_IMAGE, "sh", "-c", script])
        .exits(0);
    let id = id.stdout.trim().to_owned();
    let sandbox = task(&daemon, &id)["sandbox"].as_str().unwrap().to_owned();
    let container = task(&daemon, &id)["container"].clone();
    daemon.crash();
    daemon.start_again();
    let running = until_phase(&daemon, &id, "running");
    assert_eq!(running["container"], container, "it is the same one");
    // It ends while nobody looks, once more.
    daemon.crash();
    std::fs::write(format!("{sandbox}/go"), "").unwrap();
    daemon.start_again();
    let waited = daemon.run(["task", "wait", &id]).exits(0);
    assert_eq!(waited.stdout, "9\n");
    let ended = task(&daemon, &id);
    assert_eq!(
        (&ended["ending"], &ended["state"]),
        (&"exited".into(), &"TASK_FAILED".into())
    );
    let logs = daemon.run(["task", "logs", "-f", &id]).exits(0);
    assert_eq!(logs.stdout, "before\nafter\n");
    let gone = daemon
        .run([
            "task", "run", "--rm", "--name", "once", TEST_IMAGE, "echo", "x",
        ])
        .exits(0);
    assert_eq!(gone.stdout, "x\n");
    daemon.run(["task", "inspect", "once"]).exits(1);
    daemon.run(["task", "rm", &id]).exits(0);
    let gone = daemon.run(["task", "inspect", &id]).exits(1);
    assert!(gone.stderr.contains("no task has the id"), "{gone:?}");
    assert!(!std::path::Path::new(&sandbox).exists());
}

#[test]
fn a_sandbox_that_somebody_has_removed_is_told() {
    let Some((home, engine)) = home() else { return };
    let daemon = daemon(home, &engine);
    daemon
        .run(["task", "run", "--name", "one", TEST_IMAGE, "echo", "x"])
        .exits(0);
    let sandbox = task(&daemon, "one")["sandbox"].as_str().unwrap().to_owned();
    std::fs::remove_dir_all(&sandbox).unwrap();
    let lost = daemon.run(["task", "logs", "one"]).exits(1);
    assert!(lost.stderr.contains(&sandbox), "{lost:?}");
    assert!(lost.stderr.contains("gone"), "{lost:?}");
    daemon.run(["task", "rm", "one"]).exits(0);
}

#[test]
fn the_verbs_go_to_the_daemon() {
    let Some((home, engine)) = home() else { return };
    let daemon = daemon(home, &engine);
    let name = format!("verbs-{}", std::process::id());
    let script = "trap 'echo hup' HUP; trap 'exit 4' TERM; echo up; while :; do sleep 0.1; done";
    let run = [
        "task",
        "run",
        "-d",
        "--name",
        &name,
        "--label",
        "k=v",
        "-e",
        "TOKEN=hunter2",
        TEST_IMAGE,
        "sh",
        "-c",
        script,
    ];
    assert_eq!(daemon.run(run).exits(0).stdout, format!("{name}\n"));
    // bad input: a second launch while one runs; only the new one fails.
    let second = daemon.run(run).exits(125);
    assert!(
        second.stderr.contains(&name) && second.stderr.contains("runs"),
        "{second:?}"
    );
    let listed = daemon.run(["task", "ls", "-q"]).exits(0);
    assert_eq!(listed.stdout, format!("{name}\n"));
    let inspected = daemon.run(["task", "inspect", &name]).exits(0);
    assert!(
        inspected.stdout.contains("k=v") && !inspected.stdout.contains("hunter2"),
        "{inspected:?}"
    );
    let attached = daemon
        .run(["task", "run", TEST_IMAGE, "sh", "-c", "echo hi; exit 6"])
        .exits(6);
    assert_eq!(attached.stdout, "hi\n");
    eventually("the trap is set", || {
        (daemon.run(["task", "logs", &name]).exits(0).stdout == "up\n").then_some(())
    });
    daemon.run(["task", "kill", "-s", "HUP", &name]).exits(0);
    eventually("the signal has come", || {
        daemon
            .run(["task", "logs", &name])
            .stdout
            .contains("hup")
            .then_some(())
    });
    let running = daemon.run(["task", "rm", &name]).exits(1);
    assert!(running.stderr.contains("task rm -f"), "{running:?}");
    let no_signal = daemon.run(["task", "kill", "-s", "NOPE", &name]).exits(2);
    assert!(no_signal.stderr.contains("\"NOPE\""), "{no_signal:?}");
    let late = daemon
        .run(["task", "wait", "--timeout", "1", &name])
        .exits(3);
    assert!(late.stderr.contains("has not ended"), "{late:?}");
    // What there is none of keeps no other from its turn.
    for (verb, code) in [("kill", 1), ("stop", 1), ("wait", 1)] {
        let mut args = vec!["task", verb, "none-1", &name, "none-2"];
        if verb == "kill" {
            args.extend(["-s", "HUP"]);
        }
        let done = daemon.run(args).exits(code);
        assert!(
            done.stderr.contains("none-1") && done.stderr.contains("none-2"),
            "{done:?}"
        );
        assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
    }
    // One that has ended is stopped, and gets no signal.
    daemon.run(["task", "stop", &name]).exits(0);
    let killed = daemon.run(["task", "kill", &name]).exits(1);
    assert!(killed.stderr.contains("has ended"), "{killed:?}");
    let ended = task(&daemon, &name);
    assert_eq!(
        (&ended["exit_code"], &ended["ending"]),
        (&4.into(), &"killed".into())
    );
    assert_eq!(daemon.run(["task", "ls"]).exits(0).stdout, "no task runs\n");
    let all = daemon.run(["task", "ls", "-a", "--json"]).exits(0).json();
    assert_eq!(all["tasks"].as_array().unwrap().len(), 2, "{all}");
    let log = daemon.log();
    assert!(!log.contains("hunter2"), "{log}");
    let told = |to: &str| {
        let of_it = log.lines().filter(|line| line.contains(&name));
        of_it
            .filter(|line| line.contains(&format!("\"to\":\"{to}\"")))
            .count()
    };
    for to in ["TASK_STARTING", "TASK_RUNNING", "TASK_KILLING"] {
        assert_eq!(told(to), 1, "{to}: {log}");
    }
    let ids = all["tasks"].as_array().unwrap().iter();
    let ids: Vec<_> = ids.map(|task| task["id"].as_str().unwrap()).collect();
    let mut rm = vec!["task", "rm", "none"];
    rm.extend(ids);
    let done = daemon.run(rm).exits(1);
    assert_eq!(done.stdout.lines().count(), 2, "{done:?}");
    let left = daemon.run(["task", "ls", "-a"]).exits(0);
    assert_eq!(left.stdout, "there are no tasks\n");
}

#[test]
fn what_a_launch_waits_for_is_told_at_once_and_shown() {
    let daemon = daemon(Home::new(), "unix:///nowhere.sock");
    let mut child = daemon
        .home
        .command(["task", "run", "--name", "waits", "image"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = told.next().unwrap().unwrap();
    assert!(
        line.contains("/nowhere.sock") && line.ends_with("; waiting"),
        "{line}"
    );
    let shown = task(&daemon, "waits");
    let waiting = shown["waiting"].as_str().unwrap();
    assert!(waiting.contains("/nowhere.sock"), "{shown}");
    for args in [&["task", "ls"][..], &["task", "inspect", "waits"]] {
        let done = daemon.run(args).exits(0);
        assert!(done.stdout.contains("/nowhere.sock"), "{done:?}");
    }
    daemon.run(["task", "rm", "-f", "waits"]).exits(0);
    child.wait().unwrap();
}

#[test]
fn output_that_stays_with_the_engine_is_shown_from_its_first_line_on() {
    let Some((home, engine)) = home() else { return };
    let script = "echo one; echo two; echo three; exit 4";
    let words = [
        "task", "run", "--logs", "engine", TEST_IMAGE, "sh", "-c", script,
    ];
    let local = run(&home, &engine, &words[1..]).exits(4);
    assert_eq!(local.stdout, "one\ntwo\nthree\n");
    let daemon = daemon(home, &engine);
    let beside = daemon.run(words).exits(4);
    assert_eq!(beside.stdout, "one\ntwo\nthree\n");
    // One that never had a container has no output.
    let never = daemon
        .run([
            "task",
            "run",
            "--logs",
            "engine",
            "--network",
            "none-such",
            TEST_IMAGE,
        ])
        .exits(125);
    assert!(never.stderr.contains("none-such"), "{never:?}");
    let listed = daemon.run(["task", "ls", "-a", "-q"]).exits(0);
    for (id, output) in listed.stdout.lines().zip(["three\n", ""]) {
        let logs = daemon.run(["task", "logs", "--tail", "1", id]).exits(0);
        assert_eq!(logs.stdout, output);
        daemon.run(["task", "rm", id]).exits(0);
    }
}

#[test]
fn the_end_of_the_output_is_counted_in_lines_as_with_docker() {
    let Some((home, engine)) = home() else { return };
    let daemon = daemon(home, &engine);
    let script = "echo one; echo two; printf three";
    let run = [
        "task", "run", "--name", "lines", TEST_IMAGE, "sh", "-c", script,
    ];
    daemon.run(run).exits(0);
    for (tail, expected) in [
        ("0", ""),
        ("1", "three"),
        ("2", "two\nthree"),
        ("all", "one\ntwo\nthree"),
    ] {
        let logs = daemon.run(["task", "logs", "-n", tail, "lines"]).exits(0);
        assert_eq!(logs.stdout, expected, "{tail}");
    }
    daemon
        .run(["task", "logs", "--tail", "x", "lines"])
        .exits(2);
    daemon.run(["task", "rm", "lines"]).exits(0);
}

#[test]
fn a_task_from_a_file_and_bad_input_in_one() {
    let Some((home, engine)) = home() else { return };
    let daemon = daemon(home, &engine);
    let file = |rest: &str| {
        let text = format!(
            r#"{{"task_id":{{"value":"from-file"}},"command":{{"value":"echo file"}},{rest}"container":{{"type":"DOCKER","docker":{{"image":"{TEST_IMAGE}"}}}}}}"#
        );
        daemon.home.write("task.json", text)
    };
    let path = file("");
    let done = daemon
        .run([
            "task".as_ref(),
            "run".as_ref(),
            "-f".as_ref(),
            path.as_os_str(),
        ])
        .exits(0);
    assert_eq!(done.stdout, "file\n");
    daemon.run(["task", "rm", "from-file"]).exits(0);
    for (rest, field) in [
        (
            r#""kill_policy":{"grace_period":{"nanoseconds":-1}},"#,
            "kill_policy.grace_period",
        ),
        (
            r#""resources":[{"name":"gpus","type":"SCALAR","scalar":{"value":1}}],"#,
            "gpus",
        ),
        (
            r#""max_completion_time":{"nanoseconds":-5},"#,
            "max_completion_time",
        ),
    ] {
        file(rest);
        let done = daemon.run(["task", "run", "-f", "task.json"]).exits(125);
        assert!(done.stderr.contains(field), "{field}: {done:?}");
    }
    let huge = format!(
        r#""labels":{{"labels":[{{"key":"x","value":"{}"}}]}},"#,
        "x".repeat(3 << 20)
    );
    file(&huge);
    let done = daemon.run(["task", "run", "-f", "task.json"]).exits(125);
    assert!(done.stderr.contains("bytes"), "{done:?}");
    let none = daemon.run(["task", "ls", "-a", "-q"]).exits(0);
    assert_eq!(none.stdout, "");
}

#[test]
fn two_supervisors_on_one_engine_leave_each_other_alone() {
    let (Some((one, engine)), Some((other, _))) = (home(), home()) else {
        return;
    };
    let mut one = daemon(one, &engine);
    let mut other = daemon(other, &engine);
    let run = |daemon: &Daemon| {
        let run = ["task", "run", "-d", TEST_IMAGE, "sleep", "600"];
        daemon.run(run).exits(0).stdout.trim().to_owned()
    };
    let (first, second) = (run(&one), run(&other));
    for daemon in [&mut one, &mut other] {
        daemon.crash();
        daemon.start_again();
    }
    for (daemon, id) in [(&one, &first), (&other, &second)] {
        until_phase(daemon, id, "running");
        let listed = daemon.run(["task", "ls", "-a", "-q"]).exits(0);
        assert_eq!(listed.stdout, format!("{id}\n"), "each has its own alone");
    }
    one.run(["task", "rm", "-f", &first]).exits(0);
    until_phase(&other, &second, "running");
    other.run(["task", "rm", "-f", &second]).exits(0);
}
