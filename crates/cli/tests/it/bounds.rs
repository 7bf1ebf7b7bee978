//! What the control service bounds: streams and connections.

use std::os::unix::net::UnixStream;

use hyper_util::rt::TokioIo;
use longshore_control_api::v1;
use longshore_control_api::v1::control_client::ControlClient;
use nix::sys::signal::{Signal, kill};
use tonic::transport::{Channel, Endpoint};

use crate::support::{Daemon, Home, eventually, hostpath};

/// As many as the service has.
const STREAMS: usize = 48;
const CONNECTIONS: usize = 64;

async fn connect(daemon: &Daemon) -> ControlClient<Channel> {
    let socket = daemon.home.join("r/control/control.sock");
    let connector = tower::service_fn(move |_: http::Uri| {
        let socket = socket.clone();
        async move {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            Ok::<_, std::io::Error>(TokioIo::new(stream))
        }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    ControlClient::new(endpoint.connect_with_connector(connector).await.unwrap())
}

#[test]
fn watchers_over_the_bound_are_refused_and_short_calls_are_answered() {
    let daemon = Daemon::start(Home::new(), "");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let watchers = runtime.block_on(async {
        let mut watchers = Vec::new();
        for count in 0..STREAMS {
            let mut client = connect(&daemon).await;
            let watch = client.watch_status(v1::GetStatusRequest::default()).await;
            let mut watch = watch
                .unwrap_or_else(|status| panic!("{count}: {status}"))
                .into_inner();
            assert!(watch.message().await.unwrap().is_some());
            watchers.push((client, watch));
        }
        watchers
    });
    let done = daemon.run(["status", "--watch", "--json"]).exits(1);
    assert_eq!(done.stderr, "error: 48 streams are open already\n");
    daemon.run(["status"]).exits(0);
    runtime.block_on(async { drop(watchers) });
    eventually("a watcher is served again", || {
        runtime.block_on(async {
            let mut client = connect(&daemon).await;
            let watch = client.watch_status(v1::GetStatusRequest::default()).await;
            watch.is_ok().then_some(())
        })
    });
}

#[test]
fn connections_that_say_nothing_keep_nobody_out_for_long() {
    let daemon = Daemon::start(Home::new(), "");
    let socket = daemon.home.join("r/control/control.sock");
    // One more than are served at a time.
    let silent: Vec<_> = (0..=CONNECTIONS)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();
    eventually("status is answered", || {
        (daemon.run(["status"]).code == 0).then_some(())
    });
    drop(silent);
}

#[test]
fn a_daemon_that_hangs_is_told_from_one_that_takes_its_time() {
    let home = Home::new();
    let config = hostpath(&home, "disks", "v1");
    let daemon = Daemon::start(home, &config);
    daemon.endpoint("disks");
    kill(daemon.pid(), Signal::SIGSTOP).unwrap();
    for verb in [
        &["csi", "stop", "disks"][..],
        &["csi", "restart", "disks"],
        &["reload"],
    ] {
        // Each may take minutes when the daemon works on it.
        let done = daemon.run(verb).exits(1);
        assert!(
            done.stderr
                .starts_with("error: the daemon has been silent for 15s; hint: ")
                && done.stderr.contains("may still be done"),
            "{verb:?}: {}",
            done.stderr
        );
    }
    kill(daemon.pid(), Signal::SIGCONT).unwrap();
    // Whether it then does what was given up is left open; it is there again.
    eventually("it answers again", || {
        [0, 3].contains(&daemon.run(["status"]).code).then_some(())
    });
}
