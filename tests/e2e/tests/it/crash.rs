//! The supervisor is killed at random moments, under load, and must lose nothing.
//!
//! A round: the daemon runs; something happens (a plugin is killed, the configuration changes and
//! is reloaded, an operator restarts a plugin, or nothing); at a random moment, which may be in the
//! middle of the daemon's own start, it gets SIGKILL; it is started again. Then, for each plugin
//! of the configuration:
//!
//! - not lost: its endpoint comes back and accepts a connection;
//! - not doubled: exactly one process, under exactly one shim;
//! - adopted: where nothing happened to it, it is the very process it was before.
//!
//! At the end all plugins leave the configuration, and no process may be left.
//!
//! `LONGSHORE_CRASH_KILLS` and `LONGSHORE_CRASH_SEED` set how often and replay a run;
//! `cargo xtask crash` sets them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::time::Instant;

use crate::daemon::{Daemon, PATIENCE, longshore};
use crate::procs;
use crate::random::Random;

const PLUGINS: usize = 4;
/// In a plain `cargo test`; `cargo xtask crash` asks for more.
const KILLS: u32 = 12;
/// The latest moment of a kill after the daemon's start, or after the load.
const LATEST: Duration = Duration::from_millis(250);

/// What happens in a round before the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    Nothing,
    KillPlugin(usize),
    KillShim(usize),
    Restart(usize),
    /// Another environment variable: the plugin is stopped and launched anew.
    Change(usize),
    /// Out of the configuration, or back into it.
    Toggle(usize),
}

impl Load {
    fn draw(random: &mut Random) -> Self {
        let plugin = random.below(PLUGINS);
        match random.below(10) {
            0..=2 => Self::Nothing,
            3 | 4 => Self::KillPlugin(plugin),
            5 => Self::KillShim(plugin),
            6 => Self::Restart(plugin),
            7 | 8 => Self::Change(plugin),
            _ => Self::Toggle(plugin),
        }
    }

    fn touches(self, plugin: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::KillPlugin(at)
            | Self::KillShim(at)
            | Self::Restart(at)
            | Self::Change(at)
            | Self::Toggle(at) => at == plugin,
        }
    }
}

/// What the configuration says now.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    present: bool,
    edition: u32,
}

struct World {
    daemon: Daemon,
    wanted: [Wanted; PLUGINS],
    operators: Vec<Child>,
}

#[tokio::test]
async fn killed_at_random_moments_it_loses_doubles_and_orphans_nothing() {
    let kills = number("LONGSHORE_CRASH_KILLS").unwrap_or(u64::from(KILLS));
    let seed = number("LONGSHORE_CRASH_SEED").unwrap_or_else(drawn_seed);
    println!("{kills} kills; replay with LONGSHORE_CRASH_SEED={seed}");
    let mut random = Random::new(seed);
    let mut world = World::new();
    world.configure();
    world.daemon.start();
    let mut pids = world.settled("the first start").await;
    for round in 0..kills {
        let load = Load::draw(&mut random);
        // In one of three rounds the daemon is killed again while it still recovers.
        let twice = random.below(3) == 0;
        let context = format!("kill {round} of seed {seed}, after {load:?}, twice: {twice}");
        world.perform(load);
        // The point of the test: no event to wait for, but a moment nobody chose.
        tokio::time::sleep(random.up_to(LATEST)).await;
        world.daemon.kill();
        world.daemon.start();
        if twice {
            tokio::time::sleep(random.up_to(LATEST)).await;
            world.daemon.kill();
            world.daemon.start();
        }
        let now = world.settled(&context).await;
        for (plugin, pid) in &now {
            if !load.touches(*plugin) {
                assert_eq!(
                    pids.get(plugin),
                    Some(pid),
                    "{context}: plugin {plugin} was replaced"
                );
            }
        }
        pids = now;
        if kills >= 100 && (round + 1) % 50 == 0 {
            println!("{} kills", round + 1);
        }
    }
    world.end().await;
}

impl World {
    fn new() -> Self {
        Self {
            daemon: Daemon::new(),
            wanted: [Wanted {
                present: true,
                edition: 0,
            }; PLUGINS],
            operators: Vec::new(),
        }
    }

    fn configure(&self) {
        let mut text = String::from(
            "[csi.restart]\ninitial = \"10ms\"\nmax = \"100ms\"\nstart_limit_burst = 0\n\
             [csi]\nkill_grace = \"2s\"\n",
        );
        for (plugin, wanted) in self.wanted.iter().enumerate().filter(|(_, it)| it.present) {
            let binary = longshore();
            write!(
                text,
                "[plugins.p{plugin}]\ntype = \"org.example.p{plugin}\"\nname = \"p{plugin}\"\n\
                 [[plugins.p{plugin}.containers]]\nservices = [\"controller\", \"node\"]\n\
                 command = [{binary:?}, \"csi\", \"hostpath\", \"--state-dir\", {data:?}]\n\
                 env = {{ EDITION = \"{edition}\" }}\n",
                data = self.data(plugin),
                edition = wanted.edition,
            )
            .unwrap();
        }
        self.daemon.configure(&text);
    }

    /// The state directory of a plugin: what tells its process from the others'.
    fn data(&self, plugin: usize) -> String {
        format!("{}/data-{plugin}", self.daemon.root().display())
    }

    fn perform(&mut self, load: Load) {
        match load {
            Load::Nothing => {}
            Load::KillPlugin(plugin) => {
                for process in self.plugin(plugin) {
                    process.kill();
                }
            }
            Load::KillShim(plugin) => {
                for process in self.shims(plugin) {
                    process.kill();
                }
            }
            Load::Restart(plugin) => {
                // Not waited for: the daemon is killed while it is at it.
                let name = format!("p{plugin}");
                let operator = self
                    .daemon
                    .command(&["csi", "restart", &name])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap();
                self.operators.push(operator);
            }
            Load::Change(plugin) => {
                self.wanted[plugin].edition += 1;
                self.configure();
                self.daemon.signal(Signal::SIGHUP);
            }
            Load::Toggle(plugin) => {
                self.wanted[plugin].present = !self.wanted[plugin].present;
                self.configure();
                self.daemon.signal(Signal::SIGHUP);
            }
        }
    }

    fn plugin(&self, plugin: usize) -> Vec<procs::Proc> {
        let data = self.data(plugin);
        procs::below(self.daemon.root())
            .into_iter()
            .filter(|process| process.is_plugin() && process.mentions(&data))
            .collect()
    }

    /// The parents of a plugin's processes.
    fn shims(&self, plugin: usize) -> Vec<procs::Proc> {
        let parents: Vec<_> = self
            .plugin(plugin)
            .iter()
            .filter_map(|it| parent(it.pid))
            .collect();
        procs::below(self.daemon.root())
            .into_iter()
            .filter(|process| process.is_shim() && parents.contains(&process.pid))
            .collect()
    }

    /// Waits until all is as the configuration says; returns the process of each plugin.
    async fn settled(&mut self, context: &str) -> BTreeMap<usize, i32> {
        // First the operators: what they asked for must not come after the look below.
        for operator in std::mem::take(&mut self.operators) {
            ended(operator, context).await;
        }
        let wanted = self.wanted;
        self.daemon
            .until(context, |status| ready(status, &wanted))
            .await;
        // A replaced process may take its moment to be gone: the count is right at some moment
        // soon, or something is doubled or orphaned.
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.counted() {
                Ok(found) => return found,
                Err(why) => assert!(
                    Instant::now() < deadline,
                    "{context}: {why}\n{}",
                    self.daemon.log_tail()
                ),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// One process and one shim for each plugin of the configuration, none for the others.
    fn counted(&self) -> Result<BTreeMap<usize, i32>, String> {
        let all = procs::below(self.daemon.root());
        let mut found = BTreeMap::new();
        let mut expected = 0;
        for (plugin, wanted) in self.wanted.iter().enumerate() {
            let data = self.data(plugin);
            let own: Vec<_> = all
                .iter()
                .filter(|it| it.is_plugin() && it.mentions(&data))
                .collect();
            match (wanted.present, own.as_slice()) {
                (true, [process]) => {
                    expected += 1;
                    found.insert(plugin, process.pid);
                }
                (false, []) => {}
                (true, []) => return Err(format!("plugin {plugin} is lost: {all:?}")),
                (true, _) => return Err(format!("plugin {plugin} is doubled: {all:?}")),
                (false, _) => return Err(format!("plugin {plugin} is left: {all:?}")),
            }
        }
        let shims = all.iter().filter(|process| process.is_shim()).count();
        if shims == expected {
            Ok(found)
        } else {
            Err(format!("{shims} shims for {expected} plugins: {all:?}"))
        }
    }

    /// Everything leaves the configuration, then the daemon ends: nothing may be left.
    async fn end(mut self) {
        for wanted in &mut self.wanted {
            wanted.present = false;
        }
        self.configure();
        self.daemon.signal(Signal::SIGHUP);
        self.settled("the end").await;
        let status = self.daemon.stop().await;
        assert!(status.success(), "{status}\n{}", self.daemon.log_tail());
        let left = procs::below(self.daemon.root());
        assert!(left.is_empty(), "orphans: {left:?}");
    }
}

/// Whether the status names exactly the wanted plugins, all ready, each with an endpoint that
/// accepts a connection.
fn ready(status: &Value, wanted: &[Wanted; PLUGINS]) -> Result<(), String> {
    let plugins = status["plugins"].as_array().ok_or("no `plugins`")?;
    let expected = wanted.iter().filter(|it| it.present).count();
    if plugins.len() != expected {
        return Err(format!(
            "{} plugins instead of {expected}: {plugins:#?}",
            plugins.len()
        ));
    }
    for plugin in plugins {
        if plugin["state"] != "ready" {
            return Err(format!("not ready: {plugin:#}"));
        }
        let endpoints = plugin["endpoints"].as_array().ok_or("no `endpoints`")?;
        if endpoints.is_empty() {
            return Err(format!("no endpoint: {plugin:#}"));
        }
        for endpoint in endpoints {
            let uri = endpoint["uri"].as_str().unwrap_or_default();
            let path = uri
                .strip_prefix("unix://")
                .ok_or_else(|| format!("{endpoint}"))?;
            UnixStream::connect(path).map_err(|error| format!("{uri}: {error}"))?;
        }
    }
    Ok(())
}

/// Waits for an operator's command, which may have failed with its daemon.
async fn ended(mut operator: Child, context: &str) {
    let deadline = Instant::now() + PATIENCE;
    while operator.try_wait().unwrap().is_none() {
        assert!(
            Instant::now() < deadline,
            "{context}: a command does not end"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The parent of a process, while it is there.
fn parent(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:"))?
        .trim()
        .parse()
        .ok()
}

pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    )
}

pub(crate) fn drawn_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_micros()).unwrap()
}
