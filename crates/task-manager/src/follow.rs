//! One task from its executor to everybody: the one writer of its status.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_docker_executor::{LogMode, Task, TaskView, labels};
use longshore_mesos_api::v1::task_status::Reason;
use longshore_mesos_api::v1::{TaskState, TaskStatus as MesosStatus};
use tokio::sync::watch;

use crate::{Phase, TaskStatus};

/// A task of the manager.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    pub(crate) task: Task,
    pub(crate) status: watch::Receiver<Arc<TaskStatus>>,
}

/// Begins to follow a task. `changed` grows with each change of any task.
pub(crate) fn follow(task: Task, sandbox: PathBuf, changed: watch::Sender<u64>) -> Handle {
    let mut view = task.watch();
    let first = {
        let view = view.borrow_and_update();
        let last = task.last_status();
        of(
            &task,
            &sandbox,
            &view,
            last.as_ref(),
            &TaskStatus::default(),
        )
    };
    let ended = first.has_ended();
    if !ended {
        log(&TaskStatus::default(), &first);
    }
    let (sender, status) = watch::channel(Arc::new(first));
    changed.send_modify(|generation| *generation += 1);
    // Of one that has ended nothing changes any more.
    if !ended {
        let task = task.clone();
        drop(tokio::spawn(async move {
            let mut updates = task.updates();
            let mut last = task.last_status();
            loop {
                tokio::select! {
                    update = updates.next() => last = Some(update),
                    seen = view.changed() => if seen.is_err() { return },
                }
                let view = view.borrow_and_update().clone();
                let before = Arc::clone(&sender.borrow());
                let next = of(&task, &sandbox, &view, last.as_ref(), &before);
                if next != *before {
                    let ended = next.has_ended();
                    log(&before, &next);
                    let next = TaskStatus {
                        generation: before.generation + 1,
                        ..next
                    };
                    sender.send_replace(Arc::new(next));
                    changed.send_modify(|generation| *generation += 1);
                    if ended {
                        return;
                    }
                }
            }
        }));
    }
    Handle { task, status }
}

/// Each change of the state is one line.
fn log(before: &TaskStatus, next: &TaskStatus) {
    let (task, from, to) = (&next.id, before.state, next.state);
    if from != to {
        let (reason, ending) = (&next.message, &next.ending);
        let code = next.has_ended().then_some(next.exit_code);
        tracing::info!(task, from, to, reason, ending, code, "task");
    }
    if next.waiting != before.waiting
        && let Some(reason) = &next.waiting
    {
        tracing::info!(task, reason, "the launch of a task waits");
    }
}

/// The status of now. Its generation is the one before.
fn of(
    task: &Task,
    sandbox: &std::path::Path,
    view: &TaskView,
    last: Option<&MesosStatus>,
    before: &TaskStatus,
) -> TaskStatus {
    let info = task.info();
    let docker = info.container.as_ref().and_then(|it| it.docker.as_ref());
    let state = last.map(MesosStatus::state);
    let phase = phase(state);
    let ended = phase == Phase::Ended;
    let unhealthy = last.is_some_and(|last| last.healthy == Some(false));
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let addresses = last
        .and_then(|last| last.container_status.as_ref())
        .map_or_else(
            || before.addresses.clone(),
            |status| {
                let all = status
                    .network_infos
                    .iter()
                    .flat_map(|info| &info.ip_addresses);
                all.filter_map(|address| address.ip_address.clone())
                    .collect()
            },
        );
    TaskStatus {
        id: task.id().to_owned(),
        name: info.name.clone(),
        image: docker
            .map(|docker| docker.image.clone())
            .unwrap_or_default(),
        container: task.container_name().to_owned(),
        phase,
        state: state.map_or("", |state| state.as_str_name()),
        reason: last
            .and_then(|last| last.reason)
            .and_then(|reason| Reason::try_from(reason).ok())
            .map_or("", |reason| reason.as_str_name()),
        message: match last.map(|last| text(&last.message)) {
            // What was said of its health is why.
            None | Some(_) if phase == Phase::Killing && unhealthy => before.message.clone(),
            message => message.unwrap_or_default(),
        },
        ending: last.filter(|_| ended).and_then(ending).unwrap_or_default(),
        exit_code: last
            .filter(|_| ended)
            .and_then(|last| label(last, labels::EXIT_CODE)?.parse().ok())
            .unwrap_or_default(),
        launched: task.launched(),
        ended: last
            .filter(|_| ended)
            .and_then(|last| Duration::try_from_secs_f64(last.timestamp?).ok()),
        healthy: last.and_then(|last| last.healthy).filter(|_| !ended),
        addresses,
        sandbox: (task.log_mode() == LogMode::Files).then(|| sandbox.to_owned()),
        labels: info
            .labels
            .iter()
            .flat_map(|labels| &labels.labels)
            .map(|label| (label.key.clone(), text(&label.value)))
            .collect(),
        generation: before.generation,
        pull: view.pull.clone().filter(|_| !ended),
        waiting: view.problem.clone().filter(|_| phase == Phase::Starting),
        data: last
            .and_then(|last| last.data.clone())
            .unwrap_or_else(|| before.data.clone()),
    }
}

fn phase(state: Option<TaskState>) -> Phase {
    match state {
        None | Some(TaskState::TaskStaging | TaskState::TaskStarting) => Phase::Starting,
        Some(TaskState::TaskRunning) => Phase::Running,
        Some(TaskState::TaskKilling) => Phase::Killing,
        Some(_) => Phase::Ended,
    }
}

/// The word for how a task has ended.
pub(crate) fn ending(status: &MesosStatus) -> Option<String> {
    label(status, labels::ENDING)
}

fn label(status: &MesosStatus, key: &str) -> Option<String> {
    let labels = status.labels.as_ref()?;
    let label = labels.labels.iter().find(|label| label.key == key)?;
    label.value.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_phase_and_only_last_ones_are_ends() {
        for (state, expected) in [
            (None, Phase::Starting),
            (Some(TaskState::TaskStarting), Phase::Starting),
            (Some(TaskState::TaskRunning), Phase::Running),
            (Some(TaskState::TaskKilling), Phase::Killing),
            (Some(TaskState::TaskFinished), Phase::Ended),
            (Some(TaskState::TaskFailed), Phase::Ended),
            (Some(TaskState::TaskKilled), Phase::Ended),
            (Some(TaskState::TaskError), Phase::Ended),
        ] {
            assert_eq!(phase(state), expected, "{state:?}");
        }
    }
}
