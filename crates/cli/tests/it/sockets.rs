//! Control sockets that are not what they should be.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;

use crate::support::{Daemon, Home, eventually, hostpath};

#[test]
fn a_control_socket_that_was_removed_is_bound_again() {
    let mut daemon = Daemon::start(Home::new(), "");
    for removed in ["r/control/control.sock", "r/control"] {
        let path = daemon.home.join(removed);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
        // It may be back before anybody has asked.
        eventually("the socket is back", || {
            (daemon.run(["status"]).code == 0).then_some(())
        });
    }
    assert_eq!(daemon.terminate(), 0);
    assert!(!daemon.home.join("r/control/control.sock").exists());
}

#[test]
fn whoever_listens_in_a_daemons_place_is_told_by_the_socket() {
    let home = Home::new();
    let dir = home.join("r/control");
    std::fs::create_dir_all(&dir).unwrap();
    let socket = dir.join("control.sock");
    // Each takes connections and answers in its own way, until the process ends.
    let answers: [fn(std::os::unix::net::UnixStream); 4] = [
        drop,
        |mut stream| drop(stream.read(&mut [0; 64])),
        |mut stream| drop(stream.write_all(&[b'x'; 64])),
        |mut stream| {
            let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            drop(stream.read(&mut [0; 4096]));
        },
    ];
    for answer in answers {
        let _none_yet = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
        for verb in [
            &["status"][..],
            &["csi", "ls"],
            &["csi", "stop", "x"],
            &["reload"],
            &["nri", "ls"],
        ] {
            let done = home.run(verb).exits(1);
            let named = format!(
                "error: what listens at {} does not answer",
                socket.display()
            );
            assert!(done.stderr.starts_with(&named), "{verb:?}: {}", done.stderr);
            assert_eq!(done.stderr.lines().count(), 1, "{verb:?}: {}", done.stderr);
        }
    }
}

#[test]
fn who_waits_for_an_endpoint_waits_for_the_daemon_too() {
    let home = Home::new();
    let config = hostpath(&home, "disks", "v1");
    for verb in ["endpoint", "probe"] {
        home.run(["csi", verb, "disks", "--wait", "50ms"]).exits(4);
    }
    let waiting = ["endpoint", "probe"].map(|verb| {
        let mut command = home.command(["csi", verb, "disks", "--wait", "60s"]);
        command
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    });
    let _daemon = Daemon::start(home, &config);
    for child in waiting {
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stdout.starts_with(b"unix:///"), "{output:?}");
    }
}
