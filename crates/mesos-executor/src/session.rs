//! What the executor does about what it is told: decisions alone.
//!
//! ```text
//!            Launch                  its last status, acknowledged or not
//!   waiting --------> running tasks -------------------------------------> finishing
//!      |  Shutdown       | Shutdown, Kill: kill                              (nothing is launched any more)
//!      '-----------------+--> once all are over --------------------------->
//! ```

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use longshore_agent_client::executor::ShutdownCause;
use longshore_docker_executor::{Kill, KillCause};
use longshore_mesos_api::v1::{KillPolicy, TaskId, TaskInfo, TaskState, TaskStatus};

/// What an agent keeps for itself of a shutdown's grace: a status needs time to arrive before the agent kills us.
const RESERVE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) enum Event {
    Launch(Box<TaskInfo>),
    LaunchGroup(Vec<TaskInfo>),
    Kill {
        task_id: TaskId,
        policy: Option<KillPolicy>,
    },
    /// The executor must go.
    Shutdown(ShutdownCause, Duration),
    /// A task was told to be in this state.
    Told {
        task: String,
        state: TaskState,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) enum Act {
    Launch(Box<TaskInfo>),
    Kill {
        task: String,
        kill: Kill,
    },
    /// A status of a task that is not launched.
    Say(Box<TaskStatus>),
    /// No status follows.
    Finish,
}

#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Every task that was launched, and whether it is over.
    tasks: BTreeMap<String, bool>,
    /// The executor must go; and within which grace its tasks.
    leaving: Option<Option<Duration>>,
    finishing: bool,
}

impl Session {
    pub(crate) fn step(&mut self, event: Event) -> Vec<Act> {
        let mut acts = Vec::new();
        match event {
            Event::Launch(task) => self.launch(task, &mut acts),
            Event::LaunchGroup(tasks) => {
                for task in tasks {
                    acts.push(say(
                        &task.task_id,
                        TaskState::TaskFailed,
                        "task groups are not served by the docker executor",
                    ));
                }
                self.finish_if_idle(&mut acts);
            }
            Event::Kill { task_id, policy } => match self.tasks.get(&task_id.value) {
                Some(true) => {}
                Some(false) => acts.push(Act::Kill {
                    task: task_id.value,
                    kill: Kill {
                        grace: policy.and_then(grace),
                        ..Kill::asked()
                    },
                }),
                // Whatever it was, it does not run: the scheduler gets an answer.
                None => {
                    acts.push(say(
                        &task_id,
                        TaskState::TaskKilled,
                        "killed before it was launched",
                    ));
                    self.finish_if_idle(&mut acts);
                }
            },
            Event::Shutdown(cause, grace) => {
                let within = match cause {
                    // Half of a grace that is as short as what has to be kept of it.
                    ShutdownCause::Agent => {
                        Some(grace.saturating_sub(RESERVE).max(grace / 2).min(grace))
                    }
                    // Nobody kills us: the task has its own grace.
                    _ => None,
                };
                self.leaving = Some(within);
                for (task, over) in &self.tasks {
                    if !over {
                        acts.push(Act::Kill {
                            task: task.clone(),
                            kill: Kill {
                                cause: KillCause::Shutdown,
                                reason: None,
                                grace: within,
                                signal: None,
                            },
                        });
                    }
                }
                self.finish_if_idle(&mut acts);
            }
            Event::Told { task, state } => {
                if is_terminal(state)
                    && let Some(over) = self.tasks.get_mut(&task)
                {
                    *over = true;
                    self.finish_if_idle(&mut acts);
                }
            }
        }
        acts
    }

    fn launch(&mut self, task: Box<TaskInfo>, acts: &mut Vec<Act>) {
        let id = task.task_id.value.clone();
        if self.leaving.is_some() || self.finishing {
            acts.push(say(
                &task.task_id,
                TaskState::TaskKilled,
                "the executor ends: it launches nothing any more",
            ));
        } else if let Entry::Vacant(place) = self.tasks.entry(id) {
            place.insert(false);
            acts.push(Act::Launch(task));
        }
    }

    /// The end begins when nothing runs and nothing is to come: after the tasks, or for want of any.
    fn finish_if_idle(&mut self, acts: &mut Vec<Act>) {
        let idle = self.tasks.values().all(|over| *over);
        if idle && !std::mem::replace(&mut self.finishing, true) {
            acts.push(Act::Finish);
        }
        self.finishing &= idle;
    }
}

/// A grace of the scheduler. A negative one is none at all: KILL at once.
fn grace(policy: KillPolicy) -> Option<Duration> {
    let grace = policy.grace_period?;
    Some(Duration::from_nanos(
        u64::try_from(grace.nanoseconds).unwrap_or(0),
    ))
}

pub(crate) fn is_terminal(state: TaskState) -> bool {
    !matches!(
        state,
        TaskState::TaskStaging
            | TaskState::TaskStarting
            | TaskState::TaskRunning
            | TaskState::TaskKilling
    )
}

fn say(task: &TaskId, state: TaskState, message: &str) -> Act {
    Act::Say(Box::new(TaskStatus {
        task_id: task.clone(),
        state: state.into(),
        message: Some(message.to_owned()),
        ..TaskStatus::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_mesos_api::v1::DurationInfo;

    fn id(task: &str) -> TaskId {
        TaskId { value: task.into() }
    }

    fn info(task: &str) -> TaskInfo {
        TaskInfo {
            task_id: id(task),
            ..TaskInfo::default()
        }
    }

    fn launch(task: &str) -> Event {
        Event::Launch(Box::new(info(task)))
    }

    fn told(task: &str, state: TaskState) -> Event {
        Event::Told {
            task: task.into(),
            state,
        }
    }

    fn kill(task: &str, grace: Option<i64>) -> Event {
        Event::Kill {
            task_id: id(task),
            policy: grace.map(|nanoseconds| KillPolicy {
                grace_period: Some(DurationInfo { nanoseconds }),
            }),
        }
    }

    /// Each act in short.
    fn acts(session: &mut Session, event: Event) -> Vec<String> {
        let acts = session.step(event).into_iter();
        acts.map(|act| match act {
            Act::Launch(task) => format!("launch {}", task.task_id.value),
            Act::Kill { task, kill } => format!("kill {task} {:?} {:?}", kill.cause, kill.grace),
            Act::Say(status) => format!("{:?} {}", status.state(), status.task_id.value),
            Act::Finish => "finish".to_owned(),
        })
        .collect()
    }

    #[test]
    fn one_task_from_launch_to_the_end() {
        let mut session = Session::default();
        assert_eq!(acts(&mut session, launch("t")), ["launch t"]);
        for state in [TaskState::TaskStarting, TaskState::TaskRunning] {
            assert!(acts(&mut session, told("t", state)).is_empty());
        }
        assert_eq!(
            acts(&mut session, told("t", TaskState::TaskFinished)),
            ["finish"]
        );
        assert!(acts(&mut session, kill("t", None)).is_empty());
        assert_eq!(acts(&mut session, launch("u")), ["TaskKilled u"]);
    }

    #[test]
    fn a_second_task_that_fails_does_not_end_the_first() {
        let mut session = Session::default();
        acts(&mut session, launch("t"));
        assert_eq!(acts(&mut session, launch("u")), ["launch u"]);
        assert!(acts(&mut session, told("u", TaskState::TaskFailed)).is_empty());
        assert!(acts(&mut session, launch("t")).is_empty(), "the same again");
        assert_eq!(
            acts(&mut session, kill("t", Some(0))),
            ["kill t Asked Some(0ns)"]
        );
        assert_eq!(
            acts(&mut session, told("t", TaskState::TaskKilled)),
            ["finish"]
        );
    }

    #[test]
    fn a_kill_has_the_grace_that_it_names() {
        let mut session = Session::default();
        acts(&mut session, launch("t"));
        for (given, expected) in [
            (None, "None"),
            (Some(100), "Some(100ns)"),
            (Some(-5), "Some(0ns)"),
        ] {
            let expected = format!("kill t Asked {expected}");
            assert_eq!(acts(&mut session, kill("t", given)), [expected]);
        }
    }

    #[test]
    fn a_kill_before_the_launch_is_answered() {
        let mut session = Session::default();
        assert_eq!(
            acts(&mut session, kill("t", None)),
            ["TaskKilled t", "finish"]
        );
        let mut session = Session::default();
        acts(&mut session, launch("t"));
        assert_eq!(acts(&mut session, kill("u", None)), ["TaskKilled u"]);
    }

    #[test]
    fn a_task_group_fails_as_a_whole() {
        let mut session = Session::default();
        let group = Event::LaunchGroup(vec![info("a"), info("b")]);
        assert_eq!(
            acts(&mut session, group),
            ["TaskFailed a", "TaskFailed b", "finish"]
        );
    }

    #[test]
    fn a_shutdown_kills_within_its_grace_whatever_that_is() {
        for (grace, expected) in [(5000, 3000), (3000, 1500), (2000, 1000), (1, 0), (0, 0)] {
            let mut session = Session::default();
            acts(&mut session, launch("t"));
            let shutdown = Event::Shutdown(ShutdownCause::Agent, Duration::from_millis(grace));
            let Act::Kill { kill, .. } = session.step(shutdown).remove(0) else {
                panic!("a kill");
            };
            let given = kill.grace.unwrap();
            assert_eq!(given.as_millis(), expected, "{grace}");
            assert_eq!(kill.cause, KillCause::Shutdown);
            assert_eq!(
                acts(&mut session, told("t", TaskState::TaskKilled)),
                ["finish"]
            );
        }
        let mut session = Session::default();
        acts(&mut session, launch("t"));
        let alone = Event::Shutdown(ShutdownCause::AgentLost, Duration::from_secs(5));
        assert_eq!(acts(&mut session, alone), ["kill t Shutdown None"]);
        assert_eq!(acts(&mut session, launch("u")), ["TaskKilled u"]);
    }

    #[test]
    fn a_shutdown_without_a_task_is_the_end() {
        let mut session = Session::default();
        let shutdown = || Event::Shutdown(ShutdownCause::Agent, Duration::from_secs(5));
        assert_eq!(acts(&mut session, shutdown()), ["finish"]);
        assert!(acts(&mut session, shutdown()).is_empty());
    }
}
