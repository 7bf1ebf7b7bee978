use std::time::Duration;

use longshore_health::{
    Family, HttpProbe, NetNamespace, Probe, ProbeResult, Prober, Scheme, TcpProbe,
};

use crate::PATIENCE;
use crate::servers::{Server, Then, ask, ok};

fn get(server: &Server, path: &str) -> HttpProbe {
    HttpProbe::new(server.port(), path, &[]).unwrap()
}

fn status(code: &str, headers: &str) -> (Vec<u8>, Then) {
    let head = format!("HTTP/1.1 {code}\r\n{headers}content-length: 0\r\n\r\n");
    (head.into_bytes(), Then::Close)
}

#[tokio::test]
async fn hc9_the_status_is_that_of_the_answer() {
    let server = Server::start(|head| {
        let request = "GET /healthz?deep=1 HTTP/1.1\r\n";
        let host = "host: 127.0.0.1:";
        if head.starts_with(request) && head.to_lowercase().contains(host) {
            (ok("fine"), Then::Hold)
        } else {
            status("404 Not Found", "")
        }
    })
    .await;
    let found = ask(Probe::Http(get(&server, "/healthz?deep=1"))).await;
    assert_eq!(found, ProbeResult::Status(200));
    let found = ask(Probe::Http(get(&server, "/other"))).await;
    assert_eq!(found, ProbeResult::Status(404));
}

#[tokio::test]
async fn hc9_https_takes_any_certificate() {
    let server = Server::with_tls(|_| (ok("fine"), Then::Close)).await;
    let mut probe = get(&server, "/");
    probe.scheme = Scheme::Https;
    assert_eq!(
        ask(Probe::Http(probe.clone())).await,
        ProbeResult::Status(200)
    );
    probe.scheme = Scheme::Http;
    let found = ask(Probe::Http(probe)).await;
    assert!(
        matches!(found, ProbeResult::Failed(_)),
        "plain to TLS: {found:?}"
    );
    let plain = Server::start(|_| (ok("fine"), Then::Close)).await;
    let mut probe = get(&plain, "/");
    probe.scheme = Scheme::Https;
    let found = ask(Probe::Http(probe)).await;
    assert!(
        matches!(&found, ProbeResult::Failed(why) if why.starts_with("TLS")),
        "{found:?}"
    );
}

#[tokio::test]
async fn hc9_tcp_passes_when_somebody_listens() {
    let server = Server::start(|_| (ok(""), Then::Close)).await;
    let probe = TcpProbe::new(server.port(), Family::V4).unwrap();
    assert_eq!(ask(Probe::Tcp(probe)).await, ProbeResult::Connected);
    drop(server);
    let found = ask(Probe::Tcp(probe)).await;
    assert!(matches!(found, ProbeResult::Refused(_)), "{found:?}");
}

#[tokio::test]
async fn redirects_are_followed_to_the_last_status() {
    let server = Server::start(|head| match head.split(' ').nth(1).unwrap_or_default() {
        "/a/one" => status("302 Found", "location: ../b/two\r\n"),
        "/b/two" => status("308 Permanent Redirect", "location: ?three\r\n"),
        "/b/two?three" => status("307 Temporary Redirect", "location: //localhost/gone\r\n"),
        "/loop" => status("301 Moved Permanently", "location: /loop\r\n"),
        "/nowhere" => status("301 Moved Permanently", "location: ftp://127.0.0.1/\r\n"),
        "/bare" => status("304 Not Modified", ""),
        _ => status("503 Service Unavailable", "location: /a/one\r\n"),
    })
    .await;
    let status_of = async |path: &str| ask(Probe::Http(get(&server, path))).await;
    assert_eq!(
        status_of("/bare").await,
        ProbeResult::Status(304),
        "without a place to go to"
    );
    assert_eq!(
        status_of("/x").await,
        ProbeResult::Status(503),
        "no redirect"
    );
    let found = status_of("/loop").await;
    assert_eq!(
        found,
        ProbeResult::Failed("more than 50 redirects".to_owned())
    );
    let found = status_of("/nowhere").await;
    assert!(
        matches!(&found, ProbeResult::Failed(why) if why.contains("neither http")),
        "{found:?}"
    );
    // Port 80 of this host is not ours to know: whether it answers or refuses, we went there.
    let found = status_of("/a/one").await;
    assert_ne!(found, ProbeResult::Status(307), "{found:?}");
    let wanted = HttpProbe::new(server.port(), "/a/one", &[302]).unwrap();
    assert_eq!(
        ask(Probe::Http(wanted)).await,
        ProbeResult::Status(302),
        "asked for by its status"
    );
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let endless = Server::start(|_| (b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), Then::Flood)).await;
    assert_eq!(
        ask(Probe::Http(get(&endless, "/"))).await,
        ProbeResult::Status(200)
    );
    let head = Server::start(|_| (b"HTTP/1.1 200 OK\r\nx: ".to_vec(), Then::Flood)).await;
    let found = ask(Probe::Http(get(&head, "/"))).await;
    assert!(matches!(found, ProbeResult::Failed(_)), "{found:?}");
}

#[tokio::test]
async fn what_is_no_answer_fails() {
    let cases: [crate::servers::Answers; 4] = [
        |_| (b"".to_vec(), Then::Close),
        |_| (b"SSH-2.0-x\r\n".to_vec(), Then::Close),
        |_| {
            (
                b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort".to_vec(),
                Then::Close,
            )
        },
        |_| (b"HTTP/1.1 999999 OK\r\n\r\n".to_vec(), Then::Close),
    ];
    for (number, answers) in cases.into_iter().enumerate() {
        let server = Server::start(answers).await;
        let found = ask(Probe::Http(get(&server, "/"))).await;
        assert!(
            matches!(found, ProbeResult::Failed(_)),
            "{number}: {found:?}"
        );
    }
}

/// The clock runs ahead only while nothing else can: the server's silence is what the probe waits for.
#[tokio::test]
async fn silence_ends_at_the_limit() {
    let server = Server::start(|_| (Vec::new(), Then::Hold)).await;
    let limit = Duration::from_millis(200);
    let prober = Prober::new(NetNamespace::own());
    let run = prober.once(Probe::Http(get(&server, "/")), Some(limit));
    let found = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
    assert_eq!(found, ProbeResult::TimedOut(limit));
}
