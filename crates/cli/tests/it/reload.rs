//! A configuration that changes under a running daemon.

use nix::sys::signal::{Signal, kill};

use crate::support::{Daemon, Home, eventually, hostpath};

#[test]
fn an_invalid_configuration_leaves_the_old_one_running_and_status_says_so() {
    let home = Home::new();
    let good = hostpath(&home, "disks", "v1");
    let daemon = Daemon::start(home, &good);
    let uri = daemon.endpoint("disks");
    let pid = daemon.plugin_pid("disks");
    daemon
        .home
        .write("longshore.toml", good.replace("type = ", "typ = "));
    // The main file is not watched: nothing has happened yet.
    let done = daemon.run(["reload"]).exits(78);
    assert!(
        done.stderr
            .contains("longshore.toml:2: plugins.disks.typ: unknown field"),
        "{done:#?}"
    );
    let status = daemon.run(["status"]).exits(3);
    assert!(status.stdout.contains("longshore.toml:2"), "{status:#?}");
    let status = daemon.run(["status", "--json"]).exits(3).json();
    assert!(
        status["config"]["error"].as_str().unwrap().contains("typ"),
        "{status}"
    );
    assert_eq!(daemon.endpoint("disks"), uri);
    assert_eq!(daemon.plugin_pid("disks"), pid);

    // By SIGHUP nobody hears of it but the status, until the next good one.
    daemon.home.write("longshore.toml", "oops");
    kill(daemon.pid(), Signal::SIGHUP).unwrap();
    eventually("status says so", || {
        let status = daemon.run(["status"]).exits(3);
        status.stdout.contains("longshore.toml:1").then_some(())
    });
    assert_eq!(daemon.plugin_pid("disks"), pid);

    daemon.home.write("longshore.toml", &good);
    assert_eq!(daemon.run(["reload"]).exits(0).stdout, "nothing changed\n");
    eventually("status is well again", || {
        (daemon.run(["status"]).code == 0).then_some(())
    });
    assert_eq!(
        daemon.plugin_pid("disks"),
        pid,
        "an unchanged plugin is not touched"
    );
}

#[test]
fn plugins_come_change_and_go_by_sighup() {
    let home = Home::new();
    let one = hostpath(&home, "one", "v1");
    let two = hostpath(&home, "two", "v0");
    let daemon = Daemon::start(home, &one);
    daemon.endpoint("one");
    let pid = daemon.plugin_pid("one");
    daemon.home.write("longshore.toml", one.clone() + &two);
    kill(daemon.pid(), Signal::SIGHUP).unwrap();
    eventually("the second is known", || {
        (daemon.run(["csi", "endpoint", "two", "--wait", "10s"]).code == 0).then_some(())
    });
    assert_eq!(daemon.plugin("two")["api_version"], "v0");
    assert_eq!(daemon.plugin_pid("one"), pid);
    daemon.home.write("longshore.toml", &two);
    let done = daemon.run(["reload"]).exits(0);
    assert_eq!(done.stdout, "plugin one: removed\n");
    eventually("the first is gone", || {
        kill(pid, None).is_err().then_some(())
    });
}

#[test]
fn what_needs_a_new_start_is_refused() {
    let home = Home::new();
    let daemon = Daemon::start(home, "");
    daemon
        .home
        .write("longshore.toml", "[agent]\nurl = \"http://127.0.0.1:1\"\n");
    let done = daemon.run(["reload"]).exits(78);
    assert!(
        done.stderr
            .contains("`agent` changed, which needs a restart"),
        "{done:#?}"
    );
}

#[test]
fn sm10_a_file_in_the_plugin_directory_is_a_plugin_without_a_reload() {
    let home = Home::new();
    std::fs::create_dir(home.join("csi.d")).unwrap();
    let config = format!("[csi]\nplugin_dir = {:?}\n", home.join("csi.d"));
    let daemon = Daemon::start(home, &config);
    assert_eq!(
        daemon.run(["status"]).exits(0).stdout,
        "no plugins are configured\n"
    );
    let program = crate::support::LONGSHORE;
    let volumes = daemon.home.join("volumes");
    let info = serde_json::json!({
        "type": "test.disks",
        "containers": [{
            "services": ["CONTROLLER_SERVICE", "NODE_SERVICE"],
            "command": {
                "shell": false,
                "value": program,
                "arguments": [program, "csi", "hostpath", "--state-dir", volumes],
            },
        }],
    });
    daemon.home.write("csi.d/disks.json", info.to_string());
    eventually("the plugin is known", || {
        (daemon
            .run(["csi", "endpoint", "disks", "--wait", "10s"])
            .code
            == 0)
            .then_some(())
    });
    let pid = daemon.plugin_pid("disks");

    // SM11: broken, it is named, and what it said before stays.
    daemon.home.write("csi.d/disks.json", "{\n  oops");
    eventually("the broken file is named", || {
        let status = daemon.run(["status"]);
        (status.code == 3 && status.stdout.contains("disks.json:2: ")).then_some(())
    });
    assert_eq!(daemon.plugin_pid("disks"), pid);
    std::fs::remove_file(daemon.home.join("csi.d/disks.json")).unwrap();
    eventually("the plugin is gone", || {
        (daemon.run(["status"]).stdout == "no plugins are configured\n").then_some(())
    });
}

#[test]
fn a_bad_log_filter_is_refused_and_a_good_one_is_in_force_at_once() {
    let daemon = Daemon::start(Home::new(), "log = \"warn\"\n");
    daemon.home.write("longshore.toml", "log = \"loud\"\n");
    let done = daemon.run(["reload"]).exits(78);
    assert!(
        done.stderr.contains("longshore.toml:1: log: `loud`"),
        "{done:#?}"
    );
    assert!(!daemon.log().contains("\"INFO\""), "{}", daemon.log());

    daemon.home.write("longshore.toml", "log = \"info\"\n");
    let done = daemon.run(["reload", "--json"]).exits(0).json();
    assert_eq!(done["changes"][0], "log: info (was warn)");
    assert_eq!(done["complete"], true);
    // What is logged next is logged by it.
    daemon.home.write(
        "longshore.toml",
        "log = \"info\"\n[plugins.a]\ntype = \"t\"\nendpoints = { node = \"/x\" }\n",
    );
    daemon.run(["reload"]).exits(0);
    eventually("it is logged", || {
        daemon.log().contains("plugin a: added").then_some(())
    });
}

#[test]
fn a_broken_file_of_the_plugin_directory_is_an_error_for_all_and_hurts_itself_alone() {
    let home = Home::new();
    std::fs::create_dir(home.join("csi.d")).unwrap();
    home.write("csi.d/broken.json", "{\n  oops");
    let config = format!("[csi]\nplugin_dir = {:?}\n", home.join("csi.d"));
    let daemon = Daemon::start(home, &config);
    let names = |daemon: &Daemon| -> Vec<String> {
        let status = daemon.run(["status", "--json"]).json();
        let plugins = status["plugins"].as_array().unwrap().iter();
        plugins
            .map(|p| p["name"].as_str().unwrap().to_owned())
            .collect()
    };
    // It was there from the start, and the daemon has started.
    let since = || {
        let status = daemon.run(["status", "--json"]).exits(3).json();
        let config = &status["config"];
        assert!(
            config["error"]
                .as_str()
                .unwrap()
                .contains("broken.json:2: "),
            "{config}"
        );
        (config["error_at"].clone(), config["loaded_at"].clone())
    };
    let began = since();
    let file = daemon.home.join("longshore.toml");
    let check = daemon
        .run(["config", "check", "-c", file.to_str().unwrap()])
        .exits(78);
    assert!(check.stderr.contains("broken.json:2: "), "{check:#?}");
    let reload = daemon.run(["reload"]).exits(78);
    assert!(reload.stderr.contains("broken.json:2: "), "{reload:#?}");
    let reload = daemon.run(["reload", "--json"]).exits(78).json();
    assert_eq!(reload["complete"], false);
    // Looked at again it is as old as it was, and so is what is in force.
    assert_eq!(since(), began);

    // The rest comes into force.
    let plugin = "[plugins.a]\ntype = \"t\"\nendpoints = { node = \"/x\" }\n";
    daemon.home.write("longshore.toml", config + plugin);
    let reload = daemon.run(["reload"]).exits(78);
    assert_eq!(reload.stdout, "plugin a: added\n");
    assert_eq!(names(&daemon), ["a"]);
    let now = since();
    assert_eq!(now.0, began.0);
    assert_ne!(now.1, began.1, "another configuration is in force");
    let text = daemon.run(["status"]).stdout;
    let line = format!("  so since {}; ", began.0.as_str().unwrap());
    assert!(text.contains(&line), "{text}");
}

#[test]
fn an_error_of_the_main_file_is_as_old_as_it_was_when_the_plugin_directory_changes() {
    let home = Home::new();
    std::fs::create_dir(home.join("csi.d")).unwrap();
    let config = format!("[csi]\nplugin_dir = {:?}\n", home.join("csi.d"));
    let daemon = Daemon::start(home, &config);
    daemon.home.write("longshore.toml", "oops");
    daemon.run(["reload"]).exits(78);
    let status = || daemon.run(["status", "--json"]).exits(3).json()["config"].clone();
    let began = status();
    daemon.home.write("csi.d/broken.json", "{\n  oops");
    let later = eventually("the file is read", || {
        let now = status();
        let text = now["error"].as_str().unwrap().to_owned();
        text.contains("broken.json").then_some(now)
    });
    assert!(
        later["error"].as_str().unwrap().contains("longshore.toml"),
        "{later}"
    );
    assert_eq!(later["error_at"], began["error_at"], "{later}");
}
