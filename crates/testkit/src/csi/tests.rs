use std::{io::Read, time::Duration};

use longshore_csi_api::{v0, v1};
use tokio::{net::UnixStream, time::timeout};
use tonic::transport::{Channel, Endpoint};

use std::ffi::OsString;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

/// Dials until somebody listens.
async fn dial(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    let connected = timeout(PATIENCE, async {
        while UnixStream::connect(&socket).await.is_err() {
            tokio::task::yield_now().await;
        }
        Endpoint::from_shared(format!("unix://{}", socket.display()))
            .unwrap()
            .connect()
            .await
    });
    connected.await.unwrap().unwrap()
}

#[tokio::test]
async fn serves_the_versions_it_is_told_to_and_counts() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = FakePlugin::start(
        dir.path().join("a.sock"),
        Behaviour {
            not_ready: 1,
            ..Behaviour::v0()
        },
    );
    let channel = dial(plugin.socket()).await;
    let mut v1 = v1::identity_client::IdentityClient::new(channel.clone());
    let refused = v1.probe(v1::ProbeRequest {}).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unimplemented);
    let mut v0 = v0::identity_client::IdentityClient::new(channel);
    let first = v0.probe(v0::ProbeRequest {}).await.unwrap().into_inner();
    let second = v0.probe(v0::ProbeRequest {}).await.unwrap().into_inner();
    assert_eq!((first.ready, second.ready), (Some(false), Some(true)));
    plugin.probed(2).await;
    assert_eq!(plugin.seen().calls, ["v0 Probe", "v0 Probe"]);
}

#[test]
fn arguments_of_each_start_are_read() {
    let args = "--starts f --v1 --not-ready 2 --then --v0 --name other --then --exit 3";
    let read = |start| Script::parse(args.split(' ').map(OsString::from), start).unwrap();
    assert!(read(1).behaviour.v1 && read(1).behaviour.not_ready == 2);
    assert!(read(2).behaviour.v0 && read(2).behaviour.name == "other");
    assert_eq!((read(3).exit, read(9).exit), (Some(3), Some(3)));
    for bad in ["--nonsense", "--not-ready", "--not-ready x", "--exit 256"] {
        Script::parse(bad.split(' ').map(OsString::from), 1).unwrap_err();
    }
}

#[tokio::test]
async fn the_program_serves_on_its_endpoint_and_counts_its_starts() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("p.sock");
    let program = tokio::task::spawn_blocking(program).await.unwrap();
    for version in ["v1", "v0"] {
        let mut child = std::process::Command::new(&program)
            .args(["--v1", "--exit-after", "1", "--stderr", "hello", "--starts"])
            .arg(dir.path().join("starts"))
            .args(["--then", "--v0", "--exit-after", "1", "--stderr", "hello"])
            .env("CSI_ENDPOINT", format!("unix://{}", socket.display()))
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let channel = dial(&socket).await;
        let ready = if version == "v1" {
            let mut client = v1::identity_client::IdentityClient::new(channel);
            client
                .probe(v1::ProbeRequest {})
                .await
                .unwrap()
                .into_inner()
                .ready
        } else {
            let mut client = v0::identity_client::IdentityClient::new(channel);
            client
                .probe(v0::ProbeRequest {})
                .await
                .unwrap()
                .into_inner()
                .ready
        };
        assert_eq!(ready, Some(true));
        let status = tokio::task::spawn_blocking(move || {
            let mut text = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            assert!(text.starts_with("hello\n"), "{text}");
            child.wait().unwrap()
        });
        assert_eq!(status.await.unwrap().code(), Some(1));
    }
}
