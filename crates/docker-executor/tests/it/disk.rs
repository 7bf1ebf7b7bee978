//! A disk that takes nothing.

use longshore_engine::fake::{Call, Script};
use longshore_mesos_api::v1::TaskState;

use crate::bed::{Bed, SECOND, ended, finished, until, word, words};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_recorded_is_not_launched() {
    let bed = Bed::new();
    // Not a directory, which root cannot write to either.
    std::fs::write(bed.dir.path().join("state"), "in the way").unwrap();
    let task = bed.launch("t", "");
    let last = ended(&task).await;
    assert_eq!(words(&task).await, ["FAILED not-recorded"]);
    assert!(last.message().contains("state"), "{last:?}");
    finished(&task).await;
    assert!(
        bed.engine
            .log()
            .iter()
            .all(|(call, _)| *call == Call::Events)
    );
}

#[tokio::test(start_paused = true)]
async fn a_last_status_is_told_without_a_disk_and_finished_with_one() {
    let bed = Bed::new();
    let (task, container) = bed.running(Script::default(), "").await;
    tokio::time::sleep(SECOND).await;
    let tasks = bed.dir.path().join("state/tasks");
    let aside = bed.dir.path().join("aside");
    #[expect(
        clippy::disallowed_methods,
        reason = "the disk is taken away, and given back"
    )]
    let rename = |from: &std::path::Path, to: &std::path::Path| std::fs::rename(from, to).unwrap();
    rename(&tasks, &aside);
    std::fs::write(&tasks, "in the way").unwrap();
    bed.engine.exit(&container, 3);
    assert_eq!(word(&ended(&task).await), "FAILED exited");
    tokio::time::sleep(100 * SECOND).await;
    assert!(!task.watch().borrow().finished, "it is on no record");
    std::fs::remove_file(&tasks).unwrap();
    rename(&aside, &tasks);
    finished(&task).await;
    let bed = bed.die().rise();
    let task = bed.executor.recover().unwrap().tasks[0].clone();
    assert_eq!(word(&ended(&task).await), "FAILED exited");
    // A full disk starts nothing new, and takes nothing from what runs.
    let (running, _) = bed.running(Script::default(), "").await;
    until(&running, TaskState::TaskRunning).await;
}
