//! Directories and sockets that somebody removes below an agent, or after it; a run directory without room.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use longshore_agent::service::ExitReason;
use longshore_agent::{Agent, AgentError};
use longshore_testkit::peers;
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use super::*;

/// As a daemon has it: the socket in the run directory.
fn node() -> Node {
    let mut node = Node::new();
    node.options.socket = node.options.run_dir.join("agent.sock");
    node
}

async fn agent(node: &Node) -> Agent {
    Agent::start(node.options.clone()).await.unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[tokio::test]
async fn a_socket_that_was_removed_is_bound_again_and_removed_in_the_end() {
    let node = node();
    let socket = &node.options.socket;
    let agent = agent(&node).await;
    agent.look().await.unwrap();
    for _ in 0..2 {
        std::fs::remove_file(socket).unwrap();
        agent.look().await.unwrap();
        tokio::net::UnixStream::connect(socket).await.unwrap();
        assert_eq!(mode(socket), 0o600);
    }
    // Something else in its place is nothing to be taken away.
    std::fs::remove_file(socket).unwrap();
    std::fs::write(socket, "mine").unwrap();
    let error = agent.look().await.unwrap_err();
    assert!(matches!(error, AgentError::Http(_)), "{error}");
    assert_eq!(std::fs::read(socket).unwrap(), b"mine");
    std::fs::remove_file(socket).unwrap();
    agent.look().await.unwrap();
    assert!(std::fs::metadata(socket).unwrap().file_type().is_socket());
    agent.shutdown().await;
    assert!(!socket.exists());
}

#[tokio::test]
async fn a_run_directory_that_was_removed_is_made_again_with_what_lives() {
    let node = node();
    let run_dir = node.options.run_dir.clone();
    for removed in ["", "containers"] {
        let agent = agent(&node).await;
        let containers = agent.containers().clone();
        launch(
            &containers,
            "c",
            "trap 'exit 3' TERM; echo; while :; do sleep 1000 & wait; done",
        )
        .await;
        launch(&containers, "d", "exec sleep 1000").await;
        line_of(&node, "c").await;
        let before = ["c", "d"].map(|name| view(&containers, name));
        std::fs::remove_dir_all(run_dir.join(removed)).unwrap();
        agent.look().await.unwrap();
        assert_eq!(mode(&run_dir), 0o700);
        let error = Containers::start(&node.options).await.unwrap_err();
        assert!(matches!(error, AgentError::Locked { .. }), "{error}");
        launch(&containers, "e", "exit 4").await;
        assert_eq!(status(&containers, "e").await, 4 << 8);
        // How it ended is written where its directory is now.
        kill(&containers, "c", 15).await;
        assert_eq!(status(&containers, "c").await, 3 << 8);
        drop(containers);
        drop(agent);
        // The lock of what was made again is nobody's, and its shim lives all the same.
        let next = node.start().await;
        assert_eq!(view(&next, "d"), before[1]);
        assert_eq!(view(&next, "c"), None);
        assert_eq!(status(&next, "c").await, 3 << 8);
        end(&next, "d").await;
        assert!(node.shims().is_empty());
    }
}

async fn line_of(node: &Node, name: &str) {
    let stdout = node.sandbox(name).join("stdout");
    eventually("a line", || {
        std::fs::read(&stdout).is_ok_and(|text| !text.is_empty())
    })
    .await;
}

#[tokio::test]
async fn a_run_directory_that_another_agent_has_taken_is_left_to_it() {
    let node = node();
    let agent = agent(&node).await;
    std::fs::remove_dir_all(&node.options.run_dir).unwrap();
    let mut options = node.options.clone();
    options.state_dir = node.root.path().join("state2");
    let other = Containers::start(&options).await.unwrap();
    let error = agent.look().await.unwrap_err();
    assert!(matches!(error, AgentError::Locked { .. }), "{error}");
    drop(other);
    agent.look().await.unwrap();
}

#[tokio::test]
async fn containers_whose_run_directory_was_lost_while_no_agent_ran_are_taken_over() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    launch(&agent, "d", "exec sleep 1000").await;
    let before = [pid(&agent, "c"), pid(&agent, "d")];
    drop(agent);
    std::fs::remove_dir_all(&node.options.run_dir).unwrap();
    let agent = node.start().await;
    assert_eq!([pid(&agent, "c"), pid(&agent, "d")], before);
    let again = agent.launch(request("c", shell("true")));
    assert_eq!(within(again).await, Ok(Launched::AlreadyPresent));
    end(&agent, "c").await;
    drop(agent);
    // And once more, now that its directory is another one.
    let agent = node.start().await;
    assert_eq!(pid(&agent, "d"), before[1]);
    end(&agent, "d").await;
    assert!(agent.list().is_empty());
    assert!(node.shims().is_empty());
}

#[tokio::test]
async fn the_shims_of_another_run_directory_are_none_of_ours() {
    let (one, other) = (Node::new(), Node::new());
    let agent = one.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    drop(agent);
    std::fs::remove_dir_all(&one.options.run_dir).unwrap();
    assert!(other.start().await.list().is_empty());
    let agent = one.start().await;
    end(&agent, "c").await;
}

#[tokio::test]
async fn on_a_leash_containers_end_with_their_agent() {
    let mut node = Node::new();
    node.options.leash = true;
    let agent = node.start().await;
    launch(
        &agent,
        "c",
        "trap '' TERM INT HUP; setsid sleep 1000 & while :; do sleep 1000; done",
    )
    .await;
    let init = pid(&agent, "c");
    launch(&agent, "d", "exit 3").await;
    assert_eq!(status(&agent, "d").await, 3 << 8);
    assert_eq!(node.shims().len(), 1);
    drop(agent);
    eventually("nothing is left", || {
        node.shims().is_empty() && !lives(init)
    })
    .await;
    let agent = node.start().await;
    assert_eq!(status(&agent, "c").await, 9);
}

#[tokio::test]
async fn everything_is_ended_at_once_launches_under_way_included() {
    let node = node();
    for round in 0..10u64 {
        let agent = agent(&node).await;
        let containers = agent.containers().clone();
        launch(
            &containers,
            "c",
            "trap '' TERM; while :; do sleep 1000; done",
        )
        .await;
        launch(&containers, "c.n", "exec sleep 1000").await;
        let late = tokio::spawn(async move {
            let _any = containers
                .launch(request("d", shell("exec sleep 1000")))
                .await;
        });
        tokio::time::sleep(Duration::from_micros(round * 500)).await;
        let left = within(agent.end_all(Duration::from_secs(9))).await;
        assert_eq!(left, [""; 0].map(id), "round {round}");
        late.abort();
        eventually("no shim is left", || node.shims().is_empty()).await;
    }
}

/// A run directory on a small file system of its own; only root may mount one.
struct Small {
    node: Node,
}

impl Small {
    fn new() -> Option<Self> {
        peers::root()?;
        let node = Node::new();
        std::fs::create_dir(&node.options.run_dir).unwrap();
        mount(
            Some("tmpfs"),
            &node.options.run_dir,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("size=256k,mode=0700"),
        )
        .unwrap();
        Some(Self { node })
    }

    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(self.node.options.run_dir.join("ballast"))
            .unwrap();
        while file.write_all(&[b'x'; 512]).is_ok() {}
    }

    /// The room for the exit of the only container, once it is there.
    async fn reserved(&self) -> PathBuf {
        let path = self.node.records()[0].join("run/exit.reserved");
        eventually("there is room for its end", || path.exists()).await;
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _gone = umount2(&self.node.options.run_dir, MntFlags::MNT_DETACH);
    }
}

#[tokio::test]
async fn a_full_disk_hides_no_exit_status_of_what_ran_before() {
    let Some(small) = Small::new() else { return };
    let agent = small.node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    small.reserved().await;
    small.fill();
    kill_process(pid(&agent, "c"));
    assert_eq!(status(&agent, "c").await, 9);
    drop(agent);
    // It is on record, too.
    let agent = small.node.start().await;
    assert_eq!(status(&agent, "c").await, 9);
}

#[tokio::test]
async fn an_exit_status_that_cannot_be_written_is_told_as_lost() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    // Nothing replaces a directory that is not empty.
    std::fs::create_dir_all(node.records()[0].join("run/exit/x")).unwrap();
    kill_process(pid(&agent, "c"));
    // Its shim tries for ten seconds.
    let name = id("c");
    let exit = tokio::time::timeout(Duration::from_secs(60), agent.wait(&name)).await;
    let exit = exit.unwrap().unwrap();
    assert_eq!(
        (exit.status, exit.reason),
        (None, Some(ExitReason::ShimLost))
    );
    let message = exit.message.unwrap();
    assert!(message.contains("could not write"), "{message}");
}
