//! Declared tasks while the daemon and the engine are killed: each comes back, one attempt at a time, and what has run once stays
//! so.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longshore_testkit::peers::{self, TEST_IMAGE};
use serde_json::Value;

use super::PATIENCE;
use super::engine::{Dockerd, tick};
use crate::crash::{drawn_seed, number};
use crate::daemon::Daemon;
use crate::random::Random;

const STRIKES: u64 = 10;
/// Started again soon, however often: what is tried here is not the start limit.
const RESTART: &str = "[tasks.restart]\ninitial = \"100ms\"\nmax = \"1s\"\nstart_limit_burst = 0\n";

#[tokio::test]
async fn what_is_declared_comes_back_one_attempt_at_a_time() {
    let Some(dir) = std::env::var_os("LONGSHORE_CHAOS_ENGINE") else {
        peers::skip::<()>(
            "chaos",
            "`cargo xtask chaos` runs it, on an engine that it may kill",
        );
        return;
    };
    let seed = number("LONGSHORE_CHAOS_SEED").unwrap_or_else(drawn_seed);
    println!("{STRIKES} strikes; LONGSHORE_CHAOS_SEED={seed}");
    let mut random = Random::new(seed);
    let mut dockerd = Dockerd::running_in(Path::new(&dir));
    let mut daemon = Daemon::new();
    let tasks = daemon.root().join("tasks.d");
    fs::create_dir(&tasks).unwrap();
    // Nobody else sleeps so long.
    let (web, after) = (Sleep::new(1), Sleep::new(2));
    let sleeper = |sleep: &Sleep, rest: &str| {
        let seconds = &sleep.seconds;
        format!("command = [\"sleep\", \"{seconds}\"]\nstop-timeout = 1\n{rest}")
    };
    declare(&tasks, "web", &sleeper(&web, ""));
    declare(
        &tasks,
        "after",
        &sleeper(&after, "needs = [\"task/web\"]\n"),
    );
    declare(&tasks, "once", "command = [\"true\"]\nrestart = \"no\"\n");
    daemon.configure(&format!(
        "[tasks]\nengine = \"unix://{}\"\n{RESTART}",
        dockerd.socket().display()
    ));
    daemon.start();
    until(&mut daemon, "once", |it| it["state"] == "done");
    for strike in 0..STRIKES {
        if random.below(3) > 0 {
            until(&mut daemon, "web", |it| it["state"] == "running");
            until(&mut daemon, "after", |it| it["state"] == "running");
        }
        let pause = random.up_to(Duration::from_millis(1500));
        let kept = random.below(2) > 0;
        let (ours, engines) = match random.below(4) {
            0 | 1 => (true, false),
            2 => (false, true),
            _ => (true, true),
        };
        println!("strike {strike}: daemon {ours}, engine {engines}, containers kept {kept}");
        if ours {
            daemon.kill();
        }
        if engines {
            dockerd.kill();
        }
        std::thread::park_timeout(pause);
        if ours {
            daemon.start();
        }
        if engines {
            dockerd.start(kept);
        }
    }
    for name in ["web", "after"] {
        let task = until(&mut daemon, name, |it| it["state"] == "running");
        let history = inspect(&daemon, name);
        let history = history["history"].as_array().unwrap();
        println!("{name}: {} attempts", task["attempts"]);
        let open = history.iter().filter(|it| it["ended_at"].is_null());
        assert_eq!(open.count(), 1, "{history:#?}");
        let numbers: Vec<_> = history.iter().map(|it| it["number"].as_u64()).collect();
        let expected: Vec<_> = (1..=task["attempts"].as_u64().unwrap()).map(Some).collect();
        assert!(expected.ends_with(&numbers), "{numbers:?}");
    }
    let once = until(&mut daemon, "once", |it| it["state"] == "done");
    assert_eq!(once["attempts"], 1, "{once}");
    for name in ["web", "after", "once"] {
        fs::remove_file(tasks.join(format!("{name}.toml"))).unwrap();
    }
    let deadline = Instant::now() + PATIENCE;
    while !declared(&daemon).is_some_and(|all| all.is_empty()) {
        assert!(
            Instant::now() < deadline,
            "they stay\n{}",
            daemon.log_tail()
        );
        tick();
    }
    for sleep in [web, after] {
        assert_eq!(sleep.running(), 0, "a container is left");
        assert_eq!(sleep.most(), 1, "so many at a time");
    }
}

fn declare(dir: &Path, name: &str, text: &str) {
    let path: PathBuf = dir.join(format!("{name}.toml"));
    fs::write(path, format!("image = {TEST_IMAGE:?}\n{text}")).unwrap();
}

fn declared(daemon: &Daemon) -> Option<Vec<Value>> {
    let listed = daemon.run(&["task", "ls", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).ok()?;
    listed["declared"].as_array().cloned()
}

fn inspect(daemon: &Daemon, name: &str) -> Value {
    let shown = daemon.run(&["task", "inspect", name, "--json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    shown["declared"].clone()
}

fn until(daemon: &mut Daemon, name: &str, what: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    let mut last = Value::Null;
    loop {
        let all = declared(daemon).unwrap_or_default();
        if let Some(task) = all.into_iter().find(|it| it["name"] == name) {
            if what(&task) {
                return task;
            }
            last = task;
        } else if let Some(status) = daemon.ended() {
            panic!("the daemon ended with {status}\n{}", daemon.log_tail());
        }
        assert!(
            Instant::now() < deadline,
            "{name}: {last}\n{}",
            daemon.log_tail()
        );
        tick();
    }
}

/// A program that only one task runs, counted all the time.
struct Sleep {
    seconds: String,
    most: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Sleep {
    fn new(which: u32) -> Self {
        let seconds = format!("{which}{:08}", std::process::id());
        let (most, over) = (
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (counted, highest, end) = (seconds.clone(), Arc::clone(&most), Arc::clone(&over));
        std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                highest.fetch_max(count(&counted), Ordering::Relaxed);
                tick();
            }
        });
        Self {
            seconds,
            most,
            over,
        }
    }

    fn running(&self) -> usize {
        count(&self.seconds)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

fn count(seconds: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.starts_with("sleep\0") && line.contains(seconds)
    })
    .count()
}
