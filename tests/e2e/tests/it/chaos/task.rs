//! One task of the run, from its launch to its end.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use longshore_testkit::peers::TEST_IMAGE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::World;
use super::engine::{Answer, ask, tick};
use super::history::{self, Away};
use super::sort::{self, Met, Sort};
use crate::random::Random;

/// A task that takes longer than this is lost.
const LOST: Duration = Duration::from_secs(400);
/// The longest life of a command of ours.
const COMMAND: Duration = Duration::from_secs(180);
/// How soon a command that failed is given again.
const AGAIN: Duration = Duration::from_millis(300);

/// What became of a task.
#[derive(Debug)]
pub(super) struct Life {
    id: String,
    sort: Sort,
    launched: Instant,
    /// When something was first done to it.
    deed: Option<Instant>,
    ended: Instant,
    /// Its last status; `None`: it never ended.
    last: Option<Value>,
}

/// Launches a task, does to it what belongs to its sort, and waits until it has ended.
pub(super) fn live(world: &World, number: usize, mut random: Random) -> Life {
    let sort = Sort::of(number);
    let mut life = Life {
        id: format!("t{number}"),
        sort,
        launched: Instant::now(),
        deed: None,
        ended: Instant::now(),
        last: None,
    };
    let (flags, words) = sort.command(&mut random);
    let mut child = life.launch(world, &flags, &words);
    if sort.is_ours() {
        // At any moment, also before it runs.
        std::thread::park_timeout(random.up_to(Duration::from_secs(4)));
    } else if !sort.ends_by_itself() {
        life.wait(world, |task| task["phase"] == "running");
        std::thread::park_timeout(random.up_to(Duration::from_secs(3)));
    }
    life.be_done_to(world, &mut random);
    life.wait(world, |_| false);
    life.ended = Instant::now();
    life.last = world.told(&life.id).filter(|task| task["phase"] == "ended");
    drop(child.kill());
    drop(child.wait());
    life
}

impl Life {
    /// Until the daemon knows it, whatever happens to the daemon meanwhile.
    fn launch(&self, world: &World, flags: &[&str], words: &[String]) -> Child {
        let mut problem = String::new();
        while !self.is_lost() {
            let mut args = vec!["task", "run", "-d", "--name", &self.id];
            args.extend(["--network", "none", "--stop-timeout", "2"]);
            args.extend(flags);
            args.push(TEST_IMAGE);
            args.extend(words.iter().map(String::as_str));
            let mut command = world.command(&args);
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            while child.try_wait().unwrap().is_none() {
                if world.told(&self.id).is_some() {
                    return child;
                }
                world.wait_for_news();
            }
            // It may be on record all the same, which the next look tells.
            let again = Instant::now() + AGAIN;
            while Instant::now() < again {
                tick();
            }
            if world.told(&self.id).is_some() {
                return child;
            }
            let output = child.wait_with_output().unwrap();
            problem = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        panic!("{} cannot be launched: {problem}", self.id);
    }

    fn is_lost(&self) -> bool {
        self.launched.elapsed() > LOST
    }

    fn has_ended(&self, world: &World) -> bool {
        world
            .told(&self.id)
            .is_some_and(|task| task["phase"] == "ended")
    }

    /// Until it is so, or has ended.
    fn wait(&self, world: &World, is_so: impl Fn(&Value) -> bool) {
        while !self.is_lost() {
            if let Some(task) = world.told(&self.id)
                && (task["phase"] == "ended" || is_so(&task))
            {
                return;
            }
            world.wait_for_news();
        }
    }

    fn be_done_to(&mut self, world: &World, random: &mut Random) {
        match self.sort {
            Sort::Stopped => self.command(world, &["task", "stop", "-t", "20", &self.id.clone()]),
            Sort::StubbornStopped => {
                self.command(world, &["task", "stop", "-t", "1", &self.id.clone()]);
            }
            Sort::Killed => self.command(world, &["task", "kill", &self.id.clone()]),
            Sort::PausedStopped => {
                self.call(world, "POST", |id| format!("/containers/{id}/pause"));
                std::thread::park_timeout(random.up_to(Duration::from_secs(2)));
                self.command(world, &["task", "stop", "-t", "20", &self.id.clone()]);
            }
            Sort::StoppedByOther => {
                self.call(world, "POST", |id| format!("/containers/{id}/stop?t=20"));
            }
            Sort::KilledByOther => {
                self.call(world, "POST", |id| format!("/containers/{id}/kill"));
            }
            Sort::RemovedByOther => {
                self.call(world, "DELETE", |id| format!("/containers/{id}?force=1"));
            }
            Sort::RestartedByOther => {
                self.call(world, "POST", |id| format!("/containers/{id}/restart?t=20"));
            }
            Sort::Slain => {
                let inspected = self.call(world, "GET", |id| format!("/containers/{id}/json"));
                let pid = inspected.map(|it| it.json()["State"]["Pid"].as_i64().unwrap_or(0));
                if let Some(pid) = pid.filter(|pid| *pid > 1) {
                    // It may have ended meanwhile.
                    let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
                }
            }
            _ => {}
        }
    }

    /// A command of ours, until it is taken or the task has ended.
    fn command(&mut self, world: &World, args: &[&str]) {
        self.deed.get_or_insert_with(Instant::now);
        while !self.is_lost() && !self.has_ended(world) {
            let mut command = world.command(args);
            let mut child = command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let begun = Instant::now();
            let status = loop {
                if let Some(status) = child.try_wait().unwrap() {
                    break status;
                }
                if begun.elapsed() > COMMAND {
                    world.problem(format!("{}: {args:?} does not end", self.id));
                    drop(child.kill());
                }
                tick();
            };
            if status.success() {
                return;
            }
            tick();
        }
    }

    /// Somebody else's call of the engine, until it is answered; the engine may be away.
    fn call(
        &mut self,
        world: &World,
        method: &str,
        path: impl Fn(&str) -> String,
    ) -> Option<Answer> {
        self.deed.get_or_insert_with(Instant::now);
        while !self.is_lost() && !self.has_ended(world) {
            let name = world.told(&self.id)?["container"].as_str()?.to_owned();
            match ask(&world.engine, method, &path(&name)) {
                Some(answer) if answer.is_good() || answer.status == 404 => return Some(answer),
                _ => tick(),
            }
        }
        None
    }

    /// Whether it has ended as it has to; returns how.
    pub(super) fn judge(&self, world: &World) -> String {
        let Some(last) = &self.last else {
            let told = world.told(&self.id);
            world.problem(format!("{self:?} has not ended: {told:?}"));
            return "none".to_owned();
        };
        let word = last["ending"].as_str().unwrap_or_default();
        let code = last["exit_code"].as_i64().unwrap_or(-1);
        let met = self.met(world, last);
        let right = sort::right(self.sort, met);
        let is_right = right
            .iter()
            .any(|ending| ending.word == word && ending.codes.contains(&code));
        if !is_right || last["state"] != sort::state(word, code) {
            world.problem(format!(
                "{} ({:?}, done to after {:?}, ended after {:?}) has ended as {word} {code}: {}, {}; it met {met:?}, so right is {right:?}",
                self.id,
                self.sort,
                self.deed.map(|at| at - self.launched),
                self.ended - self.launched,
                last["state"],
                last["message"],
            ));
        }
        self.check_output(world, last, met);
        word.to_owned()
    }

    fn met(&self, world: &World, last: &Value) -> Met {
        let entries = world.history.between(self.launched, self.ended);
        let is = |what: fn(&Away) -> bool| entries.iter().any(|entry| what(&entry.what));
        let from = self.deed.unwrap_or(self.launched);
        let at_its_end = world.history.between(from, self.ended);
        let mut silences = entries.clone();
        silences.retain(|entry| entry.what != Away::Daemon);
        Met {
            unseen: at_its_end.iter().any(|entry| entry.what == Away::Daemon),
            forgotten: is(|what| matches!(what, Away::Engine { .. }))
                && last["message"]
                    .as_str()
                    .is_some_and(|message| message.contains("id already in use")),
            outage: is(|what| matches!(what, Away::Engine { .. })),
            swept: is(|what| matches!(what, Away::Engine { kept: false })),
            long_silence: history::longest(&silences) >= sort::STATUS,
            refused: last["container"]
                .as_str()
                .is_some_and(|name| world.proxy.has_refused_start(name)),
            slow_launch: self.ended - self.launched >= sort::PATIENCE,
        }
    }

    /// Output is whole, unless the engine was killed: then it may never have written it.
    fn check_output(&self, world: &World, last: &Value, met: Met) {
        let (Sort::Exits(_), "exited") = (self.sort, last["ending"].as_str().unwrap_or_default())
        else {
            return;
        };
        if met.outage {
            return;
        }
        let path = std::path::Path::new(last["sandbox"].as_str().unwrap()).join("stdout");
        let expected = "begin\nend\n";
        let deadline = Instant::now() + Duration::from_secs(60);
        // What the engine could not give in time comes after the last status.
        loop {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if text == expected {
                return;
            }
            if Instant::now() > deadline {
                world.problem(format!("{}: its output is {text:?}", self.id));
                return;
            }
            tick();
        }
    }
}
