//! Servers that exist only inside another network namespace.

use std::net::{SocketAddr, TcpListener as StdListener};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use longshore_health::{
    Family, HttpProbe, NetNamespace, Probe, ProbeResult, Prober, Scheme, TcpProbe,
};
use longshore_testkit::peers;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto,
    socket,
};
use tokio::net::TcpListener;

use crate::PATIENCE;
use crate::servers::{Server, Then, acceptor, ok};

/// A namespace of its own with listeners in it, on its loopback addresses.
struct Elsewhere {
    handle: OwnedFd,
    listeners: Vec<StdListener>,
}

impl Elsewhere {
    /// On a thread that enters it and ends.
    fn new(addresses: Vec<SocketAddr>) -> Self {
        std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            loopback_up();
            let listeners = addresses
                .into_iter()
                .map(|address| {
                    let listener = StdListener::bind(address).unwrap();
                    listener.set_nonblocking(true).unwrap();
                    listener
                })
                .collect();
            let handle = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            Self {
                handle: handle.into(),
                listeners,
            }
        })
        .join()
        .unwrap()
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_fd().as_raw_fd()))
    }
}

/// RTM_NEWLINK for the interface 1, which is the loopback of every namespace, with IFF_UP.
fn loopback_up() {
    let link = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
    .unwrap();
    bind(link.as_raw_fd(), &NetlinkAddr::new(0, 0)).unwrap();
    let mut message = Vec::new();
    message.extend(32u32.to_ne_bytes()); // length
    message.extend(16u16.to_ne_bytes()); // RTM_NEWLINK
    message.extend(5u16.to_ne_bytes()); // REQUEST, ACK
    message.extend([0; 8]); // sequence, port
    message.extend([0; 4]); // family, type
    message.extend(1i32.to_ne_bytes()); // index
    message.extend(1u32.to_ne_bytes()); // IFF_UP
    message.extend(1u32.to_ne_bytes()); // of which this changes
    sendto(
        link.as_raw_fd(),
        &message,
        &NetlinkAddr::new(0, 0),
        MsgFlags::empty(),
    )
    .unwrap();
    let mut answer = [0; 256];
    recv(link.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap();
    let error = i32::from_ne_bytes(answer[16..20].try_into().unwrap());
    assert_eq!(error, 0, "the loopback interface did not come up");
}

fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6")
        .is_ok_and(|disabled| disabled.trim() == "0")
}

#[tokio::test]
async fn hc10_http_https_and_tcp_over_both_families_where_only_the_container_listens() {
    if peers::root().is_none() {
        return;
    }
    let mut families = vec![Family::V4];
    if has_ipv6() {
        families.push(Family::V6);
    } else {
        peers::skip::<()>("ipv6", "this kernel has IPv6 disabled");
    }
    let addresses = families
        .iter()
        .flat_map(|family| [SocketAddr::new(family.loopback(), 0); 2])
        .collect();
    let elsewhere = Elsewhere::new(addresses);
    let namespace = NetNamespace::at(&elsewhere.path()).await.unwrap();
    assert!(!namespace.is_own());
    let mut listeners = elsewhere
        .listeners
        .iter()
        .map(|listener| listener.try_clone().unwrap());
    let inside = Prober::new(namespace);
    let outside = Prober::new(NetNamespace::own());
    for family in families {
        let mut listen = || TcpListener::from_std(listeners.next().unwrap()).unwrap();
        let plain = Server::on(listen(), None, |_| (ok("in"), Then::Close));
        let tls = Server::on(listen(), Some(acceptor()), |_| (ok("in"), Then::Close));
        let mut http = HttpProbe::new(plain.port(), "/", &[]).unwrap();
        http.family = family;
        let mut https = HttpProbe::new(tls.port(), "/", &[]).unwrap();
        (https.family, https.scheme) = (family, Scheme::Https);
        let tcp = TcpProbe::new(plain.port(), family).unwrap();
        let cases = [
            (Probe::Http(http), ProbeResult::Status(200)),
            (Probe::Http(https), ProbeResult::Status(200)),
            (Probe::Tcp(tcp), ProbeResult::Connected),
        ];
        for (probe, expected) in cases {
            let found = inside.once(probe.clone(), Some(PATIENCE)).await.unwrap();
            assert_eq!(found, expected, "{probe:?}");
            let found = outside.once(probe.clone(), Some(PATIENCE)).await.unwrap();
            assert_ne!(found, expected, "outside: {probe:?}");
        }
    }
}

#[tokio::test]
async fn hc10_our_own_threads_stay_where_they_are() {
    if peers::root().is_none() {
        return;
    }
    let before = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let elsewhere = Elsewhere::new(vec!["127.0.0.1:0".parse().unwrap()]);
    let namespace = NetNamespace::at(&elsewhere.path()).await.unwrap();
    let port = elsewhere.listeners[0].local_addr().unwrap().port();
    let prober = Prober::new(namespace);
    let probe = Probe::Tcp(TcpProbe::new(port.into(), Family::V4).unwrap());
    for _ in 0..20 {
        let found = prober.once(probe.clone(), Some(PATIENCE)).await.unwrap();
        assert_eq!(found, ProbeResult::Connected);
        assert_eq!(
            std::fs::read_link("/proc/thread-self/ns/net").unwrap(),
            before
        );
    }
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        // A thread may end while we look.
        if let Ok(theirs) = std::fs::read_link(task.unwrap().path().join("ns/net")) {
            let name = theirs.display().to_string();
            assert!(theirs == before || is_a_namespace_thread(&name), "{name}");
        }
    }
}

/// Other tests of this program have such threads at the same time; ours have been waited for.
fn is_a_namespace_thread(name: &str) -> bool {
    name.starts_with("net:")
}

#[tokio::test]
async fn another_namespace_without_privilege_is_refused_at_once() {
    if peers::unprivileged().is_none() {
        return;
    }
    // Whatever process of root there is, its namespaces cannot even be opened.
    let error = NetNamespace::of_pid(1).await.unwrap_err();
    assert!(error.to_string().contains("/proc/1/ns/net"), "{error}");
}
