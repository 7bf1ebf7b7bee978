//! Credential helpers: programs `docker-credential-NAME` that are given a server and answer with JSON.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::RegistryAuth;
use crate::EngineError;

/// Helpers that ask a person, or a server that does not answer, hold up no task for ever.
const DEADLINE: Duration = Duration::from_secs(10);
/// Longest answer.
const MAX_ANSWER: u64 = 64 << 10;
/// What a helper prints when it knows no credentials.
const NOT_FOUND: &str = "credentials not found";

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "Username")]
    user: String,
    #[serde(rename = "Secret")]
    secret: String,
}

/// Asks `helper` about `server`; `None` when it knows none.
pub(super) async fn ask(helper: &str, server: &str) -> Result<Option<RegistryAuth>, EngineError> {
    let program = PathBuf::from(format!("docker-credential-{helper}"));
    ask_program(&program, helper, server, DEADLINE).await
}

async fn ask_program(
    program: &Path,
    helper: &str,
    server: &str,
    deadline: Duration,
) -> Result<Option<RegistryAuth>, EngineError> {
    let fail = |reason: String| EngineError::CredentialHelper {
        helper: helper.to_owned(),
        registry: server.to_owned(),
        reason,
    };
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if helper.is_empty() || !helper.bytes().all(good) {
        return Err(fail("that is no name of a program".to_owned()));
    }
    let run = run(program, server);
    let (output, success) = match tokio::time::timeout(deadline, run).await {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => return Err(fail(error.to_string())),
        Err(_) => return Err(fail(format!("no answer within {deadline:?}"))),
    };
    if output.len() as u64 > MAX_ANSWER {
        return Err(fail(format!("it printed more than {MAX_ANSWER} bytes")));
    }
    if !success {
        // A helper explains itself on standard output.
        if String::from_utf8_lossy(&output).contains(NOT_FOUND) {
            return Ok(None);
        }
        return Err(fail("it failed".to_owned()));
    }
    let answer: Answer = serde_json::from_slice(&output)
        .map_err(|_| fail("its answer is not that of a credential helper".to_owned()))?;
    Ok(Some(if answer.user == "<token>" {
        RegistryAuth::IdentityToken(answer.secret)
    } else {
        RegistryAuth::Password {
            user: answer.user,
            password: answer.secret,
        }
    }))
}

async fn run(program: &Path, server: &str) -> std::io::Result<(Vec<u8>, bool)> {
    let child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let mut child = Group(child);
    if let Some(mut input) = child.0.stdin.take() {
        // One that does not read it fails by itself.
        drop(input.write_all(server.as_bytes()).await);
    }
    let mut output = Vec::new();
    if let Some(pipe) = child.0.stdout.take() {
        pipe.take(MAX_ANSWER + 1).read_to_end(&mut output).await?;
    }
    let status = child.0.wait().await?;
    Ok((output, status.success()))
}

/// A child with all that it started, which end with this value.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // Only while it has not been waited for: the number is its own until then.
        if let Some(pid) = self.0.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    async fn answer(script: &str, deadline: Duration) -> Result<Option<RegistryAuth>, EngineError> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("helper");
        longshore_testkit::script::write(&program, script);
        ask_program(&program, "helper", "quay.io", deadline).await
    }

    fn password(user: &str, password: &str) -> RegistryAuth {
        RegistryAuth::Password {
            user: user.into(),
            password: password.into(),
        }
    }

    #[tokio::test]
    async fn a_helper_is_given_the_server_and_answers_or_knows_nothing() {
        let script =
            r#"read s || true; [ "$1" = get ] && echo '{"Username": "ann", "Secret": "'$s'"}'"#;
        let found = answer(script, PATIENCE).await.unwrap();
        assert_eq!(found, Some(password("ann", "quay.io")));
        let script = r#"echo '{"ServerURL": "x", "Username": "<token>", "Secret": "t"}'"#;
        let found = answer(script, PATIENCE).await.unwrap();
        assert_eq!(found, Some(RegistryAuth::IdentityToken("t".into())));
        let script = "echo credentials not found in native keychain; exit 1";
        assert_eq!(answer(script, PATIENCE).await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_a_failed_helper_printed_is_not_told() {
        for script in ["echo hunter2; exit 1", "echo hunter2", "yes hunter2"] {
            let error = answer(script, PATIENCE).await.unwrap_err();
            assert!(
                matches!(error, EngineError::CredentialHelper { .. }),
                "{error}"
            );
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        for name in ["", "../x", "a b", "a/b"] {
            assert!(ask(name, "quay.io").await.is_err(), "{name}");
        }
        let error = ask("longshore-no-such-helper", "quay.io")
            .await
            .unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }

    #[tokio::test]
    async fn one_that_hangs_ends_at_the_deadline_with_all_that_it_started() {
        // The child holds the output open.
        let mark = format!("10{:07}", std::process::id());
        let script = format!("sleep {mark} & sleep {mark}");
        let error = answer(&script, Duration::from_millis(300))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("no answer within"), "{error}");
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while runs(&mark) {
            assert!(
                tokio::time::Instant::now() < deadline,
                "sleep {mark} still runs"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn runs(word: &str) -> bool {
        let words = format!("sleep\0{word}\0");
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries
            .map(|entry| std::fs::read(entry.path().join("cmdline")).unwrap_or_default())
            .any(|line| line == words.as_bytes())
    }
}
