//! The whole tree of a container, also when its shim is gone.

use super::*;
use longshore_agent::service::ExitReason;

/// Starts a tree with members that tried to get away; gives their pids.
async fn runaways(node: &Node, agent: &Containers, name: &str) -> Vec<i32> {
    let command = "setsid sh -c 'echo $$ > a; exec sleep 1000' & \
                   (setsid sh -c 'echo $$ > b; sleep 1000 & echo $! > c; exec env -i sleep 1000' &) ; \
                   exec sleep 1000";
    launch(agent, name, command).await;
    let mut pids = vec![pid(agent, name)];
    for file in ["a", "b", "c"] {
        pids.push(line(&node.sandbox(name).join(file)).await.parse().unwrap());
    }
    pids
}

#[tokio::test]
async fn a_kill_reaches_setsid_children_and_orphans_with_and_without_cgroups() {
    for cgroups in [true, false] {
        let mut node = Node::new();
        node.options.cgroups = cgroups;
        let agent = node.start().await;
        let pids = runaways(&node, &agent, "c").await;
        assert!(pids.iter().all(|pid| lives(*pid)));
        end(&agent, "c").await;
        assert!(
            !pids.iter().any(|pid| lives(*pid)),
            "WAIT answers when all are down"
        );
    }
}

#[tokio::test]
async fn the_end_of_the_init_ends_what_it_left() {
    let mut node = Node::new();
    node.options.cgroups = false;
    let agent = node.start().await;
    let command =
        "setsid sh -c 'echo $$ > a; exec sleep 1000' & while [ ! -s a ]; do :; done; exit 5";
    launch(&agent, "c", command).await;
    assert_eq!(status(&agent, "c").await, 5 << 8);
    let orphan = line(&node.sandbox("c").join("a")).await.parse().unwrap();
    assert!(!lives(orphan));
}

#[tokio::test]
async fn a_killed_shim_takes_its_container_with_it_and_wait_says_so() {
    for cgroups in [true, false] {
        let mut node = Node::new();
        node.options.cgroups = cgroups;
        let agent = node.start().await;
        let pids = runaways(&node, &agent, "c").await;
        kill_process(node.shims()[0]);
        let exit = wait(&agent, "c").await.unwrap();
        assert_eq!(
            (exit.status, exit.reason),
            (Some(9), Some(ExitReason::ShimLost))
        );
        assert!(
            exit.message
                .unwrap()
                .contains("shim of the container was killed")
        );
        assert!(!pids.iter().any(|pid| lives(*pid)), "{pids:?}");
        // And it is remembered.
        drop(agent);
        let agent = node.start().await;
        let exit = wait(&agent, "c").await.unwrap();
        assert_eq!(exit.reason, Some(ExitReason::ShimLost));
    }
}

#[tokio::test]
async fn a_shim_ignores_every_signal_that_can_be_ignored() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    let shim = nix::unistd::Pid::from_raw(node.shims()[0]);
    use nix::sys::signal::Signal;
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
    ] {
        nix::sys::signal::kill(shim, signal).unwrap();
    }
    kill(&agent, "c", 15).await;
    assert_eq!(
        status(&agent, "c").await,
        15,
        "the shim was there to see it"
    );
}

#[tokio::test]
async fn a_shim_is_small() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "echo; exec sleep 1000").await;
    line_written(&node).await;
    let path = format!("/proc/{}/smaps_rollup", node.shims()[0]);
    let kib = |name: &str| -> u64 {
        let rollup = std::fs::read_to_string(&path).unwrap();
        let line = rollup.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_ascii_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    };
    // Once it has settled.
    eventually("2 MiB resident", || kib("Rss:") <= 2048).await;
    let private = kib("Private_Clean:") + kib("Private_Dirty:");
    assert!(private <= 1024, "{private} KiB are private");
    end(&agent, "c").await;
}

async fn line_written(node: &Node) {
    eventually("a line", || node.output("c") == "\n").await;
}

#[tokio::test]
async fn nothing_leaks_over_many_lives() {
    let node = Node::new();
    let agent = node.start().await;
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    launch(&agent, "c", "true").await;
    status(&agent, "c").await;
    let before = descriptors();
    let mut shims = Vec::new();
    for _ in 0..20 {
        launch(&agent, "c", "exec sleep 1000").await;
        shims.extend(node.shims());
        end(&agent, "c").await;
    }
    assert_eq!(shims.len(), 20);
    eventually("one record", || node.records().len() == 1).await;
    eventually("no shim", || node.shims().is_empty()).await;
    // Other tests of this process open and close their own meanwhile.
    eventually("no descriptor is left", || descriptors() <= before + 8).await;
    let ended = |pid: &i32| !Path::new(&format!("/proc/{pid}")).exists();
    eventually("no zombie", || shims.iter().all(ended)).await;
}

#[tokio::test]
async fn a_shim_killed_at_any_moment_of_its_start_leaves_no_process() {
    let mut node = Node::new();
    node.options.cgroups = false;
    let agent = node.start().await;
    let (mut failed, mut lost) = (0, 0);
    for round in 0..40u64 {
        let launching = tokio::spawn({
            let agent = agent.clone();
            async move {
                agent
                    .launch(request("c", shell("sleep 1000 & exec sleep 1000")))
                    .await
            }
        });
        eventually("the shim", || {
            !node.shims().is_empty() || launching.is_finished()
        })
        .await;
        tokio::time::sleep(Duration::from_micros(round * 100)).await;
        for shim in node.shims() {
            kill_process(shim);
        }
        match within(launching).await.unwrap() {
            Ok(Launched::New) => {
                let exit = wait(&agent, "c").await.unwrap();
                assert_eq!(exit.reason, Some(ExitReason::ShimLost), "round {round}");
                lost += 1;
            }
            Ok(Launched::AlreadyPresent) => panic!("round {round}"),
            Err(error) => {
                assert_eq!(
                    wait(&agent, "c").await,
                    Err(NotFound),
                    "round {round}: {error}"
                );
                failed += 1;
            }
        }
        let left = processes(|pid| {
            std::fs::read_link(format!("/proc/{pid}/cwd"))
                .is_ok_and(|cwd| cwd.starts_with(node.root.path()))
        });
        assert_eq!(left, [0; 0], "round {round}");
    }
    assert!(
        lost > 0,
        "{failed} failed, {lost} lost: the rounds are too short for this machine"
    );
}

#[tokio::test]
async fn a_killed_shim_takes_a_container_of_another_user_with_it() {
    if !root() {
        return;
    }
    let mut node = Node::new();
    node.options.cgroups = false;
    let agent = node.start().await;
    let mut command = shell("setsid sleep 1000 & echo; exec sleep 1000");
    command.user = Some("65534".to_owned());
    within(agent.launch(request("c", command))).await.unwrap();
    line_written(&node).await;
    let init = pid(&agent, "c");
    kill_process(node.shims()[0]);
    let exit = wait(&agent, "c").await.unwrap();
    assert_eq!(exit.reason, Some(ExitReason::ShimLost));
    assert!(!lives(init));
    let nobodys = processes(|pid| {
        std::fs::read_link(format!("/proc/{pid}/cwd"))
            .is_ok_and(|cwd| cwd.starts_with(node.root.path()))
    });
    assert_eq!(nobodys, [0; 0]);
}
