//! The demo, as the README promises it.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use longshore_testkit::peers;

use crate::support::{Done, Home};

fn left_behind(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "longshore").collect()
}

fn check(home: &Home) {
    check_with(home, "unix:///nowhere.sock", |stdout| {
        assert!(stdout.contains("no task: "), "{stdout}");
        assert!(stdout.contains("/nowhere.sock"), "{stdout}");
        assert!(stdout.contains("docker.io"), "how to get one: {stdout}");
    });
}

fn check_with(home: &Home, engine: &str, task: impl Fn(&str)) {
    let begun = Instant::now();
    let mut command = home.command(["demo"]);
    let done = command.env("LONGSHORE_ENGINE", engine).output().unwrap();
    let done = Done::from(done).exits(0);
    assert!(
        begun.elapsed().as_secs() < 20,
        "{:?}\n{done:#?}",
        begun.elapsed()
    );
    for name in ["modern", "legacy"] {
        let launched = done
            .stdout
            .lines()
            .find(|line| line.contains("launched") && line.contains(name));
        assert!(launched.unwrap().contains(" unix:///"), "{done:#?}");
        for step in [
            "published",
            "wrote",
            "killed",
            "back",
            "read back",
            "deleted",
        ] {
            let told = |line: &str| line.contains(step) && line.contains(name);
            assert!(
                done.stdout.lines().any(told),
                "{step} of {name} is missing: {done:#?}"
            );
        }
    }
    task(&done.stdout);
    assert_eq!(done.stderr, "");
    home.assert_no_processes();
    assert_eq!(left_behind(home), Vec::<String>::new());
}

#[test]
fn the_demo_shows_everything_and_leaves_nothing() {
    check(&Home::new());
}

#[test]
fn where_an_engine_answers_the_demo_runs_a_task() {
    let Some(socket) = peers::docker() else {
        return;
    };
    let engine = format!("unix://{}", socket.display());
    check_with(&Home::new(), &engine, |stdout| {
        for line in [
            "started    task hello: container longshore-demo-",
            "ended      task hello: \"hello from a container",
        ] {
            assert!(stdout.contains(line), "{line}: {stdout}");
        }
    });
    let docker = longshore_engine::DockerEngine::new(longshore_engine::DockerConfig::new(
        engine.parse().unwrap(),
    ));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let image = runtime.block_on(docker.image_json("longshore-demo:latest"));
    assert!(
        image.unwrap_err().is_no_such_image(),
        "nothing is left there either"
    );
}

#[test]
fn the_demo_needs_no_privilege() {
    // As an ordinary user the test above is this one.
    if let Some(home) = Home::of_nobody() {
        check(&home);
    }
}

#[test]
fn an_interrupted_demo_says_so_and_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let home = Home::new();
        let mut command = home.command(["demo"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let launched = lines.find(|line| line.as_ref().unwrap().contains("launched"));
        assert!(launched.is_some());
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert_eq!(stderr, format!("error: interrupted by {signal}\n"));
        home.assert_no_processes();
        assert_eq!(left_behind(&home), Vec::<String>::new());
    }
}

#[test]
fn a_demo_that_is_interrupted_in_its_first_moments_leaves_nothing() {
    for round in 0..40u64 {
        let home = Home::new();
        let child = home
            .command(["demo"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Whatever it has come to by then.
        std::thread::park_timeout(std::time::Duration::from_millis(round * 5));
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let _ended_already = kill(pid, Signal::SIGINT);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.is_empty() || stderr == "error: interrupted by SIGINT\n",
            "{round}: {stderr}"
        );
        home.assert_no_processes();
        assert_eq!(left_behind(&home), Vec::<String>::new(), "{round}");
    }
}

#[test]
fn of_a_demo_that_is_killed_no_process_is_left() {
    let home = Home::new();
    let mut child = home
        .command(["demo"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let launched = lines.find(|line| line.as_ref().unwrap().contains("launched"));
    assert!(launched.is_some());
    assert!(home.processes().len() > 1, "{:?}", home.processes());
    child.kill().unwrap();
    child.wait().unwrap();
    home.assert_no_processes();
}
