//! `nri simulate --replay` of what `nri trace -o` has recorded.

use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Done, Home, eventually};

const BUNDLED: &[&str] = &["--", env!("CARGO_BIN_EXE_longshore"), "nri", "plugin"];

fn terminate(child: Child) -> Done {
    let pid = i32::try_from(child.id()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    child.wait_with_output().unwrap().into()
}

/// Has the bundled plugin and a runtime meet through a proxy that records them.
fn record(home: &Home) {
    let (proxy, runtime) = (home.join("proxy.sock"), home.join("runtime.sock"));
    home.write(
        "script.yaml",
        "policy: {request_timeout_ms: 60000}\n\
         pods: [{id: p0, name: p, annotations: {env.longshore.dev: MODE=fast}}]\n\
         steps:\n  \
         - {action: wait-for-plugin, plugin: bundled, ms: 60000}\n  \
         - {event: CreateContainer, pod: p0, container: {id: c0, name: c}}\n",
    );
    let quiet = |args: &[&str]| {
        let mut command = home.command(args);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let serve = ["nri", "serve", "runtime.sock", "--script", "script.yaml"];
    let serve = quiet(&serve);
    eventually("the runtime serves", || UnixStream::connect(&runtime).ok());
    let trace = ["nri", "trace", "-o", "record", "--listen"];
    let trace = quiet(
        &[
            &trace[..],
            &[
                proxy.to_str().unwrap(),
                "--connect",
                runtime.to_str().unwrap(),
            ],
        ]
        .concat(),
    );
    eventually("the proxy listens", || UnixStream::connect(&proxy).ok());
    let plugin = [
        "nri", "plugin", "--index", "10", "--name", "bundled", "--socket",
    ];
    let mut plugin = quiet(&[&plugin[..], &[proxy.to_str().unwrap()]].concat());
    let served = Done::from(serve.wait_with_output().unwrap()).exits(0);
    assert!(served.stdout.contains("MODE=fast"), "{served:#?}");
    let _gone = plugin.kill();
    plugin.wait().unwrap();
    terminate(trace).exits(0);
}

#[test]
fn a_recorded_runtime_is_repeated_and_what_differs_is_shown() {
    let home = Home::new();
    record(&home);
    let repeat = |more: &[&str]| {
        let args = [
            &["nri", "simulate", "--wait", "60s", "--replay", "record"],
            more,
            BUNDLED,
        ];
        home.run(args.concat())
    };
    let done = repeat(&[]).exits(0);
    for text in ["ok   10-bundled CreateContainer c0", "all as expected"] {
        assert!(done.stdout.contains(text), "{text}: {done:#?}");
    }
    let json = repeat(&["--json"]).exits(0).json();
    let steps = json["steps"].as_array().unwrap();
    let created = steps
        .iter()
        .find(|step| step["name"] == "10-bundled CreateContainer c0");
    let answered = &created.unwrap()["outcome"]["answered"]["message"]["adjust"]["env"][0];
    assert_eq!(answered["value"], "fast", "{json}");

    // Another answer is on record.
    let text = std::fs::read_to_string(home.join("record")).unwrap();
    let other = text.replace(r#""value":"fast""#, r#""value":"slow""#);
    assert_ne!(text, other);
    home.write("record", other);
    let done = repeat(&["--junit", "report.xml"]).exits(1);
    assert!(done.stdout.contains("the answer differs"), "{done:#?}");
    let report = std::fs::read_to_string(home.join("report.xml")).unwrap();
    assert!(report.contains("failures=\"1\""), "{report}");

    // A record that was cut short is named, one of another version refused.
    home.write("record", &text[..text.trim_end().len() - 5]);
    let done = repeat(&[]).exits(0);
    assert!(done.stdout.contains("cut short"), "{done:#?}");
    home.write(
        "record",
        text.replace("\"longshore_nri_trace\":1", "\"longshore_nri_trace\":3"),
    );
    let done = repeat(&[]).exits(1);
    assert!(done.stderr.contains("version 3"), "{done:#?}");
}

#[test]
fn what_cannot_be_repeated_is_refused_in_one_line() {
    let home = Home::new();
    home.write("text", "hello\n");
    for (args, code, named) in [
        (&["--replay", "none"][..], 1, "none"),
        (&["--replay", "text"], 1, "no record of NRI messages"),
        (&["--replay", "text", "-f", "slow"], 2, "--file"),
        (
            &["--replay", "text", "--runtime", "containerd@2.1"],
            2,
            "--runtime",
        ),
    ] {
        let args = [&["nri", "simulate"], args, BUNDLED].concat();
        let done = home.run(args).exits(code);
        assert!(done.stderr.contains(named), "{done:#?}");
    }
}
