//! Who may speak to the agent: the socket's place, the token, TLS.

use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use longshore_agent::TcpOptions;
use longshore_agent::http::{HttpError, HttpLimits, Listeners};
use tokio::net::TcpStream;

use super::raw::{Connection, JSON, call};
use super::{private_dir, serve, serve_with};

pub(super) const TOKEN: &str = "q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=";
const HEALTH: &[u8] = br#"{"type":"GET_HEALTH"}"#;

pub(super) fn token_file(dir: &Path, text: &str, mode: u32) -> PathBuf {
    let path = dir.join("token");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

pub(super) fn tcp(address: &str, token: PathBuf) -> TcpOptions {
    TcpOptions::new(address.parse::<SocketAddr>().unwrap(), token)
}

/// Binds and drops; what it says when it is refused. Nothing may be left at the socket's path then.
pub(super) async fn refused(options: &TcpOptions) -> HttpError {
    let dir = private_dir();
    let socket = dir.path().join("agent.sock");
    let error = Listeners::bind(&socket, Some(options)).await.unwrap_err();
    assert!(!socket.exists());
    error
}

#[tokio::test]
async fn the_socket_is_for_its_owner_alone_and_goes_with_the_server() {
    let served = serve().await;
    assert_eq!(fs::metadata(&served.socket).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(
        fs::metadata(served.dir.path()).unwrap().mode() & 0o7777,
        0o700
    );
    served.server.shutdown().await;
    assert!(!served.socket.exists());
}

#[tokio::test]
async fn a_second_server_on_the_same_socket_is_refused_and_the_first_serves_on() {
    let served = serve().await;
    let error = Listeners::bind(&served.socket, None).await.unwrap_err();
    assert!(matches!(error, HttpError::SocketInUse { .. }), "{error}");
    assert!(error.to_string().contains("agent.sock"), "{error}");
    assert_eq!(
        call(&served.socket, r#"{"type":"GET_HEALTH"}"#)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn the_socket_file_of_a_killed_server_is_taken_over() {
    let dir = private_dir();
    let socket = dir.path().join("agent.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    assert!(socket.exists());
    Listeners::bind(&socket, None).await.unwrap();
}

#[tokio::test]
async fn a_planted_symlink_is_refused_and_not_followed() {
    let dir = private_dir();
    let target = dir.path().join("target");
    let socket = dir.path().join("agent.sock");
    symlink(&target, &socket).unwrap();
    let error = Listeners::bind(&socket, None).await.unwrap_err();
    assert!(
        matches!(
            error,
            HttpError::NotASocket {
                kind: "symbolic link",
                ..
            }
        ),
        "{error}"
    );
    assert!(!target.exists());
    let link = dir.path().join("run");
    symlink(dir.path(), &link).unwrap();
    let error = Listeners::bind(&link.join("agent.sock"), None)
        .await
        .unwrap_err();
    assert!(
        matches!(error, HttpError::SocketDirectoryOpen { .. }),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_401() {
    let dir = private_dir();
    let token = token_file(dir.path(), &format!("{TOKEN}\n"), 0o600);
    let served = serve_with(HttpLimits::default(), Some(&tcp("127.0.0.1:0", token))).await;
    let address = served.server.tcp_address().unwrap();
    let good = format!("Bearer {TOKEN}");
    for (value, status) in [
        (None, 401),
        (Some("Bearer".to_owned()), 401),
        (Some("Bearer wrong".to_owned()), 401),
        (Some(format!("Basic {TOKEN}")), 401),
        (Some(format!("{good}x")), 401),
        (Some(good[..good.len() - 1].to_owned()), 401),
        (Some(good.clone()), 200),
    ] {
        let mut connection = Connection::over(TcpStream::connect(address).await.unwrap());
        let mut headers = vec![JSON];
        headers.extend(value.as_deref().map(|value| ("Authorization", value)));
        let reply = connection.post(&headers, HEALTH).await;
        assert_eq!(reply.status, status, "{value:?}");
        if status == 401 {
            assert!(
                reply
                    .header("www-authenticate")
                    .unwrap()
                    .starts_with("Bearer realm=")
            );
            assert_eq!(reply.text(), "401 Unauthorized.");
        }
    }
    // The Unix socket needs none: the kernel says who connects.
    assert_eq!(
        call(&served.socket, r#"{"type":"GET_HEALTH"}"#)
            .await
            .status,
        200
    );
    let agent = call(&served.socket, r#"{"type":"GET_AGENT"}"#).await;
    assert!(
        agent
            .text()
            .contains(&format!(r#""port":{}"#, address.port())),
        "{}",
        agent.text()
    );
    served.server.shutdown().await;
}

#[tokio::test]
async fn tcp_without_a_good_token_file_is_refused() {
    let dir = private_dir();
    let missing = refused(&tcp("127.0.0.1:0", dir.path().join("none"))).await;
    assert!(matches!(missing, HttpError::TokenFile { .. }), "{missing}");
    let open = refused(&tcp("127.0.0.1:0", token_file(dir.path(), TOKEN, 0o644))).await;
    assert!(open.to_string().contains("0600"), "{open}");
    let short = refused(&tcp(
        "127.0.0.1:0",
        token_file(dir.path(), "secret-secret", 0o600),
    ))
    .await;
    assert!(
        short.to_string().contains("less than 32 random bytes"),
        "{short}"
    );
    assert!(!short.to_string().contains("secret-secret"), "{short}");
}

#[tokio::test]
async fn other_machines_are_served_over_tls_only() {
    let dir = private_dir();
    let token = token_file(dir.path(), TOKEN, 0o600);
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let error = refused(&tcp(address, token.clone())).await;
        assert!(
            matches!(error, HttpError::TlsRequired { .. }),
            "{address}: {error}"
        );
    }
}

/// Set for the process that a test starts as another user: the socket to connect to.
const CONNECT_VAR: &str = "LONGSHORE_TEST_CONNECT";

#[tokio::test]
async fn a_foreign_user_who_gets_at_the_socket_is_not_heard() {
    if let Some(socket) = std::env::var_os(CONNECT_VAR) {
        // The other user: says something, and is hung up on without a byte.
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        // It may be closed already.
        let request = super::raw::request("POST /api/v1", &[JSON], HEALTH);
        stream.write_all(&request).ok();
        let mut answer = Vec::new();
        assert!(matches!(stream.read_to_end(&mut answer), Ok(0) | Err(_)));
        assert!(answer.is_empty());
        return;
    }
    let Some(()) = longshore_testkit::peers::root() else {
        return;
    };
    let served = serve().await;
    // Nobody could get this far otherwise.
    fs::set_permissions(served.dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
    fs::set_permissions(&served.socket, fs::Permissions::from_mode(0o666)).unwrap();
    let test = "http::access::a_foreign_user_who_gets_at_the_socket_is_not_heard";
    run_as_nobody(test, CONNECT_VAR, &served.socket).await;
    assert_eq!(
        call(&served.socket, r#"{"type":"GET_HEALTH"}"#)
            .await
            .status,
        200
    );
}

/// Runs one test of this program as uid 65534 with `variable` set.
async fn run_as_nobody(test: &'static str, variable: &'static str, value: &Path) {
    let mut command = std::process::Command::new("/proc/self/exe");
    command
        .args(["--exact", test])
        .env(variable, value)
        .current_dir("/");
    command.uid(65534).gid(65534);
    let output = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

/// Set for the process that a test starts as another user: the directory with what is and is not theirs.
const NOBODY_VAR: &str = "LONGSHORE_TEST_NOBODY";

#[tokio::test]
async fn an_ordinary_user_serves_from_their_own_directory_and_no_other() {
    if let Some(dir) = std::env::var_os(NOBODY_VAR) {
        let dir = Path::new(&dir);
        let bind = async |name: &str| Listeners::bind(&dir.join(name), None).await;
        drop(bind("mine/agent.sock").await.unwrap());
        let closed = bind("closed/run/agent.sock").await.unwrap_err();
        assert!(
            matches!(closed, HttpError::SocketDirectory { .. }),
            "{closed}"
        );
        let theirs = bind("theirs/agent.sock").await.unwrap_err();
        assert!(theirs.to_string().contains("belongs to uid 0"), "{theirs}");
        let token = refused(&tcp("127.0.0.1:0", dir.join("token"))).await;
        assert!(matches!(token, HttpError::TokenFile { .. }), "{token}");
        return;
    }
    let Some(()) = longshore_testkit::peers::root() else {
        return;
    };
    let dir = private_dir();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
    for (name, mode) in [("mine", 0o700), ("theirs", 0o755), ("closed", 0o700)] {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    chown(dir.path().join("mine"), Some(65534), Some(65534)).unwrap();
    token_file(dir.path(), TOKEN, 0o600);
    let test = "http::access::an_ordinary_user_serves_from_their_own_directory_and_no_other";
    run_as_nobody(test, NOBODY_VAR, dir.path()).await;
}

#[tokio::test]
async fn a_listener_that_is_never_served_leaves_no_socket_behind() {
    let dir = private_dir();
    let socket = dir.path().join("agent.sock");
    drop(Listeners::bind(&socket, None).await.unwrap());
    assert!(!socket.exists());
}

#[tokio::test]
async fn servers_that_start_at_once_do_not_take_over_from_each_other() {
    let dir = private_dir();
    let socket = dir.path().join("agent.sock");
    // A dead server's socket, so that everybody thinks that it may be replaced.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let starts = (0..8).map(|_| {
        let socket = socket.clone();
        tokio::spawn(async move { Listeners::bind(&socket, None).await })
    });
    let mut bound = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        match start.await.unwrap() {
            Ok(listeners) => bound.push(listeners),
            Err(error) => assert!(matches!(error, HttpError::SocketInUse { .. }), "{error}"),
        }
    }
    assert_eq!(bound.len(), 1);
    assert!(socket.exists());
}
