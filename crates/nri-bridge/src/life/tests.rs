//! The order of events: as a table, and as laws.

use proptest::prelude::*;

use super::*;

fn told(moments: &[Moment]) -> Vec<Told> {
    let mut life = Life::default();
    moments
        .iter()
        .flat_map(|moment| life.step(*moment))
        .collect()
}

#[test]
fn each_path_tells_its_events_in_order() {
    use Moment as M;
    use Told as T;
    let begun = [T::RunPodSandbox, T::CreateContainer];
    let gone = [T::RemoveContainer, T::StopPodSandbox, T::RemovePodSandbox];
    let cases: &[(&[Moment], &[Told])] = &[
        // A whole life.
        (
            &[
                M::Accepted,
                M::Created,
                M::Starting,
                M::Started,
                M::Updating,
                M::Updated,
                M::Stopped,
                M::Removed,
            ],
            &[
                T::PostCreateContainer,
                T::StartContainer,
                T::PostStartContainer,
                T::UpdateContainer,
                T::PostUpdateContainer,
                T::StopContainer,
            ],
        ),
        // The engine did not make it.
        (&[M::Accepted, M::Removed], &[T::StopContainer]),
        // It was killed before it was started.
        (
            &[M::Accepted, M::Created, M::Stopped, M::Stopped, M::Removed],
            &[T::PostCreateContainer, T::StopContainer],
        ),
        // It died at once, before anybody saw it run.
        (
            &[M::Accepted, M::Created, M::Starting, M::Stopped, M::Removed],
            &[T::PostCreateContainer, T::StartContainer, T::StopContainer],
        ),
        // The answer of the creation was lost, and it is there all the same.
        (
            &[M::Accepted, M::Starting, M::Started, M::Removed, M::Removed],
            &[
                T::PostCreateContainer,
                T::StartContainer,
                T::PostStartContainer,
                T::StopContainer,
            ],
        ),
    ];
    for (moments, middle) in cases {
        let mut all = vec![M::Create];
        all.extend(*moments);
        let wanted: Vec<_> = begun.iter().chain(*middle).chain(&gone).copied().collect();
        assert_eq!(told(&all), wanted, "{all:?}");
    }
    // Refused: plugins learn that the pod is not there any more, and nothing else.
    assert_eq!(
        told(&[M::Create, M::Refused, M::Removed]),
        [begun.as_slice(), &gone[1..]].concat()
    );
    // Of what nobody was told nothing is told.
    let strange = [
        M::Created,
        M::Starting,
        M::Started,
        M::Updating,
        M::Updated,
        M::Stopped,
        M::Removed,
        M::Refused,
    ];
    assert_eq!(told(&strange), []);
}

#[test]
fn one_that_is_created_again_ends_first() {
    use Moment as M;
    let all = told(&[M::Create, M::Accepted, M::Create]);
    assert_eq!(all[2..6], end(Life::Accepted));
    assert_eq!(all[6..], [Told::RunPodSandbox, Told::CreateContainer]);
}

fn moment() -> impl Strategy<Value = Moment> {
    use Moment as M;
    prop::sample::select(vec![
        M::Create,
        M::Accepted,
        M::Refused,
        M::Created,
        M::Starting,
        M::Started,
        M::Updating,
        M::Updated,
        M::Stopped,
        M::Removed,
    ])
}

/// The place of an event in a life; updates have the place of what runs.
fn place(told: Told) -> u8 {
    match told {
        Told::RunPodSandbox => 0,
        Told::CreateContainer => 1,
        Told::PostCreateContainer => 2,
        Told::StartContainer => 3,
        Told::PostStartContainer => 4,
        Told::UpdateContainer | Told::PostUpdateContainer => 5,
        Told::StopContainer => 6,
        Told::RemoveContainer => 7,
        Told::StopPodSandbox => 8,
        Told::RemovePodSandbox => 9,
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_order_holds_and_nothing_comes_twice(
        moments in prop::collection::vec(moment(), 0..40),
    ) {
        let mut moments = moments;
        moments.push(Moment::Removed);
        let all = told(&moments);
        let is_update = |told: &Told| place(*told) == 5;
        // A life begins with its pod and ends with it; none begins before the one before has ended.
        let mut lives: Vec<Vec<Told>> = Vec::new();
        for event in &all {
            if *event == Told::RunPodSandbox {
                lives.push(Vec::new());
            }
            prop_assert!(!lives.is_empty(), "{all:?}");
            lives.last_mut().unwrap().push(*event);
        }
        for life in lives {
            prop_assert_eq!(life[1], Told::CreateContainer);
            prop_assert_eq!(life.last(), Some(&Told::RemovePodSandbox), "{:?}", &life);
            let once: Vec<_> = life.iter().filter(|told| !is_update(told)).map(|it| place(*it)).collect();
            prop_assert!(once.windows(2).all(|pair| pair[0] < pair[1]), "{life:?}");
            // What was stopped is removed, and the other way round.
            let has = |event| life.contains(&event);
            prop_assert_eq!(has(Told::StopContainer), has(Told::RemoveContainer));
            prop_assert!(has(Told::StopPodSandbox));
            // No update of one that is not made yet, or has stopped.
            for at in (0..life.len()).filter(|at| is_update(&life[*at])) {
                prop_assert!(life[..at].contains(&Told::PostCreateContainer), "{life:?}");
                prop_assert!(!life[..at].contains(&Told::StopContainer), "{life:?}");
            }
        }
    }
}
