//! Launches that fail: the reason in the answer, nothing left behind.

use super::*;
use longshore_agent::service::LaunchErrorKind;
use longshore_agent::{AgentError, AgentOptions};

/// Nothing of the container `c` is there.
async fn nothing_is_left(node: &Node, agent: &Containers) {
    assert!(!node.sandbox("c").exists(), "no sandbox");
    assert_eq!(node.records(), [""; 0].map(PathBuf::from), "no record");
    assert!(agent.list().is_empty());
    assert_eq!(wait(agent, "c").await, Err(NotFound));
    eventually("no shim is left", || node.shims().is_empty()).await;
}

#[tokio::test]
async fn aa_an_unknown_user_is_answered_with_500_and_the_text_of_mesos() {
    let node = Node::new();
    let agent = node.start().await;
    let mut command = shell("true");
    command.user = Some("no-such-user".to_owned());
    let error = refused(&agent, request("c", command)).await;
    assert_eq!(error.kind, LaunchErrorKind::Internal);
    assert!(
        error.message.ends_with("No such user 'no-such-user'"),
        "{error}"
    );
    nothing_is_left(&node, &agent).await;
}

#[tokio::test]
async fn a_shim_that_is_missing_silent_hanging_or_talks_nonsense_is_an_internal_error() {
    for (shim, expected) in [
        (
            ShimCommand::new("/no/such/shim", [""; 0]),
            "Failed to start the shim /no/such/shim",
        ),
        (
            ShimCommand::new("/bin/true", [""; 0]),
            "ended without starting the container",
        ),
        (
            ShimCommand::new("/bin/echo", ["ok"]),
            "report cannot be read",
        ),
        (
            ShimCommand::new("/bin/sh", ["-c", "sleep 9 & sleep 9"]),
            "did not start within",
        ),
    ] {
        let mut node = Node::new();
        node.options.shim = shim;
        node.options.start_timeout = Duration::from_millis(200);
        let agent = node.start().await;
        let error = refused(&agent, request("c", shell("true"))).await;
        assert_eq!(error.kind, LaunchErrorKind::Internal);
        assert!(error.message.contains(expected), "{error}");
        nothing_is_left(&node, &agent).await;
    }
}

#[tokio::test]
async fn a_relative_shim_is_refused_at_the_start() {
    let node = Node::new();
    let options = AgentOptions::new(
        node.root.path().join("s"),
        node.root.path().join("r"),
        node.root.path().join("a.sock"),
        ShimCommand::new("shim", [""; 0]),
    );
    let error = Containers::start(&options).await.unwrap_err();
    assert!(
        matches!(error, AgentError::Setting { name: "shim", .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_directory_that_others_can_write_to_is_refused_at_the_start() {
    for (dir, name) in [
        ("run", "run_dir"),
        ("state", "state_dir"),
        ("state/containers", "state_dir"),
    ] {
        let node = Node::new();
        let path = node.root.path().join(dir);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Containers::start(&node.options).await.unwrap_err();
        assert!(
            error.to_string().contains("others can write to it"),
            "{error}"
        );
        assert!(
            matches!(error, AgentError::Setting { name: of, .. } if of == name),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_read_only_or_full_state_directory_fails_the_launch_with_its_reason() {
    if !root() {
        return;
    }
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    for (flags, options, expected) in [
        (MsFlags::MS_RDONLY, "mode=711", "Failed to create sandbox /"),
        (
            MsFlags::empty(),
            "mode=711,nr_inodes=3",
            "No space left on device",
        ),
    ] {
        let node = Node::new();
        let state = node.root.path().join("state/containers");
        std::fs::create_dir_all(&state).unwrap();
        mount(Some("none"), &state, Some("tmpfs"), flags, Some(options)).unwrap();
        let agent = node.start().await;
        let first = within(agent.launch(request("c", shell("true")))).await;
        let left = (node.sandbox("c").exists(), node.records().len());
        agent.shutdown().await;
        let unmounted = || umount2(&state, MntFlags::MNT_DETACH).unwrap();
        let error = match first {
            Err(error) => error,
            other => {
                unmounted();
                panic!("{other:?}");
            }
        };
        let text = format!("{expected} in {error}");
        unmounted();
        assert!(error.message.contains(expected), "{text}");
        assert_eq!(error.kind, LaunchErrorKind::Internal);
        assert_eq!(left, (false, 0), "{text}");
    }
}

#[tokio::test]
async fn a_full_run_directory_stops_launches_and_not_what_runs() {
    if !root() {
        return;
    }
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    let node = Node::new();
    let run = node.root.path().join("run");
    std::fs::create_dir(&run).unwrap();
    mount(
        Some("none"),
        &run,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=700,size=256k"),
    )
    .unwrap();
    let outcome = async {
        let agent = node.start().await;
        launch(&agent, "runs", "exec sleep 1000").await;
        let filler = run.join("filler");
        let _full = std::fs::write(&filler, vec![0; 1 << 20]);
        let error = refused(&agent, request("c", shell("true"))).await;
        kill(&agent, "runs", 9).await;
        std::fs::remove_file(filler).unwrap();
        // The shim has been trying to write its exit down.
        let exit = wait(&agent, "runs").await.unwrap();
        launch(&agent, "c", "true").await;
        let next = wait(&agent, "c").await.unwrap();
        agent.shutdown().await;
        (error, exit, next)
    };
    let done = tokio::time::timeout(Duration::from_secs(30), outcome).await;
    umount2(&run, MntFlags::MNT_DETACH).unwrap();
    let (error, exit, next) = done.unwrap();
    assert_eq!(error.kind, LaunchErrorKind::Internal);
    assert!(
        error.message.starts_with("Failed to record the container"),
        "{error}"
    );
    assert_eq!((exit.status, exit.reason), (Some(9), None));
    assert_eq!(next.status, Some(0));
}

#[tokio::test]
async fn one_container_more_than_allowed_is_refused() {
    let mut node = Node::new();
    node.options.max_containers = 1;
    let agent = node.start().await;
    launch(&agent, "a", "exec sleep 1000").await;
    let error = refused(&agent, request("c", shell("true"))).await;
    assert!(error.message.contains("1 containers already"), "{error}");
    end(&agent, "a").await;
    launch(&agent, "c", "true").await;
    assert_eq!(status(&agent, "c").await, 0);
}

#[test]
fn the_shim_called_by_hand_explains_itself_and_does_nothing() {
    let run = |arguments: &[&str]| {
        std::process::Command::new(SHIM)
            .args(arguments)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap()
    };
    for arguments in [&[][..], &["/tmp"], &["/tmp", "more"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .contains("started by the agent alone")
        );
    }
}
