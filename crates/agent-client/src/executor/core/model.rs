//! Random histories against an agent that only remembers what reached it.

use std::collections::{HashMap, HashSet};

use longshore_mesos_api::v1::TaskState;
use proptest::prelude::*;

use super::tests::{Bench, acknowledged, launch, update};
use super::*;

#[derive(Debug, Clone)]
enum Op {
    Launch(u8),
    Update(u8, TaskState),
    /// The agent acknowledges the Nth of what it has and has not acknowledged.
    Acknowledge(usize),
    Answer(bool),
    Break,
    Retry,
    Subscribe,
    Refuse,
    Heartbeat,
    Message,
}

fn op() -> impl Strategy<Value = Op> {
    let state = prop_oneof![
        Just(TaskState::TaskStarting),
        Just(TaskState::TaskRunning),
        Just(TaskState::TaskKilling),
        Just(TaskState::TaskFinished)
    ];
    prop_oneof![
        2 => (0u8..3).prop_map(Op::Launch),
        5 => ((0u8..3), state).prop_map(|(task, state)| Op::Update(task, state)),
        4 => (0usize..4).prop_map(Op::Acknowledge),
        5 => prop::bool::weighted(0.9).prop_map(Op::Answer),
        2 => Just(Op::Break),
        3 => Just(Op::Retry),
        4 => Just(Op::Subscribe),
        1 => Just(Op::Refuse),
        1 => Just(Op::Heartbeat),
        1 => Just(Op::Message),
    ]
}

/// The agent, and the executor's own memory of what it has said.
#[derive(Default)]
struct World {
    /// Every update, in the order of giving: task and number.
    given: Vec<(u8, u8)>,
    /// What has reached the agent, in the order of arrival, without repetitions.
    arrived: Vec<u8>,
    acknowledged: HashSet<u8>,
    /// Tasks launched whose first update is not acknowledged.
    tasks: Vec<u8>,
    /// A call is on its way.
    in_flight: Option<Option<u8>>,
    attempting: bool,
    subscribed: bool,
}

impl World {
    fn unacknowledged(&self) -> Vec<u8> {
        let open = |number: &u8| !self.acknowledged.contains(number);
        self.given.iter().map(|(_, n)| *n).filter(open).collect()
    }

    fn arrive(&mut self, number: u8) {
        if !self.arrived.contains(&number) {
            self.arrived.push(number);
        }
    }

    /// Looks at what the core did.
    fn look(&mut self, bench: &Bench) -> Result<(), TestCaseError> {
        for action in &bench.actions {
            match action {
                Action::Close => {
                    self.in_flight = None;
                    self.attempting = false;
                    self.subscribed = false;
                }
                Action::Subscribe(_) => {
                    prop_assert!(!self.attempting && !self.subscribed);
                    self.attempting = true;
                    let (tasks, updates) = bench.subscribes_with().unwrap();
                    prop_assert_eq!(updates, self.unacknowledged());
                    let held: Vec<_> = self.tasks.iter().map(u8::to_string).collect();
                    prop_assert_eq!(tasks, held);
                }
                Action::Send(_) => {
                    prop_assert!(self.subscribed && self.in_flight.is_none());
                    let (_, number) = bench.sends().unwrap();
                    self.in_flight = Some(number);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_update_is_lost_each_is_in_order_and_resent_exactly_while_unacknowledged(
        ops in prop::collection::vec(op(), 1..120)
    ) {
        let mut bench = Bench::new(true);
        let mut world = World::default();
        let mut carried: Vec<u8> = Vec::new();
        bench.step(Event::Start);
        world.look(&bench)?;
        // At the end the agent is there, answers everything and acknowledges everything.
        let settle = std::iter::once(Op::Break)
            .chain([Op::Retry, Op::Subscribe])
            .chain(std::iter::repeat_n(Op::Answer(true), 130))
            .chain(std::iter::repeat_n(Op::Acknowledge(0), 130));
        for op in ops.into_iter().chain(settle) {
            match op {
                Op::Launch(task) => {
                    if !world.subscribed { continue }
                    // An agent launches a task once.
                    if world.tasks.contains(&task) || world.given.iter().any(|(of, _)| *of == task) { continue }
                    world.tasks.push(task);
                    bench.step(launch(&task.to_string()));
                }
                Op::Update(task, state) => {
                    let number = u8::try_from(world.given.len()).unwrap();
                    world.given.push((task, number));
                    bench.step(update(&task.to_string(), number, state));
                }
                Op::Acknowledge(which) => {
                    if !world.subscribed { continue }
                    let open: Vec<u8> = world.arrived.iter().copied()
                        .filter(|number| !world.acknowledged.contains(number)).collect();
                    let Some(number) = open.get(which) else { continue };
                    let task = world.given[usize::from(*number)].0;
                    world.acknowledged.insert(*number);
                    world.tasks.retain(|held| *held != task);
                    bench.step(acknowledged(&task.to_string(), *number));
                }
                Op::Answer(well) => {
                    let Some(number) = world.in_flight.take() else { continue };
                    // A call that fails may have arrived all the same.
                    if let Some(number) = number { world.arrive(number) }
                    bench.step(Event::Sent(if well { Outcome::Accepted } else { Outcome::Failed("x".into()) }));
                }
                Op::Break => {
                    if !world.subscribed && !world.attempting { continue }
                    bench.step(Event::StreamEnded("cut".into()));
                }
                Op::Retry => { bench.step(Event::Fired(Timer::Retry)); }
                Op::Subscribe => {
                    if !world.attempting { continue }
                    world.attempting = false;
                    world.subscribed = true;
                    for number in carried.drain(..) { world.arrive(number) }
                    bench.subscribe();
                }
                Op::Refuse => {
                    if !world.attempting { continue }
                    bench.step(Event::NotSubscribed(Refusal::NotReady, "503".into()));
                }
                Op::Heartbeat => { bench.step(Event::Fired(Timer::Heartbeat)); }
                Op::Message => { bench.step(Event::Message(vec![1])); }
            }
            world.look(&bench)?;
            if let Some((_, updates)) = bench.subscribes_with() { carried = updates }
        }
        // Everything has arrived, and in the order of giving within each task.
        prop_assert!(bench.core.is_subscribed());
        prop_assert_eq!(world.arrived.len(), world.given.len());
        prop_assert!(world.unacknowledged().is_empty() && bench.core.updates.is_empty());
        let mut last: HashMap<u8, u8> = HashMap::new();
        for number in world.arrived {
            let task = world.given[usize::from(number)].0;
            let before = last.insert(task, number);
            prop_assert!(before.is_none_or(|before| before < number), "task {} out of order", task);
        }
        // And then the end comes.
        bench.step(Event::Finish);
        prop_assert!(bench.core.has_ended());
    }
}
