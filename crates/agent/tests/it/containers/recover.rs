//! An agent that is gone and one that takes over.

use super::*;
use longshore_agent::AgentError;
use longshore_agent::service::ExitReason;

#[tokio::test]
async fn running_containers_are_taken_over_and_stay_what_they_are() {
    let node = Node::new();
    let agent = node.start().await;
    launch(
        &agent,
        "c",
        "trap 'exit 3' TERM; echo; while :; do sleep 1000 & wait; done",
    )
    .await;
    line_of(&node, "c").await;
    let before = view(&agent, "c").unwrap();
    drop(agent);
    let agent = node.start().await;
    assert_eq!(view(&agent, "c"), Some(before));
    let again = agent.launch(request("c", shell("true")));
    assert_eq!(within(again).await, Ok(Launched::AlreadyPresent));
    kill(&agent, "c", 15).await;
    assert_eq!(status(&agent, "c").await, 3 << 8);
}

async fn line_of(node: &Node, name: &str) {
    let stdout = node.sandbox(name).join("stdout");
    eventually("a line", || {
        std::fs::read(&stdout).is_ok_and(|text| !text.is_empty())
    })
    .await;
}

#[tokio::test]
async fn an_end_that_no_agent_saw_is_answered_by_the_next() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    launch(&agent, "d", "exit 5").await;
    assert_eq!(status(&agent, "d").await, 5 << 8);
    let init = pid(&agent, "c");
    agent.shutdown().await;
    kill_process(init);
    eventually("the shim's end", || node.shims().is_empty()).await;
    let agent = node.start().await;
    assert_eq!(status(&agent, "c").await, 9);
    assert_eq!(status(&agent, "d").await, 5 << 8, "kept over the restart");
    assert!(agent.list().is_empty());
    launch(&agent, "c", "true").await;
    assert_eq!(status(&agent, "c").await, 0);
}

#[tokio::test]
async fn a_shim_that_was_killed_while_no_agent_ran_is_noticed() {
    let mut node = Node::new();
    node.options.cgroups = false;
    let agent = node.start().await;
    launch(
        &agent,
        "c",
        "setsid sh -c 'echo $$ > a; exec sleep 1000' & exec sleep 1000",
    )
    .await;
    let orphan = line(&node.sandbox("c").join("a")).await.parse().unwrap();
    drop(agent);
    kill_process(node.shims()[0]);
    let agent = node.start().await;
    let exit = wait(&agent, "c").await.unwrap();
    assert_eq!(exit.reason, Some(ExitReason::ShimLost));
    assert!(!lives(orphan));
}

#[tokio::test]
async fn a_reboot_is_recognised_by_the_boot_id() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    drop(agent);
    // What a reboot leaves when the run directory is not on a tmpfs: records, and nothing else.
    kill_process(node.shims()[0]);
    eventually("the shim's end", || node.shims().is_empty()).await;
    let record = node.records()[0].join("container");
    let bytes = with_another_boot(std::fs::read(&record).unwrap(), boot.trim().as_bytes());
    std::fs::write(record, bytes).unwrap();
    let agent = node.start().await;
    let exit = wait(&agent, "c").await.unwrap();
    assert_eq!(
        (exit.status, exit.reason),
        (None, Some(ExitReason::Rebooted))
    );
    assert!(agent.list().is_empty());
}

/// Changes the last character of the boot id and the checksum with it (docs of
/// `longshore_checkpoint::envelope`: CRC32C in bytes 20 to 23, over everything else).
fn with_another_boot(mut bytes: Vec<u8>, boot: &[u8]) -> Vec<u8> {
    let at = bytes
        .windows(boot.len())
        .position(|window| window == boot)
        .unwrap();
    bytes[at + boot.len() - 1] ^= 1;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..20]), &bytes[24..]);
    bytes[20..24].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[tokio::test]
async fn a_launch_that_did_not_get_to_its_shim_leaves_nothing() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    end(&agent, "c").await;
    agent.shutdown().await;
    // As it was before the shim was spawned.
    std::fs::remove_file(node.records()[0].join("run/pid")).unwrap();
    std::fs::remove_file(node.records()[0].join("run/exit")).unwrap();
    let agent = node.start().await;
    assert!(agent.list().is_empty());
    assert_eq!(wait(&agent, "c").await, Err(NotFound));
    assert_eq!(node.records(), [""; 0].map(PathBuf::from));
    launch(&agent, "c", "true").await;
    assert_eq!(status(&agent, "c").await, 0);
}

#[tokio::test]
async fn a_shim_between_its_lock_and_its_pid_is_waited_for() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    let record = node.records()[0].clone();
    drop(agent);
    // The pid record comes late, as if the shim were still at its set-up.
    move_file(&record.join("run/pid"), &record.join("pid"));
    let agent = node.start().await;
    assert_eq!(view(&agent, "c").unwrap().phase, Phase::Starting);
    let again = agent.launch(request("c", shell("true")));
    assert_eq!(within(again).await, Ok(Launched::AlreadyPresent));
    kill(&agent, "c", 9).await;
    move_file(&record.join("pid"), &record.join("run/pid"));
    assert_eq!(status(&agent, "c").await, 9);
}

#[tokio::test]
async fn a_container_whose_pid_record_is_lost_is_adopted_and_can_be_killed() {
    for damaged in [None, Some("garbage")] {
        let node = Node::new();
        let agent = node.start().await;
        // With a child in a session of its own, which its shim adopts.
        let script = "(setsid sleep 1000 & ) ; exec sleep 1000";
        launch(&agent, "c", script).await;
        let before = view(&agent, "c").unwrap().pid;
        let record = node.records()[0].clone();
        agent.shutdown().await;
        match damaged {
            None => std::fs::remove_file(record.join("run/pid")).unwrap(),
            Some(text) => std::fs::write(record.join("run/pid"), text).unwrap(),
        }
        let agent = node.start().await;
        eventually("it is adopted", || {
            view(&agent, "c").is_some_and(|view| view.phase == Phase::Running)
        })
        .await;
        assert_eq!(view(&agent, "c").unwrap().pid, before, "{damaged:?}");
        end(&agent, "c").await;
        assert!(agent.list().is_empty());
    }
}

#[tokio::test]
async fn a_shim_that_was_stopped_goes_on_when_its_container_ends() {
    use nix::sys::signal::{Signal, kill as send};
    use nix::unistd::Pid;
    let node = Node::new();
    // Launched, or taken over.
    for taken_over in [false, true] {
        let mut agent = node.start().await;
        launch(&agent, "c", "exec sleep 1000").await;
        let init = Pid::from_raw(pid(&agent, "c"));
        if taken_over {
            agent.shutdown().await;
            agent = node.start().await;
        }
        send(Pid::from_raw(node.shims()[0]), Signal::SIGSTOP).unwrap();
        send(init, Signal::SIGKILL).unwrap();
        assert_eq!(status(&agent, "c").await, 9, "{taken_over}");
        agent.shutdown().await;
    }
}

#[tokio::test]
async fn damaged_records_are_set_aside_and_their_containers_adopted_by_name() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    launch(&agent, "d", "true").await;
    assert_eq!(status(&agent, "d").await, 0);
    agent.shutdown().await;
    for record in node.records() {
        std::fs::write(record.join("container"), "garbage").unwrap();
    }
    std::fs::create_dir(node.root.path().join("run/containers/stranger")).unwrap();
    let agent = node.start().await;
    let names: Vec<_> = agent
        .list()
        .into_iter()
        .map(|view| view.id.to_string())
        .collect();
    assert_eq!(names, ["c"]);
    end(&agent, "c").await;
    assert_eq!(status(&agent, "d").await, 0);
    let aside = node
        .records()
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).unwrap())
        .filter(|entry| {
            entry
                .as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("corrupt")
        })
        .count();
    assert_eq!(aside, 2, "kept, not deleted");
}

#[tokio::test]
async fn two_agents_do_not_share_a_run_directory() {
    let node = Node::new();
    let agent = node.start().await;
    let error = Containers::start(&node.options).await.unwrap_err();
    assert!(matches!(error, AgentError::Locked { .. }), "{error}");
    drop(agent);
    drop(node.start().await);
}

#[tokio::test]
async fn an_agent_that_is_dropped_at_any_moment_of_a_launch_loses_and_doubles_nothing() {
    let node = Node::new();
    for round in 0..30u64 {
        let agent = node.start().await;
        let launching = tokio::spawn({
            let agent = agent.clone();
            async move {
                agent
                    .launch(request("c", shell("echo x >> runs; exec sleep 1000")))
                    .await
            }
        });
        tokio::time::sleep(Duration::from_micros(round * 300)).await;
        launching.abort();
        drop(launching.await);
        drop(agent);
        let agent = node.start().await;
        let known = view(&agent, "c").is_some();
        let launched =
            within(agent.launch(request("c", shell("echo x >> runs; exec sleep 1000")))).await;
        assert!(launched.is_ok(), "round {round}: {launched:?}");
        eventually("it runs", || {
            view(&agent, "c").is_some_and(|view| view.phase == Phase::Running)
        })
        .await;
        let runs = node.sandbox("c").join("runs");
        line(&runs).await;
        assert_eq!(node.shims().len(), 1, "round {round}, known {known}");
        assert_eq!(
            std::fs::read_to_string(&runs).unwrap(),
            "x\n",
            "round {round}, known {known}"
        );
        end(&agent, "c").await;
        within(agent.remove(&id("c"))).await.unwrap();
        drop(agent);
    }
    assert!(node.shims().is_empty());
    assert_eq!(node.records(), [""; 0].map(PathBuf::from));
}

fn move_file(from: &Path, to: &Path) {
    std::fs::hard_link(from, to).unwrap();
    std::fs::remove_file(from).unwrap();
}
