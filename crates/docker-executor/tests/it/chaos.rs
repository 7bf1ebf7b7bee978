//! Everything at once, in virtual time: kills, exits, faults of every call, daemons that go and come, deeds of others, deaths of
//! ours. Each task ends once, and no container is left.

use std::collections::BTreeMap;

use longshore_docker_executor::{Acknowledge, Kill, Launch};
use longshore_engine::fake::{Call, LostExit, Script};
use longshore_engine::{Engine as _, EngineError, RemoveOptions};

use crate::bed::{Bed, SECOND, ended, gone, is_last, launch, word};

const TASKS: usize = 30;
const CALLS: [Call; 12] = [
    Call::Pull,
    Call::InspectImage,
    Call::Create,
    Call::Start,
    Call::Wait,
    Call::Kill,
    Call::Unpause,
    Call::Remove,
    Call::Inspect,
    Call::Logs,
    Call::Events,
    Call::List,
];

/// Numbers that look random, the same for one seed each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        // Xorshift of 64 bits.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn script(&mut self) -> Script {
        match self.roll(4) {
            0 => Script::exits(
                SECOND * u32::try_from(self.roll(200)).unwrap(),
                i64::try_from(self.roll(4)).unwrap(),
            ),
            1 => Script::ignores_term(),
            2 => Script {
                code_on_signal: Some(0),
                dies_after: SECOND,
                ..Script::default()
            },
            _ => Script::default(),
        }
    }
}

fn refused() -> EngineError {
    EngineError::Status {
        call: "call",
        subject: String::new(),
        status: 500,
        message: "chaos".to_owned(),
    }
}

async fn strike(bed: Bed, dice: &mut Dice) -> Bed {
    let force = RemoveOptions {
        force: true,
        volumes: false,
    };
    let containers = bed.engine.containers();
    let victim = (!containers.is_empty()).then(|| containers[dice.roll(containers.len())].clone());
    let tasks = bed.executor.tasks();
    match (dice.roll(14), victim) {
        (0, _) => bed.engine.fail(CALLS[dice.roll(CALLS.len())], 1, refused()),
        (1, _) => bed.engine.fail(CALLS[dice.roll(CALLS.len())], 1, gone()),
        (2, _) => bed.engine.hang(CALLS[dice.roll(CALLS.len())], 1),
        (3, _) => bed.engine.lose_answer(CALLS[dice.roll(CALLS.len())], 1),
        (4, _) => {
            bed.engine.daemon_down();
            tokio::time::sleep(SECOND * u32::try_from(dice.roll(30)).unwrap()).await;
            bed.engine.daemon_up(dice.roll(3) > 0);
        }
        (5, _) => {
            bed.engine.break_events();
            tokio::time::sleep(SECOND * u32::try_from(dice.roll(5)).unwrap()).await;
            bed.engine.mend_events();
        }
        (6, _) => {
            let bed = bed.die().rise();
            let recovery = bed.executor.recover().unwrap();
            assert!(recovery.damaged.is_empty(), "{recovery:?}");
            return bed;
        }
        (7, _) if !tasks.is_empty() => {
            let grace = SECOND * u32::try_from(dice.roll(20)).unwrap();
            tasks[dice.roll(tasks.len())].kill(Kill::within(grace));
        }
        (8, Some(id)) => bed.engine.lose_exit(&id, LostExit::Clients),
        (9, Some(id)) => drop(bed.engine.kill(&id, "KILL").await),
        (10, Some(id)) => drop(bed.engine.remove(&id, force).await),
        (11, Some(id)) => drop(bed.engine.pause(&id).await),
        (12, Some(id)) => {
            bed.engine.signal_process(&id, "KILL");
        }
        (_, Some(id)) => {
            bed.engine.signal_process(&id, "KILL");
            tokio::time::sleep(SECOND / 100).await;
            drop(bed.engine.start(&id).await);
        }
        _ => {}
    }
    bed
}

async fn run(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut bed = Bed::new();
    for n in 0..TASKS {
        bed.engine.script(dice.script());
        let task = bed.executor.launch(Launch {
            acknowledge: Acknowledge::ByCaller,
            ..launch(&bed.sandbox(), &format!("t{n}"), "")
        });
        // From its first status on it is on record.
        task.updates().next().await;
        drop(task);
        tokio::time::sleep(SECOND * u32::try_from(dice.roll(3)).unwrap()).await;
        for _ in 0..dice.roll(4) {
            bed = strike(bed, &mut dice).await;
        }
    }
    bed.engine.heal();
    let tasks = bed.executor.tasks();
    assert_eq!(tasks.len(), TASKS, "seed {seed}: a task is lost");
    for task in &tasks {
        task.kill(Kill::within(SECOND));
    }
    let mut ends: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for task in &tasks {
        ended(task).await;
        let told = task.unacknowledged();
        let last = told.iter().filter(|status| is_last(status)).map(word);
        ends.entry(task.id().to_owned()).or_default().extend(last);
        for status in told {
            assert!(task.acknowledge(status.uuid()), "seed {seed}");
        }
    }
    for (id, ends) in &ends {
        assert_eq!(ends.len(), 1, "seed {seed}: {id}: {ends:?}");
    }
    for task in &tasks {
        let done = tokio::time::timeout(SECOND * 10_000, task.finished()).await;
        assert!(done.is_ok(), "seed {seed}: {:?}", task.watch().borrow());
    }
    assert_eq!(bed.engine.containers(), [""; 0], "seed {seed}: left behind");
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_each_task_ends_once_and_leaves_nothing() {
    let seeds = std::env::var("LONGSHORE_CHAOS_SEEDS").ok();
    let seeds = seeds.and_then(|text| text.parse().ok()).unwrap_or(5);
    for seed in 0..seeds {
        run(seed).await;
    }
}
