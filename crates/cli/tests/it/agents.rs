//! An agent that is not the daemon's own: another daemon's, over its socket and over TCP, and one
//! that hangs.

use std::os::unix::fs::PermissionsExt as _;

use nix::sys::signal::kill;

use crate::support::{Daemon, Home, eventually, hostpath};

#[test]
fn plugins_live_under_another_daemons_agent_whichever_of_the_two_dies() {
    let mut agent = Daemon::start(Home::new(), "");
    let socket = agent.home.join("r/agent/agent.sock");
    let home = Home::new();
    let config = format!("[agent]\nurl = \"unix://{}\"\n", socket.display());
    let config = config + &hostpath(&home, "disks", "v1");
    let mut daemon = Daemon::start(home, &config);
    let uri = daemon.endpoint("disks");
    let pid = daemon.plugin_pid("disks");
    let listed = agent.run(["container", "ls", "--json"]).exits(0).json();
    assert_eq!(listed["containers"][0]["pid"], pid.as_raw());

    daemon.crash();
    kill(pid, None).expect("the plugin lives on");
    daemon.start_again();
    assert_eq!(daemon.endpoint("disks"), uri);
    assert_eq!(daemon.plugin_pid("disks"), pid);

    agent.crash();
    eventually("status says that the agent is silent", || {
        let status = daemon.run(["status"]);
        (status.code == 3 && status.stdout.contains("has not answered for")).then_some(())
    });
    assert_eq!(daemon.endpoint("disks"), uri, "still handed out");
    agent.start_again();
    eventually("status is well again", || {
        (daemon.run(["status"]).code == 0).then_some(())
    });
    assert_eq!(daemon.plugin_pid("disks"), pid);
    let status = daemon.run(["status", "--json"]).exits(0).json();
    assert_eq!(status["agent"]["embedded"], false);
    assert!(status["agent"]["silent_since"].is_null(), "{status}");
    assert_eq!(daemon.plugin("disks")["restarts"], 0);
}

#[test]
fn over_tcp_only_the_right_token_is_served_and_its_file_is_read_again() {
    const RIGHT: &str = "q7Jm2xXw9LrT4vZcN8bKfH3sYpD6gUeA5tRoVi1MzQ0yWnEk";
    let write_token = |home: &Home, token: &str| {
        let path = home.write("token", token);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let port = {
        let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        unused.local_addr().unwrap().port()
    };
    let home = Home::new();
    let token = write_token(&home, RIGHT);
    let config =
        format!("[agent.embedded]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = {token:?}\n");
    let agent = Daemon::start(home, &config);

    let home = Home::new();
    let token = write_token(&home, &RIGHT.to_lowercase());
    let config =
        format!("[agent]\nurl = \"http://127.0.0.1:{port}/api/v1\"\ntoken_file = {token:?}\n");
    let config = config + &hostpath(&home, "disks", "v1");
    let daemon = Daemon::start(home, &config);
    eventually("status tells of the refusal", || {
        let status = daemon.run(["status"]);
        (status.code == 3 && status.stdout.contains("401")).then_some(())
    });
    assert_eq!(
        agent.run(["container", "ls"]).exits(0).stdout,
        "no containers\n"
    );

    write_token(&daemon.home, RIGHT);
    daemon.endpoint("disks");
    eventually("status is well", || {
        (daemon.run(["status"]).code == 0).then_some(())
    });
    let pid = daemon.plugin_pid("disks");
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let told = [
        daemon.log(),
        agent.log(),
        daemon.run(["status", "disks", "--json"]).stdout,
        daemon.run(["config", "show"]).stdout,
        String::from_utf8_lossy(&environment).into_owned(),
    ];
    for text in told {
        assert!(!text.contains(RIGHT), "{text}");
    }
    daemon.run(["csi", "stop", "disks"]).exits(0);
}

#[test]
fn status_and_reload_answer_while_the_agent_hangs() {
    let home = Home::new();
    // The kernel accepts for it; nobody ever answers.
    let silent = std::os::unix::net::UnixListener::bind(home.join("agent.sock")).unwrap();
    let config = format!(
        "[agent]\nurl = \"unix://{}\"\n",
        home.join("agent.sock").display()
    );
    let config = config + &hostpath(&home, "disks", "v1");
    let mut daemon = Daemon::start(home, &config);
    let plugin = daemon.plugin("disks");
    assert_eq!(plugin["state"], "recovering", "{plugin}");
    eventually("status says since when", || {
        let status = daemon.run(["status", "--json"]).exits(3).json();
        status["agent"]["silent_since"].is_string().then_some(())
    });
    let text = daemon.run(["status"]).exits(3).stdout;
    assert!(text.contains("agent.sock has not answered for"), "{text}");
    daemon.run(["reload"]).exits(0);
    let done = daemon.run(["csi", "endpoint", "disks"]).exits(3);
    assert_eq!(done.stderr.lines().count(), 1, "{done:#?}");
    assert_eq!(daemon.terminate(), 0, "{}", daemon.log());
    drop(silent);
}
