//! Any order of events, against a container that is simulated.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::CreateFailure;

/// The container as it is, whoever knows it.
#[derive(Debug, Default)]
struct World {
    exists: bool,
    started: bool,
    running: bool,
    /// Ever.
    ran: bool,
    run: i64,
    paused: bool,
    code: i64,
    /// What runs was started by somebody else: of that the kernel tells nothing.
    by_other: bool,
}

#[derive(Clone, Copy, Debug)]
enum Twist {
    /// The oldest call is answered truly.
    Answer,
    /// It is not answered, and had its effect or not.
    Lose(bool),
    /// It fails with a 500, without effect.
    Fail,
    Exit(u8),
    Kill(u8),
    Pause,
    OtherKills,
    OtherRemoves,
    OtherRestarts,
    Lost,
    Resumed,
    Pass(u16),
    /// The kernel tells, and then the engine's events.
    Tell,
}

fn twist() -> impl Strategy<Value = Twist> {
    prop_oneof![
        12 => Just(Twist::Answer),
        2 => any::<bool>().prop_map(Twist::Lose),
        1 => Just(Twist::Fail),
        1 => any::<u8>().prop_map(Twist::Exit),
        1 => (0..20_u8).prop_map(Twist::Kill),
        1 => Just(Twist::Pause),
        1 => Just(Twist::OtherKills),
        1 => Just(Twist::OtherRemoves),
        1 => Just(Twist::OtherRestarts),
        1 => Just(Twist::Lost),
        1 => Just(Twist::Resumed),
        3 => (0..30_000_u16).prop_map(Twist::Pass),
        4 => Just(Twist::Tell),
    ]
}

struct Game {
    life: Life,
    world: World,
    calls: VecDeque<Action>,
    /// Of which run the init is held.
    held: Option<i64>,
    told_dead: bool,
    news: VecDeque<Seen>,
    killed: bool,
    terminal: usize,
    /// How far it is on record.
    stage: Stage,
}

/// Whoever comes after us goes on from what is on record: it never goes back.
fn place(stage: Stage) -> u8 {
    match stage {
        Stage::Intended => 0,
        Stage::Starting => 1,
        Stage::Running => 2,
        Stage::Killing(_) => 3,
        Stage::Over => 4,
    }
}

impl Game {
    fn new(tell_killing: bool) -> Self {
        let life = Life::new(Plan {
            tell_killing,
            grace: 3 * SECOND,
            ..Plan::default()
        });
        let calls = life.done.iter().cloned().collect();
        Self {
            life,
            world: World::default(),
            calls,
            held: None,
            told_dead: false,
            news: VecDeque::new(),
            killed: false,
            terminal: 0,
            stage: Stage::Intended,
        }
    }

    fn took(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Tell(update) => {
                    if matches!(update.news, News::Ended(_)) {
                        self.terminal += 1;
                        assert!(
                            !self.world.running || self.world.by_other,
                            "told {:?} while it runs",
                            update.news
                        );
                    } else {
                        assert_eq!(self.terminal, 0, "{:?} after the last one", update.state);
                    }
                }
                Action::CancelPull => self.calls.retain(|call| *call != Action::Pull),
                Action::SignalInit(name) => {
                    if name == "SIGKILL" {
                        self.die(137);
                    }
                }
                Action::Record(stage) => {
                    assert!(
                        place(stage) >= place(self.stage),
                        "{stage:?} on record after {:?}",
                        self.stage
                    );
                    self.stage = stage;
                    if stage.is_awaited() {
                        self.calls.push_back(Action::Record(stage));
                    }
                }
                Action::StartLogs
                | Action::StartChecks
                | Action::PauseChecks
                | Action::ResumeChecks
                | Action::StopChecks
                | Action::Finish
                | Action::Wait => {}
                call => self.calls.push_back(call),
            }
        }
    }

    fn feed(&mut self, event: Event) {
        let actions = self.life.feed(event);
        self.took(actions);
    }

    fn die(&mut self, code: i64) {
        if self.world.running {
            self.world.running = false;
            self.world.code = code;
            self.news.push_back(Seen::Die(Some(code)));
        }
    }

    fn begin(&mut self) {
        if self.world.exists && !self.world.running {
            self.world.started = true;
            self.world.running = true;
            self.world.ran = true;
            self.world.paused = false;
            self.world.run += 1;
            self.news.push_back(Seen::Start);
        }
    }

    fn look(&self) -> Result<Found, EngineError> {
        if !self.world.exists {
            return Err(no_container());
        }
        let condition = match (self.world.started, self.world.running, self.world.paused) {
            (false, ..) => Condition::Created,
            (_, false, _) => Condition::Down,
            (_, _, true) => Condition::Paused,
            _ => Condition::Running,
        };
        Ok(Found {
            run: self.world.started.then_some(self.world.run),
            code: self.world.code,
            ..found(condition)
        })
    }

    /// The effect of a call, and its true answer.
    fn perform(&mut self, call: &Action) -> Option<Event> {
        Some(match call {
            Action::Record(_) => Event::Recorded(Ok(())),
            Action::Pull => pulled(),
            Action::Create => {
                if self.world.exists {
                    Event::Created(Err(CreateFailure::Engine(EngineError::Conflict {
                        call: "create",
                        subject: String::new(),
                        message: "taken".to_owned(),
                    })))
                } else {
                    self.world.exists = true;
                    created()
                }
            }
            Action::Start if !self.world.exists => Event::Started(Err(no_container())),
            Action::Start => {
                self.begin();
                Event::Started(Ok(RUN))
            }
            Action::Inspect => Event::Inspected(self.look()),
            Action::Hold(_) => {
                if self.world.running {
                    self.held = Some(self.world.run);
                    self.told_dead = false;
                    Event::Held(Held::Yes)
                } else {
                    Event::Held(Held::Ended)
                }
            }
            Action::Signal(name) => {
                let result = if !self.world.exists {
                    Err(no_container())
                } else if self.world.running {
                    if name == "SIGKILL" {
                        self.die(137);
                    }
                    Ok(())
                } else {
                    Err(EngineError::Conflict {
                        call: "kill",
                        subject: String::new(),
                        message: "not running".to_owned(),
                    })
                };
                signalled(name, result)
            }
            Action::Unpause => {
                self.world.paused = false;
                Event::Unpaused(Ok(()))
            }
            Action::Remove => {
                self.die(137);
                self.world.exists = false;
                Event::Removed(Ok(()))
            }
            Action::DrainLogs => Event::LogsDrained,
            Action::Sweep => {
                self.die(137);
                Event::Swept
            }
            _ => return None,
        })
    }

    /// What is said for a call that failed so.
    fn failure(call: &Action, error: EngineError) -> Option<Event> {
        Some(match call {
            Action::Pull => Event::Pulled(Err(error)),
            Action::Create => Event::Created(Err(CreateFailure::Engine(error))),
            Action::Start => Event::Started(Err(error)),
            Action::Inspect => Event::Inspected(Err(error)),
            Action::Signal(name) => signalled(name, Err(error)),
            Action::Unpause => Event::Unpaused(Err(error)),
            Action::Remove => Event::Removed(Err(error)),
            _ => return None,
        })
    }

    fn kernel_tells(&mut self) {
        let dead = self
            .held
            .is_some_and(|run| !self.world.running || self.world.run != run);
        if dead && !std::mem::replace(&mut self.told_dead, true) {
            self.feed(Event::InitDied);
        }
    }

    fn play(&mut self, twist: Twist) {
        match twist {
            Twist::Answer => {
                if let Some(call) = self.calls.pop_front()
                    && let Some(event) = self.perform(&call)
                {
                    self.feed(event);
                }
            }
            Twist::Lose(effect) => {
                if let Some(call) = self.calls.pop_front() {
                    if let Some(event) = Self::failure(&call, absent()) {
                        if effect {
                            self.perform(&call);
                        }
                        self.feed(event);
                    } else {
                        self.calls.push_front(call);
                    }
                }
            }
            Twist::Fail => {
                if let Some(call) = self.calls.pop_front() {
                    // A failed start is final, and so is what could not be looked at.
                    match Self::failure(&call, status(500, "no")) {
                        Some(event) => self.feed(event),
                        None => self.calls.push_front(call),
                    }
                }
            }
            Twist::Exit(code) => self.die(i64::from(code)),
            Twist::Kill(seconds) => {
                self.killed |= !self.life.state.is_over();
                let kill = Kill::within(u32::from(seconds) * SECOND);
                self.feed(Event::Kill(kill));
            }
            Twist::Pause => {
                if self.world.running {
                    self.world.paused = true;
                    self.news.push_back(Seen::Pause);
                }
            }
            Twist::OtherKills => {
                if self.world.running {
                    self.news.push_back(Seen::Signal(9));
                    self.die(137);
                }
            }
            Twist::OtherRemoves => {
                if self.world.exists {
                    self.die(137);
                    self.world.exists = false;
                    self.news.push_back(Seen::Destroy);
                }
            }
            Twist::OtherRestarts => {
                // Of what runs: an exited one may be told as such before.
                if self.world.running && self.terminal == 0 {
                    self.die(143);
                    self.begin();
                    self.world.by_other = true;
                }
            }
            Twist::Lost => {
                self.news.clear();
                self.feed(Event::EngineLost);
            }
            Twist::Resumed => self.feed(Event::EngineResumed),
            Twist::Pass(millis) => {
                let actions = self.life.pass(Duration::from_millis(millis.into()));
                self.took(actions);
            }
            Twist::Tell => {
                self.kernel_tells();
                if let Some(seen) = self.news.pop_front() {
                    self.feed(Event::Seen(seen));
                }
            }
        }
    }

    /// From now on all goes well; a kill ends it in any case.
    fn finish(&mut self) {
        for round in 0.. {
            assert!(round < 500, "it never ends: {:?}", self.life.state);
            if self.life.state.is_gone() {
                return;
            }
            while !self.calls.is_empty() {
                self.play(Twist::Answer);
            }
            self.kernel_tells();
            self.play(Twist::Tell);
            if round == 20 {
                self.play(Twist::Kill(1));
            }
            self.play(Twist::Pass(1_000));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
    #[test]
    fn any_order_has_one_end_and_none_while_it_runs(
        twists in proptest::collection::vec(twist(), 0..60),
        tell_killing: bool,
    ) {
        let mut game = Game::new(tell_killing);
        for twist in twists {
            game.play(twist);
        }
        game.finish();
        prop_assert_eq!(game.terminal, 1, "{:?}", game.life.told());
        prop_assert!(!game.world.exists, "it is left behind: {:?}", game.life.told());
        let told = game.life.told();
        let running = told.iter().filter(|it| *it == "RUNNING").count();
        prop_assert!(running <= 1, "{:?}", told);
        prop_assert!(told.iter().filter(|it| *it == "KILLING").count() <= 1, "{:?}", told);
    }
}
