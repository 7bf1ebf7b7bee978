//! The fake engine: it does what a real one does, and what one will not do on demand.

use std::time::Duration;

use longshore_engine::fake::{Call, FakeEngine, LostExit, Script};
use longshore_engine::{
    ContainerSpec, ContainerStatus, Engine as _, EngineError, EventFilter, EventItem, EventStream,
    ExecSpec, ListFilter, LogOptions, LogSource, PullRequest, RemoveOptions, WaitUntil,
};

fn spec() -> ContainerSpec {
    ContainerSpec {
        labels: [("a".to_owned(), "b".to_owned())].into(),
        ..ContainerSpec::new("i")
    }
}

async fn started(engine: &FakeEngine, script: Script) -> String {
    engine.script(script);
    let id = engine.create(&spec()).await.unwrap().id;
    engine.start(&id).await.unwrap();
    id
}

async fn actions(events: &mut EventStream, count: usize) -> Vec<String> {
    let mut actions = Vec::new();
    for _ in 0..count {
        actions.push(match events.next().await {
            EventItem::Event(event) => event.action,
            EventItem::Lost(_) => "lost".to_owned(),
            _ => "resumed".to_owned(),
        });
    }
    actions
}

const GRACE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_container_does_what_its_script_says_in_virtual_time() {
    let engine = FakeEngine::with_image("i");
    let mut events = engine
        .events(&EventFilter::containers_labelled(["a=b"]))
        .await
        .unwrap();
    engine.script(Script {
        output: vec![(LogSource::Stderr, "hello".to_owned())],
        ..Script::exits(Duration::from_secs(3600), 7)
    });
    let id = engine.create(&spec()).await.unwrap().id;
    let wait = engine.wait(&id, WaitUntil::NextExit).await.unwrap();
    engine.start(&id).await.unwrap();
    assert_eq!(
        engine.inspect(&id).await.unwrap().state.status,
        ContainerStatus::Running
    );
    let begin = tokio::time::Instant::now();
    assert_eq!(wait.await.unwrap().code, 7);
    assert_eq!(begin.elapsed().as_secs(), 3600);
    let state = engine.inspect(&id).await.unwrap().state;
    assert_eq!(
        (state.status, state.exit_code, state.pid),
        (ContainerStatus::Exited, 7, None)
    );
    let mut logs = engine.logs(&id, &LogOptions::follow()).await.unwrap();
    assert_eq!(&logs.next().await.unwrap().unwrap().data[..], b"hello");
    assert!(logs.next().await.is_none());
    engine.remove(&id, RemoveOptions::default()).await.unwrap();
    assert_eq!(
        actions(&mut events, 4).await,
        ["create", "start", "die", "destroy"]
    );
    assert!(
        engine
            .inspect(&id)
            .await
            .unwrap_err()
            .is_no_such_container()
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_a_signal_a_grace_and_a_kill() {
    let engine = FakeEngine::with_image("i");
    let begin = tokio::time::Instant::now();
    let id = started(&engine, Script::default()).await;
    engine.stop(&id, GRACE).await.unwrap();
    assert_eq!(
        (engine.state(&id).unwrap().exit_code, begin.elapsed()),
        (143, Duration::ZERO)
    );
    let id = started(&engine, Script::ignores_term()).await;
    engine.stop(&id, GRACE).await.unwrap();
    assert_eq!(
        (engine.state(&id).unwrap().exit_code, begin.elapsed()),
        (137, GRACE)
    );
    assert_eq!(engine.signals(&id), ["TERM", "KILL"]);
    assert!(matches!(
        engine.stop(&id, GRACE).await,
        Err(EngineError::NotModified { .. })
    ));
    assert!(matches!(
        engine.kill(&id, "TERM").await,
        Err(EngineError::Conflict { .. })
    ));
    // A frozen one gets nothing but KILL.
    let id = started(&engine, Script::default()).await;
    engine.pause(&id).await.unwrap();
    engine.kill(&id, "SIGTERM").await.unwrap();
    assert_eq!(engine.state(&id).unwrap().status, ContainerStatus::Paused);
    engine.kill(&id, "9").await.unwrap();
    assert_eq!(engine.state(&id).unwrap().exit_code, 137);
}

#[tokio::test(start_paused = true)]
async fn the_nth_call_fails_hangs_or_loses_its_answer() {
    let engine = FakeEngine::with_image("i");
    let id = engine.create(&spec()).await.unwrap().id;
    let error = EngineError::NotModified {
        call: "inspect",
        subject: id.clone(),
    };
    engine.fail(Call::Inspect, 2, error);
    engine.hang(Call::Inspect, 3);
    assert!(engine.inspect(&id).await.is_ok());
    assert!(matches!(
        engine.inspect(&id).await,
        Err(EngineError::NotModified { .. })
    ));
    assert!(matches!(
        engine.inspect(&id).await,
        Err(EngineError::Timeout { .. })
    ));
    assert!(engine.inspect(&id).await.is_ok());
    assert_eq!(engine.count(Call::Inspect), 4);

    engine.lose_answer(Call::Create, 1);
    let lost = engine.create(&spec()).await;
    assert!(matches!(lost, Err(EngineError::Gone { .. })), "{lost:?}");
    assert_eq!(
        engine
            .list(&ListFilter::labelled(["a=b"]))
            .await
            .unwrap()
            .len(),
        2
    );

    // A start whose answer is lost has begun.
    engine.script(Script::exits(GRACE, 3));
    let id = engine.create(&spec()).await.unwrap().id;
    let wait = engine.wait(&id, WaitUntil::NextExit).await.unwrap();
    engine.lose_answer(Call::Start, 1);
    assert!(matches!(
        engine.start(&id).await,
        Err(EngineError::Gone { .. })
    ));
    assert_eq!(wait.await.unwrap().code, 3);

    engine.hang_all(Call::Kill);
    for _ in 0..2 {
        assert!(matches!(
            engine.kill(&id, "KILL").await,
            Err(EngineError::Timeout { .. })
        ));
    }
    engine.heal();
    assert!(matches!(
        engine.kill(&id, "KILL").await,
        Err(EngineError::Conflict { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn an_exit_can_be_lost_for_clients_or_for_the_engine() {
    let engine = FakeEngine::with_image("i");
    for (lost, shown) in [
        (LostExit::Clients, ContainerStatus::Exited),
        (LostExit::Engine, ContainerStatus::Running),
    ] {
        let id = started(&engine, Script::default()).await;
        let mut events = engine.events(&EventFilter::default()).await.unwrap();
        let mut wait = engine.wait(&id, WaitUntil::NextExit).await.unwrap();
        engine.lose_exit(&id, lost);
        assert!(engine.exit(&id, 5));
        let day = Duration::from_secs(86_400);
        assert!(tokio::time::timeout(day, &mut wait).await.is_err());
        assert!(tokio::time::timeout(day, events.next()).await.is_err());
        assert_eq!(engine.inspect(&id).await.unwrap().state.status, shown);
        assert_eq!(engine.state(&id).unwrap().exit_code, 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_dies_breaks_everything_off_and_ends_containers_or_not() {
    for (live_restore, code) in [(true, 0), (false, 255)] {
        let engine = FakeEngine::with_image("i");
        let id = started(&engine, Script::default()).await;
        let mut events = engine.events(&EventFilter::default()).await.unwrap();
        let wait = engine.wait(&id, WaitUntil::NextExit).await.unwrap();
        engine.daemon_down();
        assert!(matches!(wait.await, Err(EngineError::Gone { .. })));
        assert!(matches!(
            engine.inspect(&id).await,
            Err(EngineError::Unreachable { .. })
        ));
        engine.daemon_up(live_restore);
        assert_eq!(actions(&mut events, 2).await, ["lost", "resumed"]);
        assert_eq!(engine.inspect(&id).await.unwrap().state.exit_code, code);
    }
}

#[tokio::test(start_paused = true)]
async fn broken_events_tell_nothing_of_what_happened_meanwhile() {
    let engine = FakeEngine::with_image("i");
    let id = started(&engine, Script::default()).await;
    let mut events = engine.events(&EventFilter::default()).await.unwrap();
    engine.break_events();
    engine.exit(&id, 0);
    engine.mend_events();
    engine.start(&id).await.unwrap();
    assert_eq!(actions(&mut events, 3).await, ["lost", "resumed", "start"]);
}

#[tokio::test(start_paused = true)]
async fn pulls_take_their_time_are_shared_and_stall() {
    let engine = FakeEngine::new();
    engine.add_to_registry("i", Duration::from_secs(60));
    engine.add_to_registry("slow", Duration::from_secs(600));
    let (mut one, mut two) = (
        engine.pull(PullRequest::new("i")),
        engine.pull(PullRequest::new("i")),
    );
    let (one, two) = tokio::join!(one.done(), two.done());
    assert_eq!(one.unwrap(), two.unwrap());
    assert_eq!(engine.count(Call::Pull), 1);
    let stalled = engine.pull(PullRequest::new("slow")).done().await;
    assert!(
        matches!(stalled, Err(EngineError::PullStalled { .. })),
        "{stalled:?}"
    );
    let absent = engine.pull(PullRequest::new("absent")).done().await;
    assert!(absent.unwrap_err().is_no_such_image());
}

#[tokio::test(start_paused = true)]
async fn commands_in_a_container_end_as_scripted() {
    let engine = FakeEngine::with_image("i");
    let id = started(
        &engine,
        Script {
            exec: Some((GRACE, 4)),
            ..Script::default()
        },
    )
    .await;
    let command = ExecSpec {
        cmd: vec!["x".into()],
        ..ExecSpec::default()
    };
    let exec = engine.exec_create(&id, &command).await.unwrap();
    let mut output = engine.exec_start(&exec).await.unwrap();
    assert!(engine.exec_inspect(&exec).await.unwrap().running);
    assert!(output.next().await.is_none());
    assert_eq!(engine.exec_inspect(&exec).await.unwrap().exit_code, Some(4));
    assert!(engine.exec_create(&id, &ExecSpec::default()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_a_real_engine_would_not_be_sent_is_refused() {
    let engine = FakeEngine::with_image("i");
    let bad = ContainerSpec {
        name: Some("a/b".into()),
        ..spec()
    };
    assert!(matches!(
        engine.create(&bad).await,
        Err(EngineError::InvalidSpec { .. })
    ));
    assert_eq!(engine.count(Call::Create), 0);
    let named = ContainerSpec {
        name: Some("ab".into()),
        ..spec()
    };
    engine.create(&named).await.unwrap();
    assert!(matches!(
        engine.create(&named).await,
        Err(EngineError::Conflict { .. })
    ));
}
