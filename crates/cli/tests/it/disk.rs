//! State directories that take nothing more: full, read-only, or closed to the daemon's user.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use longshore_testkit::peers;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};

use crate::support::{Daemon, Done, Home, eventually, hostpath};

/// Quick retries, for ever.
const RESTART: &str = "[csi.restart]\ninitial = \"100ms\"\nmax = \"1s\"\nstart_limit_burst = 0\n\n";

/// A small file system of its own at the state directory; only root may mount one.
fn on_tmpfs(size: &str) -> Option<Home> {
    peers::root()?;
    let home = Home::new();
    let state = home.join("s");
    std::fs::create_dir(&state).unwrap();
    let options = format!("size={size},mode=0700");
    mount(
        Some("tmpfs"),
        &state,
        Some("tmpfs"),
        MsFlags::empty(),
        Some(options.as_str()),
    )
    .unwrap();
    Some(home)
}

/// Writes until nothing more fits.
fn fill(state: &Path) -> PathBuf {
    use std::io::Write as _;
    let path = state.join("ballast");
    let mut file = std::fs::File::create(&path).unwrap();
    let mut piece = 64 * 1024;
    while piece > 0 {
        if file.write_all(&vec![b'x'; piece]).is_err() {
            piece /= 2;
        }
    }
    path
}

/// A second mount over the first, read-only: what is open stays writable, as after an error of the disk.
fn make_read_only(state: &Path) {
    let flags = [
        MsFlags::MS_BIND,
        MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY,
    ];
    for flags in flags {
        mount(Some(state), state, None::<&str>, flags, None::<&str>).unwrap();
    }
}

fn make_writable(state: &Path) {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT;
    mount(Some(state), state, None::<&str>, flags, None::<&str>).unwrap();
}

/// Everything below a directory.
fn names(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(names(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

#[track_caller]
fn assert_nothing_half_done(state: &Path) {
    let temps: Vec<_> = names(state)
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(".longshore-tmp-"))
        .collect();
    assert_eq!(temps, [""; 0].map(PathBuf::from));
}

/// One line, which names what is looked for.
#[track_caller]
fn assert_one_line(done: &Done, parts: &[&str]) {
    let errors: Vec<_> = done
        .stderr
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    assert_eq!(errors.len(), 1, "{done:#?}");
    for part in parts {
        assert!(errors[0].contains(part), "{part}: {done:#?}");
    }
    assert!(!done.stderr.contains("panicked"), "{done:#?}");
}

#[test]
fn a_full_disk_at_the_first_start_is_one_line_and_leaves_nothing() {
    let Some(home) = on_tmpfs("256k") else { return };
    let state = home.join("s");
    let ballast = fill(&state);
    let config = home.write("longshore.toml", "");
    let daemon = ["daemon", "-c", config.to_str().unwrap()];
    let done = home.run(daemon).exits(1);
    assert_one_line(&done, &[state.to_str().unwrap(), "No space left on device"]);
    assert_nothing_half_done(&state);
    assert!(!state.join("instance").exists());
    std::fs::remove_file(ballast).unwrap();
    Daemon::start(home, "").run(["status"]).exits(0);
}

#[test]
fn a_full_disk_stops_new_plugins_and_no_restart() {
    let Some(home) = on_tmpfs("1m") else { return };
    let state = home.join("s");
    let one = RESTART.to_owned() + &hostpath(&home, "one", "v1");
    let two = hostpath(&home, "two", "v1");
    let mut daemon = Daemon::start(home, &one);
    daemon.endpoint("one");
    let ballast = fill(&state);
    refuses_and_restarts(
        &daemon,
        &(one.clone() + &two),
        "two",
        &["s/csi", "No space left on device"],
    );
    assert_nothing_half_done(&state);
    takes_over(&mut daemon, "one");
    std::fs::remove_file(ballast).unwrap();
    daemon.endpoint("two");
    eventually("all is well", || {
        (daemon.run(["status"]).code == 0).then_some(())
    });
}

#[test]
fn a_read_only_root_stops_new_plugins_and_no_restart() {
    let Some(home) = on_tmpfs("1m") else { return };
    let state = home.join("s");
    let one = RESTART.to_owned() + &hostpath(&home, "one", "v1");
    let two = hostpath(&home, "two", "v1");
    let mut daemon = Daemon::start(home, &one);
    daemon.endpoint("one");
    make_read_only(&state);
    refuses_and_restarts(
        &daemon,
        &(one.clone() + &two),
        "two",
        &["s/csi", "Read-only file system"],
    );
    takes_over(&mut daemon, "one");
    refuses_and_restarts(
        &daemon,
        &(one.clone() + &two),
        "two",
        &["s/csi", "Read-only file system"],
    );
    make_writable(&state);
    assert_nothing_half_done(&state);
    daemon.endpoint("two");
    eventually("all is well", || {
        (daemon.run(["status"]).code == 0).then_some(())
    });
}

#[test]
fn a_read_only_root_at_the_first_start_is_one_line() {
    let Some(home) = on_tmpfs("256k") else { return };
    let state = home.join("s");
    make_read_only(&state);
    let config = home.write("longshore.toml", "");
    let done = home
        .run(["daemon", "-c", config.to_str().unwrap()])
        .exits(1);
    assert_one_line(
        &done,
        &[
            state.to_str().unwrap(),
            "Read-only file system",
            "state_dir",
        ],
    );
    assert!(names(&state).is_empty());
}

/// As the user "nobody", where the tests run as root: modes do not bind root.
#[test]
fn a_root_that_its_user_cannot_write_to_stops_new_plugins_and_no_restart() {
    let home = Home::of_nobody().unwrap_or_else(Home::new);
    let one = RESTART.to_owned() + &hostpath(&home, "one", "v1");
    let more = ["two", "three"].map(|name| hostpath(&home, name, "v1"));
    let daemon = Daemon::start(home, &one);
    daemon.endpoint("one");
    let mut config = one;
    for (index, closed) in ["s/csi", "s/agent/containers"].into_iter().enumerate() {
        let name = ["two", "three"][index];
        config += &more[index];
        let dir = daemon.home.join(closed);
        let before = std::fs::metadata(&dir).unwrap().permissions();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o500)).unwrap();
        refuses_and_restarts(&daemon, &config, name, &[closed, "Permission denied"]);
        assert_nothing_half_done(&daemon.home.join("s"));
        std::fs::set_permissions(&dir, before).unwrap();
        daemon.endpoint(name);
    }
}

#[test]
fn records_that_its_user_cannot_read_are_their_plugins_trouble_alone() {
    let home = Home::of_nobody().unwrap_or_else(Home::new);
    let config = hostpath(&home, "one", "v1") + &hostpath(&home, "two", "v1");
    let mut daemon = Daemon::start(home, &config);
    for name in ["one", "two"] {
        daemon.endpoint(name);
    }
    let pids = ["one", "two"].map(|name| daemon.plugin_pid(name));
    daemon.crash();
    let closed = daemon.home.join("s/csi/test.two/default/containers");
    let mode = |mode| std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(mode));
    mode(0o000).unwrap();
    daemon.start_again();
    daemon.endpoint("one");
    eventually("the other one says why", || {
        let reason = daemon.plugin("two")["reason"].to_string();
        (reason.contains(closed.to_str().unwrap()) && reason.contains("Permission denied"))
            .then_some(())
    });
    kill(pids[1], None).expect("it is not touched meanwhile");
    mode(0o700).unwrap();
    daemon.endpoint("two");
    assert_eq!(["one", "two"].map(|name| daemon.plugin_pid(name)), pids);
}

#[test]
fn a_runtime_directory_that_its_user_cannot_write_to_is_one_line() {
    let home = Home::of_nobody().unwrap_or_else(Home::new);
    let runtime = home.join("r");
    std::fs::create_dir(&runtime).unwrap();
    if nix::unistd::geteuid().is_root() {
        home.give_to_nobody(&runtime);
    }
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o500)).unwrap();
    let config = home.write("longshore.toml", "");
    let done = home
        .run(["daemon", "-c", config.to_str().unwrap()])
        .exits(1);
    assert_one_line(
        &done,
        &[
            runtime.to_str().unwrap(),
            "Permission denied",
            "runtime_dir",
        ],
    );
    assert!(names(&runtime).is_empty());
}

#[test]
fn a_state_directory_that_its_user_cannot_write_to_is_one_line() {
    let home = Home::of_nobody().unwrap_or_else(Home::new);
    let state = home.join("s");
    std::fs::create_dir(&state).unwrap();
    if nix::unistd::geteuid().is_root() {
        home.give_to_nobody(&state);
    }
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o500)).unwrap();
    let config = home.write("longshore.toml", "");
    let done = home
        .run(["daemon", "-c", config.to_str().unwrap()])
        .exits(1);
    assert_one_line(
        &done,
        &[state.to_str().unwrap(), "Permission denied", "state_dir"],
    );
    assert!(names(&state).is_empty());
}

/// The next daemon takes over all the same.
fn takes_over(daemon: &mut Daemon, name: &str) {
    let (uri, pid) = (daemon.endpoint(name), daemon.plugin_pid(name));
    daemon.crash();
    daemon.start_again();
    assert_eq!(daemon.endpoint(name), uri);
    assert_eq!(daemon.plugin_pid(name), pid);
}

/// A plugin that was never recorded does not start and says why; "one" that was is restarted.
fn refuses_and_restarts(daemon: &Daemon, config: &str, name: &str, why: &[&str]) {
    let uri = daemon.endpoint("one");
    let before = daemon.plugin_pid("one");
    daemon.home.write("longshore.toml", config);
    daemon.run(["reload"]).exits(0);
    eventually("the new one says why", || {
        let plugin = daemon.plugin(name);
        let reason = plugin["reason"].as_str().unwrap_or_default();
        why.iter().all(|part| reason.contains(part)).then_some(())
    });
    kill(before, Signal::SIGKILL).unwrap();
    eventually("the old one runs again", || {
        let plugin = daemon.plugin("one");
        let pid = plugin["containers"][0]["pid"].as_i64()?;
        (plugin["state"] == "ready" && pid != i64::from(before.as_raw())).then_some(())
    });
    assert_eq!(daemon.endpoint("one"), uri);
    assert_eq!(daemon.run(["status"]).exits(3).stderr, "");
}

/// A runtime directory without room, which only root can have here.
#[test]
fn a_full_runtime_directory_hides_no_end_of_a_plugin() {
    let Some(home) = on_tmpfs("1m") else { return };
    // The small file system is where the runtime directory lies, too.
    let runtime = home.join("s/r");
    let config = format!("runtime_dir = {runtime:?}\n") + RESTART + &hostpath(&home, "one", "v1");
    let file = home.write("longshore.toml", &config);
    let log = std::fs::File::create(home.join("daemon.log")).unwrap();
    let mut command = home.command(["daemon", "-c", file.to_str().unwrap()]);
    command.env_remove("LONGSHORE_RUNTIME_DIR").stderr(log);
    let mut child = command.spawn().unwrap();
    let status = || {
        let mut command = home.command(["status", "one", "--json", "-c", file.to_str().unwrap()]);
        command.env_remove("LONGSHORE_RUNTIME_DIR");
        let done = Done::from(command.output().unwrap());
        (!done.stdout.is_empty()).then(|| done.json()["plugins"][0].clone())
    };
    let pid = eventually("the plugin is ready", || {
        let plugin = status()?;
        let pid = plugin["containers"][0]["pid"].as_i64()?;
        (plugin["state"] == "ready").then_some(pid)
    });
    eventually("there is room for its end", || {
        let reserved = names(&runtime).into_iter();
        reserved
            .filter(|path| path.ends_with("run/exit.reserved"))
            .count()
            .eq(&1)
            .then_some(())
    });
    let ballast = fill(&home.join("s"));
    kill(
        nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    // Whether there is room for its next start is another matter.
    eventually("its end is told as it was", || {
        let plugin = status()?;
        let exits = plugin["history"].as_array()?.iter();
        let exits: Vec<_> = exits.filter_map(|entry| entry["exit"].as_str()).collect();
        (exits.first()? == &"SIGKILL").then_some(())
    });
    std::fs::remove_file(ballast).unwrap();
    eventually("it is back", || {
        let plugin = status()?;
        let other = plugin["containers"][0]["pid"].as_i64()? != pid;
        (other && plugin["state"] == "ready").then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
}
