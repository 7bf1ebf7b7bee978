use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use longshore_testkit::peers;
use nix::unistd::Pid;

use crate::engine::{Container, FakeEngine, beside};
use crate::executor::{Executor, eventually, is_alive, stat};

const STOPPED: [&str; 2] = [
    "POST /containers/task/kill?signal=SIGTERM",
    "DELETE /containers/task?force=1&v=1",
];

#[test]
fn after_a_normal_end_nothing_is_done() {
    let engine = FakeEngine::start(Container::default());
    let mut executor = Executor::start(&engine.socket());
    executor.tell("watch task 100 0 0");
    executor.end_by("done");
    executor.wait_for_the_watchdogs_end();
    assert!(engine.is_untouched());
}

#[test]
fn a_container_that_is_not_watched_any_more_is_left_alone() {
    let engine = FakeEngine::start(Container::default());
    let mut executor = Executor::start(&engine.socket());
    executor.tell("watch task 100 0 0");
    executor.tell("forget task");
    executor.kill();
    executor.wait_for_the_watchdogs_end();
    assert!(engine.is_untouched());
}

#[test]
fn however_an_executor_dies_its_container_is_stopped_and_removed() {
    let ways: [fn(&mut Executor); 3] = [Executor::kill, Executor::kill_tree, |executor| {
        executor.end_by("exit");
    }];
    for way in ways {
        let engine = FakeEngine::start(Container::default());
        let mut executor = Executor::start(&engine.socket());
        executor.tell("watch task 60000 0 0");
        assert!(engine.is_untouched() && executor.watchdog_lives());
        way(&mut executor);
        executor.wait_for_the_watchdogs_end();
        assert!(!engine.container().exists);
        assert_eq!(engine.words(), STOPPED);
    }
}

#[test]
fn a_container_that_ignores_its_signal_is_killed_when_its_latest_grace_is_over() {
    let engine = FakeEngine::start(Container {
        stop_signal: "SIGQUIT",
        ignores: HashSet::from(["SIGQUIT"]),
        ..Container::default()
    });
    let mut executor = Executor::start(&engine.socket());
    executor.tell("watch task 3600000 0 0");
    executor.tell("watch task 700 0 0");
    executor.kill_tree();
    executor.wait_for_the_watchdogs_end();
    let log = engine.log();
    assert_eq!(
        engine.words(),
        [
            "POST /containers/task/kill?signal=SIGQUIT",
            "POST /containers/task/kill?signal=SIGKILL",
            "DELETE /containers/task?force=1&v=1",
        ]
    );
    // From the death, which is shortly before the first signal.
    assert!(log[1].0 - log[0].0 >= Duration::from_millis(300), "{log:?}");
}

#[test]
fn a_paused_container_is_thawed_first() {
    let engine = FakeEngine::start(Container {
        paused: true,
        ..Container::default()
    });
    let mut executor = Executor::start(&engine.socket());
    executor.tell("watch task 60000 0 0");
    executor.kill_tree();
    executor.wait_for_the_watchdogs_end();
    let mut expected = vec!["POST /containers/task/unpause"];
    expected.extend(STOPPED);
    assert_eq!(engine.words(), expected);
}

#[test]
fn a_container_that_was_being_created_is_found_when_it_appears() {
    let engine = FakeEngine::start(Container {
        exists: false,
        running: false,
        ..Container::default()
    });
    let mut executor = Executor::start(&engine.socket());
    executor.tell("watch task 60000 0 0");
    executor.kill_tree();
    assert!(executor.watchdog_lives());
    engine.change(|container| container.exists = true);
    executor.wait_for_the_watchdogs_end();
    assert_eq!(engine.words(), STOPPED[1..]);
}

/// What stands for a container's first process: it reads from a pipe that nobody writes to.
fn init(engine: &FakeEngine, script: &str) -> (std::process::Child, u64) {
    let ready = beside(engine, "ready");
    let script = format!("echo > {}; {script}", ready.display());
    let init = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the container starts", || ready.exists().then_some(()));
    let pid = i32::try_from(init.id()).unwrap();
    let start = stat(Pid::from_raw(pid)).unwrap()[19].parse().unwrap();
    (init, start)
}

#[test]
fn without_an_answer_of_the_engine_the_containers_first_process_is_ended() {
    for (script, signal) in [("read x", 15), ("trap '' TERM; read x", 9)] {
        let engine = FakeEngine::start(Container::default());
        let (mut init, start) = init(&engine, script);
        let _held = init.stdin.take();
        let mut executor = Executor::start(&engine.socket());
        // As an executor does: before there is a container, and when it runs.
        executor.tell("watch task 6000 0 0");
        executor.tell(&format!("watch task 6000 {} {start}", init.id()));
        engine.hang(true);
        executor.kill_tree();
        let status = init.wait().unwrap();
        assert_eq!(status.signal(), Some(signal));
        // When it answers again the rest is done.
        assert!(executor.watchdog_lives());
        engine.change(|container| container.running = false);
        engine.hang(false);
        executor.wait_for_the_watchdogs_end();
        assert!(!engine.container().exists);
    }
}

#[test]
fn a_process_that_has_the_pid_of_an_earlier_one_is_left_alone() {
    let engine = FakeEngine::start(Container::default());
    let (mut stranger, start) = init(&engine, "read x");
    let _held = stranger.stdin.take();
    let mut executor = Executor::start(&engine.socket());
    executor.tell(&format!("watch task 0 {} {}", stranger.id(), start - 1));
    engine.hang(true);
    executor.kill_tree();
    // SIGKILL follows each look that is not answered.
    eventually("it has looked and killed", || {
        (engine.held() >= 2).then_some(())
    });
    engine.change(|container| container.running = false);
    engine.hang(false);
    executor.wait_for_the_watchdogs_end();
    assert!(!engine.container().exists);
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_pipe_that_somebody_else_holds_hides_no_death() {
    let engine = FakeEngine::start(Container::default());
    let mut executor = Executor::start(&engine.socket());
    executor.tell("watch task 60000 0 0");
    executor.tell("leak");
    executor.kill();
    executor.wait_for_the_watchdogs_end();
    assert_eq!(engine.words(), STOPPED);
    // What holds the pipe is of the executor's group still.
    executor.kill_tree();
}

#[test]
fn it_is_a_child_of_init_in_a_session_of_its_own_and_holds_nothing_of_the_executor() {
    let engine = FakeEngine::start(Container::default());
    let mut executor = Executor::start(&engine.socket());
    let watchdog = executor.watchdog;
    // The one in between may have to be reaped first.
    let parent = eventually("it gets another parent", || {
        let parent = stat(watchdog)?[1].parse::<i32>().ok()?;
        let stat = stat(Pid::from_raw(parent));
        (parent == 1 || stat.is_some()).then_some(parent)
    });
    let executors = executor_pid(&executor);
    assert_ne!(parent, executors);
    let stat = stat(watchdog).unwrap();
    assert_eq!(stat[2], watchdog.to_string(), "its own group");
    assert_eq!(stat[3], watchdog.to_string(), "its own session");
    assert_eq!(stat[17], "1", "one thread");
    let environment = std::fs::read(format!("/proc/{watchdog}/environ")).unwrap();
    assert!(environment.is_empty());
    let directory = std::fs::read_link(format!("/proc/{watchdog}/cwd")).unwrap();
    assert_eq!(directory.to_str(), Some("/"));
    // SIGTERM is for executors.
    nix::sys::signal::kill(watchdog, nix::sys::signal::Signal::SIGTERM).unwrap();
    executor.tell("watch task 60000 0 0");
    assert!(is_alive(watchdog));
    executor.end_by("done");
    executor.wait_for_the_watchdogs_end();
}

/// The last word of the watchdog's command line.
fn executor_pid(executor: &Executor) -> i32 {
    let line = std::fs::read(format!("/proc/{}/cmdline", executor.watchdog)).unwrap();
    let words: Vec<_> = line.split(|byte| *byte == 0).collect();
    let last = words[words.len() - 2];
    std::str::from_utf8(last).unwrap().parse().unwrap()
}

#[test]
fn as_root_it_leaves_the_executors_cgroups() {
    let Some(()) = peers::root() else { return };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let wanted = [" - cgroup cgroup rw,freezer", " - cgroup2 "];
    let line = mounts
        .lines()
        .find(|line| wanted.iter().any(|wanted| line.contains(wanted)));
    let Some(point) = line.and_then(|line| line.split(' ').nth(4)) else {
        peers::skip::<()>("root", "no hierarchy of cgroups");
        return;
    };
    let engine = FakeEngine::start(Container::default());
    let name = format!("longshore-test-{}", std::process::id());
    let cgroup = std::path::Path::new(point).join(&name);
    std::fs::create_dir(&cgroup).unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"",
        cgroup.display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .arg(env!("CARGO_BIN_EXE_watched-executor"));
    let mut executor = Executor::start_by(command, &engine.socket());
    let of = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    assert!(of(executor_pid(&executor)).contains(&name));
    let watchdogs = of(executor.watchdog.as_raw());
    assert!(!watchdogs.contains(&name), "{watchdogs}");
    executor.tell("watch task 60000 0 0");
    // As an agent's linux launcher: all that is in the cgroup.
    eventually("the cgroup is empty", || {
        let inside = std::fs::read_to_string(cgroup.join("cgroup.procs")).unwrap();
        for pid in inside.lines() {
            let pid = Pid::from_raw(pid.parse().unwrap());
            let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
        executor.reap();
        inside.is_empty().then_some(())
    });
    executor.wait_for_the_watchdogs_end();
    assert_eq!(engine.words(), STOPPED);
    eventually("the cgroup goes", || std::fs::remove_dir(&cgroup).ok());
}
