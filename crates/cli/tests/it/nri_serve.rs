//! `longshore nri serve`, and what `nri ls` and `nri remove` tell of it and of a daemon.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Child, ChildStdout, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::support::{Daemon, Done, Home, LONGSHORE, eventually};

/// `nri serve --json` at `nri.sock` of a home, with a control socket.
struct Serve<'a> {
    home: &'a Home,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl<'a> Serve<'a> {
    fn start(home: &'a Home, more: &[&str]) -> Self {
        let mut child = home
            .command(["nri", "serve", "nri.sock", "--control", "c.sock", "--json"])
            .args(["--wait", "60s", "--request-timeout", "60s"])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut serve = Self {
            home,
            child,
            stdout,
        };
        let first = serve.next();
        assert_eq!(first["socket"], "nri.sock", "{first}");
        serve
    }

    /// The next document.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let value: Value = serde_json::from_str(&line).unwrap_or_else(|error| {
            panic!("{line:?}: {error}");
        });
        assert_eq!(value["version"], 1, "{value}");
        value
    }

    /// Has one step performed, and returns what came of it.
    fn step(&mut self, step: &Value) -> Value {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(format!("{step}\n").as_bytes()).unwrap();
        self.next()
    }

    fn ls(&self) -> Vec<Value> {
        let done = self
            .home
            .run(["nri", "ls", "--control", "c.sock", "--json"]);
        done.exits(0).json()["plugins"].as_array().unwrap().clone()
    }

    /// Asks for an end; nothing is left of it then.
    fn end(self, signal: Signal, code: i32) -> Done {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
        self.ended(code)
    }

    fn ended(mut self, code: i32) -> Done {
        drop(self.child.stdin.take());
        let mut stdout = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut stdout).unwrap();
        let done = Done::from(self.child.wait_with_output().unwrap());
        let done = Done { stdout, ..done }.exits(code);
        for name in ["nri.sock", "nri.sock.lock", "c.sock", "c.sock.lock"] {
            assert!(!self.home.join(name).exists(), "{name} is left");
        }
        done
    }
}

/// The bundled plugin, which connects to the socket.
fn plugin(home: &Home) -> Child {
    home.command(["nri", "plugin", "--index", "10", "--name", "bundled"])
        .arg("--socket")
        .arg(home.join("nri.sock"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Ends it, and forgets it.
fn reap(mut plugin: Child) {
    let _gone = plugin.kill();
    plugin.wait().unwrap();
}

fn pod() -> Value {
    let annotations = json!({"env.longshore.dev": "MODE=fast"});
    json!({"event": "RunPodSandbox", "pod": {"id": "p0", "name": "p", "annotations": annotations}})
}

#[test]
fn a_script_is_performed_as_it_comes_and_its_plugins_are_listed_and_removed() {
    let home = Home::new();
    let mut serve = Serve::start(&home, &["--script", "-"]);
    for name in ["nri.sock", "c.sock"] {
        let mode = std::fs::metadata(home.join(name)).unwrap().permissions();
        assert_eq!(mode.mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(serve.ls(), Vec::<Value>::new());

    let bundled = plugin(&home);
    let came = serve.step(&json!({"action": "wait-for-plugin", "plugin": "bundled"}));
    assert_eq!(came["problems"], json!([]), "{came}");
    serve.step(&pod());
    let create = json!({"event": "CreateContainer", "pod": "p0", "container": {"id": "c0"}});
    let created = serve.step(&create);
    let adjustment = &created["outcome"]["adjustment"];
    assert_eq!(adjustment["env"][0]["value"], "fast", "{created}");

    let plugins = serve.ls();
    let one = &plugins[0];
    for (member, value) in [
        ("name", json!("10-bundled")),
        ("index", json!("10")),
        ("kind", json!("external")),
        ("state", json!("active")),
        ("pid", json!(bundled.id())),
        ("events", json!(["CreateContainer"])),
        ("failures", json!(0)),
        ("last_error", Value::Null),
    ] {
        assert_eq!(one[member], value, "{member} of {one}");
    }
    assert!(one["requests"].as_u64().unwrap() >= 1, "{one}");
    assert!(one["since"].is_string(), "{one}");
    let of = |member: &str| one["latency"][member].as_u64().unwrap();
    assert!(of("p50_us") <= of("max_us"), "{one}");
    let table = home.run(["nri", "ls", "--control", "c.sock"]).exits(0);
    assert!(table.stdout.contains("10-bundled  external"), "{table:#?}");

    // A step that makes no sense is named, and the script goes on.
    let refused = serve.step(&json!({"event": "StopContainer", "container": "none"}));
    assert!(
        refused["problems"][0]
            .as_str()
            .unwrap()
            .contains("\"none\""),
        "{refused}"
    );
    let malformed = serve.step(&json!({"evnt": "StopContainer"}));
    assert!(
        malformed["problems"][0].as_str().unwrap().contains("evnt"),
        "{malformed}"
    );
    let elsewhere = serve.step(&json!({"action": "kill-plugins"}));
    assert!(
        elsewhere["problems"][0]
            .as_str()
            .unwrap()
            .contains("remove-plugin"),
        "{elsewhere}"
    );

    // It does not come back once it has ended.
    reap(bundled);
    serve.step(&json!({"action": "wait-until-gone", "plugin": "10-bundled"}));
    let remove = |name: &str| home.run(["nri", "remove", name, "--control", "c.sock"]);
    let closed = serve.ls();
    assert_eq!(closed[0]["state"], "closed", "{closed:?}");
    assert!(closed[0]["last_error"].is_string(), "{closed:?}");
    remove("bundled").exits(0);
    assert_eq!(serve.ls(), Vec::<Value>::new());
    let none = remove("bundled").exits(1);
    assert!(
        none.stderr.contains("no NRI plugin is named \"bundled\""),
        "{none:#?}"
    );

    let done = serve.ended(1);
    let last: Value = serde_json::from_str(done.stdout.trim()).unwrap();
    assert_eq!(
        (&last["ok"], &last["failed"]),
        (&json!(false), &json!([4, 5, 6])),
        "{last}"
    );
}

#[test]
fn a_plugin_that_is_removed_is_closed() {
    let home = Home::new();
    let mut serve = Serve::start(&home, &["--script", "-"]);
    let bundled = plugin(&home);
    serve.step(&json!({"action": "wait-for-plugin", "plugin": "10-bundled"}));
    let done = home
        .run([
            "nri",
            "remove",
            "10-bundled",
            "--reason",
            "it is in the way",
            "--control",
            "c.sock",
        ])
        .exits(0);
    assert_eq!(done.stdout, "10-bundled is removed\n");
    // It connects again, which it may.
    let back = serve.step(&json!({"action": "wait-for-plugin", "plugin": "bundled"}));
    assert_eq!(back["problems"], json!([]), "{back}");
    reap(bundled);
    serve.ended(0);
}

/// Why it is gone is told where it is looked for, until the operator has seen it.
#[test]
fn a_plugin_that_was_removed_is_listed_with_the_reason() {
    let home = Home::new();
    let mut serve = Serve::start(&home, &["--script", "-"]);
    let bundled = plugin(&home);
    serve.step(&json!({"action": "wait-for-plugin", "plugin": "10-bundled"}));
    // A process that is stopped does not come back.
    let pid = Pid::from_raw(i32::try_from(bundled.id()).unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();
    let remove = |args: &[&str]| {
        let all = [&["nri", "remove"], args, &["--control", "c.sock"]].concat();
        home.run(all)
    };
    remove(&["bundled", "--reason", "it is in the way"]).exits(0);
    let listed = serve.ls();
    assert_eq!(listed[0]["state"], "closed", "{listed:?}");
    assert_eq!(
        listed[0]["last_error"], "the operator removed it: it is in the way",
        "{listed:?}"
    );
    remove(&["bundled"]).exits(0);
    assert_eq!(serve.ls(), Vec::<Value>::new());
    // What cannot be meant is refused as an error of the command line.
    remove(&[""]).exits(2);
    remove(&["bundled", "--reason", &"x".repeat(1025)]).exits(2);
    kill(pid, Signal::SIGKILL).unwrap();
    reap(bundled);
    serve.ended(0);
}

#[test]
fn plugins_of_a_directory_are_launched_with_their_configuration_and_end_with_the_runtime() {
    let home = Home::new();
    for name in ["plugins", "config"] {
        std::fs::create_dir(home.join(name)).unwrap();
    }
    let script = format!("exec {LONGSHORE} nri plugin");
    longshore_testkit::script::write(&home.join("plugins/20-launched"), &script);
    let dirs = [
        "--plugins",
        "plugins",
        "--config",
        "config",
        "--trust-any-owner",
    ];
    let serve = Serve::start(&home, &dirs);
    // It may be late on a busy machine: then it is started again.
    let pid = eventually("the plugin is active", || {
        let plugins = serve.ls();
        let one = plugins
            .iter()
            .find(|plugin| plugin["name"] == "20-launched");
        let one = one.unwrap_or_else(|| panic!("{plugins:?}"));
        assert_eq!(one["kind"], "launched", "{one}");
        one["pid"].as_i64().filter(|_| one["state"] == "active")
    });
    let done = serve.end(Signal::SIGTERM, 0);
    assert!(done.stdout.contains("\"ok\":true"), "{done:#?}");
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    assert!(kill(pid, None).is_err(), "the plugin is left");

    // What others could change is named and not launched.
    let serve = Serve::start(&home, &dirs[..4]);
    let skips = !serve
        .ls()
        .iter()
        .any(|plugin| plugin["name"] == "20-launched");
    let done = serve.end(Signal::SIGINT, 0);
    assert_eq!(skips, done.stderr.contains("skips a plugin: "), "{done:#?}");
}

#[test]
fn a_script_of_a_file_ends_with_its_last_step() {
    let home = Home::new();
    home.write(
        "case.yaml",
        "pods: [{id: p0}]\nsteps:\n  - {event: CreateContainer, pod: p0, container: {id: c0}, expect: {adjustment: {}}}\n  \
         - {action: sleep, ms: 1}\n  - {action: restart-runtime}\n  - {event: StopContainer, container: c0}\n",
    );
    let done = home
        .run(["nri", "serve", "nri.sock", "--script", "case.yaml"])
        .exits(0);
    for text in [
        "serves plugins at nri.sock",
        "ok   CreateContainer c0",
        "all as expected",
    ] {
        assert!(done.stdout.contains(text), "{text}: {done:#?}");
    }
    home.write(
        "bad.yaml",
        "steps: [{action: wait-for-plugin, plugin: nobody, ms: 1}]\n",
    );
    let done = home
        .run(["nri", "serve", "nri.sock", "--script", "bad.yaml"])
        .exits(1);
    assert!(
        done.stdout.contains("nobody was not active within 1 ms"),
        "{done:#?}"
    );
    assert!(!home.join("nri.sock").exists() && !home.join("nri.sock.lock").exists());
}

#[test]
fn what_cannot_be_served_is_refused_and_leaves_nothing() {
    let home = Home::new();
    home.write("kill.yaml", "steps: [{action: kill-plugins}]");
    let taken = UnixListener::bind(home.join("taken.sock")).unwrap();
    for (args, code, named) in [
        (&["nri.sock", "--script", "none.yaml"][..], 1, "none.yaml"),
        (
            &["nri.sock", "--script", "kill.yaml"],
            1,
            "step 1 of the case",
        ),
        (&["nri.sock", "--runtime", "docker@1"], 2, "containerd@1.7"),
        (
            &["nri.sock", "--control", "nri.sock"],
            2,
            "a socket of its own",
        ),
        (
            &["nri.sock", "--plugins", "none", "--config", "none"],
            1,
            "cannot read none",
        ),
        (&["nri.sock", "--plugins", "none"], 2, "--config"),
        (&["nri.sock", "--stay"], 2, "--script"),
        (&["taken.sock"], 1, "another runtime serves"),
        (
            &["nri.sock", "--control", "taken.sock"],
            1,
            "another runtime serves",
        ),
    ] {
        let done = home.run([&["nri", "serve"], args].concat()).exits(code);
        assert!(done.stderr.contains(named), "{args:?}: {done:#?}");
        assert!(!home.join("nri.sock").exists(), "{args:?}");
    }
    drop(taken);
    for verb in [&["ls"][..], &["remove", "x"]] {
        let args = [&["nri"], verb, &["--control", "none.sock"]].concat();
        let done = home.run(args).exits(4);
        assert!(
            done.stderr.contains("nobody answers at none.sock"),
            "{done:#?}"
        );
        let done = home.run([&["nri"], verb].concat()).exits(4);
        assert!(done.stderr.contains("no daemon answers"), "{done:#?}");
    }
}

#[test]
fn a_daemon_says_that_it_has_no_nri_plugins_and_why() {
    let daemon = Daemon::start(Home::new(), "");
    for verb in [&["nri", "ls"][..], &["nri", "remove", "x"]] {
        let done = daemon.run(verb).exits(1);
        assert!(done.stderr.contains("nri.enabled"), "{done:#?}");
    }
}

#[test]
fn a_runtime_of_another_user_is_not_listed() {
    let Some(other) = Home::of_nobody() else {
        return;
    };
    let home = Home::new();
    let serve = Serve::start(&home, &[]);
    let dir = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(home.path(), dir).unwrap();
    let control = home.join("c.sock");
    let done = other.run([
        "nri".as_ref(),
        "ls".as_ref(),
        "--control".as_ref(),
        control.as_os_str(),
    ]);
    assert!(
        done.exits(1)
            .stderr
            .contains("serves root and its own user only")
    );
    // Also where the file lets it in, the peer is not served.
    std::fs::set_permissions(&control, std::fs::Permissions::from_mode(0o666)).unwrap();
    other
        .run([
            "nri".as_ref(),
            "ls".as_ref(),
            "--control".as_ref(),
            control.as_os_str(),
        ])
        .exits(1);
    home.run(["nri", "ls", "--control", "c.sock"]).exits(0);
    serve.end(Signal::SIGTERM, 0);
}
