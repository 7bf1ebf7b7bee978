use super::*;
use longshore_nri_api::{Container, PodSandbox};
use proptest::prelude::*;

fn kept(event: Event, began: u64) -> Kept {
    let (pod, container) = ("p".to_owned(), "c".to_owned());
    Kept {
        what: KeptBody::Request(event, Bytes::new()),
        pod,
        container,
        began,
    }
}

/// A snapshot, complete at tick 5, with the pod, and the container in this state.
fn seen(pod: bool, container: Option<ContainerState>) -> Seen {
    let pods = pod.then(|| PodSandbox {
        id: "p".into(),
        ..Default::default()
    });
    let containers = container.map(|state| Container {
        id: "c".into(),
        state: state as i32,
        ..Default::default()
    });
    let state = NodeState {
        pods: pods.into_iter().collect(),
        containers: containers.into_iter().collect(),
    };
    Seen::new(&state, 5)
}

#[test]
fn what_began_before_the_snapshot_was_complete_is_delivered_unless_it_shows() {
    use ContainerState::{ContainerCreated, ContainerRunning, ContainerStopped};
    let table = [
        (Event::RunPodSandbox, false, None, true),
        (Event::RunPodSandbox, true, None, false),
        (Event::StopPodSandbox, true, None, true),
        (Event::StopPodSandbox, false, None, false),
        (Event::RemovePodSandbox, false, None, false),
        (Event::UpdatePodSandbox, true, None, true),
        (Event::CreateContainer, true, None, true),
        (Event::CreateContainer, true, Some(ContainerCreated), false),
        (
            Event::PostCreateContainer,
            true,
            Some(ContainerCreated),
            true,
        ),
        (Event::PostCreateContainer, true, None, false),
        (Event::StartContainer, true, Some(ContainerCreated), true),
        (Event::StartContainer, true, Some(ContainerRunning), false),
        (
            Event::PostStartContainer,
            true,
            Some(ContainerRunning),
            true,
        ),
        (Event::StopContainer, true, Some(ContainerRunning), true),
        (Event::StopContainer, true, Some(ContainerStopped), false),
        (Event::RemoveContainer, true, Some(ContainerStopped), true),
        (Event::RemoveContainer, true, None, false),
        (
            Event::ValidateContainerAdjustment,
            true,
            Some(ContainerRunning),
            false,
        ),
    ];
    for (event, pod, container, expected) in table {
        let due = seen(pod, container).is_due(&kept(event, 5));
        assert_eq!(due, expected, "{event:?} {pod} {container:?}");
    }
}

#[test]
fn what_began_later_is_always_delivered() {
    for number in 1..14 {
        let event = Event::try_from(number).unwrap();
        assert!(seen(false, None).is_due(&kept(event, 6)), "{event:?}");
    }
}

#[test]
fn a_life_that_began_and_ended_before_the_snapshot_is_told_whole() {
    let mut seen = seen(false, None);
    for event in [
        Event::RunPodSandbox,
        Event::CreateContainer,
        Event::PostCreateContainer,
        Event::StartContainer,
        Event::StopContainer,
        Event::RemoveContainer,
        Event::StopPodSandbox,
        Event::RemovePodSandbox,
    ] {
        assert!(seen.is_due(&kept(event, 1)), "{event:?}");
    }
}

#[test]
fn a_queue_keeps_no_more_than_it_may() {
    let mut queue = Queue::default();
    assert!(queue.push(kept(Event::RunPodSandbox, 1), 1));
    assert!(!queue.push(kept(Event::StopPodSandbox, 2), 1));
    assert_eq!(
        queue.pop().map(|kept| kept.event()),
        Some(Event::RunPodSandbox)
    );
    assert_eq!(queue.len(), 0);
}

proptest! {
    /// Whatever the snapshot shows, a plugin is never told of the end of what it was not told of,
    /// nor of a beginning twice.
    #[test]
    fn no_event_of_something_unknown_and_no_second_beginning(
        pod in any::<bool>(),
        known in any::<bool>(),
        events in proptest::collection::vec((1..14_i32, 0..10_u64), 0..20),
    ) {
        let state = known.then_some(ContainerState::ContainerCreated);
        let mut seen = seen(pod, state);
        let mut container = known;
        for (number, began) in events {
            let event = Event::try_from(number).unwrap();
            let due = seen.is_due(&kept(event, began));
            if began > 5 {
                prop_assert!(due);
            }
            match event {
                Event::CreateContainer if began <= 5 => prop_assert_eq!(due, !container),
                Event::RemoveContainer if began <= 5 => prop_assert_eq!(due, container),
                _ => {}
            }
            container |= due && event == Event::CreateContainer;
        }
    }
}
