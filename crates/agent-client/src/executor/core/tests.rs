use longshore_mesos_api::v1::{AgentInfo, KillPolicy, TaskGroupInfo, TaskId};

use longshore_mesos_api::v1::TaskState;
use longshore_mesos_api::v1::executor::call;

use super::*;

mod away;

const BACKOFF: Duration = Duration::from_secs(2);
const RECOVERY: Duration = Duration::from_secs(900);
const GRACE: Duration = Duration::from_secs(5);

/// A core with what it did last, in virtual time.
pub(super) struct Bench {
    pub(super) core: Core,
    now: Duration,
    pub(super) actions: Vec<Action>,
}

impl Bench {
    pub(super) fn new(checkpoint: bool) -> Self {
        Self::with(|settings| {
            if !checkpoint {
                settings.checkpoint = None;
            }
        })
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            framework_id: FrameworkId { value: "f".into() },
            executor_id: ExecutorId { value: "e".into() },
            checkpoint: Some(Checkpoint {
                recovery_timeout: RECOVERY,
                backoff_max: BACKOFF,
            }),
            shutdown_grace: GRACE,
            local: false,
        };
        change(&mut settings);
        Self {
            core: Core::new(settings),
            now: Duration::ZERO,
            actions: Vec::new(),
        }
    }

    /// One that is subscribed.
    fn subscribed(checkpoint: bool) -> Self {
        let mut bench = Self::new(checkpoint);
        bench.step(Event::Start);
        bench.subscribe();
        bench
    }

    pub(super) fn step(&mut self, event: Event) -> &[Action] {
        self.actions.clear();
        let at = At {
            now: self.now,
            random: 0.5,
        };
        self.core.step(event, at, &mut self.actions);
        &self.actions
    }

    pub(super) fn subscribe(&mut self) {
        self.step(of_agent(executor::Event {
            subscribed: Some(event::Subscribed {
                agent_info: AgentInfo::default(),
                ..event::Subscribed::default()
            }),
            ..typed(event::Type::Subscribed)
        }));
        assert!(self.core.is_subscribed());
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// What the last step told.
    fn told(&self) -> Vec<String> {
        let told = self.actions.iter().filter_map(|action| match action {
            Action::Tell(event) => Some(event),
            _ => None,
        });
        told.map(|event| match event {
            ExecutorEvent::Subscribed(_) => "subscribed".to_owned(),
            ExecutorEvent::Launch(task) => format!("launch {}", task.task_id.value),
            ExecutorEvent::LaunchGroup(tasks) => format!("group of {}", tasks.len()),
            ExecutorEvent::Kill { task_id, policy } => {
                format!("kill {} {}", task_id.value, policy.is_some())
            }
            ExecutorEvent::Acknowledged { task_id, uuid, .. } => {
                format!("acknowledged {} {}", task_id.value, uuid[0])
            }
            ExecutorEvent::Refused { uuid, reason, .. } => format!("refused {} {reason}", uuid[0]),
            ExecutorEvent::Message(data) => format!("message {data:?}"),
            ExecutorEvent::Error(text) => format!("error {text}"),
            ExecutorEvent::Disconnected { reason } => format!("disconnected: {reason}"),
            ExecutorEvent::Shutdown { cause, grace } => format!("shutdown {cause:?} {grace:?}"),
            ExecutorEvent::Ended(ending) => format!("ended {ending:?}"),
        })
        .collect()
    }

    fn armed(&self, timer: Timer) -> Option<Duration> {
        self.actions.iter().rev().find_map(|action| match action {
            Action::Arm(armed, after) if *armed == timer => Some(*after),
            _ => None,
        })
    }

    fn disarmed(&self, timer: Timer) -> bool {
        let is_it = |action: &Action| matches!(action, Action::Disarm(it) if *it == timer);
        self.actions.iter().any(is_it)
    }

    /// Tasks and updates of the SUBSCRIBE of the last step.
    pub(super) fn subscribes_with(&self) -> Option<(Vec<String>, Vec<u8>)> {
        self.actions.iter().find_map(|action| match action {
            Action::Subscribe(call) => {
                assert_eq!(call.r#type(), call::Type::Subscribe);
                let carried = call.subscribe.clone().unwrap();
                let tasks = carried.unacknowledged_tasks.into_iter();
                let updates = carried.unacknowledged_updates.into_iter();
                Some((
                    tasks.map(|task| task.task_id.value).collect(),
                    updates
                        .map(|update| update.status.uuid.unwrap()[0])
                        .collect(),
                ))
            }
            _ => None,
        })
    }

    /// The call of the last step: its type, and the update in it.
    pub(super) fn sends(&self) -> Option<(call::Type, Option<u8>)> {
        self.actions.iter().find_map(|action| match action {
            Action::Send(call) => {
                assert_eq!(call.executor_id.value, "e");
                assert_eq!(call.framework_id.value, "f");
                let update = call.update.clone();
                let number = update.map(|update| update.status.uuid.unwrap()[0]);
                Some((call.r#type(), number))
            }
            _ => None,
        })
    }

    fn update(&mut self, task: &str, number: u8, state: TaskState) {
        self.step(update(task, number, state));
    }

    fn acknowledge(&mut self, task: &str, number: u8) {
        self.step(acknowledged(task, number));
    }
}

pub(super) fn id(task: &str) -> TaskId {
    TaskId { value: task.into() }
}

fn typed(kind: event::Type) -> executor::Event {
    executor::Event {
        r#type: Some(kind.into()),
        ..executor::Event::default()
    }
}

pub(super) fn of_agent(event: executor::Event) -> Event {
    Event::Agent(Box::new(event))
}

pub(super) fn launch(task: &str) -> Event {
    of_agent(executor::Event {
        launch: Some(event::Launch {
            task: TaskInfo {
                task_id: id(task),
                ..TaskInfo::default()
            },
        }),
        ..typed(event::Type::Launch)
    })
}

pub(super) fn acknowledged(task: &str, number: u8) -> Event {
    of_agent(executor::Event {
        acknowledged: Some(event::Acknowledged {
            task_id: id(task),
            uuid: vec![number; 16],
        }),
        ..typed(event::Type::Acknowledged)
    })
}

pub(super) fn update(task: &str, number: u8, state: TaskState) -> Event {
    let status = TaskStatus {
        task_id: id(task),
        state: state.into(),
        uuid: Some(vec![number; 16]),
        ..TaskStatus::default()
    };
    Event::Update(Box::new(status), [number; 16])
}

fn broken() -> Event {
    Event::StreamEnded("cut".into())
}

const RUNNING: TaskState = TaskState::TaskRunning;
const FINISHED: TaskState = TaskState::TaskFinished;

#[test]
fn the_first_subscription_carries_nothing_and_is_bounded() {
    let mut bench = Bench::new(true);
    bench.step(Event::Start);
    assert_eq!(bench.subscribes_with(), Some((vec![], vec![])));
    assert_eq!(bench.armed(Timer::Attempt), Some(ATTEMPT));
    bench.subscribe();
    assert_eq!(bench.told(), ["subscribed"]);
    assert!(bench.disarmed(Timer::Attempt) && bench.disarmed(Timer::Recovery));
    assert_eq!(bench.armed(Timer::Heartbeat), Some(HEARTBEAT));
}

#[test]
fn events_of_the_agent_are_told() {
    let mut bench = Bench::subscribed(true);
    bench.step(launch("t"));
    assert_eq!(bench.told(), ["launch t"]);
    let group = event::LaunchGroup {
        task_group: TaskGroupInfo {
            tasks: vec![TaskInfo::default(), TaskInfo::default()],
        },
    };
    let kill = |policy| event::Kill {
        task_id: id("t"),
        kill_policy: policy,
    };
    for (event, expected) in [
        (
            executor::Event {
                launch_group: Some(group),
                ..typed(event::Type::LaunchGroup)
            },
            "group of 2",
        ),
        (
            executor::Event {
                kill: Some(kill(None)),
                ..typed(event::Type::Kill)
            },
            "kill t false",
        ),
        (
            executor::Event {
                kill: Some(kill(Some(KillPolicy::default()))),
                ..typed(event::Type::Kill)
            },
            "kill t true",
        ),
        (
            executor::Event {
                message: Some(event::Message { data: vec![7] }),
                ..typed(event::Type::Message)
            },
            "message [7]",
        ),
    ] {
        bench.step(of_agent(event));
        assert_eq!(bench.told(), [expected]);
    }
}

#[test]
fn ex13_a_heartbeat_an_unknown_type_and_an_event_without_its_part_mean_nothing() {
    let mut bench = Bench::subscribed(true);
    let unknown = executor::Event {
        r#type: Some(4711),
        ..executor::Event::default()
    };
    for event in [
        typed(event::Type::Heartbeat),
        typed(event::Type::Unknown),
        executor::Event::default(),
        unknown,
        typed(event::Type::Launch),
        typed(event::Type::LaunchGroup),
        typed(event::Type::Kill),
        typed(event::Type::Message),
        typed(event::Type::Acknowledged),
        typed(event::Type::Subscribed),
    ] {
        assert!(bench.step(of_agent(event)).is_empty());
    }
}

#[test]
fn updates_are_sent_one_by_one_in_order_and_kept_until_acknowledged() {
    let mut bench = Bench::subscribed(true);
    bench.update("t", 1, RUNNING);
    assert_eq!(bench.sends(), Some((call::Type::Update, Some(1))));
    bench.update("t", 2, RUNNING);
    bench.update("t", 3, FINISHED);
    assert_eq!(bench.sends(), None, "one is on its way");
    // The acknowledgement may be quicker than the answer.
    bench.acknowledge("t", 1);
    assert_eq!(bench.told(), ["acknowledged t 1"]);
    bench.step(Event::Sent(Outcome::Accepted));
    assert_eq!(bench.sends(), Some((call::Type::Update, Some(2))));
    bench.step(Event::Sent(Outcome::Accepted));
    assert_eq!(bench.sends(), Some((call::Type::Update, Some(3))));
    bench.step(Event::Sent(Outcome::Accepted));
    assert_eq!(bench.sends(), None);
    // Of an unknown update, of one that is acknowledged already, or with a broken id.
    for (task, number) in [("t", 1), ("t", 99)] {
        bench.acknowledge(task, number);
        assert!(bench.actions.is_empty());
    }
    bench.acknowledge("t", 2);
    bench.acknowledge("t", 3);
    assert_eq!(bench.told(), ["acknowledged t 3"]);
}

#[test]
fn ex15_what_is_unacknowledged_is_carried_by_the_next_subscribe_in_order() {
    let mut bench = Bench::subscribed(true);
    bench.step(launch("t"));
    bench.step(launch("u"));
    bench.step(launch("t"));
    bench.update("t", 1, RUNNING);
    bench.step(Event::Sent(Outcome::Accepted));
    bench.update("t", 2, RUNNING);
    bench.pass(BACKOFF);
    bench.step(broken());
    assert_eq!(bench.told(), ["disconnected: cut"]);
    let expected = (vec!["t".to_owned(), "u".to_owned()], vec![1, 2]);
    assert_eq!(bench.subscribes_with(), Some(expected));
    // Given while the attempt is on its way: sent after it.
    bench.update("u", 3, RUNNING);
    assert_eq!(bench.sends(), None);
    bench.subscribe();
    assert_eq!(bench.sends(), Some((call::Type::Update, Some(3))));
    bench.step(Event::Sent(Outcome::Accepted));
    for (task, number) in [("t", 1), ("t", 2), ("u", 3)] {
        bench.acknowledge(task, number);
    }
    bench.pass(BACKOFF);
    bench.step(broken());
    assert_eq!(bench.subscribes_with(), Some((vec![], vec![])));
}

#[test]
fn a_task_is_carried_until_its_first_update_is_acknowledged() {
    let mut bench = Bench::subscribed(true);
    bench.step(launch("t"));
    bench.update("t", 1, RUNNING);
    bench.update("t", 2, RUNNING);
    bench.acknowledge("t", 1);
    bench.pass(BACKOFF);
    bench.step(broken());
    assert_eq!(bench.subscribes_with(), Some((vec![], vec![2])));
}

#[test]
fn a_call_that_fails_makes_the_connection_anew() {
    for outcome in [Outcome::Failed("403".into()), Outcome::Unknown] {
        let mut bench = Bench::subscribed(true);
        bench.pass(BACKOFF);
        bench.update("t", 1, RUNNING);
        bench.step(Event::Sent(outcome));
        assert!(matches!(bench.actions[0], Action::Close));
        assert_eq!(bench.subscribes_with(), Some((vec![], vec![1])));
    }
}

#[test]
fn an_update_that_is_wrong_in_itself_does_not_hold_up_the_next() {
    let mut bench = Bench::subscribed(true);
    bench.update("t", 1, RUNNING);
    bench.update("t", 2, FINISHED);
    bench.step(Event::Sent(Outcome::Invalid("400: no".into())));
    assert_eq!(bench.told(), ["refused 1 400: no"]);
    assert_eq!(bench.sends(), Some((call::Type::Update, Some(2))));
}

#[test]
fn heartbeats_are_sent_until_an_agent_does_not_know_them() {
    let mut bench = Bench::subscribed(true);
    bench.step(Event::Fired(Timer::Heartbeat));
    assert_eq!(bench.sends(), Some((call::Type::Heartbeat, None)));
    assert_eq!(bench.armed(Timer::Heartbeat), Some(HEARTBEAT));
    bench.step(Event::Sent(Outcome::Accepted));
    bench.update("t", 1, RUNNING);
    bench.step(Event::Fired(Timer::Heartbeat));
    assert_eq!(bench.sends(), None, "an update is on its way");
    bench.step(Event::Sent(Outcome::Accepted));
    assert_eq!(bench.sends(), Some((call::Type::Heartbeat, None)));
    bench.step(Event::Sent(Outcome::Unknown));
    assert!(bench.disarmed(Timer::Heartbeat) && bench.core.is_subscribed());
}

#[test]
fn messages_are_sent_after_updates_and_lost_without_a_subscription() {
    let mut bench = Bench::subscribed(true);
    for _ in 0..MAX_MESSAGES * 2 {
        bench.step(Event::Message(vec![1]));
    }
    bench.update("t", 1, RUNNING);
    bench.step(Event::Sent(Outcome::Accepted));
    assert_eq!(bench.sends(), Some((call::Type::Update, Some(1))));
    let mut sent = 1;
    bench.step(Event::Sent(Outcome::Accepted));
    while bench.sends() == Some((call::Type::Message, None)) {
        sent += 1;
        bench.step(Event::Sent(Outcome::Accepted));
    }
    assert_eq!(sent, MAX_MESSAGES + 1);
    bench.step(broken());
    bench.step(Event::Message(vec![2]));
    bench.step(Event::Fired(Timer::Retry));
    bench.subscribe();
    assert_eq!(bench.sends(), None);
}

#[test]
fn an_error_of_the_agent_is_told_and_makes_the_connection_anew() {
    let mut bench = Bench::subscribed(true);
    bench.pass(BACKOFF);
    bench.step(of_agent(executor::Event {
        error: Some(event::Error {
            message: "odd".into(),
        }),
        ..typed(event::Type::Error)
    }));
    assert_eq!(bench.told()[0], "error odd");
    assert!(bench.subscribes_with().is_some());
}

#[test]
fn an_older_running_gives_way_when_too_many_updates_wait() {
    let mut bench = Bench::subscribed(true);
    bench.update("t", 0, TaskState::TaskStarting);
    bench.update("u", 1, RUNNING);
    for number in 0..2000u16 {
        let number = u8::try_from(number % 200).unwrap() + 2;
        bench.update("t", number, RUNNING);
    }
    bench.update("t", 255, FINISHED);
    assert!(bench.core.updates.len() <= MAX_UPDATES + 1);
    bench.pass(BACKOFF);
    bench.step(broken());
    let (_, updates) = bench.subscribes_with().unwrap();
    assert_eq!(updates[..2], [0, 1]);
    assert_eq!(
        updates[updates.len() - 2..],
        [201, 255],
        "the newest are there"
    );
}

#[test]
fn tasks_over_the_bound_are_not_taken() {
    let mut bench = Bench::subscribed(true);
    for number in 0..MAX_TASKS {
        bench.step(launch(&number.to_string()));
        assert_eq!(bench.told().len(), 1);
    }
    bench.step(launch("one more"));
    assert!(bench.actions.is_empty());
}
