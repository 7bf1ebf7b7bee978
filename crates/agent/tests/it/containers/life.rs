//! One container's life: what it starts with, how it ends, what is answered when.

use super::*;
use longshore_agent::LogOptions;
use longshore_agent::service::KillError;
use longshore_mesos_api::v1::{RLimitInfo, container_info, r_limit_info};

#[tokio::test]
async fn aa_the_exit_status_is_the_raw_one_of_wait() {
    let node = Node::new();
    let agent = node.start().await;
    let missing = "Failed to execute 'no-such-program': No such file or directory";
    for (command, expected, message) in [
        (Some(shell("exit 0")), 0, None),
        (Some(shell("exit 3")), 768, None),
        (Some(shell("kill -9 $$")), 9, None),
        (Some(shell("kill -15 $$")), 15, None),
        // SIGRTMIN is a status that some wrappers of waitpid(2) cannot express.
        (Some(shell("kill -34 $$")), 34, None),
        (Some(exec("true", &[])), 0, None),
        (Some(exec("/bin/sh", &["sh", "-c", "exit 7"])), 1792, None),
        (Some(shell("no-such-program")), 127 << 8, None),
        (Some(exec("no-such-program", &[])), 256, Some(missing)),
        (None, 256, Some("Shell command is not specified")),
    ] {
        let mut request = request("c", CommandInfo::default());
        request.command = command.clone();
        assert_eq!(
            within(agent.launch(request)).await,
            Ok(Launched::New),
            "{command:?}"
        );
        let exit = wait(&agent, "c").await.unwrap();
        assert_eq!(
            (exit.status, exit.message.as_deref()),
            (Some(expected), message),
            "{command:?}"
        );
    }
    let stderr = std::fs::read_to_string(node.sandbox("c").join("stderr")).unwrap();
    assert!(
        stderr.contains(missing) && stderr.contains("not specified"),
        "{stderr}"
    );
}

#[tokio::test]
async fn aa_an_environment_that_is_too_long_is_seen_by_wait_only() {
    let node = Node::new();
    let agent = node.start().await;
    let long = "x".repeat(140_000);
    let command = with_environment(shell("true"), &[("LONG", &long)]);
    assert_eq!(
        within(agent.launch(request("c", command))).await,
        Ok(Launched::New)
    );
    let exit = wait(&agent, "c").await.unwrap();
    assert_eq!(exit.status, Some(256));
    assert!(exit.message.unwrap().contains("Argument list too long"));
}

#[tokio::test]
async fn a_container_starts_clean_whatever_its_agent_is_like() {
    let node = Node::new();
    let agent = node.start().await;
    let probe = "env | sort; pwd; umask; readlink /proc/self/fd/0; nice; \
                 grep -E 'Sig(Blk|Ign)' /proc/self/status; cat /proc/self/oom_score_adj; \
                 ls /proc/self/fd; ps -o sid= -p $$ 2>/dev/null || cut -d' ' -f6 /proc/$$/stat; echo $$";
    let command = with_environment(shell(probe), &[("A", "1")]);
    within(agent.launch(request("c", command))).await.unwrap();
    assert_eq!(status(&agent, "c").await, 0);
    let output = node.output("c");
    let sandbox = std::fs::canonicalize(node.sandbox("c")).unwrap();
    let sandbox = sandbox.to_str().unwrap();
    let expected = format!(
        "A=1\nMESOS_SANDBOX={sandbox}\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n\
         PWD={sandbox}\n{sandbox}\n0022\n/dev/null\n0\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
    );
    // The shell itself adds variables of its own, such as _ or SHLVL or OLDPWD.
    let kept: Vec<&str> = output
        .lines()
        .filter(|line| {
            !["_=", "SHLVL=", "OLDPWD="]
                .iter()
                .any(|own| line.starts_with(own))
        })
        .collect();
    let kept = kept.join("\n");
    assert!(
        kept.starts_with(&expected),
        "{kept}\n-- expected --\n{expected}"
    );
    let rest: Vec<&str> = kept[expected.len()..].lines().map(str::trim).collect();
    // 3 is the handle of `ls` on the directory.
    assert_eq!(rest[1..5], ["0", "1", "2", "3"], "{rest:?}");
    assert_eq!(rest[5], rest[6], "the init leads a session: {rest:?}");
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(node.sandbox("c")), 0o750);
    assert_eq!(mode(node.sandbox("c").join("stdout")), 0o644);
}

#[tokio::test]
async fn aa_an_id_is_taken_until_its_container_has_ended_and_then_free() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "echo one; exec sleep 1000").await;
    eventually("its first line", || node.output("c") == "one\n").await;
    let again = || agent.launch(request("c", shell("exit 1")));
    assert_eq!(within(again()).await, Ok(Launched::AlreadyPresent));
    let (one, two, three) = within(async { tokio::join!(again(), again(), again()) }).await;
    assert_eq!(
        [one, two, three],
        [const { Ok(Launched::AlreadyPresent) }; 3]
    );
    kill(&agent, "c", 9).await;
    let dying = within(again()).await;
    let first = wait(&agent, "c").await.unwrap().status;
    match dying {
        Ok(Launched::AlreadyPresent) => assert_eq!(first, Some(9)),
        // It was down before the launch came.
        other => assert_eq!((other, first), (Ok(Launched::New), Some(256))),
    }
    launch(&agent, "c", "echo two").await;
    assert_eq!(status(&agent, "c").await, 0);
    assert_eq!(node.output("c"), "one\ntwo\n", "the sandbox is used again");
}

#[tokio::test]
async fn of_many_launches_of_one_id_at_once_one_is_new() {
    let node = Node::new();
    let agent = node.start().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let agent = agent.clone();
        tasks.spawn(async move { agent.launch(request("c", shell("exec sleep 1000"))).await });
    }
    let answers: Vec<_> = within(tasks.join_all()).await;
    let new = answers
        .iter()
        .filter(|answer| **answer == Ok(Launched::New))
        .count();
    assert_eq!(new, 1, "{answers:?}");
    assert_eq!(node.shims().len(), 1);
    end(&agent, "c").await;
}

#[tokio::test]
async fn aa_every_waiter_is_answered_and_a_late_one_too() {
    let node = Node::new();
    let agent = node.start().await;
    assert_eq!(wait(&agent, "unknown").await, Err(NotFound));
    launch(&agent, "d", "exec sleep 1000").await;
    let target = id("d");
    let waiters = async { tokio::join!(agent.wait(&target), agent.wait(&target)) };
    let (answers, ()) = within(async { tokio::join!(waiters, kill(&agent, "d", 15)) }).await;
    assert_eq!(answers.0.unwrap().status, Some(15));
    assert_eq!(answers.1.unwrap().status, Some(15));
    assert_eq!(status(&agent, "d").await, 15, "late");
    assert_eq!(status(&agent, "d").await, 15, "as often as asked");
}

#[tokio::test]
async fn aa_kill_answers_at_once_and_as_mesos_does() {
    let node = Node::new();
    let agent = node.start().await;
    launch(
        &agent,
        "c",
        "trap 'echo caught' TERM; echo ready; while :; do sleep 1000 & wait; done",
    )
    .await;
    line(&node.sandbox("c").join("stdout")).await;
    kill(&agent, "c", 0).await;
    kill(&agent, "c", 15).await;
    eventually("the trap", || node.output("c").contains("caught")).await;
    assert!(view(&agent, "c").is_some(), "it lives on");
    for signal in [99, -1] {
        assert_eq!(
            within(agent.kill(&id("c"), signal)).await,
            Err(KillError::Failed(
                "Unable to send signal to container: Invalid argument".to_owned()
            ))
        );
    }
    let target = id("c");
    let kills = async {
        tokio::join!(
            agent.kill(&target, 9),
            agent.kill(&target, 9),
            agent.kill(&target, 9)
        )
    };
    assert_eq!(within(kills).await, (Ok(()), Ok(()), Ok(())));
    assert_eq!(status(&agent, "c").await, 9);
    for name in ["c", "unknown"] {
        assert_eq!(
            within(agent.kill(&id(name), 9)).await,
            Err(KillError::NotFound),
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_kill_right_after_the_launch_is_never_lost() {
    let node = Node::new();
    let agent = node.start().await;
    for _ in 0..5 {
        launch(&agent, "c", "exec sleep 1000").await;
        end(&agent, "c").await;
    }
    // And one while the launch is still under way.
    let launching = tokio::spawn({
        let agent = agent.clone();
        async move { agent.launch(request("c", shell("exec sleep 1000"))).await }
    });
    eventually("the launch", || view(&agent, "c").is_some()).await;
    kill(&agent, "c", 9).await;
    assert_eq!(status(&agent, "c").await, 9);
    assert_eq!(within(launching).await.unwrap(), Ok(Launched::New));
}

#[tokio::test]
async fn remove_deletes_an_ended_container_and_refuses_a_running_one() {
    let node = Node::new();
    let agent = node.start().await;
    launch(&agent, "c", "exec sleep 1000").await;
    let error = within(agent.remove(&id("c"))).await.unwrap_err();
    assert_eq!(error.message, "Container has not terminated yet");
    end(&agent, "c").await;
    assert!(node.sandbox("c").exists());
    within(agent.remove(&id("c"))).await.unwrap();
    assert!(!node.sandbox("c").exists());
    assert_eq!(node.records(), [""; 0].map(PathBuf::from));
    assert_eq!(wait(&agent, "c").await, Err(NotFound));
    within(agent.remove(&id("c"))).await.unwrap();
    within(agent.remove(&id("never-launched"))).await.unwrap();
}

#[tokio::test]
async fn output_is_complete_and_rotated_by_size() {
    let mut node = Node::new();
    node.options.logs = LogOptions {
        max_bytes: 100_000,
        keep: 3,
    };
    let agent = node.start().await;
    let command = "i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; echo oops >&2";
    launch(&agent, "c", command).await;
    assert_eq!(status(&agent, "c").await, 0);
    let read = |name: &str| std::fs::read_to_string(node.sandbox("c").join(name)).unwrap();
    let all = ["stdout.3", "stdout.2", "stdout.1", "stdout"]
        .map(read)
        .concat();
    let expected: String = (0..30_000).map(|i| format!("line {i}\n")).collect();
    assert_eq!(all.len(), expected.len());
    assert!(all == expected);
    assert!(read("stdout.1").len() <= 100_000);
    assert_eq!(read("stderr"), "oops\n");
}

#[tokio::test]
async fn rlimits_are_set_and_what_cannot_be_set_is_refused() {
    use r_limit_info::{RLimit, r_limit::Type};
    let node = Node::new();
    let agent = node.start().await;
    let container = |soft, hard| {
        let mut limit = RLimit {
            soft: Some(soft),
            hard: Some(hard),
            ..RLimit::default()
        };
        limit.set_type(Type::RlmtNofile);
        let mut info = ContainerInfo::default();
        info.set_type(container_info::Type::Mesos);
        info.rlimit_info = Some(RLimitInfo {
            rlimits: vec![limit],
        });
        info
    };
    let command = shell("ulimit -Sn; ulimit -Hn");
    within(agent.launch(with_container(request("c", command), container(77, 88))))
        .await
        .unwrap();
    assert_eq!(status(&agent, "c").await, 0);
    assert_eq!(node.output("c"), "77\n88\n");
    // More files than the kernel allows anybody.
    let over = with_container(request("d", shell("true")), container(1 << 40, 1 << 40));
    let error = refused(&agent, over).await;
    assert!(
        error.message.contains("cannot set resource limit"),
        "{error}"
    );
    assert!(!node.sandbox("d").exists(), "nothing is left");
    assert_eq!(wait(&agent, "d").await, Err(NotFound));
}

#[tokio::test]
async fn a_container_gets_the_limit_of_open_files_that_the_agent_was_told() {
    let mut node = Node::new();
    node.options.open_files = Some((123, 234));
    let agent = node.start().await;
    launch(&agent, "c", "ulimit -Sn; ulimit -Hn").await;
    assert_eq!(status(&agent, "c").await, 0);
    assert_eq!(node.output("c"), "123\n234\n");
}

#[tokio::test]
async fn root_runs_containers_as_other_users() {
    if !root() {
        return;
    }
    let node = Node::new();
    let agent = node.start().await;
    let mut command = shell(
        "id -u; id -g; id -G; touch file; cat ../../../state/x 2>&1; kill -0 1 2>&1 || echo no",
    );
    command.user = Some("65534".to_owned());
    within(agent.launch(request("c", command))).await.unwrap();
    assert_eq!(status(&agent, "c").await, 0);
    let output = node.output("c");
    assert!(output.starts_with("65534\n65534\n65534\n"), "{output}");
    assert!(output.ends_with("no\n"), "{output}");
    use std::os::unix::fs::MetadataExt as _;
    for name in ["", "file", "stdout", "stderr"] {
        let owner = std::fs::metadata(node.sandbox("c").join(name))
            .unwrap()
            .uid();
        assert_eq!(owner, 65534, "{name}");
    }
}

#[tokio::test]
async fn links_planted_by_a_containers_user_are_not_followed_at_its_relaunch() {
    let node = Node::new();
    let agent = node.start().await;
    let secret = node.root.path().join("secret");
    std::fs::write(&secret, "untouched").unwrap();
    let plant = format!(
        "rm stdout stderr; ln -s {} stdout; mkfifo stderr",
        secret.display()
    );
    launch(&agent, "c", &plant).await;
    assert_eq!(status(&agent, "c").await, 0);
    launch(&agent, "c", "echo out; echo err >&2").await;
    assert_eq!(status(&agent, "c").await, 0);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "untouched");
    assert_eq!(node.output("c"), "out\n");
    let names = std::fs::read_dir(node.sandbox("c")).unwrap();
    let names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.contains(&"stdout.aside-0".to_owned()), "{names:?}");
    assert!(names.contains(&"stderr.aside-0".to_owned()), "{names:?}");
}

#[tokio::test]
async fn exits_are_forgotten_after_their_retention_and_old_sandboxes_deleted() {
    let mut node = Node::new();
    node.options.exit_retention = Duration::ZERO;
    node.options.sandbox_gc.interval = Duration::from_secs(1);
    node.options.sandbox_gc.max_age = Duration::ZERO;
    let agent = node.start().await;
    launch(&agent, "runs", "exec sleep 1000").await;
    launch(&agent, "c", "true").await;
    assert_eq!(status(&agent, "c").await, 0);
    eventually("the record is gone", || node.records().len() == 1).await;
    assert_eq!(wait(&agent, "c").await, Err(NotFound));
    eventually("the sandbox is gone", || !node.sandbox("c").exists()).await;
    assert!(node.sandbox("runs").exists());
    end(&agent, "runs").await;
}
