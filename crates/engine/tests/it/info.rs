//! What an engine says of itself.

use crate::daemon::{Daemon, answer};

#[tokio::test]
async fn an_engine_that_serves_nri_plugins_of_its_own_says_so() {
    for (body, expected) in [
        (r#"{"ID":"x"}"#, None),
        (r#"{"NRI":null}"#, None),
        (r#"{"NRI":{}}"#, Some("")),
        (
            r#"{"NRI":{"Info":[["version","1"],["socket-path","/run/nri.sock"]]}}"#,
            Some("version 1 socket-path /run/nri.sock"),
        ),
        (r#"{"NRI":[3,{"a":"b"}]}"#, Some("b")),
    ] {
        let daemon = Daemon::start(move |_, _| answer(200, body));
        let told = daemon.engine().own_nri().await.unwrap();
        assert_eq!(told.as_deref(), expected, "{body}");
    }
    let daemon = Daemon::start(|_, _| answer(500, r#"{"message":"no"}"#));
    let error = daemon.engine().own_nri().await.unwrap_err();
    assert_eq!(error.status(), Some(500));
}
