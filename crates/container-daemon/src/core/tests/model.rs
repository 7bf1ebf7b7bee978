//! The core against a model of the world: an agent with one container that keeps its own books,
//! answers in any order, late, not at all, and refuses; random requests and time.

use proptest::prelude::*;

use super::*;

/// What the world does next; where a choice does not apply it is skipped.
#[derive(Clone, Debug)]
enum Move {
    Request(Request),
    /// The operation in flight is answered like this.
    Answer(Answer),
    /// WAIT fails.
    WaitFails,
    /// The container ends by itself.
    Dies,
    /// The earliest timer fires.
    Time,
}

#[derive(Clone, Debug)]
enum Request {
    Start,
    Stop { grace: u64 },
    Restart { reset: bool, failure: bool },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Good,
    Bad {
        permanent: bool,
    },
    /// Carried out, but the answer got lost.
    Lost,
    /// Never arrived.
    NotSent,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let request = prop_oneof![
        Just(Request::Start),
        (0..20u64).prop_map(|grace| Request::Stop { grace }),
        any::<(bool, bool)>().prop_map(|(reset, failure)| Request::Restart { reset, failure }),
    ];
    let answer = prop_oneof![
        4 => Just(Answer::Good),
        1 => any::<bool>().prop_map(|permanent| Answer::Bad { permanent }),
        1 => Just(Answer::Lost),
        1 => Just(Answer::NotSent),
    ];
    let one = prop_oneof![
        2 => request.prop_map(Move::Request),
        8 => answer.prop_map(Move::Answer),
        1 => Just(Move::WaitFails),
        2 => Just(Move::Dies),
        3 => Just(Move::Time),
    ];
    prop::collection::vec(one, 0..120)
}

struct World {
    core: Core,
    now: Duration,
    random: f64,
    /// The agent's container.
    alive: bool,
    ignores_term: bool,
    op: Option<Action>,
    /// WAIT is unanswered at the agent.
    waiting: bool,
    timers: Vec<(Timer, Duration)>,
    launches: u64,
    exits: u64,
    /// What the last request wanted.
    wanted: bool,
}

impl World {
    fn new(random: f64, ignores_term: bool) -> Self {
        Self {
            core: Core::new(policy(), GRACE),
            now: Duration::ZERO,
            random,
            alive: false,
            ignores_term,
            op: None,
            waiting: false,
            timers: Vec::new(),
            launches: 0,
            exits: 0,
            wanted: false,
        }
    }

    fn event(&mut self, event: Event) {
        let before = self.core.phase();
        let mut actions = Vec::new();
        let at = At {
            now: self.now,
            random: self.random,
        };
        self.core.step(event.clone(), at, &mut actions);
        for action in actions {
            match action {
                Action::Cancel => {
                    assert_ne!(self.op, Some(Action::Launch), "a launch is never cut off");
                    self.op = None;
                }
                Action::Arm(timer, delay) => {
                    let longest = policy().slow_retry.max(20 * SECOND);
                    assert!(delay <= longest, "{timer:?} {delay:?} has a bound");
                    self.timers.retain(|(armed, _)| *armed != timer);
                    self.timers.push((timer, self.now + delay));
                }
                Action::Disarm(timer) => self.timers.retain(|(armed, _)| *armed != timer),
                Action::Wait => {
                    assert!(!self.waiting, "one WAIT at a time");
                    self.waiting = true;
                }
                Action::Kill(_) => {
                    assert!(!matches!(self.op, Some(Action::Launch | Action::Prepare)));
                    self.op = Some(action);
                }
                Action::Prepare | Action::Launch | Action::PostStart | Action::PostStop => {
                    assert_eq!(self.op, None, "one operation at a time, {action:?}");
                    if action == Action::Prepare {
                        assert!(!self.alive, "pre-launch while the container runs");
                    }
                    self.op = Some(action);
                }
            }
        }
        if self.core.phase() == Phase::Down && before != Phase::Down {
            assert!(!self.wanted, "down without a request, by {event:?}");
            assert!(!self.alive, "down while the container runs");
        }
        assert!(!(self.core.phase() == Phase::Down && self.op.is_some()));
    }

    fn die(&mut self) {
        if self.alive {
            self.alive = false;
            self.exits += 1;
        }
    }

    /// The agent answers WAIT as soon as the container is gone (404 when it was not there).
    fn settle(&mut self) {
        while self.waiting && !self.alive {
            self.waiting = false;
            self.event(Event::Ended(Exit::unknown()));
        }
    }

    fn answer(&mut self, answer: Answer) {
        let Some(op) = self.op.take() else { return };
        let result = match answer {
            Answer::Good => Ok(()),
            Answer::Bad { permanent } => Err(Failure {
                permanent,
                ..failed()
            }),
            Answer::Lost | Answer::NotSent => Err(failed()),
        };
        match op {
            Action::Prepare => self.event(Event::Prepared(result)),
            Action::PostStart => self.event(Event::Started(result)),
            Action::PostStop => self.event(Event::Cleaned(result)),
            Action::Kill(signal) => {
                let arrived = matches!(answer, Answer::Good | Answer::Lost);
                if arrived && (signal == SIGKILL || !self.ignores_term) {
                    self.die();
                }
                self.event(Event::Killed(result));
            }
            Action::Launch => {
                // The agent answers 202 when it is there, and starts nothing.
                let arrived = matches!(answer, Answer::Good | Answer::Lost);
                if arrived && !self.alive {
                    assert_eq!(self.launches, self.exits, "an exit between two launches");
                    self.launches += 1;
                    self.alive = true;
                }
                let outcome = match (answer, self.alive) {
                    (Answer::Good, _) | (Answer::Bad { .. }, true) => Ok(()),
                    (Answer::Bad { permanent }, false) => Err(LaunchFailure::Refused(Failure {
                        permanent,
                        ..failed()
                    })),
                    (Answer::Lost, _) => Err(LaunchFailure::Unknown(failed())),
                    (Answer::NotSent, _) => Err(LaunchFailure::NotSent(failed())),
                };
                self.event(Event::Launched(outcome));
            }
            Action::Wait | Action::Cancel | Action::Arm(..) | Action::Disarm(_) => {}
        }
    }

    fn request(&mut self, request: &Request) {
        match request {
            Request::Start => {
                self.wanted = true;
                self.event(Event::Start);
            }
            Request::Stop { grace } => {
                self.wanted = false;
                self.event(Event::Stop {
                    grace: Duration::from_secs(*grace),
                });
            }
            Request::Restart { reset, failure } => {
                self.wanted = true;
                let failure = failure.then(failed);
                self.event(Event::Restart {
                    grace: GRACE,
                    reset: *reset,
                    failure,
                });
            }
        }
    }

    fn time(&mut self) {
        let Some(at) = (0..self.timers.len()).min_by_key(|at| self.timers[*at].1) else {
            return;
        };
        let (timer, due) = self.timers.remove(at);
        self.now = self.now.max(due);
        self.event(Event::Fired(timer));
    }

    fn apply(&mut self, one: &Move) {
        match one {
            Move::Request(request) => self.request(request),
            Move::Answer(answer) => self.answer(*answer),
            Move::WaitFails => {
                if self.waiting {
                    self.waiting = false;
                    self.event(Event::WaitFailed(failed()));
                }
            }
            Move::Dies => self.die(),
            Move::Time => self.time(),
        }
        self.settle();
    }

    /// From now on everything that is asked works.
    fn obliging(&mut self, done: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..200 {
            if done(self) {
                return true;
            }
            if self.op.is_some() {
                self.answer(Answer::Good);
            } else {
                self.time();
            }
            self.settle();
        }
        false
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keeps_its_promises_whatever_the_world_does(
        moves in moves(),
        random in 0.0..1.0f64,
        ignores_term: bool,
    ) {
        let mut world = World::new(random, ignores_term);
        for one in &moves {
            world.apply(one);
            prop_assert!(world.launches - world.exits <= 1);
            // Nothing is ever stuck: something is in flight, armed, or nothing is wanted.
            let idle = world.op.is_none() && world.timers.is_empty() && !world.waiting;
            prop_assert!(!idle || world.core.phase() == Phase::Down, "stuck in {:?}", world.core);
        }
        // A stop always converges once the agent answers ...
        world.apply(&Move::Request(Request::Stop { grace: 5 }));
        let down = world.obliging(|world| world.core.phase() == Phase::Down);
        prop_assert!(down && !world.alive, "not down: {:?}", world.core);
        // ... and so does a start.
        world.apply(&Move::Request(Request::Start));
        let up = world.obliging(|world| world.core.phase() == Phase::Running);
        prop_assert!(up && world.alive, "not up: {:?}", world.core);
    }
}
