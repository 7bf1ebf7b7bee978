//! Every way in which an agent can answer wrongly.

use super::*;

#[tokio::test]
async fn a_stream_that_breaks_or_says_rubbish_is_opened_anew() {
    let huge = format!("{}\n", 1u64 << 30).into_bytes();
    let in_protobuf = b"3\n\xff\xff\xff".to_vec();
    let in_json = b"9\n[\"event\"]".to_vec();
    let short = b"100\n{\"type\"".to_vec();
    let wrong_type = b"25\n{\"type\":\"LAUNCH\",\"launch\":7}".to_vec();
    for codec in FORMS {
        let mut pair = Pair::start(codec).await;
        pair.subscribed().await;
        for (rubbish, expected) in [
            (b"rubbish\n".to_vec(), "valid length"),
            (b"-5\n12345".to_vec(), "valid length"),
            (huge.clone(), "over the limit"),
            (in_protobuf.clone(), ""),
            (in_json.clone(), ""),
            (wrong_type.clone(), ""),
        ] {
            assert!(pair.agent.send_bytes(rubbish.clone()));
            let reason = pair.disconnected().await;
            assert!(reason.contains(expected), "{rubbish:?}: {reason}");
            assert!(reason.contains("SUBSCRIBE"), "{reason}");
            pair.subscribed().await;
        }
        pair.agent.end_stream();
        assert!(pair.disconnected().await.contains("ended the stream"));
        pair.subscribed().await;
        assert!(pair.agent.send_bytes(short.clone()));
        pair.agent.end_stream();
        let reason = pair.disconnected().await;
        assert!(reason.contains("ended inside record"), "{reason}");
        pair.subscribed().await;
        // It works as on the first day.
        pair.update(TaskState::TaskRunning).await;
        pair.call(call::Type::Update).await;
    }
}

#[tokio::test]
async fn an_agent_that_does_not_answer_subscribe_as_it_should_is_asked_again() {
    let faults = [
        ExecutorFault::Status(503, "Agent has not finished recovery".into()),
        ExecutorFault::Status(404, "404 Not Found.".into()),
        ExecutorFault::Close,
        ExecutorFault::NotHttp,
        ExecutorFault::Stream("application/x-protobuf".into(), b"x".to_vec()),
    ];
    for codec in FORMS {
        let agent = FakeExecutorApi::start().await.unwrap();
        for fault in &faults {
            agent.fail(call::Type::Subscribe, fault.clone());
        }
        let mut pair = Pair::start_with(agent, codec, &[]);
        pair.subscribed().await;
        // Once it was subscribed, a refusal is waited out too.
        for fault in [
            ExecutorFault::Status(401, "Unauthorized".into()),
            ExecutorFault::Status(400, "Framework cannot be found".into()),
            ExecutorFault::Stream("text/html".into(), b"<html>".to_vec()),
        ] {
            pair.agent.fail(call::Type::Subscribe, fault);
        }
        pair.agent.end_stream();
        pair.subscribed().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_answers_subscribe_is_given_up_and_asked_again() {
    let agent = FakeExecutorApi::start().await.unwrap();
    for _ in 0..3 {
        agent.fail(call::Type::Subscribe, ExecutorFault::Hang);
    }
    let mut pair = Pair::start_with(agent, Codec::Protobuf, &[]);
    let reason = pair.disconnected().await;
    assert!(reason.contains("not subscribed within"), "{reason}");
    while let Some(event) = pair.executor.next().await {
        if matches!(event, ExecutorEvent::Subscribed(_)) {
            return;
        }
    }
    panic!("it ended");
}

#[tokio::test]
async fn an_update_that_is_not_taken_is_carried_by_the_next_subscribe() {
    for codec in FORMS {
        for fault in [
            ExecutorFault::Status(403, "Executor is not subscribed".into()),
            ExecutorFault::Status(503, "Agent has not finished recovery".into()),
            ExecutorFault::Status(500, String::new()),
            ExecutorFault::Status(400, "Executor cannot be found".into()),
            ExecutorFault::Close,
            ExecutorFault::NotHttp,
        ] {
            let mut pair = Pair::start(codec).await;
            pair.subscribed().await;
            // Where no byte came back on a connection in use the call is sent once more.
            let twice = fault == ExecutorFault::Close;
            pair.agent.fail(call::Type::Update, fault.clone());
            if twice {
                pair.agent.fail(call::Type::Update, fault.clone());
            }
            pair.carried().await;
            let uuid = pair.update(TaskState::TaskRunning).await;
            let (_, carried) = pair.carried().await;
            assert_eq!(carried, [uuid.to_vec()], "{fault:?}");
            pair.subscribed().await;
            pair.acknowledge(uuid);
            pair.executor.handle().finish().await;
            assert_eq!(pair.ended().await, Ending::Acknowledged);
        }
    }
}

#[tokio::test]
async fn ex10_an_update_that_the_agent_calls_wrong_is_told_and_dropped() {
    let mut pair = Pair::start(Codec::Json).await;
    pair.subscribed().await;
    let text = "Failed to validate Executor::Call: 'uuid'";
    pair.agent
        .fail(call::Type::Update, ExecutorFault::Status(400, text.into()));
    let uuid = pair.update(TaskState::TaskRunning).await;
    let (refused, reason) = pair
        .event(|event| match event {
            ExecutorEvent::Refused { uuid, reason, .. } => Some((uuid, reason)),
            _ => None,
        })
        .await;
    assert_eq!(refused, uuid);
    assert_eq!(reason, format!("UPDATE answered 400: {text}"));
    let next = pair.update(TaskState::TaskFinished).await;
    pair.call(call::Type::Update).await;
    pair.call(call::Type::Update).await;
    pair.executor.handle().finish().await;
    pair.acknowledge(next);
    assert_eq!(pair.ended().await, Ending::Acknowledged);
}
