use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_backoff::Backoff;
use longshore_csi_probe::ApiVersion;
use longshore_kubelet_registration::{
    Answering, Offer, Registrar, Registration, RegistrationState, Wanted,
};
use tokio::time::timeout;

use crate::kubelet::Kubelet;

const PATIENCE: Duration = Duration::from_secs(30);

struct Rig {
    root: tempfile::TempDir,
    registrar: Registrar,
}

impl Rig {
    fn new() -> Self {
        Self::trying_every(Duration::from_millis(20))
    }

    fn trying_every(pause: Duration) -> Self {
        let root = tempfile::tempdir().unwrap();
        let backoff = Backoff::new(pause, pause, 0.0).unwrap();
        let record = root.path().join("record");
        let rig = Self {
            root,
            registrar: Registrar::with_backoff(Some(record), backoff),
        };
        rig.make_dir();
        rig
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("plugins_registry")
    }

    fn make_dir(&self) {
        fs::create_dir(self.dir()).unwrap();
        fs::set_permissions(self.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.dir().join("disks.example.com-reg.sock")
    }

    fn want(&self, offer: Offer) {
        let plugins = BTreeMap::from([("disks".to_owned(), offer)]);
        let dir = self.dir();
        self.registrar.want(Wanted { dir, plugins });
    }

    async fn until(&self, what: &str, judge: impl Fn(&Registration) -> bool) -> Registration {
        let mut status = self.registrar.status();
        let found = status.wait_for(|status| status.plugins.get("disks").is_some_and(&judge));
        match timeout(PATIENCE, found).await {
            Ok(status) => status.unwrap().plugins["disks"].clone(),
            Err(_) => panic!("waiting for {what}: {:?}", self.registrar.status().borrow()),
        }
    }

    async fn state(&self, state: RegistrationState) -> Registration {
        self.until(state.as_str(), |now| now.state == state).await
    }

    async fn kubelet(&self) -> Kubelet {
        Kubelet::call(&self.socket()).await.unwrap()
    }

    async fn registered(&self) {
        self.state(RegistrationState::Offered).await;
        self.kubelet().await.tell(true, "").await;
        self.state(RegistrationState::Registered).await;
    }
}

fn answering(generation: u64) -> Offer {
    Offer::Answering(Answering {
        driver: "disks.example.com".to_owned(),
        uri: "unix:///run/longshore/csi/x/csi.sock".to_owned(),
        version: ApiVersion::V1,
        generation,
    })
}

fn absent() -> Offer {
    let reason = "it is being started".to_owned();
    Offer::Absent { reason }
}

/// A socket may come again while its directory is being removed.
fn remove(dir: &Path) {
    let mut tries = 0..100;
    while let Err(error) = fs::remove_dir_all(dir) {
        assert!(tries.next().is_some(), "{error}");
    }
}

async fn gone(path: &Path) {
    let gone = async {
        while fs::symlink_metadata(path).is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, gone).await.unwrap();
}

#[tokio::test]
async fn a_plugin_that_answers_is_there_for_kubelet_and_one_that_does_not_is_gone() {
    let rig = Rig::new();
    rig.want(absent());
    let waiting = rig.state(RegistrationState::Waiting).await;
    assert!(!rig.socket().exists());
    assert_eq!(waiting.socket, None);
    rig.until("the reason", |now| now.reason == "it is being started")
        .await;

    rig.want(answering(1));
    rig.state(RegistrationState::Offered).await;
    let mut kubelet = rig.kubelet().await;
    let info = kubelet.info().await;
    assert_eq!(info.r#type, "CSIPlugin");
    assert_eq!(info.name, "disks.example.com");
    assert_eq!(info.endpoint, "/run/longshore/csi/x/csi.sock");
    assert_eq!(info.supported_versions, ["1.0.0"]);
    kubelet.tell(true, "").await;
    let registered = rig.state(RegistrationState::Registered).await;
    assert_eq!(
        (registered.confirmed, registered.reason),
        (1, String::new())
    );
    assert_eq!(registered.socket, Some(rig.socket()));

    // Another process of the plugin is another registration.
    rig.want(answering(2));
    rig.registered().await;
    rig.want(absent());
    rig.state(RegistrationState::Waiting).await;
    gone(&rig.socket()).await;
    rig.registrar.shutdown().await;
}

#[tokio::test]
async fn a_plugin_that_is_not_wanted_any_more_is_gone_and_one_of_a_daemon_that_ends_stays() {
    let rig = Rig::new();
    rig.want(answering(1));
    rig.registered().await;
    let (dir, plugins) = (rig.dir(), BTreeMap::new());
    rig.registrar.want(Wanted { dir, plugins });
    gone(&rig.socket()).await;
    let mut status = rig.registrar.status();
    let empty = status.wait_for(|status| status.plugins.is_empty());
    timeout(PATIENCE, empty).await.unwrap().unwrap();

    rig.want(answering(1));
    rig.registered().await;
    rig.registrar.shutdown().await;
    assert!(rig.socket().exists());

    // The next one has the plugin no more: its socket is taken away.
    let record = rig.root.path().join("record");
    let next = Registrar::spawn(record);
    next.want(Wanted {
        dir: rig.dir(),
        plugins: BTreeMap::new(),
    });
    gone(&rig.socket()).await;
    next.shutdown().await;
}

#[tokio::test]
async fn a_refusal_is_shown_in_kubelets_words_until_kubelet_says_otherwise() {
    let rig = Rig::trying_every(Duration::from_secs(3600));
    rig.want(answering(1));
    rig.state(RegistrationState::Offered).await;
    let mut kubelet = rig.kubelet().await;
    kubelet.tell(false, "no such node").await;
    let refused = rig.state(RegistrationState::Refused).await;
    assert_eq!(refused.reason, "no such node");
    assert!(refused.next_retry.is_some());
    kubelet.tell(false, "no such\nnode at all").await;
    rig.until("other words", |now| now.reason == "no such node at all")
        .await;
    // By itself, at the same socket.
    kubelet.tell(true, "").await;
    let registered = rig.state(RegistrationState::Registered).await;
    assert_eq!(registered.next_retry, None);
    rig.registrar.shutdown().await;
}

#[tokio::test]
async fn a_refused_plugin_is_offered_anew() {
    let rig = Rig::new();
    rig.want(answering(1));
    rig.state(RegistrationState::Offered).await;
    let inode = || fs::symlink_metadata(rig.socket()).map(|found| found.ino());
    let before = inode().unwrap();
    // Beside it, so that the next socket has another number for sure.
    fs::hard_link(rig.socket(), rig.dir().join(".before")).unwrap();
    rig.kubelet().await.tell(false, "no such node").await;
    let another = async {
        while inode().map_or(true, |now| now == before) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, another).await.unwrap();
    rig.registered().await;
    rig.registrar.shutdown().await;
}

#[tokio::test]
async fn a_socket_or_directory_that_is_removed_is_made_again() {
    let rig = Rig::new();
    rig.want(answering(1));
    rig.registered().await;
    fs::remove_file(rig.socket()).unwrap();
    rig.registered().await;
    // As a kubelet that begins from nothing.
    remove(&rig.dir());
    let blocked = |now: &Registration| {
        now.state == RegistrationState::Blocked && now.reason.contains("kubelet makes it")
    };
    rig.until("no directory", blocked).await;
    rig.make_dir();
    rig.registered().await;
    rig.registrar.shutdown().await;
}

#[tokio::test]
async fn a_socket_that_somebody_else_listens_on_is_waited_for() {
    let rig = Rig::new();
    let other = UnixListener::bind(rig.socket()).unwrap();
    rig.want(answering(1));
    let blocked = rig.state(RegistrationState::Blocked).await;
    assert!(
        blocked.reason.contains("somebody else listens"),
        "{blocked:?}"
    );
    std::os::unix::net::UnixStream::connect(rig.socket()).unwrap();
    // It ends, and leaves its socket.
    drop(other);
    rig.registered().await;
    rig.registrar.shutdown().await;
}

#[tokio::test]
async fn another_directory_is_another_registration() {
    let rig = Rig::new();
    rig.want(answering(1));
    rig.registered().await;
    let elsewhere = rig.root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o755)).unwrap();
    let plugins = BTreeMap::from([("disks".to_owned(), answering(1))]);
    rig.registrar.want(Wanted {
        dir: elsewhere.clone(),
        plugins,
    });
    gone(&rig.socket()).await;
    let socket = elsewhere.join("disks.example.com-reg.sock");
    rig.until("offered elsewhere", |now| {
        now.socket.as_ref() == Some(&socket)
    })
    .await;
    rig.state(RegistrationState::Offered).await;
    Kubelet::call(&socket).await.unwrap().tell(true, "").await;
    rig.state(RegistrationState::Registered).await;
    rig.registrar.shutdown().await;
}
