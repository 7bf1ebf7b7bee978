use proptest::prelude::*;

use super::*;

fn target(generation: u64) -> Target {
    Target {
        driver: "disks".to_owned(),
        endpoint: "/run/csi.sock".into(),
        socket: "/reg/disks-reg.sock".into(),
        generation,
    }
}

fn at(millis: u64) -> At {
    At {
        now: Duration::from_millis(millis),
        random: 0.0,
    }
}

fn no(reason: &str) -> Result<(), String> {
    Err(reason.to_owned())
}

/// Plays events at their moments, and says what was done.
fn play(events: &[(u64, Event)]) -> (Machine, Vec<(u64, Action)>) {
    let mut machine = Machine::new(Backoff::default());
    let mut done = Vec::new();
    for (millis, event) in events {
        let actions = machine.step(event.clone(), at(*millis));
        done.extend(actions.into_iter().map(|action| (*millis, action)));
    }
    (machine, done)
}

fn bind(millis: u64) -> (u64, Action) {
    (millis, Action::Bind(target(1)))
}

#[test]
fn a_registration_from_the_first_socket_to_its_end() {
    let (machine, done) = play(&[
        (0, Event::Target(Some(target(1)))),
        (1, Event::Bound(Ok(()))),
        (2, Event::Told(Ok(()))),
        // Kubelet was started again.
        (9_000, Event::Told(Ok(()))),
        (9_500, Event::Target(Some(target(1)))),
        (9_600, Event::Changed),
        (9_700, Event::Due),
        (10_000, Event::Target(None)),
        (10_001, Event::Lost),
        (10_002, Event::Told(Ok(()))),
    ]);
    assert_eq!(done, [bind(0), (10_000, Action::Release)]);
    assert_eq!(machine.phase, Phase::Down);
}

#[test]
fn another_process_of_the_plugin_is_registered_anew() {
    let (_, done) = play(&[
        (0, Event::Target(Some(target(1)))),
        (1, Event::Bound(Ok(()))),
        (5, Event::Target(Some(target(2)))),
    ]);
    let again = (5, Action::Bind(target(2)));
    assert_eq!(done, [bind(0), (5, Action::Release), again]);
}

#[test]
fn a_refusal_is_shown_and_the_socket_made_anew_with_backoff() {
    let (machine, done) = play(&[
        (0, Event::Target(Some(target(1)))),
        (0, Event::Bound(Ok(()))),
        (100, Event::Told(no("no such node"))),
        // Kubelet tries by itself, which changes nothing but the words.
        (600, Event::Told(no("still none"))),
        (1_099, Event::Due),
        (1_100, Event::Due),
        (1_100, Event::Bound(Ok(()))),
        (1_200, Event::Told(no("no such node"))),
        (3_199, Event::Due),
        (3_200, Event::Due),
        (3_200, Event::Bound(Ok(()))),
        (3_300, Event::Told(no("no such node"))),
        // And succeeds.
        (4_000, Event::Told(Ok(()))),
        (90_000, Event::Due),
    ]);
    let released = |millis| (millis, Action::Release);
    assert_eq!(
        done,
        [
            bind(0),
            released(1_100),
            bind(1_100),
            released(3_200),
            bind(3_200)
        ]
    );
    assert_eq!(
        machine.phase,
        Phase::Registered {
            since: at(4_000).now
        }
    );
}

#[test]
fn a_registration_that_lasted_begins_its_backoff_anew() {
    let (machine, _) = play(&[
        (0, Event::Target(Some(target(1)))),
        (0, Event::Bound(Ok(()))),
        (0, Event::Told(no("a"))),
        (1_000, Event::Due),
        (1_000, Event::Bound(Ok(()))),
        (1_000, Event::Told(Ok(()))),
        (11_000, Event::Told(no("b"))),
    ]);
    assert_eq!(machine.failures, 1);
    assert_eq!(machine.deadline(), Some(at(12_000).now));
}

#[test]
fn what_is_in_the_way_is_looked_at_again_when_the_directory_changes_and_by_time() {
    let blocked = || Event::Bound(no("somebody else listens"));
    let (machine, done) = play(&[
        (0, Event::Target(Some(target(1)))),
        (0, blocked()),
        // Too soon: it is tried after a second.
        (10, Event::Changed),
        (10, Event::Changed),
        (1_000, Event::Due),
        (1_000, blocked()),
        // By the directory, before the backoff of two seconds is over.
        (2_500, Event::Changed),
        (2_500, blocked()),
        // By time: four seconds.
        (6_499, Event::Due),
        (6_500, Event::Due),
        (6_500, Event::Bound(Ok(()))),
    ]);
    assert_eq!(done, [bind(0), bind(1_000), bind(2_500), bind(6_500)]);
    assert!(machine.serves());
}

#[test]
fn a_socket_that_is_removed_is_made_again_at_once_and_then_with_backoff() {
    let (machine, done) = play(&[
        (0, Event::Target(Some(target(1)))),
        (0, Event::Bound(Ok(()))),
        (500, Event::Lost),
        (500, Event::Bound(Ok(()))),
        // Again, too soon. That the directory changes does not help here.
        (700, Event::Lost),
        (1_900, Event::Changed),
        (2_700, Event::Due),
        (2_700, Event::Bound(Ok(()))),
        // A stable one is made again at once.
        (20_000, Event::Lost),
    ]);
    let released = |millis| (millis, Action::Release);
    assert_eq!(
        done,
        [
            bind(0),
            released(500),
            bind(500),
            released(700),
            bind(2_700),
            released(20_000),
            bind(20_000)
        ]
    );
    assert_eq!(
        machine.phase,
        Phase::Binding {
            since: at(20_000).now
        }
    );
}

fn event() -> impl Strategy<Value = Event> {
    let outcome = || prop_oneof![Just(Ok(())), Just(no("no"))];
    prop_oneof![
        prop_oneof![Just(None), (1..3u64).prop_map(|it| Some(target(it)))].prop_map(Event::Target),
        Just(Event::Lost),
        Just(Event::Changed),
        outcome().prop_map(Event::Told),
        Just(Event::Due),
        Just(Event::Due),
    ]
}

proptest! {
    /// A driver that does what it is told, with a socket that comes and goes as the world likes.
    #[test]
    fn there_is_never_more_than_one_socket_and_none_without_a_target(
        events in proptest::collection::vec((event(), 0..5_000u64, 0.0..1.0, any::<bool>()), 1..200)
    ) {
        let mut machine = Machine::new(Backoff::default());
        let (mut served, mut target, mut now, mut binds) = (None, None, 0, Vec::new());
        for (event, later, random, works) in events {
            now += later;
            let at = At { now: Duration::from_millis(now), random };
            if let Event::Target(next) = &event {
                target.clone_from(next);
                binds.clear();
            }
            let mut todo = machine.step(event, at);
            for action in std::mem::take(&mut todo) {
                match action {
                    Action::Release => {
                        prop_assert!(served.take().is_some(), "nothing to release");
                    }
                    Action::Bind(wanted) => {
                        prop_assert!(served.is_none(), "a second socket");
                        prop_assert_eq!(Some(&wanted), target.as_ref());
                        binds.push(now);
                        let bound = if works { Ok(()) } else { no("no") };
                        served = works.then_some(wanted);
                        let more = machine.step(Event::Bound(bound), at);
                        prop_assert!(more.is_empty());
                    }
                }
            }
            prop_assert_eq!(machine.serves(), served.is_some());
            prop_assert_eq!(&machine.target, &target);
            if target.is_none() {
                prop_assert_eq!(&machine.phase, &Phase::Down);
            } else {
                prop_assert_ne!(&machine.phase, &Phase::Down);
                prop_assert!(machine.serves() || machine.deadline().is_some(), "given up");
            }
            // One that is as it was is tried at most about once a second, whatever happens.
            let first = binds.first().copied().unwrap_or(now);
            let most = 3 + (now - first) / 500;
            prop_assert!(binds.len() as u64 <= most, "{binds:?}");
        }
    }
}
