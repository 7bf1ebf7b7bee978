//! What plugins want of containers that run.

use longshore_docker_executor::Kill;
use longshore_engine::Resources;
use longshore_nri_api::{ContainerEviction, ContainerUpdate, LinuxContainerUpdate, LinuxResources};

use crate::bed::{Bed, ended, word};

fn id_of(bed: &Bed, place: usize) -> String {
    let created = bed.notes.created.lock().unwrap();
    created[place].container.clone().unwrap().id
}

fn update(id: &str, change: impl FnOnce(&mut LinuxResources)) -> ContainerUpdate {
    let mut resources = LinuxResources::default();
    change(&mut resources);
    ContainerUpdate {
        container_id: id.to_owned(),
        linux: Some(LinuxContainerUpdate {
            resources: Some(resources),
        }),
        ignore_failure: false,
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_one_container_changes_and_evicts_others() {
    let bed = Bed::new().await;
    let first = bed.running("first").await;
    let changed = bed.engine.containers().last().unwrap().clone();
    let evicted = bed.running("second").await;
    bed.answer(|answers| {
        let id = id_of(&bed, 0);
        answers.create.update = vec![update(&id, |it| {
            it.set_cpu_shares(7_u64);
        })];
        answers.create.evict = vec![ContainerEviction {
            container_id: id_of(&bed, 1),
            reason: "no room".to_owned(),
        }];
    });
    let _third = bed.running("third").await;
    assert_eq!(
        bed.engine.spec(&changed).unwrap().resources.cpu_shares,
        Some(7)
    );
    let last = ended(&evicted).await;
    assert_eq!(word(&last), "evicted");
    assert!(
        last.message().contains("plugin \"10-notes\": no room"),
        "{last:?}"
    );
    assert_eq!(last.state(), longshore_mesos_api::v1::TaskState::TaskFailed);
    assert!(!first.watch().borrow().over);
}

#[tokio::test(start_paused = true)]
async fn an_update_passes_the_plugins_and_may_be_changed_or_refused() {
    let bed = Bed::new().await;
    let task = bed.running("t").await;
    let container = bed.engine.containers().last().unwrap().clone();
    let wanted = Resources {
        memory: Some(64 << 20),
        ..Resources::default()
    };
    bed.executor.update(&task, wanted.clone()).await.unwrap();
    assert_eq!(
        bed.engine.spec(&container).unwrap().resources.memory,
        Some(64 << 20)
    );
    bed.answer(|answers| {
        let id = id_of(&bed, 0);
        answers.update.update = vec![update(&id, |it| {
            it.set_memory_limit(32 << 20);
        })];
    });
    bed.executor.update(&task, wanted.clone()).await.unwrap();
    assert_eq!(
        bed.engine.spec(&container).unwrap().resources.memory,
        Some(32 << 20)
    );
    let pair = ["UpdateContainer", "PostUpdateContainer"];
    assert_eq!(bed.notes.seen()[5..], [pair, pair].concat());
    bed.answer(|answers| {
        let id = id_of(&bed, 0);
        answers.update.update = vec![update(&id, |it| {
            it.unified.insert("cpu.idle".to_owned(), "1".to_owned());
        })];
    });
    let refused = bed.executor.update(&task, wanted).await.unwrap_err();
    let text = std::iter::successors(Some(&refused as &dyn std::error::Error), |it| it.source());
    let text: Vec<_> = text.map(ToString::to_string).collect();
    assert!(
        text.join(": ").contains("linux.resources.unified"),
        "{text:?}"
    );
    assert_eq!(
        bed.engine.spec(&container).unwrap().resources.memory,
        Some(32 << 20)
    );
    // Who comes now sees what it may use now.
    let state = longshore_nri_adaptation::Snapshot::snapshot(&bed.bridge)
        .await
        .unwrap();
    let linux = state.containers[0].linux.clone().unwrap();
    let memory = linux.resources.unwrap().memory.unwrap();
    assert_eq!(memory.limit.map(|it| it.value), Some(32 << 20));
    task.kill(Kill::asked());
    assert_eq!(word(&ended(&task).await), "killed");
}
