//! Declared tasks: on the fake engine, in virtual time.
// long: one life after the other, on one bed

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_checkpoint::{CodecError, Durability, Record, Writer};
use longshore_engine::fake::{Call, FakeEngine, Script};
use longshore_task_manager::{
    CsiReadiness, Declaration, Declared, DeclaredBy, DeclaredOptions, DeclaredStatus,
    DeclaredTasks, ManagerOptions, Phase, Retention, Rule, TaskManagerError, Why,
};
use tokio::sync::watch;

use crate::bed::{Bed, IMAGE, SECOND, task};

struct Node {
    bed: Bed,
    tasks: DeclaredTasks,
    csi: watch::Sender<Arc<CsiReadiness>>,
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(format!("/tasks.d/{name}.toml"))
}

fn declaration(name: &str, rule: Rule, needs: &[&str]) -> Declaration {
    Declaration {
        name: name.to_owned(),
        info: task(name, "").info,
        logs: None,
        rule,
        needs: needs.iter().map(|need| need.parse().unwrap()).collect(),
        origin: DeclaredBy::File(file(name)),
    }
}

fn declared(wanted: &[Declaration]) -> Declared {
    Declared {
        wanted: wanted.to_vec(),
        ..Declared::default()
    }
}

fn tasks(
    bed: &Bed,
    csi: &watch::Sender<Arc<CsiReadiness>>,
    held: Option<&str>,
    declared: Declared,
) -> DeclaredTasks {
    let options = DeclaredOptions {
        policy: longshore_backoff::RestartPolicy::default(),
        csi: csi.subscribe(),
        held: held.map(str::to_owned),
    };
    let (tasks, problems) = DeclaredTasks::start(bed.manager.clone(), options, declared);
    assert_eq!(problems, Vec::<String>::new());
    tasks
}

impl Node {
    async fn new(wanted: &[Declaration]) -> Self {
        Self::on(Bed::new().await, wanted)
    }

    fn on(bed: Bed, wanted: &[Declaration]) -> Self {
        let csi = watch::Sender::default();
        let tasks = tasks(&bed, &csi, None, declared(wanted));
        Self { bed, tasks, csi }
    }

    /// The daemon dies, and another one comes after it.
    async fn restarted(self, wanted: Declared) -> Self {
        let Self {
            bed,
            tasks: old,
            csi,
        } = self;
        drop(old);
        let bed = bed.restarted(|_| {}).await;
        let tasks = tasks(&bed, &csi, None, wanted);
        Self { bed, tasks, csi }
    }

    async fn apply(&self, wanted: &[Declaration]) {
        let problems = self.tasks.apply(declared(wanted)).await;
        assert_eq!(problems, Vec::<String>::new());
    }

    /// A declared task once it is as wanted.
    async fn until(
        &self,
        name: &str,
        what: impl Fn(&DeclaredStatus) -> bool,
    ) -> Arc<DeclaredStatus> {
        let mut changes = self.tasks.changes();
        let found = async {
            loop {
                changes.mark_unchanged();
                if let Ok(status) = self.tasks.status(name)
                    && what(&status)
                {
                    return status;
                }
                // An attempt's own changes come with the next look.
                let _late = tokio::time::timeout(SECOND / 10, changes.changed()).await;
            }
        };
        match tokio::time::timeout(3600 * SECOND, found).await {
            Ok(status) => status,
            Err(_) => panic!("{name} never: {:?}", self.tasks.status(name)),
        }
    }

    async fn until_word(&self, name: &str, word: &str) -> Arc<DeclaredStatus> {
        self.until(name, |status| status.word() == word).await
    }

    async fn until_gone(&self, name: &str) {
        let mut changes = self.tasks.changes();
        while self.tasks.status(name).is_ok() {
            changes.changed().await.unwrap();
        }
    }

    /// Each of the next containers is one that exits.
    fn script(&self, count: usize, time: Duration, code: i64) {
        for _ in 0..count {
            self.bed.engine.script(Script::exits(time, code));
        }
    }

    fn running(&self) -> usize {
        let all = self.bed.manager.tasks();
        all.iter().filter(|task| !task.has_ended()).count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_is_started_again_with_a_backoff_and_each_attempt_is_a_task() {
    let node = Node::new(&[declaration("web", Rule::Always, &[])]).await;
    node.script(6, SECOND, 3);
    let status = node
        .until("web", |it| matches!(it.why, Some(Why::Backoff(_))))
        .await;
    assert!(
        status.next_start().is_some() && status.number >= 2,
        "{status:?}"
    );
    let status = node
        .until("web", |it| matches!(it.why, Some(Why::Failing(_))))
        .await;
    assert_eq!(status.number, 5, "{status:?}");
    assert_eq!(node.bed.engine.count(Call::Start), 5);
    for (index, attempt) in status.attempts.iter().enumerate() {
        let end = attempt.end.as_ref().unwrap();
        assert_eq!((attempt.number, end.exit_code), (index as u64 + 1, 3));
        let task = node
            .bed
            .manager
            .watch(&format!("web.{}", attempt.number))
            .unwrap();
        assert_eq!(task.borrow().exit_code, 3);
    }
    let failing = node.until("web", |it| it.number == 6).await;
    let last = failing.attempts[4].end.as_ref().unwrap().at;
    let pause = failing.attempts[5].began.saturating_sub(last);
    assert!(pause >= 299 * SECOND, "{pause:?}");
}

#[tokio::test(start_paused = true)]
async fn the_rules_are_kept() {
    for (rule, code, word) in [
        (Rule::No, 1, "done"),
        (Rule::OnFailure, 0, "done"),
        (Rule::OnFailure, 1, "failing"),
        (Rule::Always, 0, "failing"),
    ] {
        let node = Node::new(&[declaration("one", rule, &[])]).await;
        node.script(10, SECOND, code);
        let status = node.until_word("one", word).await;
        assert_eq!(status.number == 1, word == "done", "{rule:?} {code}");
        assert_eq!(node.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn needs_are_waited_for_and_told() {
    let node = Node::new(&[
        declaration("web", Rule::Always, &["csi/nfs", "task/db"]),
        declaration("db", Rule::Always, &["csi/nfs"]),
        declaration("lost", Rule::Always, &["task/nobody"]),
    ])
    .await;
    let waiting = node.until_word("web", "waiting").await;
    assert!(
        waiting.reason().contains("csi/nfs: no plugin"),
        "{waiting:?}"
    );
    let csi = |ready| Arc::new(BTreeMap::from([("nfs".to_owned(), ready)]));
    node.csi.send_replace(csi(Err("probing".to_owned())));
    node.until("web", |it| it.reason() == "csi/nfs is not ready: probing")
        .await;
    assert_eq!(node.bed.engine.count(Call::Create), 0);
    node.csi.send_replace(csi(Ok(())));
    node.until_word("db", "running").await;
    node.until_word("web", "running").await;
    let lost = node.until_word("lost", "waiting").await;
    assert!(lost.reason().contains("no declared task"), "{lost:?}");
    // What runs is not ended when its need goes.
    node.tasks.stop("db", None).await.unwrap();
    node.until_word("db", "stopped").await;
    node.csi.send_replace(csi(Err("gone".to_owned())));
    tokio::time::sleep(600 * SECOND).await;
    assert_eq!(node.tasks.status("web").unwrap().word(), "running");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_away_is_waited_for_and_no_attempt_is_made_at_it() {
    let node = Node::new(&[declaration("web", Rule::Always, &[])]).await;
    node.until_word("web", "running").await;
    node.bed.engine.daemon_down();
    let mut engine = node.bed.manager.engine();
    engine.wait_for(|it| it.silent.is_some()).await.unwrap();
    node.apply(&[
        declaration("web", Rule::Always, &[]),
        declaration("new", Rule::Always, &[]),
    ])
    .await;
    let waiting = node.until_word("new", "waiting").await;
    assert!(
        waiting.reason().contains("the engine does not answer"),
        "{waiting:?}"
    );
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(node.tasks.status("new").unwrap().number, 0);
    // Without live-restore: what ran has ended.
    node.bed.engine.daemon_up(false);
    node.until("web", |it| it.number == 2 && it.word() == "running")
        .await;
    node.until("new", |it| it.number == 1 && it.word() == "running")
        .await;
    assert_eq!(node.running(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_operators_stop_outlives_the_daemon_and_a_start_ends_it() {
    let wanted = [declaration("web", Rule::Always, &[])];
    let node = Node::new(&wanted).await;
    node.until_word("web", "running").await;
    node.tasks.stop("web", None).await.unwrap();
    node.until_word("web", "stopped").await;
    let node = node.restarted(declared(&wanted)).await;
    node.until_word("web", "stopped").await;
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(node.bed.engine.count(Call::Create), 1);
    node.tasks.start_task("web").await.unwrap();
    let status = node.until_word("web", "running").await;
    assert_eq!(status.number, 2);
    let error = node.tasks.stop("nobody", None).await.unwrap_err();
    assert!(matches!(error, TaskManagerError::Unknown { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn files_that_come_change_and_go_are_followed_and_a_broken_one_changes_nothing() {
    let node = Node::new(&[declaration("web", Rule::Always, &[])]).await;
    node.until_word("web", "running").await;
    let other = Declaration {
        info: task("web", r#""labels":{"labels":[{"key":"a"}]},"#).info,
        ..declaration("web", Rule::Always, &[])
    };
    node.apply(&[other.clone(), declaration("db", Rule::No, &[])])
        .await;
    node.until("web", |it| it.number == 2 && it.word() == "running")
        .await;
    node.until_word("db", "running").await;
    assert_eq!(node.running(), 2);
    // A rule alone is changed in place.
    let rule = Declaration {
        rule: Rule::OnFailure,
        ..other
    };
    node.apply(&[rule, declaration("db", Rule::No, &[])]).await;
    let status = node.until("web", |it| it.rule == Rule::OnFailure).await;
    assert_eq!((status.number, status.word()), (2, "running"));
    let broken = Declared {
        broken: BTreeSet::from([file("web")]),
        wanted: vec![declaration("db", Rule::No, &[])],
        unknown: false,
    };
    assert!(node.tasks.apply(broken.clone()).await.is_empty());
    let unknown = Declared {
        unknown: true,
        ..Declared::default()
    };
    assert!(node.tasks.apply(unknown).await.is_empty());
    let node = node.restarted(broken).await;
    let status = node.until_word("web", "running").await;
    assert_eq!(status.number, 2);
    node.apply(&[]).await;
    node.until_gone("web").await;
    node.until_gone("db").await;
    assert_eq!(node.running(), 0);
    // Its numbers go on behind what is still known.
    node.apply(&[declaration("web", Rule::No, &[])]).await;
    assert_eq!(node.until_word("web", "running").await.number, 3);
}

#[tokio::test(start_paused = true)]
async fn what_was_declared_while_the_daemon_was_away_is_put_in_force_by_the_next_one() {
    let wanted = [
        declaration("gone", Rule::Always, &[]),
        declaration("kept", Rule::Always, &[]),
    ];
    let node = Node::new(&wanted).await;
    node.until_word("gone", "running").await;
    node.until_word("kept", "running").await;
    let node = node
        .restarted(declared(&[
            declaration("kept", Rule::Always, &[]),
            declaration("new", Rule::Always, &[]),
        ]))
        .await;
    node.until_gone("gone").await;
    node.until_word("new", "running").await;
    assert_eq!(node.until_word("kept", "running").await.number, 1);
    assert_eq!(node.running(), 2);
}

#[tokio::test(start_paused = true)]
async fn while_it_is_held_nothing_starts_and_then_everything_does() {
    let bed = Bed::new().await;
    let csi = watch::Sender::default();
    let wanted = declared(&[declaration("web", Rule::Always, &[])]);
    let tasks = tasks(&bed, &csi, Some("the node is drained"), wanted);
    let node = Node { bed, tasks, csi };
    let status = node.until_word("web", "held").await;
    assert_eq!(status.reason(), "the node is drained");
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(node.bed.engine.count(Call::Create), 0);
    node.tasks.release();
    node.until_word("web", "running").await;
    node.tasks.hold("again");
    // Who holds ends what runs; it is not started again until released.
    node.bed.manager.stop("web.1", None).unwrap();
    let status = node.until_word("web", "held").await;
    assert_eq!(node.tasks.held().as_deref(), Some("again"));
    assert_eq!(status.attempts[0].end.as_ref().unwrap().ending, "killed");
    node.tasks.release();
    node.until("web", |it| it.number == 2 && it.word() == "running")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_command_declares_for_good_and_takes_back() {
    let node = Node::new(&[declaration("file", Rule::Always, &[])]).await;
    let by_command = |name: &str| Declaration {
        origin: DeclaredBy::Command,
        ..declaration(name, Rule::Always, &[])
    };
    node.tasks.declare(by_command("web")).await.unwrap();
    for name in ["web", "file"] {
        let error = node.tasks.declare(by_command(name)).await.unwrap_err();
        assert!(matches!(error, TaskManagerError::Taken { .. }), "{error}");
    }
    let bad = Declaration {
        info: task(
            "bad",
            r#""container":{"type":"DOCKER","docker":{"image":"A b"}},"#,
        )
        .info,
        ..by_command("bad")
    };
    let error = node.tasks.declare(bad).await.unwrap_err();
    assert!(error.to_string().contains("A b"), "{error}");
    let error = node.tasks.declare(by_command("a/b")).await.unwrap_err();
    assert!(error.to_string().contains("a/b"), "{error}");
    node.until_word("web", "running").await;
    let node = node.restarted(declared(&[])).await;
    node.until_gone("file").await;
    assert_eq!(node.until_word("web", "running").await.number, 1);
    let error = node.tasks.remove("web", false).await.unwrap_err();
    assert!(matches!(error, TaskManagerError::Running { .. }), "{error}");
    node.tasks.remove("web", true).await.unwrap();
    assert_eq!((node.running(), node.tasks.all().len()), (0, 0));
    let node = node.restarted(declared(&[])).await;
    assert!(node.tasks.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_dies_at_any_moment_starts_nothing_twice_and_loses_nothing() {
    let wanted = [
        declaration("web", Rule::Always, &[]),
        declaration("job", Rule::No, &[]),
    ];
    for pause in (0..40).map(|step| Duration::from_millis(step * 7)) {
        let mut node = Node::new(&wanted).await;
        for _ in 0..4 {
            tokio::time::sleep(pause).await;
            for _ in 0..(pause.as_millis() % 5) {
                tokio::task::yield_now().await;
            }
            node = node.restarted(declared(&wanted)).await;
        }
        node.until_word("web", "running").await;
        node.until_word("job", "running").await;
        assert_eq!(node.running(), 2, "{pause:?}");
        assert_eq!(node.bed.engine.count(Call::Start), 2, "{pause:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_while_no_daemon_ran_is_started_again_once() {
    let wanted = [
        declaration("web", Rule::Always, &[]),
        declaration("job", Rule::No, &[]),
    ];
    let node = Node::new(&wanted).await;
    node.script(2, 60 * SECOND, 1);
    node.until_word("web", "running").await;
    node.until_word("job", "running").await;
    let Node {
        bed,
        tasks: old,
        csi,
    } = node;
    drop(old);
    let Bed {
        engine,
        manager,
        dir,
    } = bed;
    drop(manager);
    tokio::time::sleep(90 * SECOND).await;
    let bed = Bed::on(engine, dir, |_| {}).await;
    let tasks = tasks(&bed, &csi, None, declared(&wanted));
    let node = Node { bed, tasks, csi };
    let web = node
        .until("web", |it| it.number == 2 && it.word() == "running")
        .await;
    assert!(web.attempts[0].end.as_ref().unwrap().failed, "{web:?}");
    assert_eq!(node.until_word("job", "done").await.number, 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_is_kept_and_older_ones_go() {
    let bed = Bed::on(
        FakeEngine::with_image(IMAGE),
        tempfile::tempdir().unwrap(),
        |options: &mut ManagerOptions| {
            options.retention = Retention {
                max_age: SECOND,
                max_bytes: 0,
            };
        },
    )
    .await;
    let node = Node::on(bed, &[declaration("job", Rule::No, &[])]);
    node.script(2, SECOND, 0);
    node.until_word("job", "done").await;
    tokio::time::sleep(3600 * SECOND).await;
    let id = node.tasks.attempt("job").unwrap().unwrap();
    assert_eq!(id, "job.1");
    let error = node.bed.manager.remove(&id, true).await.unwrap_err();
    assert!(matches!(error, TaskManagerError::Kept { .. }), "{error}");
    node.tasks.start_task("job").await.unwrap();
    node.until("job", |it| it.number == 2 && it.word() == "done")
        .await;
    let mut changes = node.bed.manager.changes();
    while node.bed.manager.watch("job.1").is_ok() {
        changes.changed().await.unwrap();
    }
    assert!(node.bed.manager.watch("job.2").is_ok());
    assert!(node.tasks.attempt("nobody").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_starts_no_second_one_beside_what_runs() {
    let wanted = [declaration("web", Rule::Always, &[])];
    let node = Node::new(&wanted).await;
    node.until_word("web", "running").await;
    let Node {
        bed,
        tasks: old,
        csi,
    } = node;
    drop(old);
    std::fs::write(bed.dir.path().join("declared/web/wanted"), "no record").unwrap();
    let bed = bed.restarted(|_| {}).await;
    let options = DeclaredOptions {
        policy: longshore_backoff::RestartPolicy::default(),
        csi: csi.subscribe(),
        held: None,
    };
    let (tasks, problems) = DeclaredTasks::start(bed.manager.clone(), options, declared(&wanted));
    assert!(problems[0].contains("web"), "{problems:?}");
    let node = Node { bed, tasks, csi };
    let status = node.until_word("web", "running").await;
    assert_eq!((status.number, node.running()), (1, 1));
    node.bed.manager.stop("web.1", None).unwrap();
    node.until("web", |it| it.number == 2 && it.word() == "running")
        .await;
}

/// What a newer release writes.
#[derive(Debug)]
struct Newer;

impl Record for Newer {
    const KIND: &'static str = "tasks.wanted";
    const VERSION: u16 = 99;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        Ok(b"later".to_vec())
    }

    fn decode(_: u16, _: &[u8]) -> Result<Self, CodecError> {
        Ok(Self)
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_of_a_newer_release_is_left_as_it_is_and_nothing_is_started() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("declared/web/wanted");
    Writer::new()
        .write(&path, &Newer, Durability::Process)
        .unwrap();
    let before = std::fs::read(&path).unwrap();
    let bed = Bed::on(FakeEngine::with_image(IMAGE), dir, |_| {}).await;
    let csi = watch::Sender::default();
    let wanted = [
        declaration("web", Rule::Always, &[]),
        declaration("good", Rule::Always, &[]),
    ];
    let options = DeclaredOptions {
        policy: longshore_backoff::RestartPolicy::default(),
        csi: csi.subscribe(),
        held: None,
    };
    let (tasks, problems) = DeclaredTasks::start(bed.manager.clone(), options, declared(&wanted));
    assert!(problems[0].contains("newer release"), "{problems:?}");
    let node = Node { bed, tasks, csi };
    node.until_word("good", "running").await;
    node.apply(&wanted).await;
    node.tasks.status("web").unwrap_err();
    let by_command = Declaration {
        origin: DeclaredBy::Command,
        ..declaration("web", Rule::Always, &[])
    };
    node.tasks.declare(by_command).await.unwrap_err();
    assert_eq!(node.bed.engine.count(Call::Create), 1);
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_is_refused_is_an_attempt_with_its_reason() {
    let bad = Declaration {
        info: task(
            "bad",
            r#""container":{"type":"DOCKER","docker":{"image":"A b"}},"#,
        )
        .info,
        ..declaration("bad", Rule::Always, &[])
    };
    let node = Node::new(&[bad, declaration("good", Rule::Always, &[])]).await;
    let status = node.until_word("bad", "failing").await;
    let end = status.attempts[0].end.as_ref().unwrap();
    assert_eq!((end.ending.as_str(), end.exit_code), ("refused", 125));
    assert!(end.message.contains("A b"), "{end:?}");
    assert_eq!(
        node.until_word("good", "running")
            .await
            .task
            .as_ref()
            .unwrap()
            .phase,
        Phase::Running
    );
}
