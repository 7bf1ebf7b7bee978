//! `longshore nri simulate` and the bundled plugin.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::{Done, Home};

fn simulate(home: &Home, args: &[&str]) -> Done {
    home.run([&["nri", "simulate", "--wait", "60s"], args].concat())
}

const BUNDLED: &[&str] = &["--", env!("CARGO_BIN_EXE_longshore"), "nri", "plugin"];

const CASE: &str = "
pods: [{id: p0, name: p, annotations: {env.longshore.dev: MODE=fast}}]
steps:
  - {event: CreateContainer, pod: p0, container: {id: c0, name: c}}
";

#[test]
fn the_bundled_plugin_adjusts_what_is_expected_of_it() {
    let home = Home::new();
    home.write("case.yaml", CASE);
    let plugin = |more: &[&str]| simulate(&home, &[&["-f", "case.yaml"], more, BUNDLED].concat());

    let done = plugin(&[]).exits(0);
    assert!(done.stdout.contains("\"MODE=fast\""), "{done:#?}");

    let json = plugin(&["--json"]).exits(0).json();
    assert_eq!(
        json["steps"][0]["outcome"]["adjustment"]["env"][0]["key"],
        "MODE"
    );

    let done = plugin(&["--update"]).exits(0);
    assert!(
        done.stderr
            .contains("expected of 1 of 1 steps to case.yaml"),
        "{done:#?}"
    );
    let written = fs::read_to_string(home.join("case.yaml")).unwrap();
    assert!(written.contains("MODE"), "{written}");
    plugin(&[]).exits(0);

    // Another expectation is missed, which is a failure with a difference.
    home.write("case.yaml", written.replace("value: fast", "value: slow"));
    let done = plugin(&["--junit", "report.xml"]).exits(1);
    assert!(done.stdout.contains("adjustment differ"), "{done:#?}");
    let report = fs::read_to_string(home.join("report.xml")).unwrap();
    assert!(report.contains("failures=\"1\""), "{report}");

    // Written down, it is what is expected, and what was otherwise is shown.
    let done = plugin(&["--update"]).exits(0);
    assert!(
        done.stdout.contains("adjustment differs") && !done.stdout.contains("BAD"),
        "{done:#?}"
    );
    assert!(done.stderr.contains("1 came otherwise"), "{done:#?}");
    plugin(&[]).exits(0);
}

#[test]
fn a_plugin_that_ends_is_quoted_with_its_exit_and_nothing_is_written() {
    let home = Home::new();
    home.write("case.yaml", CASE);
    let dying = ["--", "/bin/sh", "-c", "echo no heart >&2; exit 7"];
    let done = simulate(
        &home,
        &[&["-f", "case.yaml", "--update"], &dying[..]].concat(),
    )
    .exits(1);
    let said = "plugin \"10-sh\" exited with status 7 before it was active; it said: no heart";
    assert!(done.stderr.contains(said), "{done:#?}");
    assert_eq!(fs::read_to_string(home.join("case.yaml")).unwrap(), CASE);
}

#[test]
fn built_in_cases_show_the_bundled_plugin_at_work_and_what_is_skipped() {
    let home = Home::new();
    for (case, shown) in [
        ("restart", "\"MODE=fast\""),
        ("required", "\"MODE=fast\""),
        ("conflict", "99-rival"),
    ] {
        let done = simulate(&home, &[&["-f", case], BUNDLED].concat()).exits(0);
        assert!(done.stdout.contains(shown), "{done:#?}");
        assert!(done.stdout.contains("all as expected\n"), "{done:#?}");
    }
    // Another case has nothing for it to do, and no conflict.
    home.write(
        "rival.yaml",
        format!("rival: true\n{}", CASE.replace("env.", "other.")),
    );
    let args = [&["-f", "rival.yaml", "--junit", "report.xml"], BUNDLED].concat();
    let done = simulate(&home, &args).exits(0);
    assert!(done.stdout.contains("skip CreateContainer c0"), "{done:#?}");
    assert!(
        done.stdout.contains("all as expected, 1 step is skipped"),
        "{done:#?}"
    );
    let report = fs::read_to_string(home.join("report.xml")).unwrap();
    assert!(
        report.contains("<skipped message=\"nothing was adjusted"),
        "{report}"
    );
}

#[test]
fn json_has_the_pid_of_what_was_started_and_owners_by_the_names_of_fields() {
    let home = Home::new();
    home.write("case.yaml", CASE);
    let args = [&["-f", "case.yaml", "--json"], BUNDLED].concat();
    let json = simulate(&home, &args).exits(0).json();
    assert!(
        json["plugins"][0]["pid"]
            .as_u64()
            .is_some_and(|pid| pid > 1),
        "{json}"
    );
    let owners = &json["steps"][0]["outcome"]["owners"];
    assert_eq!(owners["c0"]["Env"]["MODE"], "10-longshore", "{owners}");
}

/// Text of `--help` is not checked by the compiler.
#[test]
fn what_help_names_is_taken() {
    let home = Home::new();
    let help = home.run(["nri", "simulate", "--help"]).exits(0).stdout;
    let (_, cases) = help.split_once("Built-in cases for -f:\n").unwrap();
    let (cases, runtimes) = cases.split_once("Runtimes for --runtime: ").unwrap();
    let cases: Vec<_> = cases
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(cases.len(), 6, "{cases:?}");
    let runtimes = runtimes
        .split([',', ' ', '\n'])
        .map(|word| word.trim_end_matches('.'));
    let runtimes: Vec<_> = runtimes
        .filter(|word| word.contains('@') || *word == "longshore")
        .collect();
    assert_eq!(runtimes.len(), 7, "{runtimes:?}");
    let cases = cases.iter().map(|case| ["-f", *case]);
    for named in cases.chain(runtimes.iter().map(|runtime| ["--runtime", *runtime])) {
        let args = ["nri", "simulate", "--wait", "1ms", "--listen", "s"];
        let done = home.run([&args[..], &named[..]].concat()).exits(1);
        assert!(
            done.stderr.contains("no plugin came to"),
            "{named:?}: {done:#?}"
        );
    }
}

#[test]
fn listening_says_where_takes_a_relative_path_and_leaves_nothing() {
    let home = Home::new();
    let dir = home.join("sockets");
    fs::create_dir(&dir).unwrap();
    let args = [
        "nri",
        "simulate",
        "--wait",
        "10ms",
        "--listen",
        "sockets/nri.sock",
    ];
    let done = home.run(args).exits(1);
    let socket = dir.join("nri.sock");
    let waits = format!(
        "longshore: waits 10ms for a plugin at {}\n",
        socket.display()
    );
    assert!(done.stderr.starts_with(&waits), "{done:#?}");
    assert!(done.stderr.contains("within 10ms"), "{done:#?}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);

    // A directory that cannot be used, with the cause.
    home.write("file", "");
    let done = home
        .run(["nri", "simulate", "--listen", "file/nri.sock"])
        .exits(1);
    assert!(
        done.stderr
            .contains("there is no socket for plugins: cannot use"),
        "{done:#?}"
    );
    let system = ["Not a directory", "File exists"];
    assert!(
        system.iter().any(|cause| done.stderr.contains(cause)),
        "{done:#?}"
    );
}

#[test]
fn the_bundled_plugin_says_what_it_waits_for_and_whom_it_serves() {
    let home = Home::new();
    let socket = home.join("nri.sock");
    let mut plugin = home
        .command([
            "nri", "plugin", "--index", "10", "--name", "x", "--socket", "nri.sock",
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(plugin.stderr.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "longshore: connects to nri.sock");
    let waits = next();
    let start =
        "longshore: waits for a runtime at nri.sock: cannot connect to nri.sock: No such file";
    assert!(waits.starts_with(start), "{waits}");

    home.write("case.yaml", CASE);
    let args = ["-f", "case.yaml", "--listen", socket.to_str().unwrap()];
    let done = simulate(&home, &args).exits(0);
    assert!(done.stdout.contains("\"MODE=fast\""), "{done:#?}");
    let serves = next();
    assert!(
        serves.starts_with("longshore: serves longshore ") && serves.ends_with("at nri.sock"),
        "{serves}"
    );
    assert!(next().starts_with("longshore: waits for a runtime at nri.sock"));
    plugin.kill().unwrap();
    plugin.wait().unwrap();

    for args in [&["--name", "x"][..], &["--index", "1", "--name", "x"]] {
        let done = home.run([&["nri", "plugin"], args].concat()).exits(2);
        assert!(
            done.stderr.contains("set --index NN and --name NAME"),
            "{done:#?}"
        );
    }
}

#[test]
fn the_example_that_is_printed_is_a_case() {
    let home = Home::new();
    let example = home.run(["nri", "simulate", "--print-example"]).exits(0);
    home.write("example.yaml", example.stdout);
    let old = &["-f", "example.yaml", "--runtime", "containerd@1.7"];
    let done = simulate(&home, &[old, BUNDLED].concat()).exits(0);
    assert!(done.stdout.contains("StateChange only"), "{done:#?}");
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let home = Home::new();
    home.write("case.yaml", "stpes: []");
    home.write("empty.yaml", "");
    home.write("many.yaml", "filler: 100001");
    for (args, code, named) in [
        (&[][..], 2, "name a plugin"),
        (&["--", "/no/such/plugin"], 1, "/no/such/plugin"),
        (&["--index", "7", "--", "/bin/true"], 2, "--index NN"),
        (&["--plugin", "'open"], 2, "'open"),
        (&["-f", "case.yaml", "--", "/bin/true"], 1, "stpes"),
        (&["-f", "none.yaml", "--", "/bin/true"], 1, "none.yaml"),
        (
            &["-f", "slowly", "--", "/bin/true"],
            1,
            "slow, big-sync, restart, idle-peers, required, conflict",
        ),
        (&["-f", "empty.yaml", "--", "/bin/true"], 1, "no steps"),
        (
            &["-f", "many.yaml", "--", "/bin/true"],
            1,
            "filler is 100001",
        ),
        (
            &["--runtime", "docker@1", "--", "/bin/true"],
            2,
            "containerd@1.7",
        ),
        (
            &["--update", "-f", "slow", "--", "/bin/true"],
            2,
            "--update",
        ),
    ] {
        let done = home.run([&["nri", "simulate"], args].concat()).exits(code);
        let lines = done.stderr.trim_end().lines().count();
        assert!(
            done.stderr.contains(named) && lines == 1,
            "{args:?}: {done:#?}"
        );
    }
}
