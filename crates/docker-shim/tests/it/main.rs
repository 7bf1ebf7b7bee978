//! The forms, on a real Docker, by the whole way of a process: the example `docker` is what an agent is given.

#![expect(clippy::unwrap_used, reason = "tests, helpers included")]

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use longshore_testkit::peers::{self, TEST_IMAGE};
use serde_json::Value;

/// Long enough for a busy machine; no test that passes waits for it.
const PATIENCE: Duration = Duration::from_secs(120);

struct Bed {
    address: String,
    /// Names of this test's containers begin with it.
    prefix: String,
}

/// The containers of a test go with it.
impl Drop for Bed {
    fn drop(&mut self) {
        let name = format!("name={}", self.prefix);
        let listed = self.docker(&["ps", "-a", "-q", "--filter", &name]);
        for id in String::from_utf8_lossy(&listed.stdout).lines() {
            self.docker(&["rm", "-f", "-v", id]);
        }
    }
}

impl Bed {
    fn new(test: &str) -> Option<Self> {
        let socket = peers::docker()?;
        Some(Self {
            address: format!("unix://{}", socket.display()),
            prefix: format!("shim-{test}-{}", std::process::id()),
        })
    }

    fn name(&self, nth: u8) -> String {
        format!("{}-{nth}", self.prefix)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(["-H", &self.address])
            .args(arguments)
            .env("LONGSHORE_SHIM_TEST", "passed on")
            .stdin(Stdio::null());
        command
    }

    fn docker(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a form that succeeds prints.
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.docker(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn state(&self, name: &str) -> Value {
        let text = self.docker(&["inspect", "--type=container", name]).stdout;
        let found: Value = serde_json::from_slice(&text).unwrap();
        found[0]["State"].clone()
    }

    fn wait_for(&self, name: &str, status: &str) {
        let end = Instant::now() + PATIENCE;
        while self.state(name)["Status"] != status {
            assert!(Instant::now() < end, "{name} does not become {status}");
            pause();
        }
    }
}

/// The example beside this test: cargo builds it with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(|deps| deps.parent()).unwrap();
    target.join("examples/docker")
}

fn pause() {
    std::thread::park_timeout(Duration::from_millis(20));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_version_is_what_an_agent_can_read_with_and_without_an_engine() {
    let mut addresses = vec!["unix:///nonexistent/docker.sock".to_owned()];
    addresses.extend(peers::docker().map(|socket| format!("unix://{}", socket.display())));
    for address in addresses {
        let output = Command::new(program())
            .args(["-H", &address, "--version"])
            .output()
            .unwrap();
        let line = text(&output.stdout);
        let version = line
            .strip_prefix("Docker version ")
            .and_then(|rest| rest.split(',').next())
            .unwrap();
        assert!(
            version.split('.').all(|part| part.parse::<u32>().is_ok()),
            "{line}"
        );
    }
}

#[test]
fn an_image_has_the_container_config_that_an_agent_insists_on() {
    let Some(bed) = Bed::new("image") else { return };
    for arguments in [
        vec!["inspect", "--type=image", TEST_IMAGE],
        vec!["inspect", TEST_IMAGE],
    ] {
        let found: Value = serde_json::from_str(&bed.ok(&arguments)).unwrap();
        let config = found[0]["ContainerConfig"].as_object().unwrap();
        assert!(config.contains_key("Entrypoint") && config.contains_key("Env"));
    }
    let missing = bed.docker(&["inspect", "--type=image", "localhost/no-such-image"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(text(&missing.stdout).trim(), "[]");
    assert!(text(&missing.stderr).contains("no-such-image"));
}

#[test]
fn an_attached_run_has_the_output_and_the_exit_code_of_the_container() {
    let Some(bed) = Bed::new("run") else { return };
    let script = "echo out $A; echo err $LONGSHORE_SHIM_TEST >&2; exit 7";
    let variables = ["-e", "A=a b", "-e", "LONGSHORE_SHIM_TEST"];
    let command = [TEST_IMAGE, "sh", "-c", script];
    let name = bed.name(0);
    let arguments = [&["run", "--name", &name][..], &variables, &command].concat();
    let output = bed.docker(&arguments);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert_eq!(text(&output.stdout), "out a b\n");
    assert_eq!(text(&output.stderr), "err passed on\n");
    // It stays, as with docker, until somebody removes it.
    assert_eq!(bed.state(&name)["ExitCode"], 7);
    assert_eq!(bed.ok(&["rm", "-v", &name]).trim(), name);
}

#[test]
fn output_that_comes_faster_than_it_is_read_is_whole() {
    let Some(bed) = Bed::new("much") else { return };
    let script = "dd if=/dev/zero bs=65536 count=160 2>/dev/null; echo end >&2";
    let name = bed.name(0);
    let mut child = bed.spawn(&[
        "run", "--rm", "--name", &name, TEST_IMAGE, "sh", "-c", script,
    ]);
    bed.wait_for(&name, "running");
    // The pipe fills meanwhile; whether it does decides nothing.
    pause();
    let mut bytes = 0;
    let mut stdout = child.stdout.take().unwrap();
    let mut piece = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut stdout, &mut piece).unwrap() {
            0 => break,
            n => bytes += n,
        }
    }
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(
        (bytes, text(&ended.stderr)),
        (160 * 65_536, "end\n".to_owned())
    );
    let gone = bed.docker(&["inspect", "--type=container", &name]);
    assert_eq!(gone.status.code(), Some(1));
}

#[test]
fn a_run_that_cannot_be_has_the_code_that_docker_has() {
    let Some(bed) = Bed::new("codes") else { return };
    let name = bed.name(0);
    let base = ["run", "--rm", "--name", &name];
    for (rest, code) in [
        (vec![TEST_IMAGE, "/no/such/program"], 127),
        (vec![TEST_IMAGE, "/"], 126),
        (vec!["--pull", "never", "localhost/no-such-image"], 125),
        (vec!["--network", "no-such-network", TEST_IMAGE], 125),
        (vec!["--no-such-flag=1", TEST_IMAGE], 125),
    ] {
        let arguments = [&base[..], &rest].concat();
        let output = bed.docker(&arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        assert!(output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(
        bed.ok(&["ps", "-a", "-q", "--filter", &format!("name={name}")]),
        ""
    );
}

#[test]
fn a_signal_to_the_run_is_one_to_the_container() {
    let Some(bed) = Bed::new("signal") else {
        return;
    };
    let name = bed.name(0);
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done";
    let mut child = bed.spawn(&["run", "--name", &name, TEST_IMAGE, "sh", "-c", script]);
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let status = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(5));
}

#[test]
fn the_list_ends_with_the_name_and_the_orders_print_what_they_were_done_to() {
    let Some(bed) = Bed::new("orders") else {
        return;
    };
    let (one, two) = (bed.name(1), bed.name(2));
    for name in [&one, &two] {
        let id = bed.ok(&["run", "-d", "--name", name, TEST_IMAGE, "sleep", "600"]);
        assert_eq!(id.trim().len(), 64);
    }
    let filter = format!("name={}", bed.prefix);
    let names = |all: &[&str]| {
        let arguments = [&["ps", "--filter", &filter][..], all].concat();
        let table = bed.ok(&arguments);
        let last = |line: &str| line.trim().rsplit(' ').next().unwrap().to_owned();
        let mut names: Vec<_> = table.lines().skip(1).map(last).collect();
        names.sort();
        names
    };
    assert_eq!(names(&[]), [&*one, &*two]);

    // A killed one is no longer listed, a stopped one takes no signal.
    assert_eq!(bed.ok(&["kill", "--signal=9", &one]).trim(), one);
    bed.wait_for(&one, "exited");
    assert_eq!(names(&[]), [&*two]);
    assert_eq!(names(&["-a"]).len(), 2);
    assert_eq!(bed.docker(&["kill", &one]).status.code(), Some(1));
    // A stop of what is down is done.
    assert_eq!(bed.ok(&["stop", "-t", "0", &one]).trim(), one);

    let running = bed.docker(&["rm", "-v", &two]);
    assert_eq!(running.status.code(), Some(1), "{running:?}");
    assert_eq!(bed.ok(&["stop", "--time=0", &two]).trim(), two);
    // What cannot be done to one is done to the others.
    let mixed = bed.docker(&["rm", "-v", &one, "no-such-container", &two]);
    assert_eq!(mixed.status.code(), Some(1));
    assert_eq!(text(&mixed.stdout), format!("{one}\n{two}\n"));
    assert!(text(&mixed.stderr).contains("no-such-container"));
}
