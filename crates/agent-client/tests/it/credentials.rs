//! What is sent as `Authorization`, and that it is shown nowhere.

use longshore_agent_client::{AgentError, Codec, Credentials};

use crate::helpers::{chain, fixture};

#[tokio::test]
async fn a_bearer_token_is_read_from_its_file_and_again_when_it_changes() {
    let fixture = fixture();
    let token = fixture.write("token", "first\n");
    let client =
        fixture.client_with(|config| config.credentials = Credentials::BearerFile(token.clone()));
    fixture.agent.require_authorization("Bearer first");
    assert!(client.get_health().await.unwrap());

    // Rotated at the agent first: refused until the file has the new one.
    fixture.agent.require_authorization("Bearer second");
    let error = client.get_health().await.unwrap_err();
    assert_eq!(error.status(), Some(401));
    fixture.write("token", "second\n");
    assert!(client.get_health().await.unwrap());
}

#[tokio::test]
async fn basic_credentials_are_sent() {
    let fixture = fixture();
    let password_file = fixture.write("password", "open sesame");
    let client = fixture.client_with(|config| {
        config.codec = Codec::Json;
        config.credentials = Credentials::Basic {
            user: "Aladdin".into(),
            password_file,
        };
    });
    fixture
        .agent
        .require_authorization("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    assert!(client.get_health().await.unwrap());
}

#[tokio::test]
async fn a_missing_file_fails_the_call_and_names_the_file() {
    let fixture = fixture();
    let path = fixture.dir.path().join("no-token");
    let client = fixture.client_with(|config| config.credentials = Credentials::BearerFile(path));
    let error = client.get_health().await.unwrap_err();
    assert!(matches!(error, AgentError::Credentials { .. }));
    assert!(
        chain(&error).contains("no-token: No such file"),
        "{}",
        chain(&error)
    );
    assert_eq!(fixture.agent.log(), []);
}

#[tokio::test]
async fn no_token_is_in_the_client_or_in_an_error() {
    let fixture = fixture();
    let token = fixture.write("token", "hunter2");
    let client = fixture.client_with(|config| config.credentials = Credentials::BearerFile(token));
    fixture.agent.require_authorization("another");
    let error = client.get_health().await.unwrap_err();
    let shown = format!("{client:?} {error:?} {}", chain(&error));
    assert!(!shown.contains("hunter2"), "{shown}");
}
