use longshore_backoff::{Backoff, StartLimit};
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn policy() -> RestartPolicy {
    RestartPolicy {
        backoff: Backoff::new(SECOND, 8 * SECOND, 0.0).unwrap(),
        stable_after: 10 * SECOND,
        start_limit: StartLimit::new(4, 100 * SECOND).unwrap(),
        slow_retry: 60 * SECOND,
    }
}

fn at(seconds: u64) -> Moment {
    Moment {
        now: Duration::from_secs(1000 + seconds),
        random: 0.0,
    }
}

fn end(seconds: u64, exit_code: u8) -> End {
    End {
        at: at(seconds).now,
        failed: exit_code != 0,
        exit_code,
        ending: "exited".to_owned(),
        message: String::new(),
    }
}

fn ended(number: u64, seconds: u64, exit_code: u8) -> Event {
    Event::Ended {
        number,
        end: end(seconds, exit_code),
    }
}

/// A task that has been started once, at 0.
fn running(rule: Rule) -> State {
    let (state, actions) = State::new(rule, policy()).step(Event::Found(Found::Nothing), at(0));
    assert_eq!(actions, [Action::Record, Action::Launch(1)]);
    state
}

/// What a daemon that dies now leaves to the next one.
fn reborn(state: &State) -> State {
    State {
        rule: state.rule,
        generation: state.generation,
        number: state.number,
        attempts: state.attempts.clone(),
        stopped: state.stopped,
        leaving: state.leaving,
        due: state.due,
        failing: state.failing,
        reset: state.reset,
        ..State::new(state.rule, state.policy)
    }
}

#[test]
fn what_follows_an_end_is_a_matter_of_the_rule() {
    for (rule, exit_code, again) in [
        (Rule::No, 0, false),
        (Rule::No, 1, false),
        (Rule::OnFailure, 0, false),
        (Rule::OnFailure, 1, true),
        (Rule::Always, 0, true),
        (Rule::Always, 1, true),
    ] {
        let (state, actions) = running(rule).step(ended(1, 1, exit_code), at(1));
        let expected: &[Action] = if again {
            &[Action::Record, Action::Record, Action::Launch(2)]
        } else {
            &[Action::Record]
        };
        assert_eq!(actions, expected, "{rule:?} {exit_code}");
        let why = state.why(at(1).now);
        assert_eq!(why, (!again).then_some(Why::Done), "{rule:?} {exit_code}");
        // A next daemon finds it the same.
        let (state, actions) = reborn(&state).step(
            Event::Found(if again { Found::Alive } else { Found::Nothing }),
            at(2),
        );
        assert_eq!(actions, [], "{rule:?} {exit_code}");
        assert_eq!(state.alive().is_some(), again);
    }
}

#[test]
fn starts_are_backed_off_and_over_the_limit_tried_slowly_also_by_the_next_daemon() {
    let mut state = running(Rule::Always);
    let mut now = 0;
    let mut starts = vec![0];
    for number in 1..8 {
        now += 1;
        let (next, _) = state.step(ended(number, now, 1), at(now));
        // It dies in between, each time.
        let (next, _) = reborn(&next).step(
            Event::Found(next.alive().map_or(Found::Nothing, |_| Found::Alive)),
            at(now),
        );
        state = next;
        while state.alive().is_none() {
            now += 1;
            assert!(state.next_start(at(now - 1).now).is_some());
            state = state.step(Event::Tick, at(now)).0;
        }
        starts.push(now);
    }
    // Each ran for a second: at once, after 1 s, 2 s; then four starts are in the window, and it is tried slowly.
    let pauses: Vec<u64> = starts
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 1)
        .collect();
    assert_eq!(pauses[..4], [0, 1, 2, 60], "{starts:?}");
    assert!(pauses[4..].iter().all(|pause| *pause >= 8), "{pauses:?}");
}

#[test]
fn an_operators_stop_holds_over_everything_but_a_start() {
    let (state, actions) = running(Rule::Always).step(Event::Stop, at(1));
    assert_eq!(actions, [Action::Record, Action::Stop(1)]);
    assert!(state.is_ending());
    // Again changes nothing.
    let (state, actions) = state.step(Event::Stop, at(1));
    assert_eq!(actions, []);
    let (state, actions) = state.step(ended(1, 2, 143), at(2));
    assert_eq!(actions, [Action::Record]);
    assert_eq!(state.why(at(2).now), Some(Why::Stopped));
    let changed = Event::Changed {
        rule: Rule::Always,
        replace: true,
    };
    for event in [Event::Tick, changed, Event::Held(None), Event::Needs(None)] {
        let (state, actions) = state.clone().step(event.clone(), at(999));
        assert!(state.alive().is_none(), "{event:?} {actions:?}");
    }
    let (state, _) = reborn(&state).step(Event::Found(Found::Nothing), at(1000));
    assert_eq!(state.why(at(1000).now), Some(Why::Stopped));
    let (state, actions) = state.step(Event::Start, at(1000));
    assert_eq!(actions, [Action::Record, Action::Record, Action::Launch(2)]);
    assert_eq!(state.alive(), Some(2));
}

#[test]
fn a_start_runs_what_is_done_once_more_and_what_is_on_its_way_out_again() {
    let (state, _) = running(Rule::No).step(ended(1, 1, 0), at(1));
    let (state, actions) = state.step(Event::Start, at(2));
    assert!(actions.contains(&Action::Launch(2)), "{actions:?}");
    let (state, _) = state.step(ended(2, 3, 0), at(3));
    assert_eq!(state.why(at(3).now), Some(Why::Done));
    // Stopped and started before it has ended.
    let (state, _) = running(Rule::No).step(Event::Stop, at(1));
    let (state, actions) = state.step(Event::Start, at(1));
    assert_eq!(actions, [Action::Record]);
    let (_, actions) = state.step(ended(1, 2, 143), at(2));
    assert!(actions.contains(&Action::Launch(2)), "{actions:?}");
    // One that runs goes on.
    let (state, actions) = running(Rule::No).step(Event::Start, at(1));
    assert_eq!(
        (state.alive(), &actions[..]),
        (Some(1), &[Action::Record][..])
    );
    assert_eq!(state.step(ended(1, 2, 0), at(2)).1, [Action::Record]);
}

#[test]
fn another_declaration_replaces_what_runs_and_its_end_counts_for_nothing() {
    let changed = Event::Changed {
        rule: Rule::No,
        replace: true,
    };
    let (state, actions) = running(Rule::No).step(changed, at(1));
    assert_eq!(actions, [Action::Record, Action::Stop(1)]);
    let (state, actions) = state.step(ended(1, 2, 143), at(2));
    assert_eq!(actions, [Action::Record, Action::Record, Action::Launch(2)]);
    assert_eq!((state.generation, state.attempts[1].generation), (2, 2));
    // Another rule alone replaces nothing.
    let changed = Event::Changed {
        rule: Rule::Always,
        replace: false,
    };
    let (state, actions) = state.step(changed, at(3));
    assert_eq!(actions, [Action::Record]);
    assert_eq!((state.generation, state.rule), (2, Rule::Always));
}

#[test]
fn what_is_not_declared_any_more_ends_and_is_forgotten_and_may_come_back() {
    let (state, actions) = running(Rule::No).step(Event::Left, at(1));
    assert_eq!(actions, [Action::Record, Action::Stop(1)]);
    let (gone, actions) = state.clone().step(ended(1, 2, 0), at(2));
    assert_eq!(actions, [Action::Record, Action::Forget]);
    assert!(gone.is_gone());
    let (state, _) = state.step(
        Event::Changed {
            rule: Rule::No,
            replace: false,
        },
        at(1),
    );
    let (_, actions) = state.step(ended(1, 2, 0), at(2));
    assert!(actions.contains(&Action::Launch(2)), "{actions:?}");
    let idle = State::new(Rule::No, policy()).step(Event::Left, at(0)).0;
    let (gone, actions) = idle.step(Event::Found(Found::Nothing), at(0));
    assert_eq!(
        (gone.is_gone(), &actions[..]),
        (true, &[Action::Forget][..])
    );
}

#[test]
fn needs_and_a_hold_keep_back_the_next_start_and_never_end_what_runs() {
    for (event, free, why) in [
        (
            Event::Needs(Some("csi/x".to_owned())),
            Event::Needs(None),
            Why::Needs("csi/x".to_owned()),
        ),
        (
            Event::Held(Some("drain".to_owned())),
            Event::Held(None),
            Why::Held("drain".to_owned()),
        ),
    ] {
        let (state, actions) = running(Rule::Always).step(event, at(1));
        assert_eq!(actions, []);
        let (state, actions) = state.step(ended(1, 20, 1), at(20));
        assert_eq!(actions, [Action::Record]);
        assert_eq!(state.why(at(20).now), Some(why));
        let (_, actions) = state.step(free, at(21));
        assert_eq!(actions, [Action::Record, Action::Launch(2)]);
    }
}

#[test]
fn an_intent_that_was_never_launched_is_launched_under_its_number() {
    let state = reborn(&running(Rule::No));
    let (state, actions) = state.step(Event::Found(Found::Nothing), at(5));
    assert_eq!(actions, [Action::Record, Action::Launch(1)]);
    assert_eq!(state.attempts.len(), 1);
}

#[test]
fn an_attempt_that_may_run_keeps_the_next_one_back_until_somebody_says_so() {
    let state = reborn(&running(Rule::Always));
    let unclear = Found::Unclear("damaged".to_owned());
    let (state, actions) = state.step(Event::Found(unclear), at(5));
    assert_eq!(actions, []);
    let (state, actions) = state.step(Event::Tick, at(500));
    assert_eq!(actions, []);
    assert_eq!(
        state.why(at(500).now),
        Some(Why::Unclear("damaged".to_owned()))
    );
    let (_, actions) = state.step(Event::Start, at(501));
    assert!(actions.contains(&Action::Launch(2)), "{actions:?}");
}

#[test]
fn what_cannot_be_recorded_is_not_launched_and_tried_again_later() {
    let state = running(Rule::No);
    let (state, actions) = state.step(Event::NotRecorded("full".to_owned()), at(0));
    // The first time at once, then backed off.
    assert_eq!(actions, [Action::Record, Action::Launch(1)]);
    let (state, actions) = state.step(Event::NotRecorded("full".to_owned()), at(0));
    assert_eq!(actions, []);
    assert_eq!(state.why(at(0).now), Some(Why::Backoff(at(0).now + SECOND)));
    let (state, actions) = state.step(Event::Tick, at(1));
    assert_eq!(actions, [Action::Record, Action::Launch(1)]);
    assert_eq!(state.attempts.len(), 1);
}

#[test]
fn old_attempts_are_discarded_and_the_history_is_bounded() {
    let mut state = running(Rule::Always);
    let mut now = 0;
    for number in 1..100 {
        now += 100;
        let (next, actions) = state.step(ended(number, now, 1), at(now));
        let discarded = actions.contains(&Action::Discard((number + 1).saturating_sub(KEPT)));
        assert_eq!(discarded, number >= KEPT, "{number} {actions:?}");
        assert!(next.attempts.len() <= HISTORY);
        state = next;
    }
}

/// What a world does to a declared task.
#[derive(Clone, Debug)]
enum Deed {
    Wait(u64),
    Exit(u8),
    Stop,
    Start,
    Change(Rule, bool),
    Leave,
    Need(bool),
    Hold(bool),
    /// The daemon dies and comes back; the task has ended meanwhile or not.
    Die(Option<u8>),
    /// The disk is full for the next intent.
    Full,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let rule = prop_oneof![Just(Rule::No), Just(Rule::OnFailure), Just(Rule::Always)];
    let deed = prop_oneof![
        4 => (0_u64..90).prop_map(Deed::Wait),
        6 => (0_u8..2).prop_map(Deed::Exit),
        1 => Just(Deed::Stop),
        1 => Just(Deed::Start),
        1 => (rule, any::<bool>()).prop_map(|(rule, replace)| Deed::Change(rule, replace)),
        1 => Just(Deed::Leave),
        1 => any::<bool>().prop_map(Deed::Need),
        1 => any::<bool>().prop_map(Deed::Hold),
        2 => prop::option::of(0_u8..2).prop_map(Deed::Die),
        1 => Just(Deed::Full),
    ];
    prop::collection::vec(deed, 1..80)
}

/// An engine, a disk and a clock.
struct World {
    state: State,
    disk: State,
    now: u64,
    alive: Option<u64>,
    launched: Vec<(u64, u64)>,
    full: bool,
    /// How many launches do not count any more.
    forgiven: usize,
}

impl World {
    fn happens(&mut self, event: Event) -> Result<(), TestCaseError> {
        let mut events = VecDeque::from([event]);
        let mut rounds = 0;
        while let Some(event) = events.pop_front() {
            rounds += 1;
            prop_assert!(rounds < 20, "it does not come to rest");
            let before = self.state.generation;
            if event == Event::Start {
                self.forgiven = self.launched.len();
            }
            let (state, actions) = self.state.clone().step(event, at(self.now));
            self.state = state;
            if self.state.generation != before {
                self.forgiven = self.launched.len();
            }
            let mut recorded = true;
            for action in actions {
                match action {
                    Action::Record if self.full => {
                        recorded = false;
                        self.full = false;
                    }
                    Action::Record => self.disk = reborn(&self.state),
                    Action::Launch(number) if recorded => {
                        prop_assert_eq!(self.alive, None, "two at a time");
                        prop_assert_eq!(self.disk.number, number, "intent first");
                        let last = self.launched.last().map_or(0, |(last, _)| *last);
                        prop_assert!(number > last, "{} after {}", number, last);
                        prop_assert!(!self.state.stopped && !self.state.leaving);
                        prop_assert!(self.state.held.is_none() && self.state.needs.is_none());
                        self.launched.push((number, self.now));
                        self.alive = Some(number);
                    }
                    Action::Launch(_) => events.push_back(Event::NotRecorded(String::new())),
                    Action::Stop(number) => {
                        prop_assert_eq!(self.alive, Some(number));
                        self.alive = None;
                        let end = end(self.now, 143);
                        events.push_back(Event::Ended { number, end });
                    }
                    Action::Discard(number) => {
                        prop_assert!(self.alive != Some(number));
                    }
                    Action::Forget => prop_assert_eq!(self.alive, None),
                }
            }
        }
        prop_assert_eq!(self.state.alive(), self.alive);
        Ok(())
    }

    fn starts_are_within_the_limit(&self) -> Result<(), TestCaseError> {
        let counted = self.launched.iter().skip(self.forgiven);
        let times: Vec<u64> = counted.map(|(_, at)| *at).collect();
        // Beyond the limit one comes with each slow retry at most. A run of 10 s forgets what was before it, so only starts
        // closer than that are counted.
        for window in times.windows(6) {
            let close = window.windows(2).all(|pair| pair[1] - pair[0] < 10);
            prop_assert!(!close, "six starts without a pause: {:?}", window);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn one_at_a_time_intent_first_backed_off_and_never_stuck(deeds in deeds()) {
        let state = State::new(Rule::Always, policy());
        let mut world = World {
            disk: state.clone(),
            state,
            now: 0,
            alive: None,
            launched: Vec::new(),
            full: false,
            forgiven: 0,
        };
        world.happens(Event::Found(Found::Nothing))?;
        for deed in deeds {
            match deed {
                Deed::Wait(seconds) => {
                    world.now += seconds;
                    world.happens(Event::Tick)?;
                }
                Deed::Exit(code) => {
                    if let Some(number) = world.alive.take() {
                        let end = end(world.now, code);
                        world.happens(Event::Ended { number, end })?;
                    }
                }
                Deed::Stop => world.happens(Event::Stop)?,
                Deed::Start => world.happens(Event::Start)?,
                Deed::Change(rule, replace) => world.happens(Event::Changed { rule, replace })?,
                Deed::Leave => world.happens(Event::Left)?,
                Deed::Need(there) => world.happens(Event::Needs((!there).then(|| "csi/x".to_owned())))?,
                Deed::Hold(held) => world.happens(Event::Held(held.then(|| "drain".to_owned())))?,
                Deed::Full => world.full = true,
                Deed::Die(exit) => {
                    let (held, needs, gone) = (world.state.held.clone(), world.state.needs.clone(), world.state.gone);
                    if gone {
                        break;
                    }
                    world.full = false;
                    world.state = world.disk.clone();
                    world.happens_before_recovery(held, needs)?;
                    let open = world.state.attempts.back().filter(|it| it.end.is_none()).map(|it| it.number);
                    let found = match (world.alive, exit) {
                        (None, _) if open.is_some_and(|open| world.launched.iter().any(|(it, _)| *it == open)) => {
                            Found::Ended(end(world.now, 1))
                        }
                        (None, _) => Found::Nothing,
                        (Some(_), None) => Found::Alive,
                        (Some(_), Some(code)) => {
                            world.alive = None;
                            Found::Ended(end(world.now, code))
                        }
                    };
                    world.happens(Event::Found(found))?;
                }
            }
            if world.state.is_gone() {
                break;
            }
            world.starts_are_within_the_limit()?;
        }
        // Once nothing holds it back, time brings it up, if it is wanted.
        if !world.state.is_gone() {
            world.full = false;
            world.happens(Event::Held(None))?;
            world.happens(Event::Needs(None))?;
            world.now += 1000;
            world.happens(Event::Tick)?;
            let why = world.state.why(at(world.now).now);
            prop_assert!(matches!(why, None | Some(Why::Stopped | Why::Done)), "{:?}", why);
        }
    }
}

impl World {
    fn happens_before_recovery(
        &mut self,
        held: Option<String>,
        needs: Option<String>,
    ) -> Result<(), TestCaseError> {
        for event in [Event::Held(held), Event::Needs(needs)] {
            let (state, actions) = self.state.clone().step(event, at(self.now));
            prop_assert_eq!(actions, []);
            self.state = state;
        }
        Ok(())
    }
}
