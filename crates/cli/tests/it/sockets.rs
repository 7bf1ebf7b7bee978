//! Sockets that somebody removes under a running daemon.

use crate::support::{Daemon, Home, eventually};

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
        daemon.run(["status"]).exits(4);
        eventually("the socket is back", || {
            (daemon.run(["status"]).code == 0).then_some(())
        });
    }
    assert_eq!(daemon.terminate(), 0);
    assert!(!daemon.home.join("r/control/control.sock").exists());
}
