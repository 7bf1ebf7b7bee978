//! An executor against an agent that breaks off, hangs, answers rubbish, or is not there.

use std::time::Duration;

use longshore_agent_client::executor::{
    Ending, ExecutorConfig, ExecutorConnection, ExecutorEnvironment, ExecutorEvent, Uuid,
};
use longshore_agent_client::fake::{ExecutorFault, FakeExecutorApi, ReceivedCall};
use longshore_agent_client::{AgentError, Codec};
use longshore_mesos_api::v1::executor::{Event, call, event};
use longshore_mesos_api::v1::{
    ContainerId, ExecutorId, FrameworkId, TaskId, TaskInfo, TaskState, TaskStatus,
};

use crate::helpers::soon;

mod faults;

const FORMS: [Codec; 2] = [Codec::Protobuf, Codec::Json];

/// An agent and its executor.
struct Pair {
    agent: FakeExecutorApi,
    executor: ExecutorConnection,
}

impl Pair {
    async fn start(codec: Codec) -> Self {
        Self::start_with(FakeExecutorApi::start().await.unwrap(), codec, &[])
    }

    fn start_with(agent: FakeExecutorApi, codec: Codec, changes: &[(&str, &str)]) -> Self {
        let mut variables = agent.environment(true);
        for (name, value) in changes {
            variables.retain(|(known, _)| known != name);
            variables.push(((*name).to_owned(), (*value).to_owned()));
        }
        let environment = ExecutorEnvironment::from_variables(variables).unwrap();
        let mut config = ExecutorConfig::new(environment);
        config.codec = codec;
        Self {
            agent,
            executor: ExecutorConnection::start(config).unwrap(),
        }
    }

    /// The next event that is one of those that `pick` wants; others are passed over.
    async fn event<T>(&mut self, mut pick: impl FnMut(ExecutorEvent) -> Option<T>) -> T {
        soon(async {
            loop {
                let event = self.executor.next().await.expect("the connection lives");
                if let Some(picked) = pick(event) {
                    return picked;
                }
            }
        })
        .await
    }

    async fn subscribed(&mut self) {
        self.event(|event| matches!(event, ExecutorEvent::Subscribed(_)).then_some(()))
            .await;
    }

    async fn disconnected(&mut self) -> String {
        self.event(|event| match event {
            ExecutorEvent::Disconnected { reason } => Some(reason),
            _ => None,
        })
        .await
    }

    async fn ended(&mut self) -> Ending {
        self.event(|event| match event {
            ExecutorEvent::Ended(ending) => Some(ending),
            _ => None,
        })
        .await
    }

    /// The next call of this type; others are passed over.
    async fn call(&mut self, kind: call::Type) -> ReceivedCall {
        soon(async {
            loop {
                let received = self.agent.next_call().await.expect("the agent lives");
                if received.call.r#type() == kind {
                    return received;
                }
            }
        })
        .await
    }

    /// Tasks and updates of the next SUBSCRIBE.
    async fn carried(&mut self) -> (Vec<String>, Vec<Vec<u8>>) {
        let carried = self.call(call::Type::Subscribe).await.call.subscribe;
        let carried = carried.unwrap();
        let tasks = carried.unacknowledged_tasks.into_iter();
        let updates = carried.unacknowledged_updates.into_iter();
        (
            tasks.map(|task| task.task_id.value).collect(),
            updates.map(|update| update.status.uuid.unwrap()).collect(),
        )
    }

    async fn update(&self, state: TaskState) -> Uuid {
        let status = TaskStatus {
            task_id: id("t"),
            state: state.into(),
            ..TaskStatus::default()
        };
        soon(self.executor.handle().update(status)).await.unwrap()
    }

    fn launch(&self) {
        assert!(self.agent.send(&Event {
            r#type: Some(event::Type::Launch.into()),
            launch: Some(event::Launch {
                task: TaskInfo {
                    name: "t".into(),
                    task_id: id("t"),
                    ..TaskInfo::default()
                },
            }),
            ..Event::default()
        }));
    }

    fn acknowledge(&self, uuid: Uuid) {
        assert!(self.agent.send(&Event {
            r#type: Some(event::Type::Acknowledged.into()),
            acknowledged: Some(event::Acknowledged {
                task_id: id("t"),
                uuid: uuid.to_vec(),
            }),
            ..Event::default()
        }));
    }
}

fn id(task: &str) -> TaskId {
    TaskId { value: task.into() }
}

#[tokio::test]
async fn ex12_a_task_from_subscribe_to_the_last_acknowledgement_in_both_forms() {
    for codec in FORMS {
        let agent = FakeExecutorApi::start().await.unwrap();
        agent.subscribed_is(event::Subscribed {
            container_id: Some(ContainerId {
                value: "c1".into(),
                ..ContainerId::default()
            }),
            ..event::Subscribed::default()
        });
        let token = [("MESOS_EXECUTOR_AUTHENTICATION_TOKEN", "a.b.c")];
        let mut pair = Pair::start_with(agent, codec, &token);
        let received = pair.call(call::Type::Subscribe).await;
        assert_eq!(received.path, "/slave(1)/api/v1/executor");
        assert_eq!(received.authorization.as_deref(), Some("Bearer a.b.c"));
        assert_eq!(
            received.call.executor_id,
            ExecutorId {
                value: "executor".into()
            }
        );
        assert_eq!(
            received.call.framework_id,
            FrameworkId {
                value: "framework".into()
            }
        );
        let container = pair
            .event(|event| match event {
                ExecutorEvent::Subscribed(subscribed) => subscribed.container_id,
                _ => None,
            })
            .await;
        assert_eq!(container.value, "c1");
        pair.launch();
        let task = pair
            .event(|event| match event {
                ExecutorEvent::Launch(task) => Some(task.task_id.value),
                _ => None,
            })
            .await;
        assert_eq!(task, "t");
        let mut given = Vec::new();
        for state in [TaskState::TaskRunning, TaskState::TaskFinished] {
            given.push(pair.update(state).await);
            let received = pair.call(call::Type::Update).await;
            assert_eq!(received.authorization.as_deref(), Some("Bearer a.b.c"));
            let status = received.call.update.unwrap().status;
            assert_eq!(status.state(), state);
            assert_eq!(status.uuid.unwrap(), given[given.len() - 1]);
        }
        pair.executor.handle().finish().await;
        for uuid in given {
            pair.acknowledge(uuid);
        }
        assert_eq!(pair.ended().await, Ending::Acknowledged);
        assert!(pair.executor.next().await.is_none());
        let late = TaskStatus {
            task_id: id("t"),
            state: TaskState::TaskRunning.into(),
            ..TaskStatus::default()
        };
        let late = pair.executor.handle().update(late).await;
        assert!(matches!(late, Err(AgentError::ExecutorEnded)));
    }
}

#[tokio::test]
async fn ex15_an_agent_that_restarts_gets_what_it_has_not_acknowledged() {
    for codec in FORMS {
        let mut pair = Pair::start(codec).await;
        pair.subscribed().await;
        assert_eq!(pair.carried().await, (vec![], vec![]));
        pair.launch();
        pair.event(|event| matches!(event, ExecutorEvent::Launch(_)).then_some(()))
            .await;
        let first = pair.update(TaskState::TaskStarting).await;
        pair.call(call::Type::Update).await;
        pair.agent.stop().await;
        pair.disconnected().await;
        let second = pair.update(TaskState::TaskRunning).await;
        pair.agent.restart().await.unwrap();
        pair.subscribed().await;
        let expected = (vec!["t".to_owned()], vec![first.to_vec(), second.to_vec()]);
        assert_eq!(pair.carried().await, expected);
        pair.acknowledge(first);
        pair.acknowledge(second);
        for expected in [first, second] {
            let acknowledged = pair
                .event(|event| match event {
                    ExecutorEvent::Acknowledged { uuid, .. } => Some(uuid),
                    _ => None,
                })
                .await;
            assert_eq!(acknowledged, expected);
        }
        pair.agent.restart().await.unwrap();
        pair.subscribed().await;
        assert_eq!(pair.carried().await, (vec![], vec![]));
    }
}

#[tokio::test]
async fn ex17_an_event_in_many_chunks_and_many_events_in_one_are_the_same() {
    for codec in FORMS {
        let mut pair = Pair::start(codec).await;
        pair.subscribed().await;
        let message = |data: &[u8]| Event {
            r#type: Some(event::Type::Message.into()),
            message: Some(event::Message {
                data: data.to_vec(),
            }),
            ..Event::default()
        };
        let mut bytes = bytes::BytesMut::new();
        for number in 0..100u8 {
            let event = message(&[number; 300]);
            let event = match codec {
                Codec::Protobuf => prost::Message::encode_to_vec(&event),
                Codec::Json => longshore_mesos_api::json::to_vec(&event).unwrap(),
            };
            longshore_mesos_api::record_io::Encoder.encode(&event, &mut bytes);
        }
        assert!(pair.agent.send_bytes(bytes.clone()));
        for byte in bytes.chunks(7) {
            assert!(pair.agent.send_bytes(byte.to_vec()));
        }
        for number in (0..100u8).chain(0..100) {
            let data = pair
                .event(|event| match event {
                    ExecutorEvent::Message(data) => Some(data),
                    _ => None,
                })
                .await;
            assert_eq!(data, [number; 300]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ex16_an_agent_that_stays_away_is_waited_for_as_long_as_it_said() {
    let agent = FakeExecutorApi::start().await.unwrap();
    let mut pair = Pair::start_with(agent, Codec::Protobuf, &[]);
    while !matches!(
        pair.executor.next().await,
        Some(ExecutorEvent::Subscribed(_))
    ) {}
    pair.update(TaskState::TaskRunning).await;
    pair.agent.stop().await;
    let begun = tokio::time::Instant::now();
    loop {
        match pair.executor.next().await.unwrap() {
            ExecutorEvent::Shutdown { grace, .. } => {
                assert_eq!(grace, Duration::from_secs(5));
                break;
            }
            other => assert!(matches!(other, ExecutorEvent::Disconnected { .. })),
        }
    }
    assert!(begun.elapsed() >= Duration::from_secs(899), "{begun:?}");
    pair.executor.handle().finish().await;
    let last = pair.executor.next().await.unwrap();
    let expected = Ending::AgentLost { unacknowledged: 1 };
    assert!(matches!(last, ExecutorEvent::Ended(ending) if ending == expected));
}

#[tokio::test]
async fn ex16_without_checkpoints_the_end_of_the_stream_is_a_shutdown() {
    let agent = FakeExecutorApi::start().await.unwrap();
    let mut pair = Pair::start_with(agent, Codec::Protobuf, &[("MESOS_CHECKPOINT", "0")]);
    pair.subscribed().await;
    pair.agent.stop().await;
    pair.event(|event| matches!(event, ExecutorEvent::Shutdown { .. }).then_some(()))
        .await;
    pair.executor.handle().finish().await;
    assert_eq!(pair.ended().await, Ending::AgentLost { unacknowledged: 0 });
}

#[tokio::test]
async fn a_domain_socket_is_used_however_long_its_path() {
    let dir = tempfile::tempdir().unwrap();
    for length in [10, 50, 110] {
        let deep = dir.path().join("d".repeat(length));
        std::fs::create_dir(&deep).unwrap();
        let socket = deep.join("agent.sock");
        // Bound by a short name, as an agent that has changed its directory does.
        let short = dir.path().join(length.to_string());
        std::os::unix::fs::symlink(&deep, &short).unwrap();
        let agent = FakeExecutorApi::start_on(&short.join("agent.sock")).unwrap();
        let named = [("MESOS_DOMAIN_SOCKET", socket.to_str().unwrap())];
        let mut pair = Pair::start_with(agent, Codec::Protobuf, &named);
        pair.subscribed().await;
        pair.update(TaskState::TaskRunning).await;
        let received = pair.call(call::Type::Update).await;
        assert_eq!(received.path, "/slave(1)/api/v1/executor");
    }
}

#[tokio::test]
async fn an_executor_that_takes_no_events_stops_the_reading_and_not_the_sending() {
    let mut pair = Pair::start(Codec::Protobuf).await;
    pair.subscribed().await;
    let message = Event {
        r#type: Some(event::Type::Message.into()),
        message: Some(event::Message {
            data: vec![1; 1 << 16],
        }),
        ..Event::default()
    };
    for _ in 0..500 {
        assert!(pair.agent.send(&message));
    }
    for _ in 0..100 {
        pair.update(TaskState::TaskRunning).await;
        pair.call(call::Type::Update).await;
    }
    for _ in 0..500 {
        pair.event(|event| matches!(event, ExecutorEvent::Message(_)).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn a_dropped_connection_closes_both_its_sockets() {
    let mut pair = Pair::start(Codec::Protobuf).await;
    pair.subscribed().await;
    let handle = pair.executor.handle();
    drop(pair.executor);
    let status = TaskStatus {
        task_id: id("t"),
        state: TaskState::TaskRunning.into(),
        ..TaskStatus::default()
    };
    // The task ends soon, not at once.
    soon(async {
        while handle.update(status.clone()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    soon(async {
        while pair.agent.send_bytes("x") {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
