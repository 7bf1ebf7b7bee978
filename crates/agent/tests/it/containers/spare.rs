//! The shim that is started ahead of its container: used by the next launch, no container, never left behind.

use nix::sys::signal::Signal;

use super::hosted::{Hosted, directories};
use super::*;

impl Node {
    /// One whose shims are told from those of others by their program, a copy in its root.
    fn with_a_shim_of_its_own() -> Self {
        let mut node = directories(nix::unistd::geteuid().as_raw());
        let shim = node.root.path().join("shim");
        node.options.shim = ShimCommand::new(shim, ["shim"]);
        node
    }

    /// The shims that wait for a container.
    fn spares(&self) -> Vec<i32> {
        let mut all = self.processes_of_copy();
        all.retain(|pid| is_spare(*pid));
        all
    }

    async fn spare(&self) -> i32 {
        eventually("a spare shim", || self.spares().len() == 1).await;
        self.spares()[0]
    }

    /// The one that the next launch will use.
    async fn spare_of(&self, agent: &Containers) -> i32 {
        eventually("a spare shim that waits", || agent.has_spare_shim()).await;
        self.spare().await
    }
}

/// Launches what goes on, and gives its shim.
async fn launched_under(agent: &Containers, name: &str) -> i32 {
    launch(agent, name, "exec sleep 1000").await;
    parent(pid(agent, name))
}

fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let mut fields = stat[stat.rfind(')').unwrap() + 1..].split_whitespace();
    fields.nth(1).unwrap().parse().unwrap()
}

/// Where the open files of a process lead; one that is closed at this very moment is none.
fn open_files(pid: i32) -> Vec<(i32, String)> {
    let mut files: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            let leads_to = std::fs::read_link(&path).ok()?;
            Some((number, leads_to.to_str()?.to_owned()))
        })
        .collect();
    files.sort();
    files
}

fn read(pid: i32, what: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/{what}")).unwrap()
}

#[tokio::test]
async fn a_spare_becomes_the_shim_of_the_next_container_and_is_like_any_other_then() {
    let node = Node::with_a_shim_of_its_own();
    let agent = node.start().await;
    assert!(
        node.processes_of_copy().is_empty(),
        "none before the first launch"
    );
    let first = launched_under(&agent, "a").await;
    let spare = node.spare_of(&agent).await;
    assert_ne!(spare, first);
    assert_eq!(agent.list().len(), 1, "it is no container");
    let own = i32::try_from(std::process::id()).unwrap();
    assert_eq!(parent(spare), own);
    eventually("it is called what it is", || {
        read(spare, "comm") == b"longshore-spare\n"
    })
    .await;
    // The last one tells it of children. It opens others for a moment while it sets itself up.
    let kinds = ["socket", "/dev/null", "/dev/null", "anon_inode"];
    eventually("it holds its socket and no more", || {
        let files = open_files(spare);
        let found = files
            .iter()
            .map(|(_, to)| to.split(':').next().unwrap_or_default());
        found.eq(kinds)
    })
    .await;
    assert!(read(spare, "environ").is_empty());

    assert_eq!(launched_under(&agent, "b").await, spare);
    let run = node
        .records()
        .into_iter()
        .find(|dir| dir.file_name().unwrap().to_str().unwrap().starts_with("b@"))
        .unwrap();
    let command = String::from_utf8(read(spare, "cmdline")).unwrap();
    let shown = command.split('\0').nth(2).unwrap();
    assert_eq!(Path::new(shown), run, "{command:?}");
    assert_eq!(read(spare, "comm"), b"longshore-shim\n");
    let files = open_files(spare);
    assert_eq!(files[0], (0, run.join("run").to_str().unwrap().to_owned()));
    assert!(
        files
            .iter()
            .all(|(_, leads_to)| !leads_to.starts_with("socket:")),
        "{files:?}"
    );
    // Of its container alone: nothing of it came from the shim.
    let init = pid(&agent, "b");
    eventually("it has three open files", || open_files(init).len() == 3).await;
    let next = node.spare_of(&agent).await;
    assert_ne!(next, spare);
    kill_process(init);
    assert_eq!(status(&agent, "b").await, 9);
    end(&agent, "a").await;
    agent.shutdown().await;
    assert!(node.processes_of_copy().is_empty());
}

#[tokio::test]
async fn a_spare_that_was_killed_or_stopped_fails_no_launch() {
    let node = Node::with_a_shim_of_its_own();
    let agent = node.start().await;
    launch(&agent, "first", "true").await;
    for round in 0..4 {
        let spare = node.spare_of(&agent).await;
        let signal = if round % 2 == 0 {
            Signal::SIGKILL
        } else {
            Signal::SIGSTOP
        };
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(spare), signal).unwrap();
        if signal == Signal::SIGKILL {
            eventually("its end", || !lives(spare)).await;
        }
        let name = format!("c{round}");
        let shim = launched_under(&agent, &name).await;
        assert_eq!(shim == spare, signal == Signal::SIGSTOP, "round {round}");
        end(&agent, &name).await;
    }
}

#[tokio::test]
async fn a_spare_ends_with_an_agent_that_is_dropped_and_there_is_none_where_it_is_not_wanted() {
    let mut node = Node::with_a_shim_of_its_own();
    let agent = node.start().await;
    let shim = launched_under(&agent, "a").await;
    node.spare().await;
    drop(agent);
    eventually("the spare's end", || node.processes_of_copy() == [shim]).await;

    node.options.spare_shim = false;
    let agent = node.start().await;
    for name in ["b", "c"] {
        launch(&agent, name, "true").await;
        assert_eq!(status(&agent, name).await, 0);
    }
    assert!(node.spares().is_empty());
    end(&agent, "a").await;
}

#[tokio::test]
async fn a_spare_ends_with_an_agent_that_is_killed() {
    let user = nix::unistd::geteuid().as_raw();
    let node = directories(user);
    let mut hosted = Hosted::start(node.root.path(), user);
    assert_eq!(hosted.launch("a", "exec sleep 1000").await.status, 200);
    let spare = node.spare().await;
    hosted.child.kill().unwrap();
    hosted.child.wait().unwrap();
    eventually("the spare's end", || !lives(spare)).await;
    // Its container has not noticed.
    let hosted = Hosted::start(node.root.path(), user);
    assert_eq!(hosted.launch("a", "true").await.status, 202);
    assert_eq!(hosted.kill("a").await.status, 200);
    assert_eq!(hosted.wait("a").await.status, 200);
}
