use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use http::HeaderValue;

use super::*;

const TOKEN: &str = "q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=";
const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn load(text: &str, mode: u32) -> Result<BearerToken, HttpError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    BearerToken::load(&path)
}

fn problem(result: Result<BearerToken, HttpError>) -> String {
    match result.unwrap_err() {
        HttpError::Token { problem, .. } => problem,
        other => panic!("{other}"),
    }
}

#[test]
fn a_token_of_32_random_bytes_is_taken() {
    load(&format!("{TOKEN}\n"), 0o600).unwrap();
    load(HEX, 0o400).unwrap();
}

#[test]
fn a_token_that_is_too_short_or_not_random_is_refused_with_a_hint() {
    for text in [
        "",
        "secret",
        &HEX[..62],
        &TOKEN[..42],
        &"a".repeat(64),
        &"ab".repeat(40),
    ] {
        let problem = problem(load(text, 0o600));
        assert!(problem.contains("/dev/urandom"), "{text}: {problem}");
    }
    assert!(problem(load(&format!("{TOKEN} {TOKEN}"), 0o600)).contains("cannot have"));
    assert!(problem(load(&"q8".repeat(3000), 0o600)).contains("longer"));
}

#[test]
fn a_token_file_that_others_can_read_is_refused() {
    for mode in [0o640, 0o604, 0o644, 0o660] {
        assert!(
            problem(load(TOKEN, mode)).contains("set it to 0600"),
            "{mode:o}"
        );
    }
}

#[test]
fn a_link_a_directory_and_a_missing_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("target");
    fs::write(&target, TOKEN).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
    let link = dir.path().join("link");
    symlink(&target, &link).unwrap();
    assert!(matches!(
        BearerToken::load(&link),
        Err(HttpError::TokenFile { .. })
    ));
    assert!(matches!(
        BearerToken::load(dir.path()),
        Err(HttpError::Token { .. })
    ));
    let missing = dir.path().join("missing");
    let error = BearerToken::load(&missing).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn only_the_exact_token_is_admitted() {
    let token = load(TOKEN, 0o600).unwrap();
    let admits = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        token.admits(&headers)
    };
    let good = format!("Bearer {TOKEN}");
    assert!(admits(&[&good]));
    assert!(admits(&[&format!("bearer  {TOKEN}")]));
    for bad in [
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        &format!("Basic {TOKEN}"),
        &good[..good.len() - 1],
    ] {
        assert!(!admits(&[bad]), "{bad}");
    }
    assert!(!admits(&[&format!("{good}x")]));
    assert!(!admits(&[]));
    assert!(!admits(&[&good, &good]));
}

#[test]
fn the_token_is_not_in_its_debug_form() {
    assert!(!format!("{:?}", load(TOKEN, 0o600).unwrap()).contains(&TOKEN[..8]));
}
