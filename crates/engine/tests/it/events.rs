//! The stream of events over breaks and restarts.

use longshore_engine::{Engine as _, EventFilter, EventItem};

use crate::daemon::{Daemon, PATIENCE, Reply, answer, stream};

fn line(seconds: i64, action: &str) -> String {
    format!(
        r#"{{"Type":"container","Action":"{action}","Actor":{{"ID":"c1","Attributes":{{"exitCode":"3"}}}},"timeNano":{seconds}000000000}}"#
    ) + "\n"
}

async fn next(events: &mut longshore_engine::EventStream) -> String {
    match tokio::time::timeout(PATIENCE, events.next()).await.unwrap() {
        EventItem::Event(event) => event.action,
        EventItem::Lost(error) => {
            assert!(error.is_engine_absent(), "{error}");
            "lost".to_owned()
        }
        EventItem::Resumed => "resumed".to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn over_a_restart_each_event_is_told_once_and_the_break_too() {
    // Far ahead, so that the overlap reaches not before the opening.
    let start = 4_000_000_000_i64;
    let first = line(start, "create") + &line(start + 10, "start");
    let mut daemon = Daemon::start(move |_, _| Reply::Stay(stream(&first)));
    let mut events = daemon
        .engine()
        .events(&EventFilter::containers_labelled(["a=b"]))
        .await
        .unwrap();
    assert_eq!(next(&mut events).await, "create");
    assert_eq!(next(&mut events).await, "start");
    // It comes back refusing, then with what it remembers and what is new.
    let again = line(start + 10, "start") + &line(start + 11, "die");
    daemon
        .restart(move |number, _| match number {
            2 => answer(500, "{}"),
            _ => Reply::Stay(stream(&again)),
        })
        .await;
    for expected in ["lost", "resumed", "die"] {
        assert_eq!(next(&mut events).await, expected);
    }
    let log = daemon.log();
    let since = |request: &crate::daemon::Request| {
        let text = request.line.split("since=").nth(1).unwrap();
        text.split(['.', '&'])
            .next()
            .unwrap()
            .parse::<i64>()
            .unwrap()
    };
    // Overlapping, since events of one moment come in any order.
    assert_eq!(since(log.last().unwrap()), start + 8);
    assert!(since(&log[0]) > 1_700_000_000 && since(&log[0]) < start);
    assert!(
        log[0].line.contains("%22label%22%3A%5B%22a%3Db%22%5D"),
        "{}",
        log[0].line
    );
}

#[tokio::test]
async fn a_dropped_next_loses_nothing_and_hurries_nothing() {
    let mut daemon = Daemon::start(move |_, _| Reply::Bytes(stream(&line(1, "start"))));
    let mut events = daemon
        .engine()
        .events(&EventFilter::default())
        .await
        .unwrap();
    daemon.stop().await;
    let mut told = Vec::new();
    while told.len() < 2 {
        tokio::select! {
            biased;
            item = next(&mut events) => told.push(item),
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(told, ["start", "lost"]);
}

#[tokio::test]
async fn the_exit_code_of_a_die_is_told() {
    let daemon = Daemon::start(move |_, _| Reply::Stay(stream(&line(1, "die"))));
    let mut events = daemon
        .engine()
        .events(&EventFilter::default())
        .await
        .unwrap();
    match events.next().await {
        EventItem::Event(event) => assert_eq!(event.exit_code(), Some(3)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_no_failure() {
    let daemon = Daemon::start(move |_, _| Reply::Stay(stream("")));
    let mut events = daemon
        .engine()
        .events(&EventFilter::default())
        .await
        .unwrap();
    let day = std::time::Duration::from_secs(86_400);
    assert!(tokio::time::timeout(day, events.next()).await.is_err());
}
