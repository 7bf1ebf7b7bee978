//! `nri trace`: the proxy and the reader of its records.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{Done, Home, eventually};

/// RegisterPlugin of 10-x, as a plugin writes it: the multiplexer's frame, ttrpc's, the envelope.
fn register() -> Vec<u8> {
    let service = b"nri.pkg.api.v1alpha1.Runtime";
    let envelope = [
        &[0x0a, 28][..],
        service,
        &[0x12, 14],
        b"RegisterPlugin",
        &[0x1a, 7],
        &[0x0a, 1, b'x', 0x12, 2, b'1', b'0'],
    ]
    .concat();
    let length = u8::try_from(envelope.len()).unwrap();
    [
        &[0, 0, 0, 2, 0, 0, 0, length + 10][..],
        &[0, 0, 0, length, 0, 0, 0, 1, 1, 0],
        &envelope,
    ]
    .concat()
}

/// A success without payload, the answer to it.
const REGISTERED: [u8; 18] = [0, 0, 0, 2, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0];

/// Has a plugin register through the proxy, ends that, and returns what it printed.
fn traced(home: &Home, more: &[&str]) -> Done {
    // A path from where it runs.
    let (listen, connect) = (home.join("proxy.sock"), home.join("runtime.sock"));
    let runtime = UnixListener::bind(&connect).unwrap();
    let mut child = home
        .command(["nri", "trace", "-o", "record", "--listen", "proxy.sock"])
        .arg("--connect")
        .arg(&connect)
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut plugin = eventually("the proxy listens", || UnixStream::connect(&listen).ok());
    plugin.write_all(&register()).unwrap();
    let (mut accepted, _) = runtime.accept().unwrap();
    let mut seen = vec![0; register().len()];
    accepted.read_exact(&mut seen).unwrap();
    assert_eq!(seen, register(), "nothing is changed");
    accepted.write_all(&REGISTERED).unwrap();
    let mut seen = [0; REGISTERED.len()];
    plugin.read_exact(&mut seen).unwrap();
    assert_eq!(seen, REGISTERED);
    drop(plugin);
    assert_eq!(accepted.read(&mut [0]).unwrap(), 0, "it is told of the end");
    drop(accepted);
    eventually("both ends are on record", || {
        let text = std::fs::read_to_string(home.join("record")).ok()?;
        (text.matches("closed").count() == 2).then_some(())
    });
    let pid = i32::try_from(child.id()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    let mut stdout = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut stdout)
        .unwrap();
    let done = Done::from(child.wait_with_output().unwrap()).exits(0);
    assert!(!listen.exists(), "the socket goes with the proxy");
    assert!(!home.join("proxy.sock.lock").exists(), "and its lock");
    Done { stdout, ..done }
}

#[test]
fn what_a_plugin_and_a_runtime_say_is_shown_recorded_and_shown_again() {
    let home = Home::new();
    let live = traced(&home, &[]);
    let lines: Vec<&str> = live.stdout.lines().collect();
    for (line, part) in lines.iter().zip([
        "plugins at ",
        "#1 ?  ->  opened by pid ",
        r#"#1 10-x  ->  RegisterPlugin 1  {"plugin_idx":"10","plugin_name":"x"}"#,
        "#1 10-x  <-  RegisterPlugin 1, ok after ",
        "closed by the plugin: it hung up",
        "closed by the runtime: it hung up",
    ]) {
        assert!(line.contains(part), "{line}");
    }
    let record = home.join("record");
    let mode = std::fs::metadata(&record).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it may hold secrets");

    let again = home.run(["nri", "trace", "record"]).exits(0);
    assert_eq!(again.stdout, live.stdout);
    let json = home.run(["nri", "trace", "record", "--json"]).exits(0);
    assert_eq!(json.stdout, std::fs::read_to_string(&record).unwrap());
    let one = home
        .run(["nri", "trace", "record", "--method", "RegisterPlugin"])
        .exits(0);
    assert_eq!(one.stdout.lines().count(), 3, "{}", one.stdout);
    assert_eq!(one.stderr, "");
}

#[test]
fn a_method_that_is_none_is_refused_and_one_that_is_not_there_is_said_to_be() {
    let home = Home::new();
    traced(&home, &[]);
    let show = |method: &str| home.run(["nri", "trace", "record", "--method", method]);
    let bogus = show("Bogus").exits(2);
    for known in ["RegisterPlugin", "CreateContainer", "StateChange"] {
        assert!(bogus.stderr.contains(known), "{bogus:#?}");
    }
    let none = show("StateChange").exits(0);
    let said = "longshore: none of the 5 entries of record is of StateChange\n";
    assert_eq!(none.stderr, said);
}

#[test]
fn a_record_that_is_cut_short_says_so() {
    let home = Home::new();
    let live = traced(&home, &[]);
    let record = std::fs::read(home.join("record")).unwrap();
    home.write("cut", &record[..record.len() - 5]);
    let cut = home.run(["nri", "trace", "cut"]).exits(0);
    let lines = live.stdout.lines().count() - 1;
    assert_eq!(cut.stdout.lines().count(), lines, "without the last");
    let said = "cut ends in the middle of an entry, which is left out";
    assert!(cut.stderr.contains(said), "{cut:#?}");
}

#[test]
fn live_json_is_the_record() {
    let home = Home::new();
    let live = traced(&home, &["--json"]);
    let record = std::fs::read_to_string(home.join("record")).unwrap();
    assert_eq!(live.stdout, record);
    let first: serde_json::Value = serde_json::from_str(record.lines().next().unwrap()).unwrap();
    assert_eq!(first["longshore_nri_trace"], 1);
}

#[test]
fn a_runtimes_socket_is_not_taken_and_what_is_no_record_is_refused() {
    let home = Home::new();
    let runtime = home.join("runtime.sock");
    let _listener = UnixListener::bind(&runtime).unwrap();
    let trace = |connect: &str| {
        home.command(["nri", "trace", "--listen"])
            .arg(&runtime)
            .arg("--connect")
            .arg(home.join(connect))
            .output()
            .map(Done::from)
            .unwrap()
    };
    let itself = trace("runtime.sock").exits(2);
    assert!(itself.stderr.contains("are one socket"), "{itself:#?}");
    let taken = trace("other.sock").exits(1);
    assert!(
        taken.stderr.contains("another runtime serves"),
        "{taken:#?}"
    );

    home.write("text", "hello\n");
    let text = home.run(["nri", "trace", "text"]).exits(1);
    assert!(
        text.stderr.contains("no record of NRI messages"),
        "{text:#?}"
    );
    home.run(["nri", "trace"]).exits(2);
    home.run(["nri", "trace", "text", "--listen", "a"]).exits(2);
    home.run(["nri", "trace", "--listen", "a"]).exits(2);
}
