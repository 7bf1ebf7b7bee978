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
fn the_check_tells_all_that_is_wrong_a_line_each_and_so_does_its_document() {
    let home = Home::new();
    let file = home.write(
        "c.toml",
        "log = \"loud\"\n[plugins.a]\ntype = \"t\"\nstartup = \"1s\"\n\
         [[plugins.b.containers]]\nservices = [\"node\"]\ncommand = [\"driver\"]\n",
    );
    let file = file.to_str().unwrap();
    let beginnings = [
        format!("{file}:1: log: `loud` is no filter"),
        format!("{file}:4: plugins.a.startup: unknown field"),
        format!("{file}:5: plugins.b.type: missing"),
        format!("{file}:7: plugins.b.containers[0].command: `driver` is not an absolute path"),
    ];
    let done = home.run(["config", "check", "-c", file]).exits(78);
    let lines: Vec<_> = done.stderr.lines().collect();
    assert_eq!(lines.len(), beginnings.len(), "{done:#?}");
    for (line, beginning) in lines.iter().zip(&beginnings) {
        assert!(line.starts_with(&format!("error: {beginning}")), "{line}");
    }
    // A daemon says the same, on one line.
    let done = home.run(["daemon", "-c", file]).exits(78);
    assert_eq!(done.stderr.lines().count(), 1, "{done:#?}");
    assert!(
        beginnings.iter().all(|b| done.stderr.contains(b)),
        "{done:#?}"
    );

    let checked = home
        .run(["config", "check", "--json", "-c", file])
        .exits(78)
        .json();
    assert_eq!(checked["valid"], false);
    for (at, beginning) in beginnings.iter().enumerate() {
        let error = checked["errors"][at].as_str().unwrap();
        assert!(error.starts_with(beginning), "{error}");
    }
    let file = home.write(
        "d.toml",
        "[plugins.a]\ntype = \"t\"\nendpoints = { node = \"/x\" }\n",
    );
    let mut command = home.command(["config", "check", "--json", "-c"]);
    let output = command.arg(&file).env("LONGSHORE_LOGS", "info").output();
    let checked = crate::support::Done::from(output.unwrap()).exits(0).json();
    assert_eq!(checked["valid"], true);
    assert_eq!(checked["path"], file.to_str().unwrap());
    assert_eq!(checked["plugins"], 1);
    let warning = checked["warnings"][0].as_str().unwrap();
    assert!(
        warning.contains("$LONGSHORE_LOGS") && warning.contains("LONGSHORE_LOG?"),
        "{warning}"
    );
}

#[test]
fn a_token_that_a_daemon_could_not_use_fails_the_check() {
    let home = Home::new();
    let text = format!(
        "[agent.embedded]\nlisten = \"127.0.0.1:0\"\ntoken_file = {:?}\n",
        home.join("token")
    );
    let file = home.write("c.toml", text);
    let file = file.to_str().unwrap();
    for verb in [
        &["config", "check", "-c", file][..],
        &["daemon", "-c", file],
    ] {
        let done = home.run(verb).exits(78);
        assert!(done.stderr.contains("/token"), "{done:#?}");
    }
    assert!(!home.join("s").exists() && !home.join("r").exists());
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
    let settings = home.run(["config", "default", "--json"]).exits(0).json();
    let mut all = settings["settings"].as_array().unwrap().iter();
    let log = all.find(|setting| setting["key"] == "log");
    assert_eq!(log.unwrap()["value"], "info");
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
            lines.len() == 1
                && lines[0].starts_with("error: no ")
                && lines[0].contains("; hint: ")
                && lines[0].contains("--config FILE"),
            "{done:#?}"
        );
    }
}

#[test]
fn a_user_that_is_not_known_is_its_plugins_trouble_alone() {
    use crate::support::{Daemon, eventually, hostpath};
    let home = Home::new();
    let config = hostpath(&home, "disks", "v1")
        + "[plugins.lost]\ntype = \"t\"\n[[plugins.lost.containers]]\nservices = [\"node\"]\n\
           command = [\"/bin/true\"]\nuser = \"nobody-knows-me\"\n";
    let file = home.write("longshore.toml", &config);
    let check = ["config", "check", "-c", file.to_str().unwrap()];
    let named = |text: &str| {
        text.contains("plugins.lost.containers[0].user") && text.contains("'nobody-knows-me'")
    };
    let checked = home.run(check).exits(78);
    assert!(named(&checked.stderr), "{checked:#?}");
    assert_eq!(checked.stderr.lines().count(), 1, "{checked:#?}");
    let daemon = Daemon::start(home, &config);
    daemon.endpoint("disks");
    eventually("the other one fails and says why", || {
        let plugin = daemon.plugin("lost");
        let reason = plugin["reason"].as_str()?;
        (plugin["state"] == "failing" && reason.contains("nobody-knows-me")).then_some(())
    });
    let status = daemon.run(["status"]).exits(3).stdout;
    assert!(
        status
            .lines()
            .any(|line| line.starts_with("warning: ") && named(line)),
        "{status}"
    );
    let reloaded = daemon.run(["reload", "--json"]).exits(0).json();
    assert_eq!(reloaded["complete"], true, "{reloaded}");
    assert!(named(&reloaded["warnings"].to_string()), "{reloaded}");
    daemon.endpoint("disks");
}

#[test]
fn an_image_has_a_command_of_its_own() {
    let home = Home::new();
    let container = |rest: &str| {
        let text = format!(
            "[tasks]\nengine = \"unix:///nowhere.sock\"\n\n[plugins.a]\ntype = \"t\"\n\n\
             [[plugins.a.containers]]\nservices = [\"node\"]\n{rest}\n"
        );
        home.write("c.toml", text).to_str().unwrap().to_owned()
    };
    let file = container("image = \"busybox\"");
    home.run(["config", "check", "-c", &file]).exits(0);
    let file = container("");
    let done = home.run(["config", "check", "-c", &file]).exits(78);
    assert!(
        done.stderr.contains("containers[0].command: missing"),
        "{done:#?}"
    );
}

#[test]
fn all_that_is_wrong_is_named_also_beside_a_broken_main_file() {
    let home = Home::new();
    std::fs::create_dir(home.join("csi.d")).unwrap();
    home.write("csi.d/broken.json", "{\n  oops");
    let dir = home.join("csi.d");
    for (endpoint, words) in [
        ("nonsense", "no endpoint"),
        ("unix:relative.sock", "no endpoint"),
        ("http://x", "http"),
    ] {
        let text = format!(
            "[csi]\nplugin_dir = {dir:?}\n\n[plugins.a]\ntype = \"t\"\nendpoints = {{ node = {endpoint:?} }}\n"
        );
        let file = home.write("c.toml", text);
        let done = home
            .run(["config", "check", "-c", file.to_str().unwrap()])
            .exits(78);
        let lines: Vec<_> = done.stderr.lines().collect();
        assert_eq!(lines.len(), 2, "{done:#?}");
        assert!(
            lines[1].contains("6: plugins.a.endpoints.node") && lines[1].contains(words),
            "{done:#?}"
        );
        assert!(lines[0].contains("broken.json:2: "), "{done:#?}");
    }
}

#[test]
fn the_file_that_is_not_there_is_named() {
    let home = Home::new();
    let done = home.run(["config", "check"]).exits(0);
    assert!(
        done.stdout.starts_with("no /")
            && done
                .stdout
                .ends_with("longshore.toml: the defaults: valid, 0 plugins\n"),
        "{done:#?}"
    );
}
