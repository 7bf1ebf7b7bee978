//! The server on a real socket, asked byte by byte.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_status_http::{
    Changes, Hosts, Limits, Server, Snapshot, Source, StatusHttpError, parse_address,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::exposition;
use crate::sample::{busy, quiet};

/// Much longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Board {
    snapshot: Arc<Mutex<Snapshot>>,
    changed: watch::Sender<()>,
}

struct Wait(watch::Receiver<()>);

impl Changes for Wait {
    fn changed<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { self.0.changed().await.is_ok() })
    }
}

impl Source for Board {
    fn snapshot(&self) -> Snapshot {
        self.snapshot.lock().unwrap().clone()
    }

    fn changes(&self) -> Box<dyn Changes> {
        Box::new(Wait(self.changed.subscribe()))
    }
}

impl Board {
    fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        change(&mut self.snapshot.lock().unwrap());
        self.changed.send_replace(());
    }
}

struct Served {
    address: SocketAddr,
    board: Board,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

async fn serve(snapshot: Snapshot, limits: Limits) -> Served {
    let board = Board {
        snapshot: Arc::new(Mutex::new(snapshot)),
        changed: watch::Sender::new(()),
    };
    let stop = CancellationToken::new();
    let hosts = Hosts::new(["node7".to_owned()]);
    let address = parse_address("0").unwrap();
    let server = Server::bind(address, hosts, limits, board.clone(), stop.clone());
    let server = server.await.unwrap();
    Served {
        address: server.address().unwrap(),
        board,
        stop,
        server: tokio::spawn(server.run()),
    }
}

impl Served {
    async fn send(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// All that comes, until the connection is closed.
    async fn ask(&self, request: &str) -> String {
        let mut stream = self.send(request).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(LONG, stream.read_to_end(&mut answer));
        // A connection that is cut off may end with a reset.
        let _end = read.await.expect("the connection is never closed");
        String::from_utf8(answer).unwrap()
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let answer = self
            .ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            .await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(LONG, self.server)
            .await
            .unwrap()
            .unwrap();
    }
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or("none")
}

#[tokio::test]
async fn each_path_has_its_answer() {
    let served = serve(quiet(), Limits::default()).await;
    assert_eq!(served.get("/healthz").await, (200, "ok\n".to_owned()));
    assert_eq!(served.get("/readyz").await, (200, "ok\n".to_owned()));
    assert_eq!(served.get("/readyz?verbose").await.0, 200);
    let (code, metrics) = served.get("/metrics").await;
    assert_eq!(code, 200);
    exposition::read(&metrics).unwrap();
    assert!(served.get("/").await.1.starts_with("<!DOCTYPE html>"));
    assert_eq!(served.get("/page.css").await.0, 200);
    assert_eq!(served.get("/page.js").await.0, 200);
    for nothing in [
        "/nothing",
        "/healthz/",
        "/healthz/csi/",
        "/healthz/csi/a/b",
        "/healthz/csi/%zz",
        "/../etc/passwd",
    ] {
        assert_eq!(served.get(nothing).await.0, 404, "{nothing}");
    }
    *served.board.snapshot.lock().unwrap() = busy();
    assert_eq!(served.get("/healthz").await.0, 200, "alive is not ready");
    let (code, reasons) = served.get("/readyz").await;
    assert_eq!(code, 503);
    assert!(
        reasons
            .lines()
            .any(|it| it.starts_with("csi plugin broken is backoff")),
        "{reasons}"
    );
    assert_eq!(served.get("/healthz/csi/scratch").await.0, 200);
    assert_eq!(served.get("/healthz/csi/scr%61tch").await.0, 200);
    assert_eq!(served.get("/healthz/csi/broken").await.0, 500);
    assert_eq!(served.get("/healthz/csi/nonesuch").await.0, 404);
    served.end().await;
}

#[tokio::test]
async fn only_get_and_head_of_our_own_names_are_answered() {
    let served = serve(quiet(), Limits::default()).await;
    for (request, code) in [
        ("GET / HTTP/1.1\r\nHost: localhost:80\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: NODE7:9273\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: [::1]:9273\r\n\r\n", "200"),
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        (
            "GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "421",
        ),
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
            "400",
        ),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
        ("DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = served.ask(request).await;
        assert_eq!(status(&answer), code, "{request}: {answer}");
        let allow = answer
            .to_ascii_lowercase()
            .contains("\r\nallow: get, head\r\n");
        assert_eq!(allow, code == "405", "{answer}");
    }
    let head = served
        .ask("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert!(
        status(&head) == "200" && head.ends_with("\r\n\r\n"),
        "no body: {head}"
    );
    let events = served
        .ask("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    assert_eq!(status(&events), "200", "it ends: {events}");
    served.end().await;
}

#[tokio::test]
async fn every_answer_is_guarded() {
    let served = serve(busy(), Limits::default()).await;
    for path in [
        "/",
        "/metrics",
        "/page.js",
        "/page.css",
        "/healthz",
        "/readyz",
        "/none",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = served.ask(&request).await.to_ascii_lowercase();
        for header in [
            "\r\ncontent-security-policy: default-src 'none'; script-src 'self'",
            "\r\nx-content-type-options: nosniff\r\n",
            "\r\nx-frame-options: deny\r\n",
            "\r\nreferrer-policy: no-referrer\r\n",
            "\r\ncache-control: no-store\r\n",
            "\r\ncross-origin-resource-policy: same-origin\r\n",
            "charset=utf-8\r\n",
        ] {
            assert!(answer.contains(header), "{path}: {header}: {answer}");
        }
        assert!(!answer.contains("access-control-"), "{path}");
    }
    served.end().await;
}

/// Reads until this is there.
async fn until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut all = Vec::new();
    let reading = async {
        loop {
            let text = String::from_utf8_lossy(&all);
            if text.contains(wanted) {
                return text.into_owned();
            }
            let mut some = [0; 4096];
            let read = stream.read(&mut some).await.unwrap();
            assert!(read > 0, "the end before {wanted}: {text}");
            all.extend_from_slice(&some[..read]);
        }
    };
    tokio::time::timeout(LONG, reading)
        .await
        .unwrap_or_else(|_| panic!("{wanted} does not come"))
}

const EVENTS: &str = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[tokio::test]
async fn a_listener_gets_what_changes_and_nothing_else() {
    let served = serve(quiet(), Limits::default()).await;
    let mut stream = served.send(EVENTS).await;
    let first = until(&mut stream, "NRI is off").await;
    assert!(first.contains("text/event-stream") && first.contains("event: sections\ndata: {"));
    served
        .board
        .change(|snapshot| snapshot.plugins = busy().plugins);
    let second = until(&mut stream, "\n\n").await;
    assert!(
        second.contains("scratch") && second.contains("\"summary\""),
        "{second}"
    );
    assert!(
        !second.contains("\"tasks\"") && !second.contains("\"nri\""),
        "{second}"
    );
    assert!(!second.contains("<img"), "{second}");
    served.end().await;
}

#[tokio::test]
async fn listeners_are_counted_and_one_that_leaves_makes_room() {
    let limits = Limits {
        listeners: 2,
        refresh: Duration::from_millis(20),
        pause: Duration::from_millis(5),
        ..Limits::default()
    };
    let served = serve(quiet(), limits).await;
    let mut first = served.send(EVENTS).await;
    let mut second = served.send(EVENTS).await;
    until(&mut first, "data:").await;
    until(&mut second, "data:").await;
    let third = served.ask(EVENTS).await;
    assert_eq!(status(&third), "503", "{third}");
    assert!(
        third
            .to_ascii_lowercase()
            .contains("\r\nretry-after: 10\r\n"),
        "{third}"
    );
    drop(first);
    let again = async {
        loop {
            let mut stream = served.send(EVENTS).await;
            let mut head = [0; 12];
            stream.read_exact(&mut head).await.unwrap();
            if head.ends_with(b"200") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, again)
        .await
        .expect("no room is made");
    served.end().await;
}

#[tokio::test]
async fn heads_are_bounded_in_size_and_time() {
    let limits = Limits {
        head_time: Duration::from_millis(200),
        request_time: Duration::from_millis(800),
        ..Limits::default()
    };
    let served = serve(quiet(), limits).await;
    let long = "x".repeat(64 * 1024);
    let answer = served
        .ask(&format!(
            "GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"
        ))
        .await;
    assert!(matches!(status(&answer), "431" | "none"), "{answer}");
    let many = "A: b\r\n".repeat(500);
    let answer = served
        .ask(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"))
        .await;
    assert!(matches!(status(&answer), "431" | "none"), "{answer}");
    // These end since they are cut off: `ask` waits for that.
    for late in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\n"] {
        let answer = served.ask(late).await;
        assert!(
            matches!(status(&answer), "408" | "none"),
            "{late}: {answer}"
        );
    }
    served.end().await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off_and_keeps_out_nobody() {
    let limits = Limits {
        connections: 2,
        write_time: Duration::from_millis(200),
        request_time: Duration::from_secs(1),
        ..Limits::default()
    };
    // More than the buffers of a socket take.
    let mut snapshot = busy();
    let plugin = snapshot.plugins[1].clone();
    snapshot.plugins = (0..40_000)
        .map(|number| {
            let mut plugin = plugin.clone();
            plugin.name = format!("plugin-{number}");
            plugin
        })
        .collect();
    let served = serve(snapshot, limits).await;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let _first = served.send(request).await;
    let _second = served.send(request).await;
    // Both places are taken, until both are cut off.
    assert_eq!(served.get("/healthz").await.0, 200);
    served.end().await;
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let served = serve(quiet(), Limits::default()).await;
    let address = parse_address(&served.address.to_string()).unwrap();
    let taken = Server::bind(
        address,
        Hosts::default(),
        Limits::default(),
        served.board.clone(),
        CancellationToken::new(),
    );
    let error = taken.await.unwrap_err();
    assert!(matches!(error, StatusHttpError::Bind { .. }));
    assert!(
        error.to_string().contains(&served.address.to_string()),
        "{error}"
    );
    served.end().await;
}
