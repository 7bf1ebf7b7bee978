//! Docker tasks while everything around them breaks: each must end once, as it has to, and leave nothing.
//!
//! A daemon runs tasks of all sorts (see `sort`) on an engine of its own. Between the two a proxy hangs, cuts and refuses some of
//! the calls. At random moments the daemon or the engine, or both, are killed and started again, or nothing gets through for some
//! seconds. In the end:
//!
//! - each task has ended, in a way that follows from what was done to it, and stays so;
//! - the engine has no container left, and the machine no process of one.
//!
//! `cargo xtask chaos` starts the engine and names it by `LONGSHORE_CHAOS_ENGINE`; `LONGSHORE_CHAOS_TASKS`, `_MINUTES` and `_SEED`
//! set the size of a run, and the chance of a run; what the machine does beside is not repeated.

#![expect(
    clippy::print_stdout,
    reason = "a long run tells how far it is, and in the end what it saw"
)]

mod declared;
mod engine;
mod history;
mod proxy;
mod sort;
mod task;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use longshore_testkit::peers;
use serde_json::Value;

use crate::crash::{drawn_seed, number};
use crate::daemon::{Daemon, longshore};
use crate::procs;
use crate::random::Random;
use engine::{Dockerd, ask, tick};
use history::{Away, History};
use proxy::Proxy;
use task::Life;

const TASKS: u64 = 200;
const MINUTES: u64 = 4;
/// So many tasks at a time.
const AT_ONCE: usize = 16;
/// What may take so long when nothing is broken any more, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// What all threads of a run share.
struct World {
    root: PathBuf,
    engine: PathBuf,
    history: History,
    proxy: Arc<Proxy>,
    /// What the daemon told last of each task.
    told: Mutex<BTreeMap<String, Value>>,
    news: Condvar,
    problems: Mutex<Vec<String>>,
    over: AtomicBool,
}

impl World {
    /// A verb of the command line against the daemon.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(longshore());
        command
            .args(args)
            .env("LONGSHORE_CONFIG", self.root.join("longshore.toml"))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    fn told(&self, id: &str) -> Option<Value> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(id).cloned()
    }

    /// Waits for news of any task, not for long.
    fn wait_for_news(&self) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.news.wait_timeout(told, Duration::from_millis(500)));
    }

    fn problem(&self, text: String) {
        println!("PROBLEM: {text}");
        let mut problems = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        problems.push(text);
    }

    /// Asks the daemon again and again how all tasks are; one that has ended must stay as it is.
    fn watch(&self) {
        while !self.over.load(Ordering::Relaxed) {
            let listed = self
                .command(&["task", "ls", "--all", "--json"])
                .stderr(Stdio::null())
                .output()
                .unwrap();
            if let Ok(listed) = serde_json::from_slice::<Value>(&listed.stdout) {
                self.note(listed["tasks"].as_array().unwrap());
            }
            std::thread::park_timeout(Duration::from_millis(300));
        }
    }

    fn note(&self, tasks: &[Value]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut problems = Vec::new();
        for task in tasks {
            let id = task["id"].as_str().unwrap().to_owned();
            let what = |task: &Value| {
                [
                    "phase",
                    "state",
                    "ending",
                    "exit_code",
                    "message",
                    "ended_at",
                ]
                .map(|member| task[member].clone())
            };
            if let Some(before) = told.get(&id)
                && before["phase"] == "ended"
                && what(before) != what(task)
            {
                problems.push(format!(
                    "{id} has ended twice: {:?}, then {:?}",
                    what(before),
                    what(task)
                ));
            }
            told.insert(id, task.clone());
        }
        drop(told);
        self.news.notify_all();
        for problem in problems {
            self.problem(problem);
        }
    }
}

#[tokio::test]
async fn whatever_breaks_each_task_ends_once_and_leaves_nothing() {
    let Some(dir) = std::env::var_os("LONGSHORE_CHAOS_ENGINE") else {
        peers::skip::<()>(
            "chaos",
            "`cargo xtask chaos` runs it, on an engine that it may kill",
        );
        return;
    };
    let tasks = number("LONGSHORE_CHAOS_TASKS").unwrap_or(TASKS);
    let minutes = number("LONGSHORE_CHAOS_MINUTES").unwrap_or(MINUTES);
    let seed = number("LONGSHORE_CHAOS_SEED").unwrap_or_else(drawn_seed);
    println!("{tasks} tasks in {minutes} minutes or more; LONGSHORE_CHAOS_SEED={seed}");
    let begun = Instant::now();
    let mut run = Run::new(Path::new(&dir), seed);
    let lives = run.storm(
        usize::try_from(tasks).unwrap(),
        Duration::from_secs(minutes * 60),
    );
    run.calm(lives).await;
    println!("{:.0} s", begun.elapsed().as_secs_f64());
}

struct Run {
    daemon: Daemon,
    dockerd: Dockerd,
    world: Arc<World>,
    random: Random,
    kills: BTreeMap<&'static str, u32>,
}

impl Run {
    fn new(engine: &Path, seed: u64) -> Self {
        let dockerd = Dockerd::running_in(engine);
        let mut daemon = Daemon::new();
        let socket = daemon.root().join("proxy.sock");
        let proxy = Proxy::start(&socket, &dockerd.socket(), seed ^ 1);
        let log = std::env::var("LONGSHORE_CHAOS_LOG")
            .unwrap_or_else(|_| "info,longshore_docker_executor=debug".to_owned());
        daemon.configure(&format!(
            "log = {log:?}\n[tasks]\nengine = \"unix://{}\"\n",
            socket.display()
        ));
        daemon.start();
        let world = Arc::new(World {
            root: daemon.root().to_owned(),
            engine: dockerd.socket(),
            history: History::default(),
            proxy,
            told: Mutex::default(),
            news: Condvar::new(),
            problems: Mutex::default(),
            over: AtomicBool::new(false),
        });
        Self {
            daemon,
            dockerd,
            world,
            random: Random::new(seed),
            kills: BTreeMap::new(),
        }
    }

    /// Launches all tasks, a few at a time, and breaks things meanwhile.
    fn storm(&mut self, tasks: usize, time: Duration) -> Vec<Life> {
        let world = Arc::clone(&self.world);
        std::thread::spawn(move || world.watch());
        // The last ones need their time, too.
        let every = time.mul_f64(0.8) / u32::try_from(tasks).unwrap();
        let (begun, mut strike_at) = (Instant::now(), Instant::now());
        let (mut running, mut lives) = (Vec::new(), Vec::new());
        let mut launched = 0_usize;
        let mut shown = 0;
        while launched < tasks || !running.is_empty() {
            let (done, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut running)
                .into_iter()
                .partition(|thread: &std::thread::JoinHandle<Life>| thread.is_finished());
            running = rest;
            lives.extend(done.into_iter().map(|thread| thread.join().unwrap()));
            if lives.len() / 25 > shown {
                shown = lives.len() / 25;
                println!(
                    "{} tasks have ended after {:.0?}",
                    lives.len(),
                    begun.elapsed()
                );
            }
            let due = begun + every * u32::try_from(launched).unwrap();
            if launched < tasks && running.len() < AT_ONCE && Instant::now() >= due {
                let (world, random) = (Arc::clone(&self.world), self.random.split());
                let number = launched;
                running.push(std::thread::spawn(move || {
                    task::live(&world, number, random)
                }));
                launched += 1;
            }
            // The last ones end in peace: what is still broken then has to mend itself.
            if launched < tasks && Instant::now() >= strike_at {
                self.strike();
                strike_at = Instant::now()
                    + Duration::from_secs(2)
                    + self.random.up_to(Duration::from_secs(5));
            } else if launched == tasks {
                self.world.proxy.calm();
            }
            tick();
        }
        lives
    }

    fn strike(&mut self) {
        let pause = self.random.up_to(Duration::from_millis(2500));
        let kept = self.random.below(4) > 0;
        let history = &self.world.history;
        match self.random.below(20) {
            0..=9 => {
                *self.kills.entry("daemon killed").or_default() += 1;
                let away = history.begin(Away::Daemon);
                self.daemon.kill();
                std::thread::park_timeout(pause);
                self.daemon.start();
                self.until_it_answers();
                self.world.history.end(away);
            }
            10..=12 => self.engine_dies(kept, pause, false),
            13 => self.engine_dies(kept, pause, true),
            _ => {
                *self.kills.entry("frozen").or_default() += 1;
                let time = Duration::from_secs(1) + self.random.up_to(Duration::from_secs(7));
                history.during(Away::Frozen, time);
                self.world.proxy.freeze(time);
            }
        }
    }

    fn engine_dies(&mut self, kept: bool, pause: Duration, with_daemon: bool) {
        let word = if kept {
            "engine killed, containers kept"
        } else {
            "engine killed"
        };
        *self.kills.entry(word).or_default() += 1;
        let away = self.world.history.begin(Away::Engine { kept });
        let ours = with_daemon.then(|| self.world.history.begin(Away::Daemon));
        if with_daemon {
            *self.kills.entry("daemon killed").or_default() += 1;
            self.daemon.kill();
        }
        self.dockerd.kill();
        std::thread::park_timeout(pause);
        if with_daemon && self.random.below(2) == 0 {
            self.dockerd.start(kept);
            self.daemon.start();
        } else {
            if with_daemon {
                self.daemon.start();
            }
            self.dockerd.start(kept);
        }
        self.world.history.end(away);
        if let Some(ours) = ours {
            self.until_it_answers();
            self.world.history.end(ours);
        }
    }

    /// Until the daemon has taken its tasks up and listens.
    fn until_it_answers(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.daemon.status().is_none() {
            if let Some(status) = self.daemon.ended() {
                panic!("the daemon ended with {status}\n{}", self.daemon.log_tail());
            }
            assert!(
                Instant::now() < deadline,
                "the daemon does not answer\n{}",
                self.daemon.log_tail()
            );
            tick();
        }
    }

    /// All have ended: what they came to, and what is left.
    async fn calm(mut self, lives: Vec<Life>) {
        let world = Arc::clone(&self.world);
        let mut endings: BTreeMap<String, u32> = BTreeMap::new();
        for life in &lives {
            *endings.entry(life.judge(&world)).or_default() += 1;
        }
        let deadline = Instant::now() + PATIENCE;
        let left = loop {
            let listed = ask(&world.engine, "GET", "/containers/json?all=1").unwrap();
            let listed = listed.json();
            let names: Vec<_> = listed
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["Names"].to_string())
                .collect();
            let processes = self.dockerd.processes();
            if (names.is_empty() && processes.is_empty()) || Instant::now() > deadline {
                break (names, processes);
            }
            tick();
        };
        if left != (vec![], vec![]) {
            world.problem(format!(
                "left in the end: containers {:?}, processes {:?}",
                left.0, left.1
            ));
        }
        world.over.store(true, Ordering::Relaxed);
        let status = self.daemon.stop().await;
        assert!(status.success(), "{status}\n{}", self.daemon.log_tail());
        let orphans = procs::below(self.daemon.root());
        assert!(orphans.is_empty(), "orphans: {orphans:?}");
        println!("done: {:?}", self.kills);
        println!("calls: {:?}", world.proxy.counts());
        println!("endings: {endings:#?}");
        let problems = world
            .problems
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !problems.is_empty() {
            let kept =
                std::env::temp_dir().join(format!("longshore-chaos-{}.log", std::process::id()));
            std::fs::copy(self.daemon.log_file(), &kept).unwrap();
            panic!(
                "{} problems; the daemon's log is {}:\n{}",
                problems.len(),
                kept.display(),
                problems.join("\n")
            );
        }
    }
}
