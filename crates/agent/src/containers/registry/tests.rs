use super::*;
use proptest::prelude::*;

fn id(text: &str) -> ContainerId {
    text.parse().unwrap()
}

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn status(status: i32) -> ExitInfo {
    ExitInfo {
        status: Some(status),
        ..ExitInfo::default()
    }
}

/// A registry after these events, which must all have been taken.
fn after(events: &[(&str, Event)]) -> Registry {
    let mut registry = Registry::new(Limits {
        containers: 8,
        retention: Duration::from_secs(60),
    });
    for (name, event) in events {
        let (answer, _) = registry.step(&id(name), event.clone(), at(0));
        assert_eq!(answer, Answer::Ok, "{name} {event:?}");
    }
    registry
}

fn launch(name: &'static str) -> [(&'static str, Event); 2] {
    [(name, Event::Launch), (name, Event::Started)]
}

fn refused(answer: &Answer) -> &str {
    match answer {
        Answer::Refused(_, text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_id_is_taken_until_the_container_has_exited() {
    let mut registry = after(&[("c", Event::Launch)]);
    let ask = |registry: &mut Registry| registry.step(&id("c"), Event::Launch, at(1));
    assert_eq!(ask(&mut registry).0, Answer::AlreadyPresent);
    registry.step(&id("c"), Event::Started, at(1));
    assert_eq!(ask(&mut registry).0, Answer::AlreadyPresent);
    registry.step(&id("c"), Event::Kill { signal: 9 }, at(1));
    assert_eq!(ask(&mut registry).0, Answer::AlreadyPresent, "dying");
    registry.step(&id("c"), Event::Ended(status(9)), at(1));
    let (answer, actions) = ask(&mut registry);
    assert_eq!(answer, Answer::Ok);
    assert_eq!(
        actions,
        [Action::Forget {
            id: id("c"),
            sandbox: false
        }]
    );
    assert_eq!(
        registry.get(&id("c")),
        Some(&Life::Starting { kill: false })
    );
}

#[test]
fn a_kill_before_the_first_process_waits_for_it() {
    for (signal, killed) in [(9, true), (15, true), (0, false)] {
        let mut registry = after(&[("c", Event::Launch), ("c", Event::Kill { signal })]);
        let (_, actions) = registry.step(&id("c"), Event::Started, at(1));
        let expected = if killed {
            vec![Action::EndTree(id("c"))]
        } else {
            Vec::new()
        };
        assert_eq!(actions, expected, "signal {signal}");
    }
}

#[test]
fn signal_9_ends_the_tree_and_others_go_to_the_first_process() {
    let mut registry = after(&launch("c"));
    let mut kill = |signal| registry.step(&id("c"), Event::Kill { signal }, at(1));
    assert_eq!(kill(15), (Answer::Ok, vec![Action::Signal(id("c"), 15)]));
    assert_eq!(kill(9), (Answer::Ok, vec![Action::EndTree(id("c"))]));
    assert_eq!(kill(9).0, Answer::Ok, "again");
    registry.step(&id("c"), Event::Ended(status(9)), at(1));
    for name in ["c", "unknown"] {
        let (answer, actions) = registry.step(&id(name), Event::Kill { signal: 9 }, at(1));
        assert_eq!((answer, actions), (Answer::NotFound, Vec::new()), "{name}");
    }
}

#[test]
fn a_nested_container_needs_a_running_parent() {
    let mut registry = after(&[("p", Event::Launch)]);
    let ask = |registry: &mut Registry, name: &str| {
        refused(&registry.step(&id(name), Event::Launch, at(1)).0).to_owned()
    };
    assert_eq!(
        ask(&mut registry, "x.n"),
        "Parent container x does not exist"
    );
    assert_eq!(
        ask(&mut registry, "p.n"),
        "Parent container p is being started"
    );
    registry.step(&id("p"), Event::Started, at(1));
    registry.step(&id("p"), Event::Kill { signal: 9 }, at(1));
    assert_eq!(
        ask(&mut registry, "p.n"),
        "Parent container p is being destroyed"
    );
    registry.step(&id("p"), Event::Ended(status(9)), at(1));
    assert_eq!(
        ask(&mut registry, "p.n"),
        "Parent container p does not exist"
    );
}

#[test]
fn the_end_of_a_parent_ends_its_children_first() {
    let mut registry = after(
        &[
            launch("p"),
            launch("p.n"),
            launch("p.n.m"),
            launch("p.done"),
        ]
        .concat(),
    );
    registry.step(&id("p.done"), Event::Ended(status(0)), at(1));
    let (_, actions) = registry.step(&id("p"), Event::Ended(status(256)), at(2));
    assert_eq!(actions, [Action::EndTree(id("p.n"))]);
    assert!(matches!(registry.get(&id("p")), Some(Life::Ending { .. })));
    let (_, actions) = registry.step(&id("p.n"), Event::Ended(status(9)), at(3));
    assert_eq!(actions, [Action::EndTree(id("p.n.m"))]);
    let (_, actions) = registry.step(&id("p.n.m"), Event::Ended(status(9)), at(4));
    let forget = |name| Action::Forget {
        id: id(name),
        sandbox: false,
    };
    assert_eq!(
        actions,
        [
            Action::Publish(id("p.n.m"), status(9)),
            forget("p.n.m"),
            Action::Publish(id("p.n"), status(9)),
            forget("p.done"),
            forget("p.n"),
            Action::Publish(id("p"), status(256)),
        ]
        .into_iter()
        .collect::<Vec<_>>()
    );
    assert_eq!(
        registry.get(&id("p")),
        Some(&Life::Exited {
            exit: status(256),
            at: at(4)
        })
    );
}

#[test]
fn a_nested_exit_is_kept_until_remove_and_can_be_launched_anew() {
    let mut registry = after(&[launch("p"), launch("p.n")].concat());
    registry.step(&id("p.n"), Event::Ended(status(0)), at(1));
    assert_eq!(
        registry.tick(at(1_000_000)),
        [],
        "no retention for nested ones"
    );
    let remove = |registry: &mut Registry| registry.step(&id("p.n"), Event::Remove, at(2));
    let gone = Action::Forget {
        id: id("p.n"),
        sandbox: true,
    };
    assert_eq!(remove(&mut registry), (Answer::Ok, vec![gone.clone()]));
    assert_eq!(remove(&mut registry), (Answer::Ok, vec![gone]), "again");
    assert_eq!(
        registry.step(&id("p.n"), Event::Launch, at(3)).0,
        Answer::Ok
    );
    let (answer, _) = remove(&mut registry);
    assert_eq!(refused(&answer), "Nested container has not terminated yet");
    let (answer, _) = registry.step(&id("q.n"), Event::Remove, at(3));
    assert_eq!(refused(&answer), "Unknown root container");
}

#[test]
fn a_top_level_exit_is_kept_for_the_retention_time() {
    let mut registry = after(&launch("c"));
    assert_eq!(
        refused(&registry.step(&id("c"), Event::Remove, at(0)).0),
        "Container has not terminated yet"
    );
    registry.step(&id("c"), Event::Ended(status(0)), at(100));
    assert_eq!(registry.tick(at(159)), []);
    assert_eq!(
        registry.tick(at(160)),
        [Action::Forget {
            id: id("c"),
            sandbox: false
        }]
    );
    assert_eq!(registry.get(&id("c")), None);
}

#[test]
fn one_container_more_than_allowed_is_refused() {
    let mut registry = Registry::new(Limits {
        containers: 1,
        ..Limits::default()
    });
    assert_eq!(registry.step(&id("a"), Event::Launch, at(0)).0, Answer::Ok);
    let (answer, _) = registry.step(&id("b"), Event::Launch, at(0));
    assert!(matches!(
        answer,
        Answer::Refused(LaunchErrorKind::Internal, _)
    ));
    assert_eq!(
        registry.step(&id("a"), Event::Launch, at(0)).0,
        Answer::AlreadyPresent
    );
}

#[test]
fn what_has_outlived_its_parent_is_ended_after_a_restart() {
    let mut registry = Registry::new(Limits::default());
    registry.restore(
        id("p"),
        Life::Exited {
            exit: status(9),
            at: at(0),
        },
    );
    registry.restore(id("p.runs"), Life::Running { killed: false });
    registry.restore(
        id("p.done"),
        Life::Exited {
            exit: status(0),
            at: at(0),
        },
    );
    registry.restore(id("q.lost"), Life::Starting { kill: false });
    let actions = registry.settle();
    assert_eq!(
        actions,
        [
            Action::Forget {
                id: id("p.done"),
                sandbox: false
            },
            Action::EndTree(id("p.runs"))
        ]
    );
    let (_, actions) = registry.step(&id("p.runs"), Event::Ended(status(9)), at(1));
    assert_eq!(actions.len(), 2, "published, then forgotten: {actions:?}");
    assert_eq!(registry.get(&id("p.runs")), None);
    assert_eq!(
        registry.get(&id("q.lost")),
        Some(&Life::Starting { kill: true })
    );
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        Just(Event::Launch),
        Just(Event::Started),
        Just(Event::Failed),
        prop_oneof![Just(0), Just(9), Just(15)].prop_map(|signal| Event::Kill { signal }),
        Just(Event::Ended(status(0))),
        Just(Event::Remove),
    ]
}

proptest! {
    #[test]
    fn no_child_lives_below_an_exited_parent_and_every_exit_is_published_once(
        events in proptest::collection::vec((0..6usize, any_event()), 0..120)
    ) {
        let names = ["a", "b", "a.x", "a.y", "a.x.z", "b.x"].map(id);
        let mut registry = Registry::new(Limits { containers: 5, retention: Duration::ZERO });
        let mut launched = 0usize;
        let mut published = 0usize;
        let mut failed = 0usize;
        for (which, event) in events {
            let name = &names[which];
            let starting = matches!(registry.get(name), Some(Life::Starting { .. }));
            let (answer, actions) = registry.step(name, event.clone(), at(1));
            launched += usize::from(event == Event::Launch && answer == Answer::Ok);
            failed += usize::from(event == Event::Failed && starting);
            let mut told = Vec::new();
            for action in actions {
                match action {
                    Action::Publish(id, _) => { published += 1; told.push(id); }
                    Action::EndTree(id) | Action::Signal(id, _) => {
                        prop_assert!(registry.get(&id).is_some());
                    }
                    Action::Forget { id, .. } => prop_assert!(registry.get(&id).is_none() || event == Event::Launch),
                }
            }
            for id in &names {
                if let (Some(parent), Some(_)) = (id.parent(), registry.get(id)) {
                    prop_assert!(
                        !matches!(registry.get(parent), None | Some(Life::Exited { .. })),
                        "{id:?} without its parent"
                    );
                }
            }
            let living = registry.living().count();
            prop_assert!(living <= 5);
            prop_assert_eq!(launched, published + failed + living);
        }
    }
}
