//! The verbs that need nothing running, and the exit codes.

use crate::support::Home;

#[test]
fn help_and_version_are_no_errors_and_a_wrong_flag_is_a_usage_error() {
    let home = Home::new();
    assert!(
        home.run(["--version"])
            .exits(0)
            .stdout
            .starts_with("longshore ")
    );
    assert!(home.run(["--help"]).exits(0).stdout.contains("demo"));
    home.run(["csi", "ls", "--nonsense"]).exits(2);
    home.run(["nonsense"]).exits(2);
    home.run(["status", "--runtime-dir"]).exits(2);
}

#[test]
fn the_hidden_verb_is_not_shown() {
    assert!(!Home::new().run(["--help"]).exits(0).stdout.contains("shim"));
}

#[test]
fn a_valid_configuration_is_said_to_be_valid() {
    let home = Home::new();
    let file = home.write(
        "c.toml",
        "[plugins.a]\ntype = \"t\"\nendpoints = { node = \"unix:///x\" }\n",
    );
    let done = home
        .run(["config", "check", "-c", file.to_str().unwrap()])
        .exits(0);
    assert_eq!(
        done.stdout,
        format!("{}: valid, 1 plugin\n", file.display())
    );
}

#[test]
fn an_invalid_configuration_is_one_line_and_exit_78() {
    let home = Home::new();
    let file = home.write("c.toml", "log = \"info\"\nstate_dri = \"/x\"\n");
    let file = file.to_str().unwrap();
    for verb in [
        &["config", "check", "-c", file][..],
        &["config", "show", "-c", file],
        &["daemon", "-c", file],
    ] {
        let done = home.run(verb).exits(78);
        let lines: Vec<_> = done.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{done:#?}");
        assert!(
            lines[0].starts_with(&format!("error: {file}:2: state_dri: unknown field")),
            "{lines:?}"
        );
    }
    // Nothing has been made.
    assert!(!home.join("s").exists() && !home.join("r").exists());
}

#[test]
fn a_broken_file_of_the_plugin_directory_fails_the_check() {
    let home = Home::new();
    std::fs::create_dir(home.join("csi.d")).unwrap();
    home.write("csi.d/broken.json", "{\n]");
    let file = home.write(
        "c.toml",
        format!("[csi]\nplugin_dir = {:?}\n", home.join("csi.d")),
    );
    let done = home
        .run(["config", "check", "-c", file.to_str().unwrap()])
        .exits(78);
    assert!(done.stderr.contains("broken.json:2: "), "{done:#?}");
}

#[test]
fn settings_are_shown_with_their_origin() {
    let home = Home::new();
    let file = home.write("c.toml", "\nlog = \"debug\"\n");
    let file = file.to_str().unwrap();
    let shown = home
        .run(["config", "show", "--json", "-c", file, "--agent-id", "n1"])
        .exits(0)
        .json();
    let origin = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        settings
            .iter()
            .find(|setting| setting["key"] == key)
            .unwrap()["origin"]
            .clone()
    };
    assert_eq!(origin("log"), format!("{file}:2"));
    assert_eq!(origin("state_dir"), "$LONGSHORE_STATE_DIR");
    assert_eq!(origin("agent.id"), "--agent-id");
    assert_eq!(origin("csi.kill_grace"), "default");
    let table = home.run(["config", "show", "-c", file]).exits(0).stdout;
    assert!(
        !table.contains('\x1b'),
        "no colour where there is no terminal"
    );
}

#[test]
fn the_defaults_are_printed_and_valid() {
    let home = Home::new();
    let defaults = home.run(["config", "default"]).exits(0).stdout;
    let file = home.write("c.toml", defaults);
    home.run(["config", "check", "-c", file.to_str().unwrap()])
        .exits(0);
}

#[test]
fn completions_and_manual_pages_are_made() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            home.run(["completions", shell])
                .exits(0)
                .stdout
                .contains("longshore")
        );
    }
    assert!(home.run(["man"]).exits(0).stdout.contains(".TH longshore"));
    let dir = home.join("man");
    home.run(["man", dir.to_str().unwrap()]).exits(0);
    for page in [
        "longshore.1",
        "longshore-status.1",
        "longshore-csi-volume-create.1",
    ] {
        assert!(dir.join(page).is_file(), "{page}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    use std::process::Stdio;
    let home = Home::new();
    let mut child = home
        .command(["config", "default"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn without_a_daemon_every_verb_that_needs_one_exits_4_with_a_hint() {
    let home = Home::new();
    for verb in [
        &["status"][..],
        &["csi", "ls"],
        &["csi", "endpoint", "x"],
        &["csi", "probe", "x"],
        &["csi", "restart", "x"],
        &["csi", "volume", "list", "x"],
        &["container", "ls"],
        &["reload"],
    ] {
        let done = home.run(verb).exits(4);
        let lines: Vec<_> = done.stderr.lines().collect();
        assert!(
            lines.len() == 1 && lines[0].starts_with("error: no ") && lines[0].contains("; hint: "),
            "{done:#?}"
        );
    }
}
