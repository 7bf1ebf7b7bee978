//! Dialling.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    time::Duration,
};

use longshore_csi_api::v1::{GetPluginInfoRequest, identity_client::IdentityClient};
use longshore_csi_probe::{Endpoint, Links, ProbeError, ProbeOptions, Waiting, connect, probe};
use longshore_testkit::csi::{Behaviour, FakePlugin, Listen};
use tokio::time::{Instant, timeout};

use crate::{Bed, PATIENCE, SHORT, patient, within};

#[tokio::test]
async fn the_pseudo_headers_are_http_and_localhost() {
    let bed = Bed::new();
    let plugin = bed.plugin(Behaviour::v1());
    probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
    assert_eq!(
        plugin.seen().origin,
        Some(("http".into(), "localhost".into()))
    );
}

#[tokio::test]
async fn between_bind_and_listen_it_is_tried_again() {
    let bed = Bed::new();
    let delay = Duration::from_millis(40);
    let _plugin = bed.plugin(Behaviour {
        listen_delay: delay,
        ..Behaviour::v1()
    });
    longshore_csi_probe::wait_for_socket(&bed.socket(), patient())
        .await
        .unwrap();
    connect(&bed.endpoint(), patient()).await.unwrap();
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_is_a_timeout_that_says_so() {
    let bed = Bed::new();
    let _plugin = bed.plugin(Behaviour {
        listen: Listen::BindOnly,
        ..Behaviour::v1()
    });
    match probe(&bed.endpoint(), &within(SHORT)).await {
        Err(
            error @ ProbeError::TimedOut {
                waiting: Waiting::Listener,
                ..
            },
        ) => {
            assert!(
                error.to_string().contains("nobody listens there"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_stale_socket_that_is_replaced_is_found() {
    let bed = Bed::new();
    drop(UnixListener::bind(bed.socket()).unwrap());
    let endpoint = bed.endpoint();
    let options = within(PATIENCE);
    let probing = tokio::spawn(async move { probe(&endpoint, &options).await });
    let _plugin = bed.plugin(Behaviour {
        bind_delay: Duration::from_millis(20),
        ..Behaviour::v1()
    });
    timeout(PATIENCE, probing).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_missing_socket_is_an_error_at_once_for_who_does_not_wait() {
    let bed = Bed::new();
    match connect(&bed.endpoint(), patient()).await {
        Err(ProbeError::SocketMissing { path }) => assert_eq!(path, bed.socket()),
        other => panic!("{other:?}"),
    }
    let options = ProbeOptions {
        wait_for_socket: false,
        ..within(PATIENCE)
    };
    assert!(matches!(
        probe(&bed.endpoint(), &options).await,
        Err(ProbeError::SocketMissing { .. })
    ));
}

#[tokio::test]
async fn a_file_that_is_no_socket_is_named() {
    let bed = Bed::new();
    fs::write(bed.socket(), "x").unwrap();
    for links in [Links::Follow, Links::Refuse] {
        let options = ProbeOptions {
            links,
            ..within(PATIENCE)
        };
        match probe(&bed.endpoint(), &options).await {
            Err(ProbeError::NotASocket { found, .. }) => assert_eq!(found, "a regular file"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_planted_link_is_followed_only_where_the_caller_says_so() {
    let bed = Bed::new();
    let real = bed.dir.path().join("real.sock");
    let _plugin = FakePlugin::start(&real, Behaviour::v1());
    symlink(&real, bed.socket()).unwrap();
    probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
    let refusing = ProbeOptions {
        links: Links::Refuse,
        ..within(PATIENCE)
    };
    match probe(&bed.endpoint(), &refusing).await {
        Err(ProbeError::NotASocket { path, found }) => {
            assert_eq!((path, found), (bed.socket(), "a symbolic link"));
        }
        other => panic!("{other:?}"),
    }
    // The socket itself, refusing links: the same plugin, the same file.
    let direct = Endpoint::unix(&real).unwrap();
    let followed = probe(&direct, &within(PATIENCE)).await.unwrap();
    let refused = probe(&direct, &refusing).await.unwrap();
    assert!(followed.socket.is_some());
    assert_eq!(followed.socket, refused.socket);
}

#[test]
fn a_socket_without_permission_is_an_error_at_once() {
    let bed = Bed::new();
    let _listener = UnixListener::bind(bed.socket()).unwrap();
    fs::set_permissions(bed.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(bed.socket(), fs::Permissions::from_mode(0o000)).unwrap();
    let probing = || {
        if nix::unistd::geteuid().is_root() {
            // Modes do not bind root. This makes the thread, and it alone, somebody else to the file system.
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .unwrap()
            .block_on(probe(&bed.endpoint(), &within(PATIENCE)))
    };
    let probed = std::thread::scope(|scope| scope.spawn(probing).join()).unwrap();
    match probed {
        Err(ProbeError::Connect { source, .. }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_channel_outlives_a_restart_of_the_plugin() {
    let bed = Bed::new();
    let first = bed.plugin(Behaviour::v1());
    let probed = probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
    drop(first);
    let second = bed.plugin(Behaviour {
        name: "second".into(),
        ..Behaviour::v1()
    });
    probe(&bed.endpoint(), &within(PATIENCE)).await.unwrap();
    let mut client = IdentityClient::new(probed.channel);
    let name = timeout(PATIENCE, async {
        loop {
            match client.get_plugin_info(GetPluginInfoRequest {}).await {
                Ok(answer) if answer.get_ref().name == "second" => return answer.into_inner().name,
                // The end of the old connection may be noticed by the first call only.
                _ => tokio::task::yield_now().await,
            }
        }
    });
    assert_eq!(name.await.unwrap(), "second");
    assert_eq!(second.seen().calls.last().unwrap(), "v1 GetPluginInfo");
}

#[tokio::test]
async fn tcp_is_dialled_and_refusals_end_at_the_deadline() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let endpoint: Endpoint = format!("tcp://127.0.0.1:{port}").parse().unwrap();
    match connect(&endpoint, Instant::now() + SHORT).await {
        Err(ProbeError::TimedOut {
            waiting: Waiting::Listener,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let endpoint: Endpoint = format!("tcp://localhost:{port}").parse().unwrap();
    connect(&endpoint, patient()).await.unwrap();
}
