//! The quickstarts, as they are written: each `console` block of a page is run by a shell, one page in one shell, and what the
//! page says of exit codes and output is held against what comes.
//!
//! `$ ` begins a command, and everything up to the next one is what it prints; of a here document the text comes first. In what it prints `..` stands for
//! anything. What `cat` of a file prints that nobody has made is the file. A command ends with 0, unless `$ echo $?` comes next. Other lines may come between those of the page: a daemon logs.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use longshore_testkit::peers;

use crate::daemon::longshore;
use crate::procs;

/// A page waits for things of its own, each bounded by what it waits for.
const PATIENCE: Duration = Duration::from_secs(240);

/// One command of a page.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    prints: Vec<String>,
}

/// The commands of a page.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut document) = (false, None);
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
            continue;
        }
        if !inside {
            continue;
        }
        if let (Some(end), Some(step)) = (&document, steps.last_mut()) {
            step.command.push('\n');
            step.command.push_str(line);
            if line == *end {
                document = None;
            }
        } else if let Some(command) = line.strip_prefix("$ ") {
            let end = |(_, end): (&str, &str)| end.trim_matches('\'').to_owned();
            document = command.split_once("<<").map(end);
            steps.push(Step {
                line: number + 1,
                command: command.to_owned(),
                prints: Vec::new(),
            });
        } else if let Some(step) = steps.last_mut() {
            step.prints.push(line.to_owned());
        }
    }
    steps
}

/// Whether a line is as the page says: `..` is anything, and so is how many spaces are between words.
fn is_like(line: &str, expected: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (line, expected) = (words(line), words(expected));
    let mut parts = expected.split("..");
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let part = part.trim();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        last = Some(part);
    }
    // The last part stands at the end; found too early, it is there once more.
    last.map_or(rest.is_empty(), |part| {
        part.is_empty() || line.ends_with(part)
    })
}

/// The page in one shell. Each command is between two marks, the second one with its exit code.
fn script(steps: &[Step]) -> String {
    let mut script = String::from("exit_code=0\n");
    for (number, step) in steps.iter().enumerate() {
        let command = &step.command;
        write!(
            script,
            "echo '@@ {number}'; (exit $exit_code)\n{command}\nexit_code=$?; echo; echo \"@@ {number} $exit_code\"\n"
        )
        .unwrap();
    }
    script
}

/// Runs the page with `home` as its home.
fn run(page: &str, home: &Path, engine: Option<&Path>) {
    let steps = steps(page);
    assert!(steps.len() > 2, "{steps:?}");
    for step in &steps {
        if let Some(name) = step.command.strip_prefix("cat ").filter(|it| is_name(it)) {
            let path = home.join(name);
            if !path.exists() {
                fs::write(path, step.prints.join("\n") + "\n").unwrap();
            }
        }
    }
    let bin = home.join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(longshore(), bin.join("longshore")).unwrap();
    let config = home.join("page.toml");
    let (state, runtime) = (home.join("state"), home.join("run"));
    let dirs = format!("state_dir = {state:?}\nruntime_dir = {runtime:?}\n");
    fs::write(&config, dirs).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("timeout");
    shell
        .arg(PATIENCE.as_secs().to_string())
        .args(["bash", "-c", "exec bash 2>&1"])
        .current_dir(home)
        .env_clear()
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home.join("xdg"))
        // Of root, too, all is below its home, unless the page says otherwise.
        .env("LONGSHORE_CONFIG", &config)
        .env("PATH", path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if let Some(engine) = engine {
        shell.env("DOCKER_HOST", format!("unix://{}", engine.display()));
    }
    let mut shell = shell.spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    let script = script(&steps);
    let writer = std::thread::spawn(move || drop(input.write_all(script.as_bytes())));
    let mut output = Vec::new();
    let mut stdout = shell.stdout.take().unwrap();
    stdout.read_to_end(&mut output).unwrap();
    writer.join().unwrap();
    let ended = shell.wait().unwrap();
    let output = String::from_utf8_lossy(&output);
    for (number, step) in steps.iter().enumerate() {
        check(number, step, steps.get(number + 1), &output);
    }
    assert!(ended.success(), "{ended}\n{output}");
}

/// Of a file that the page shows: `case.yaml`, not `target/file`.
fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '.') && text.contains('.')
}

fn check(number: usize, step: &Step, next: Option<&Step>, output: &str) {
    let begin = format!("@@ {number}\n");
    let came = output.split_once(&begin).map(|(_, after)| after);
    let came = came.unwrap_or_else(|| panic!("{step:?} did not run\n{output}"));
    let end = format!("@@ {number} ");
    let (came, after) = came
        .split_once(&end)
        .unwrap_or_else(|| panic!("{step:?} did not end\n{output}"));
    let code = after.lines().next().unwrap_or_default();
    let asked = next.is_some_and(|next| next.command == "echo $?");
    assert!(asked || code == "0", "{step:?} ended with {code}\n{came}");
    let mut lines = came.lines();
    for expected in &step.prints {
        assert!(
            lines.any(|line| is_like(line, expected)),
            "{step:?}: no line {expected:?}\n{came}"
        );
    }
}

/// A home in `/tmp`, since a socket's path must be short; whatever runs below it ends with it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let root = tempfile::Builder::new().prefix("ls-").tempdir_in("/tmp");
        let home = Self(root.unwrap());
        fs::create_dir(home.0.path().join("xdg")).unwrap();
        home
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for _ in 0..100 {
            let left = procs::below(self.0.path());
            if left.is_empty() {
                break;
            }
            left.iter().for_each(procs::Proc::kill);
        }
    }
}

/// `busybox` of the pages is the image of the tests.
fn tag_busybox(engine: &Path) {
    let mut stream = UnixStream::connect(engine).unwrap();
    let path = "/images/longshore-test:latest/tag?repo=busybox&tag=latest";
    write!(
        stream,
        "POST {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 201 "), "{answer}");
}

#[test]
fn a_node_in_ten_minutes() {
    let Some(engine) = peers::docker() else {
        return;
    };
    tag_busybox(&engine);
    // The page's port may be taken here.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let page = include_str!("../../../../docs/quickstart-operator.md").replace("9273", &port);
    let home = Home::new();
    run(&page, home.0.path(), Some(&engine));
}

#[test]
fn docker_tasks_step_by_step() {
    let Some(engine) = peers::docker() else {
        return;
    };
    tag_busybox(&engine);
    let page = include_str!("../../../../docs/quickstart-tasks.md");
    let home = Home::new();
    run(page, home.0.path(), Some(&engine));
}

#[test]
fn a_csi_plugin_in_five_minutes() {
    let home = Home::new();
    let page = include_str!("../../../../docs/quickstart-csi.md");
    let (page, _) = page.split_once("## Coming from Mesos").unwrap();
    run(page, home.0.path(), None);
}

#[test]
fn a_case_for_an_nri_plugin() {
    let page = include_str!("../../../../docs/quickstart-nri.md");
    let (_, page) = page.split_once("## A case of your own").unwrap();
    let (page, _) = page.split_once("### The keys of a case").unwrap();
    let home = Home::new();
    run(page, home.0.path(), None);
}

#[test]
fn a_page_is_read_as_it_is_meant() {
    let page = "$ no\n```console\n$ cat <<END\n$HOME\nEND\n$ ls\na\nb ..\n```\n$ no\n";
    let step = |line, command: &str, prints: &[&str]| Step {
        line,
        command: command.to_owned(),
        prints: prints.iter().map(|it| (*it).to_owned()).collect(),
    };
    let expected = [
        step(3, "cat <<END\n$HOME\nEND", &[]),
        step(6, "ls", &["a", "b .."]),
    ];
    assert_eq!(steps(page), expected);
    for (line, expected, like) in [
        ("disks  ready  4s  v1", "disks ready .. v1", true),
        ("disks  failing  4s  v1", "disks ready .. v1", false),
        ("unix:///x/csi.sock", "unix://..csi.sock", true),
        ("unix:///x/csi.sock2", "unix://..csi.sock", false),
        ("anything", "..", true),
        ("ok", "ok", true),
        ("okay", "ok", false),
        ("a b a", "a..a", true),
    ] {
        assert_eq!(is_like(line, expected), like, "{line} {expected}");
    }
}
