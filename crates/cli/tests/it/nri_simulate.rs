//! `longshore nri simulate` and the bundled plugin.

use std::fs;

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

    plugin(&["--update"]).exits(0);
    let written = fs::read_to_string(home.join("case.yaml")).unwrap();
    assert!(written.contains("MODE"), "{written}");
    plugin(&[]).exits(0);

    // Another expectation is missed, which is a failure with a difference.
    home.write("case.yaml", written.replace("value: fast", "value: slow"));
    let done = plugin(&["--junit", "report.xml"]).exits(1);
    assert!(done.stdout.contains("adjustment differ"), "{done:#?}");
    let report = fs::read_to_string(home.join("report.xml")).unwrap();
    assert!(report.contains("failures=\"1\""), "{report}");
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
    for (args, code, named) in [
        (&[][..], 2, "name a plugin"),
        (&["--", "/no/such/plugin"], 1, "/no/such/plugin"),
        (&["--index", "7", "--", "/bin/true"], 2, "--index NN"),
        (&["--plugin", "'open"], 2, "'open"),
        (&["-f", "case.yaml", "--", "/bin/true"], 1, "stpes"),
        (&["-f", "none.yaml", "--", "/bin/true"], 1, "none.yaml"),
        (
            &["--runtime", "docker@1", "--", "/bin/true"],
            1,
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
