//! The daemon: its plugins, its end, its beginning.

use nix::sys::signal::{Signal, kill};

use crate::support::{Daemon, Home, LONGSHORE, eventually, hostpath};

fn start() -> Daemon {
    let home = Home::new();
    let config = hostpath(&home, "disks", "v1");
    Daemon::start(home, &config)
}

#[test]
fn a_killed_plugin_is_back_and_its_history_tells() {
    let daemon = start();
    let uri = daemon.endpoint("disks");
    assert!(uri.starts_with("unix:///"), "{uri}");
    eventually("everything is ready", || {
        (daemon.run(["status"]).code == 0).then_some(())
    });

    let before = daemon.plugin_pid("disks");
    kill(before, Signal::SIGKILL).unwrap();
    eventually("another process answers", || {
        let plugin = daemon.plugin("disks");
        let pid = plugin["containers"][0]["pid"].as_i64()?;
        (plugin["state"] == "ready" && pid != i64::from(before.as_raw())).then_some(())
    });
    assert_eq!(
        daemon.endpoint("disks"),
        uri,
        "the socket stays where it was"
    );
    let plugin = daemon.plugin("disks");
    assert_eq!(plugin["restarts"], 1, "{plugin}");
    assert_eq!(plugin["metrics"]["container_terminations"], 1, "{plugin}");
    assert!(
        plugin["metrics"]["rpcs_finished"].as_u64() >= Some(2),
        "{plugin}"
    );
    let exits: Vec<_> = plugin["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["exit"].clone())
        .collect();
    assert!(exits.contains(&"SIGKILL".into()), "{plugin}");
    let text = daemon.run(["status", "disks"]).exits(0).stdout;
    assert!(text.contains("SIGKILL") && text.contains("ready"), "{text}");
    let table = daemon.run(["status"]).exits(0).stdout;
    assert!(table.contains("disks") && table.contains(&uri), "{table}");
}

#[test]
fn a_plugin_is_stopped_started_and_restarted_by_its_verbs() {
    let daemon = start();
    daemon.endpoint("disks");
    let before = daemon.plugin_pid("disks");
    let stopped = daemon.run(["csi", "stop", "disks", "--json"]).exits(0);
    assert_eq!(stopped.json()["action"], "stop");
    assert_eq!(daemon.plugin("disks")["state"], "stopped");
    assert_eq!(kill(before, None), Err(nix::errno::Errno::ESRCH));
    let status = daemon.run(["status"]).exits(3);
    assert!(status.stdout.contains("stopped"), "{status:#?}");
    let endpoint = daemon.run(["csi", "endpoint", "disks"]).exits(3);
    assert!(
        endpoint
            .stderr
            .starts_with("error: plugin disks has no endpoint"),
        "{endpoint:#?}"
    );
    assert_eq!(daemon.run(["csi", "start", "disks"]).exits(0).stdout, "");
    daemon.endpoint("disks");
    let before = daemon.plugin_pid("disks");
    let restarted = daemon.run(["csi", "restart", "disks", "--reset", "--json"]);
    let restarted = restarted.exits(0).json();
    assert_eq!(
        (&restarted["action"], &restarted["plugin"]),
        (&"restart".into(), &"disks".into())
    );
    daemon.endpoint("disks");
    eventually("it is another process", || {
        (daemon.plugin_pid("disks") != before).then_some(())
    });
    for verb in ["stop", "start", "restart", "inspect", "logs", "endpoint"] {
        let done = daemon.run(["csi", verb, "nothing"]).exits(1);
        assert!(
            done.stderr.contains("\"nothing\"") && done.stderr.contains("disks"),
            "{done:#?}"
        );
    }
}

#[test]
fn restarts_and_the_last_exit_are_counted_over_all_daemons_and_whoever_asks() {
    let mut daemon = start();
    daemon.endpoint("disks");
    kill(
        daemon.plugin_pid("disks"),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    let counted = |daemon: &Daemon, restarts: u64| {
        eventually("it is counted", || {
            let plugin = daemon.plugin("disks");
            let container = &plugin["containers"][0];
            let done = plugin["restarts"] == restarts
                && container["restarts"] == restarts
                && plugin["state"] == "ready";
            done.then(|| container["last_exit"].clone())
        })
    };
    let exit = counted(&daemon, 1);
    assert!(exit.is_string(), "{exit}");
    // A history is written a moment after what it tells of: a crash may come before.
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
    daemon.start_again();
    assert_eq!(counted(&daemon, 1), exit);
    daemon.run(["csi", "restart", "disks"]).exits(0);
    counted(&daemon, 2);
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
    daemon.start_again();
    counted(&daemon, 2);
}

#[test]
fn the_output_of_a_plugin_is_a_document_a_line_for_programs() {
    let home = Home::new();
    let config = "[plugins.talks]\ntype = \"t\"\n[[plugins.talks.containers]]\nservices = [\"node\"]\n\
                  shell = \"echo out; echo err >&2; exec sleep 1000\"\n";
    let daemon = Daemon::start(home, config);
    eventually("both lines are there", || {
        let logs = daemon.run(["csi", "logs", "talks", "--json"]);
        let lines: Vec<serde_json::Value> = logs
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let says = |stream: &str, text: &str| {
            lines.iter().any(|line| {
                line["version"] == 1
                    && line["stream"] == stream
                    && line["line"] == text
                    && line["container"].is_string()
            })
        };
        (says("stdout", "out") && says("stderr", "err")).then_some(())
    });
    // Until it answers its status says what is missing.
    eventually("the status says why", || {
        let reason = daemon.plugin("talks")["reason"].to_string();
        let endpoint = daemon.run(["csi", "endpoint", "talks"]).exits(3).stderr;
        let missing = "the socket did not appear";
        (reason.contains(missing) && endpoint.contains(missing)).then_some(())
    });
}

#[test]
fn an_endpoint_that_nobody_serves_says_so() {
    let home = Home::new();
    let socket = home.join("none.sock");
    let config = format!(
        "[plugins.remote]\ntype = \"t\"\nendpoints = {{ node = \"unix://{}\" }}\n",
        socket.display()
    );
    let daemon = Daemon::start(home, &config);
    eventually("the status says why", || {
        let plugin = daemon.plugin("remote");
        let endpoint = daemon.run(["csi", "endpoint", "remote"]).exits(3).stderr;
        let told =
            |text: &str| text.contains("the socket did not appear") && text.contains("none.sock");
        let shown = plugin["reason"].to_string();
        let of_service = plugin["endpoints"][0]["reason"].to_string();
        (told(&shown) && told(&of_service) && told(&endpoint)).then_some(())
    });
}

#[test]
fn a_stray_is_shown_by_its_id_while_it_is_there() {
    let daemon = start();
    let status = daemon.run(["status", "--json"]).json();
    let instance = status["daemon"]["instance_id"].as_str().unwrap().to_owned();
    let id = format!("longshore-{instance}-csi-nobody-knows");
    daemon
        .run(["container", "launch", &id, "--", "/bin/sleep", "1000"])
        .exits(0);
    let shown = |expected: serde_json::Value| {
        eventually("the strays are shown", || {
            let status = daemon.run(["status", "--json"]).json();
            (status["strays"] == expected).then_some(())
        });
    };
    shown(serde_json::json!([id]));
    daemon.run(["container", "kill", &id]).exits(0);
    shown(serde_json::json!([]));
}

#[test]
fn containers_outlive_a_daemon_however_it_ends() {
    let mut daemon = start();
    let uri = daemon.endpoint("disks");
    let pid = daemon.plugin_pid("disks");
    daemon.crash();
    kill(pid, None).expect("the plugin lives on");
    daemon.start_again();
    assert_eq!(daemon.endpoint("disks"), uri);
    assert_eq!(daemon.plugin_pid("disks"), pid);
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
    kill(pid, None).expect("the plugin lives on");
    assert!(!daemon.home.join("r/control/control.sock").exists());
    daemon.run(["status"]).exits(4);
    daemon.start_again();
    assert_eq!(daemon.endpoint("disks"), uri);
    assert_eq!(daemon.plugin_pid("disks"), pid);
    assert_eq!(daemon.plugin("disks")["restarts"], 0);
}

#[test]
fn a_daemon_raises_its_limit_of_open_files_and_its_containers_keep_the_old_one() {
    use nix::sys::resource::{Resource, getrlimit};
    let home = Home::new();
    let shell = format!(
        "ulimit -Sn 256; exec {LONGSHORE} daemon -c {}",
        home.write("longshore.toml", "").display()
    );
    let daemon = home.command_of("sh", ["-c", &shell]).spawn().unwrap();
    let daemon = Daemon::adopt(home, daemon);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let soft: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert_eq!(soft, hard.min(65_536), "{line}");
    let script = "ulimit -Sn; ulimit -Hn";
    daemon
        .run(["container", "launch", "c", "--", "/bin/sh", "-c", script])
        .exits(0);
    daemon.run(["container", "wait", "c"]).exits(0);
    let printed = daemon.run(["container", "logs", "c"]).exits(0).stdout;
    assert_eq!(printed, format!("256\n{hard}\n"));
}

#[test]
fn a_second_daemon_on_the_same_root_is_locked_out_and_told_by_whom() {
    let daemon = start();
    let config = daemon.home.join("longshore.toml");
    let done = daemon
        .run(["daemon", "-c", config.to_str().unwrap()])
        .exits(1);
    let error = done
        .stderr
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap();
    assert!(
        error.contains("locked by") && error.contains(&daemon.pid().to_string()),
        "{error}"
    );
    // The first one has not been disturbed.
    daemon.endpoint("disks");
}

#[test]
fn a_plugin_that_ends_at_once_is_told_with_its_last_words() {
    let home = Home::new();
    let config = "[plugins.bad]\ntype = \"test.bad\"\n[[plugins.bad.containers]]\n\
                  services = [\"node\"]\nshell = \"echo no such disk >&2; exit 7\"\n";
    let config = config.to_owned() + &hostpath(&home, "disks", "v1");
    let daemon = Daemon::start(home, &config);
    // The other one is not touched by it.
    daemon.endpoint("disks");
    // The last words are read just after the end is known.
    eventually("the history has the exit and its last words", || {
        let plugin = daemon.plugin("bad");
        let told = |entry: &serde_json::Value| {
            entry["exit"] == "exit 7" && entry["stderr"].to_string().contains("no such disk")
        };
        plugin["history"].as_array()?.iter().any(told).then_some(())
    });
    let done = daemon
        .run(["csi", "endpoint", "bad", "--service", "node"])
        .exits(3);
    assert_eq!(done.stderr.lines().count(), 1, "{done:#?}");
    daemon
        .run(["csi", "endpoint", "bad", "--service", "controller"])
        .exits(1);
    daemon.run(["status"]).exits(3);
}

#[test]
fn output_is_shown_and_followed() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let home = Home::new();
    let trigger = home.join("trigger");
    let script = format!(
        "echo to-stdout; echo to-stderr >&2; while ! test -e {}; do sleep 0.05; done; echo later; exec sleep 1000",
        trigger.display()
    );
    let config = format!(
        "[plugins.talk]\ntype = \"test.talk\"\nkill_grace = \"0s\"\n[[plugins.talk.containers]]\n\
         services = [\"node\"]\nshell = {script:?}\n"
    );
    let daemon = Daemon::start(home, &config);
    eventually("both streams are there", || {
        let text = daemon.run(["csi", "logs", "talk"]).stdout;
        (text.contains("to-stdout") && text.contains("to-stderr")).then_some(())
    });
    let mut follow = daemon
        .home
        .command(["csi", "logs", "-f", "talk"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "to-stdout"));
    std::fs::write(&trigger, "").unwrap();
    assert!(lines.any(|line| line.unwrap() == "later"));
    kill(
        nix::unistd::Pid::from_raw(i32::try_from(follow.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    assert_eq!(follow.wait().unwrap().code(), Some(0));
}

#[test]
fn a_watcher_sees_each_change_until_the_daemon_ends() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;
    let mut daemon = start();
    daemon.endpoint("disks");
    let mut watch = daemon.home.command(["status", "--watch", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let state = |line: String| {
        let status: serde_json::Value = serde_json::from_str(&line).unwrap();
        status["plugins"][0]["state"].clone()
    };
    assert!(lines.by_ref().map(state).any(|state| state == "ready"));
    daemon.run(["csi", "stop", "disks"]).exits(0);
    assert!(lines.by_ref().map(state).any(|state| state == "stopped"));
    assert_eq!(daemon.terminate(), 0);
    assert_eq!(watch.wait().unwrap().code(), Some(4));
}

#[test]
fn a_plugin_is_inspected_with_its_driver_and_configuration() {
    let daemon = start();
    daemon.endpoint("disks");
    let inspected = eventually("the driver has described itself", || {
        let inspected = daemon
            .run(["csi", "inspect", "disks", "--json"])
            .exits(0)
            .json();
        inspected["plugin"]["driver"]
            .is_object()
            .then_some(inspected)
    });
    assert_eq!(inspected["config"]["type"], "test.disks");
    assert!(
        inspected["origin"]
            .as_str()
            .unwrap()
            .ends_with("longshore.toml:1"),
        "{inspected}"
    );
    let text = daemon.run(["csi", "inspect", "disks"]).exits(0).stdout;
    assert!(text.contains("CREATE_DELETE_VOLUME"), "{text}");
    let listed = daemon.run(["csi", "ls", "--json"]).exits(0).json();
    assert_eq!(listed["plugins"][0]["name"], "disks");
}
