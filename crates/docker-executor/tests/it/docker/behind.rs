//! What somebody else does to the container of a task, and on whose containers hands are laid.

use super::*;

#[tokio::test]
async fn behind_our_back_each_deed_has_its_ending() {
    if let Some(bed) = Bed::new() {
        behind_our_back(bed).await;
    }
}

pub(super) async fn behind_our_back(bed: Bed) {
    let script = "trap 'exit 0' TERM; while true; do sleep 1 & wait; done";
    for (deed, expected) in [
        ("stop", "FAILED stopped-by-other"),
        ("kill", "FAILED stopped-by-other"),
        ("remove", "FAILED removed-by-other"),
        ("restart", "FAILED restarted-by-other"),
        ("pause", ""),
        ("update", ""),
    ] {
        let task = bed.ready(deed, script, "").await;
        let info = bed.inspect(&task).await;
        let id = info.id.as_str();
        match deed {
            "stop" => bed.engine.stop(id, PATIENCE).await.unwrap(),
            "kill" => bed.engine.kill(id, "KILL").await.unwrap(),
            "remove" => bed.engine.remove(id, FORCE).await.unwrap(),
            "pause" => {
                bed.engine.pause(id).await.unwrap();
                let mut view = task.watch();
                soon(view.wait_for(|view| view.paused)).await.unwrap();
            }
            "restart" => {
                drop(bed.engine.stop(id, PATIENCE).await);
                // Between the two it may have been told, and removed.
                drop(bed.engine.start(id).await);
            }
            _ => {
                let more = longshore_engine::Resources {
                    cpu_shares: Some(512),
                    ..longshore_engine::Resources::default()
                };
                bed.engine.update(id, &more).await.unwrap();
            }
        }
        if expected.is_empty() {
            assert!(!task.watch().borrow().over, "{deed}");
            let last = bed.killed(&task, Kill::asked()).await;
            assert_eq!(word(&last), "KILLED killed", "{deed}: {last:?}");
            // A frozen one was thawed, and heard its signal.
            assert!(last.message().contains("exit code 0"), "{deed}: {last:?}");
        } else {
            let last = bed.end(&task).await;
            let told = word(&last);
            let or: &[&str] = match deed {
                "restart" if bed.is_podman().await => &["FINISHED exited"],
                "restart" => &["FAILED stopped-by-other", "FAILED restarted-by-other"],
                // It tells of a stop when that is over, and of no signal before.
                "stop" if bed.is_podman().await => &["FINISHED exited"],
                // Its event of a signal does not say which.
                "kill" if bed.is_podman().await => &["FAILED signaled"],
                _ => &[],
            };
            assert!(
                told == expected || or.contains(&told.as_str()),
                "{deed}: {last:?}"
            );
        }
    }
}

#[tokio::test]
async fn while_we_were_down_each_deed_has_its_ending() {
    if let Some(bed) = Bed::new() {
        while_we_were_down(bed).await;
    }
}

pub(super) async fn while_we_were_down(mut bed: Bed) {
    for (deed, expected) in [
        ("nothing", ""),
        ("exit", "FAILED exited"),
        ("remove", "FAILED removed-by-other"),
        ("restart", "FAILED restarted-by-other"),
    ] {
        let script = "trap 'exit 4' TERM; while true; do sleep 1 & wait; done";
        let task = bed.ready(deed, script, "").await;
        let id = bed.inspect(&task).await.id;
        drop(task);
        let engine = bed.engine.clone();
        let dir = {
            let Bed { dir, executor, .. } = bed;
            drop(executor);
            dir
        };
        match deed {
            "exit" => engine.stop(&id, PATIENCE).await.unwrap(),
            "remove" => engine.remove(&id, FORCE).await.unwrap(),
            "restart" => {
                engine.stop(&id, PATIENCE).await.unwrap();
                engine.start(&id).await.unwrap();
            }
            _ => {}
        }
        let options = ExecutorOptions::new(dir.path().join("state"), "it");
        let executor = Executor::new(Arc::new(engine.clone()), options).unwrap();
        bed = Bed {
            engine,
            dir,
            executor,
        };
        let recovery = bed.executor.recover().unwrap();
        assert!(recovery.damaged.is_empty(), "{recovery:?}");
        let task = bed.executor.task(deed).unwrap();
        let last = if expected.is_empty() {
            soon(async {
                while task.watch().borrow().container.is_none() {
                    tokio::time::sleep(SECOND / 50).await;
                }
            })
            .await;
            bed.killed(&task, Kill::asked()).await
        } else {
            bed.end(&task).await
        };
        let expected = if expected.is_empty() {
            "KILLED killed"
        } else {
            expected
        };
        assert_eq!(word(&last), expected, "{deed}: {last:?}");
    }
}

#[tokio::test]
async fn two_on_one_engine_never_reap_each_other() {
    let (Some(one), Some(other)) = (Bed::new(), Bed::new()) else {
        return;
    };
    let task = one.ready("t", "sleep 1000", "").await;
    assert_eq!(
        other.executor.remove_strays(Duration::ZERO).await.unwrap(),
        [""; 0]
    );
    assert_eq!(
        one.executor.remove_strays(Duration::ZERO).await.unwrap(),
        [""; 0]
    );
    // A record that is lost makes a stray of it, for its own.
    let name = task.container_name().to_owned();
    let Bed {
        engine,
        dir,
        executor,
    } = one;
    drop(executor);
    std::fs::remove_dir_all(dir.path().join("state/tasks")).unwrap();
    let options = ExecutorOptions::new(dir.path().join("state"), "it");
    let executor = Executor::new(Arc::new(engine.clone()), options).unwrap();
    assert_eq!(
        other.executor.remove_strays(Duration::ZERO).await.unwrap(),
        [""; 0]
    );
    let young = executor
        .remove_strays(Duration::from_secs(86_400))
        .await
        .unwrap();
    assert_eq!(young, [""; 0]);
    assert_eq!(
        executor.remove_strays(Duration::ZERO).await.unwrap(),
        [name]
    );
}
