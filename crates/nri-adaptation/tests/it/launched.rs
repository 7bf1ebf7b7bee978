//! Launched plugins in the chain: this test's own program, started as a plugin.

use std::time::Duration;

use longshore_nri_adaptation::launch::{LaunchOptions, Program};
use longshore_nri_adaptation::{Adaptation, PluginKind, PluginPolicy, PluginState};
use longshore_nri_stub::api::{Container, ContainerAdjustment, PodSandbox};
use longshore_nri_stub::{Configuration, HandlerError, Stub, plugin};
use nix::sys::signal::Signal;

use crate::fake::{Node, builder, soon};
use crate::order::{create, env, policy};

/// The plugin: it adds its configuration as an environment variable.
#[derive(Default)]
struct Child {
    config: std::sync::Mutex<String>,
}

#[plugin]
impl Child {
    async fn configure(&self, configuration: Configuration) {
        *self.config.lock().unwrap() = configuration.config;
    }

    async fn create_container(
        &self,
        _pod: PodSandbox,
        container: Container,
    ) -> Result<ContainerAdjustment, HandlerError> {
        if container.id == "ctr9" {
            // As a plugin that crashes.
            std::process::abort();
        }
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_env("CHILD", self.config.lock().unwrap().clone());
        Ok(adjustment)
    }
}

/// Not a test of its own: what the launched process runs. As part of the tests it does nothing.
#[tokio::test]
async fn plugin_process() {
    if std::env::var_os("NRI_PLUGIN_SOCKET").is_some() {
        if std::env::var_os("NRI_PLUGIN_NAME").is_some_and(|name| name == "parent") {
            // In a session of its own, it is not killed with the group, and keeps descriptor 3.
            let sleeper = std::process::Command::new("setsid")
                .args(["sleep", "60"])
                .spawn();
            std::mem::forget(sleeper.unwrap());
        }
        Stub::builder().run(Child::default()).await.unwrap();
    }
}

fn program(full: &str) -> Program {
    let arguments = ["--exact", "launched::plugin_process"]
        .map(Into::into)
        .to_vec();
    Program::untrusted(
        full.parse().unwrap(),
        std::env::current_exe().unwrap(),
        arguments,
    )
}

fn is_there(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

async fn until(adaptation: &Adaptation, mut holds: impl FnMut() -> bool) {
    let mut changes = adaptation.changes();
    soon(changes.wait_for(|_| holds())).await.unwrap();
}

#[tokio::test]
async fn row_255_a_launched_plugin_gets_its_configuration_and_adjusts() {
    let mut program = program("40-logger");
    program.config = "the text".to_owned();
    let adaptation = builder()
        .program(program)
        .start(Node::with(1, 1))
        .await
        .unwrap();
    let status = &adaptation.plugins()[0];
    assert_eq!(
        (status.name.as_str(), status.kind),
        ("40-logger", Some(PluginKind::Launched))
    );
    assert_eq!(status.state, PluginState::Active, "start waits for it");
    let pid = status.pid.unwrap();
    assert!(is_there(pid));
    let adjustment = create(&adaptation, 0).await.unwrap();
    assert_eq!(env(&adjustment), ["CHILD"]);
    assert_eq!(adjustment.env[0].value, "the text");
    adaptation.shutdown().await;
    assert!(!is_there(pid), "it is ended and reaped");
}

#[tokio::test]
async fn point_07_a_launched_plugin_that_crashes_is_started_again_and_one_that_is_removed_is_not() {
    let adaptation = builder()
        .program(program("10-a"))
        .start(Node::default())
        .await
        .unwrap();
    let first = adaptation.plugins()[0].pid.unwrap();
    assert!(
        env(&create(&adaptation, 9).await.unwrap()).is_empty(),
        "it went on without it"
    );
    let active = || {
        let plugins = adaptation.plugins();
        plugins
            .iter()
            .any(|it| it.state == PluginState::Active && it.pid != Some(first))
    };
    until(&adaptation, active).await;
    assert!(!is_there(first));
    assert_eq!(env(&create(&adaptation, 0).await.unwrap()), ["CHILD"]);
    let second = adaptation.plugins()[0].pid.unwrap();
    assert_eq!(adaptation.remove_plugin("10-a"), 1);
    let removed = &adaptation.plugins()[0];
    assert_eq!(
        (removed.state, removed.last_error.as_deref()),
        (PluginState::Closed, Some("the operator removed it"))
    );
    soon(async {
        while is_there(second) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    adaptation.shutdown().await;
    assert!(adaptation.plugins().is_empty());
}

#[tokio::test]
async fn row_256_a_launched_plugin_that_exits_at_once_does_not_fail_the_start_and_is_reaped() {
    let program = Program::untrusted("10-true".parse().unwrap(), "/bin/true", Vec::new());
    let adaptation = builder()
        .program(program)
        .start(Node::default())
        .await
        .unwrap();
    // It is started again at once the first time, then it waits. Between the end of its connection and that of its
    // process only the first is told.
    let mut seen = None;
    until(&adaptation, || {
        seen = adaptation.plugins().into_iter().find(|it| {
            let error = it.last_error.as_deref().unwrap_or_default();
            it.state == PluginState::Restarting && error.contains("exited with status 0")
        });
        seen.is_some()
    })
    .await;
    let status = seen.unwrap();
    assert_eq!(status.name, "10-true");
    assert_eq!(Some(status.closed.unwrap().reason), status.last_error);
    assert_eq!(
        adaptation.remove_plugin_because("true", "it does nothing"),
        1
    );
    let removed = &adaptation.plugins()[0];
    assert_eq!(removed.state, PluginState::Closed);
    assert_eq!(
        removed.last_error.as_deref(),
        Some("the operator removed it: it does nothing")
    );
    assert_eq!(adaptation.remove_plugin("true"), 1, "and is seen");
    assert!(adaptation.plugins().is_empty());
    create(&adaptation, 0).await.unwrap();
}

#[tokio::test]
async fn row_257_a_launched_plugin_that_never_registers_is_ended() {
    let quick: PluginPolicy = policy(|policy| {
        policy.registration_timeout = Some(Duration::from_millis(50));
        policy.restart = None;
    });
    let arguments = vec!["1000".into()];
    let program = Program::untrusted("10-sleep".parse().unwrap(), "/bin/sleep", arguments);
    let adaptation = builder()
        .policy("sleep", quick)
        .program(program)
        .start(Node::default())
        .await
        .unwrap();
    until(&adaptation, || {
        let plugins = adaptation.plugins();
        plugins.iter().any(|it| it.state == PluginState::Closed)
    })
    .await;
    let status = &adaptation.plugins()[0];
    assert_eq!(
        (status.name.as_str(), status.kind),
        ("10-sleep", Some(PluginKind::Launched)),
        "and not started again under this policy"
    );
    let reason = &status.closed.as_ref().unwrap().reason;
    assert!(reason.contains("did not register within 50ms"), "{reason}");
    assert!(reason.contains("was ended by SIGTERM"), "{reason}");
    assert_eq!(adaptation.remove_plugin("sleep"), 1);
    assert!(adaptation.plugins().is_empty());
    adaptation.shutdown().await;
    assert!(adaptation.plugins().is_empty());
}

#[tokio::test]
async fn point_07_the_last_error_of_a_launched_plugin_has_its_last_words() {
    for (script, restart, state) in [
        ("exit 3", true, PluginState::Restarting),
        ("kill -USR1 $$", false, PluginState::Closed),
    ] {
        let arguments = ["-c".into(), format!("echo no heart >&2; {script}").into()];
        let program = Program::untrusted("10-sh".parse().unwrap(), "/bin/sh", arguments.into());
        let policy = policy(|policy| {
            if !restart {
                policy.restart = None;
            }
        });
        let adaptation = builder()
            .policy("sh", policy)
            .program(program)
            .start(Node::default())
            .await
            .unwrap();
        let said = || {
            let plugins = adaptation.plugins();
            plugins.iter().any(|it| {
                let last_error = it.last_error.as_deref().unwrap_or_default();
                let how = ["exited with status 3", "was ended by SIGUSR1"];
                it.state == state
                    && how.iter().any(|how| last_error.contains(how))
                    && last_error.ends_with("it said: no heart")
            })
        };
        until(&adaptation, said).await;
        adaptation.shutdown().await;
    }
}

#[tokio::test]
async fn point_07_a_process_that_keeps_the_plugins_socket_does_not_hold_up_the_restart() {
    let adaptation = builder()
        .program(program("10-parent"))
        .start(Node::default())
        .await
        .unwrap();
    let first = adaptation.plugins()[0].pid.unwrap();
    let sleeper = |of: u32| {
        let children = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
        let mut tasks = children.unwrap();
        if tasks.trim().is_empty() {
            // The test runs on another thread of that process.
            for task in std::fs::read_dir(format!("/proc/{of}/task")).unwrap() {
                let path = task.unwrap().path().join("children");
                tasks.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
        tasks.trim().parse::<i32>().unwrap()
    };
    let kept = sleeper(first);
    let kill = |pid: i32| nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
    kill(i32::try_from(first).unwrap()).unwrap();
    until(&adaptation, || {
        let plugins = adaptation.plugins();
        plugins
            .iter()
            .any(|it| it.state == PluginState::Active && it.pid != Some(first))
    })
    .await;
    assert!(
        is_there(u32::try_from(kept).unwrap()),
        "it still has the socket of the first"
    );
    let second = sleeper(adaptation.plugins()[0].pid.unwrap());
    adaptation.shutdown().await;
    for pid in [kept, second] {
        kill(pid).unwrap();
    }
}

#[tokio::test]
async fn a_plugin_directory_that_is_missing_holds_no_plugins() {
    let dir = tempfile::tempdir().unwrap();
    let options = LaunchOptions::new(dir.path().join("plugins"), dir.path().join("conf.d"));
    let adaptation = builder()
        .launch(options)
        .start(Node::default())
        .await
        .unwrap();
    assert!(adaptation.plugins().is_empty());
}

#[tokio::test]
async fn point_07_dropping_the_last_handle_ends_launched_plugins() {
    let adaptation = builder()
        .program(program("10-a"))
        .start(Node::default())
        .await
        .unwrap();
    let pid = adaptation.plugins()[0].pid.unwrap();
    let clone = adaptation.clone();
    drop(adaptation);
    assert!(is_there(pid));
    drop(clone);
    soon(async {
        while is_there(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}
