//! Launched plugins: what they start with, and how they end.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use longshore_nri_adaptation::launch::{
    Child, Exit, LaunchError, LaunchOptions, Program, discover, spawn,
};
use longshore_testkit::script::write as script;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);
const CLEAN: Exit = Exit {
    code: Some(0),
    signal: None,
};
const KILLED: Exit = Exit {
    code: None,
    signal: Some(9),
};

/// A plugin directory with one script, and what is discovered in it.
fn plugin(name: &str, text: &str) -> (TempDir, Program) {
    let dir = tempfile::tempdir().unwrap();
    script(&dir.path().join(name), text);
    let mut options = LaunchOptions::new(dir.path(), dir.path());
    options.trust_any_owner = true;
    let mut found = discover(&options).unwrap().programs;
    assert_eq!(found.len(), 1);
    (dir, found.remove(0))
}

async fn end(child: &mut Child) -> Exit {
    timeout(PATIENCE, child.wait()).await.unwrap()
}

async fn poll_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits for a line that the plugin writes to its standard error.
async fn line_with(child: &Child, start: &str) -> String {
    let find = || {
        let lines = child.last_lines();
        lines.into_iter().find(|line| line.starts_with(start))
    };
    poll_until(start, || find().is_some()).await;
    find().unwrap()
}

fn is_there(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Whether a process runs; one that nobody has reaped yet does not.
fn runs(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").starts_with(" Z"))
}

/// Name and target of everything that a process has open.
fn open_files(pid: i32) -> Vec<(i32, String)> {
    let mut files: Vec<(i32, String)> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.unwrap();
            // One that was closed since is not open.
            let target = fs::read_link(entry.path()).ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((number, target.to_str()?.to_owned()))
        })
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn row_254_a_plugin_starts_with_three_variables_a_socket_and_a_pipe_for_its_errors() {
    let (dir, program) = plugin(
        "20-dump",
        r#"tr '\0' '\n' < /proc/$$/environ | sed 's/^/env /' >&2; echo "arg0 $0 $#" >&2"#,
    );
    let mut child = spawn(&program).await.unwrap();
    assert_eq!(end(&mut child).await, CLEAN);
    let mut lines = child.last_lines();
    lines.sort();
    assert_eq!(
        lines,
        [
            format!("arg0 {} 0", dir.path().join("20-dump").display()),
            "env NRI_PLUGIN_IDX=20".into(),
            "env NRI_PLUGIN_NAME=dump".into(),
            "env NRI_PLUGIN_SOCKET=3".into(),
        ]
    );
}

#[tokio::test]
async fn row_254_nothing_else_is_open_whatever_the_embedding_program_leaks() {
    // Open in every child that does nothing about it.
    let leak = fs::File::open("/proc/self/status").unwrap();
    let no_flags = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty());
    nix::fcntl::fcntl(leak.as_fd(), no_flags).unwrap();

    let id = "20-idle".parse().unwrap();
    let program = Program::untrusted(id, "/bin/sleep", vec!["1000".into()]);
    let child = spawn(&program).await.unwrap();
    let pid = child.pid();
    // Its loader has the libraries open for a moment; what it inherited would stay.
    poll_until("only what it should have is open", || {
        let files = open_files(pid);
        files.iter().map(|(number, _)| *number).eq(0..4)
    })
    .await;
    let files = open_files(pid);
    assert_eq!((&*files[0].1, &*files[1].1), ("/dev/null", "/dev/null"));
    assert!(files[2].1.starts_with("pipe:"), "{files:?}");
    assert!(files[3].1.starts_with("socket:"), "{files:?}");
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/3")).unwrap();
    let flags = info
        .lines()
        .find_map(|it| it.strip_prefix("flags:"))
        .unwrap();
    let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
    assert_eq!(flags & libc_nonblock(), 0, "in blocking mode, as from Go");

    let proc = PathBuf::from(format!("/proc/{pid}"));
    let command = fs::read_to_string(proc.join("cmdline")).unwrap();
    assert_eq!(command, "/bin/sleep\u{0}1000\u{0}");
    assert_eq!(fs::read_link(proc.join("cwd")).unwrap(), Path::new("/"));
    let pid = nix::unistd::Pid::from_raw(pid);
    assert_eq!(nix::unistd::getpgid(Some(pid)), Ok(pid));
    assert_eq!(nix::unistd::getsid(Some(pid)), Ok(pid));
}

fn libc_nonblock() -> i32 {
    nix::fcntl::OFlag::O_NONBLOCK.bits()
}

#[tokio::test]
async fn row_255_a_launched_plugin_has_its_drop_in_and_its_socket_is_ours() {
    let dir = tempfile::tempdir().unwrap();
    script(
        &dir.path().join("40-logger"),
        r#"read line <&3; echo "plugin got $line" >&3; cat <&3 >/dev/null"#,
    );
    fs::write(dir.path().join("logger.conf"), "addEnv: FOO\n").unwrap();
    let mut options = LaunchOptions::new(dir.path(), dir.path());
    options.trust_any_owner = true;
    let found = discover(&options).unwrap();
    assert_eq!(found.programs[0].config, "addEnv: FOO\n");

    let mut child = spawn(&found.programs[0]).await.unwrap();
    let mut stream = child.take_stream().unwrap();
    assert!(child.take_stream().is_none());
    stream.write_all(b"a line\n").await.unwrap();
    let mut answer = [0; 18];
    timeout(PATIENCE, stream.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&answer, b"plugin got a line\n");
    drop(stream);
    assert_eq!(end(&mut child).await, CLEAN, "it sees that we hang up");
}

#[tokio::test]
async fn row_256_a_plugin_that_exits_before_it_registers_is_reaped() {
    let (_dir, program) = plugin("10-true", "exit 0");
    let child = spawn(&program).await.unwrap();
    // Nobody waits for it.
    poll_until("it ends", || child.exited().is_some()).await;
    assert_eq!(child.exited(), Some(CLEAN));
    assert!(!is_there(child.pid()), "no zombie");
}

#[tokio::test]
async fn term_comes_first_and_its_last_words_are_kept() {
    let (_dir, program) = plugin(
        "10-kind",
        "trap 'echo bye >&2; exit 7' TERM; echo ready >&2; while :; do sleep 0.02; done",
    );
    let mut child = spawn(&program).await.unwrap();
    line_with(&child, "ready").await;
    let exit = timeout(PATIENCE, child.terminate(PATIENCE)).await.unwrap();
    assert_eq!(exit.code, Some(7));
    assert_eq!(exit.to_string(), "exited with status 7");
    let lines = child.last_lines();
    assert_eq!(
        (&*lines[0], lines.last().unwrap().as_str()),
        ("ready", "bye")
    );
    assert!(!is_there(child.pid()));
    assert_eq!(child.terminate(PATIENCE).await, exit, "again");
}

#[tokio::test]
async fn whoever_ignores_term_is_killed_after_the_grace() {
    let (_dir, program) = plugin(
        "10-deaf",
        "trap '' TERM; echo ready >&2; while :; do sleep 0.02; done",
    );
    let mut child = spawn(&program).await.unwrap();
    line_with(&child, "ready").await;
    // The second order is the shorter one.
    let long = child.terminate(Duration::from_secs(3600));
    assert!(timeout(Duration::from_millis(20), long).await.is_err());
    let short = child.terminate(Duration::from_millis(50));
    assert_eq!(timeout(PATIENCE, short).await.unwrap(), KILLED);
    assert!(!is_there(child.pid()));
}

#[tokio::test]
async fn what_a_plugin_started_goes_with_it() {
    for (name, text) in [
        ("10-ended", "kill -KILL $$"),
        ("10-exited", "exit 0"),
        ("10-waits", "wait"),
    ] {
        let (_dir, program) = plugin(
            name,
            &format!("(trap '' TERM; exec sleep 1000) 2>/dev/null & echo child $! >&2; {text}"),
        );
        let mut child = spawn(&program).await.unwrap();
        let line = line_with(&child, "child ").await;
        let grandchild: i32 = line["child ".len()..].parse().unwrap();
        if name == "10-waits" {
            let exit = child.terminate(Duration::from_millis(50));
            timeout(PATIENCE, exit).await.unwrap();
        } else {
            end(&mut child).await;
        }
        poll_until(name, || !runs(grandchild)).await;
        assert!(!is_there(child.pid()));
    }
}

#[tokio::test]
async fn a_plugin_whose_handle_is_dropped_is_killed_and_reaped() {
    let (_dir, program) = plugin("10-idle", "trap '' TERM; while :; do sleep 100; done");
    let pid = spawn(&program).await.unwrap().pid();
    poll_until("it is gone", || !is_there(pid)).await;
}

#[test]
fn plugins_go_with_the_runtime_that_started_them() {
    let (_dir, program) = plugin("10-idle", "trap '' TERM; while :; do sleep 100; done");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut child = runtime.block_on(spawn(&program)).unwrap();
    drop(runtime);
    let deadline = Instant::now() + PATIENCE;
    while is_there(child.pid()) {
        assert!(Instant::now() < deadline, "still there");
        std::thread::yield_now();
    }
    let waiting = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    assert_eq!(waiting.block_on(child.wait()), KILLED);
}

#[tokio::test]
async fn its_errors_are_cut_into_lines_and_a_flood_holds_up_nobody() {
    let (_dir, program) = plugin(
        "10-loud",
        "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done >&2
         head -c 10000 /dev/zero | tr '\\0' x >&2; echo >&2; printf 'no end' >&2",
    );
    let mut child = spawn(&program).await.unwrap();
    assert_eq!(end(&mut child).await, CLEAN);
    let lines = child.last_lines();
    assert_eq!(lines.len(), 50);
    assert_eq!(lines[47], "line 2999");
    assert_eq!(lines[48].chars().count(), 4097, "cut");
    assert_eq!(lines[49], "no end");
}

#[tokio::test]
async fn who_leaves_the_group_cannot_keep_the_end_from_being_seen() {
    let (dir, program) = plugin(
        "10-daemon",
        // The daemon inherits the pipe of standard error.
        r#"cd "${0%/*}"; setsid sh -c 'echo $$ > new; mv new pid; exec sleep 1000' &
           while [ ! -e pid ]; do sleep 0.01; done"#,
    );
    let mut child = spawn(&program).await.unwrap();
    assert_eq!(end(&mut child).await, CLEAN);
    let daemon: i32 = fs::read_to_string(dir.path().join("pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(runs(daemon));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(daemon),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
}

#[tokio::test]
async fn what_cannot_be_executed_says_so_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    script(&file("no-interpreter"), "");
    fs::write(file("no-interpreter"), "#!/nowhere/sh\n").unwrap();
    fs::write(file("not-executable"), "").unwrap();
    for (name, kind) in [
        ("no-interpreter", std::io::ErrorKind::NotFound),
        ("not-executable", std::io::ErrorKind::PermissionDenied),
        ("missing", std::io::ErrorKind::NotFound),
    ] {
        let program = Program::untrusted("10-bad".parse().unwrap(), file(name), vec![]);
        let error = spawn(&program).await.unwrap_err();
        let (LaunchError::Spawn { path, source } | LaunchError::Look { path, source }) = error
        else {
            panic!("{error}");
        };
        assert_eq!((path, source.kind()), (file(name), kind));
    }
    let nul = Program::untrusted("10-bad".parse().unwrap(), "/bin/true", vec!["\0".into()]);
    assert!(matches!(spawn(&nul).await, Err(LaunchError::Spawn { .. })));
}

#[tokio::test]
async fn a_plugin_is_judged_again_when_it_is_started() {
    let (dir, mut program) = plugin("10-good", "exit 0");
    program.trust_any_owner = false;
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&open, mode).unwrap();
    script(&open.join("10-good"), "exit 0");
    fs::remove_file(&program.path).unwrap();
    symlink(open.join("10-good"), &program.path).unwrap();
    assert!(matches!(
        spawn(&program).await,
        Err(LaunchError::Untrusted { .. })
    ));
}
