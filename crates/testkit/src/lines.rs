//! A program that takes one JSON object a line on standard input, and reports one a line.
//!
//! The Go programs `nri-plugin`, `nri-runtime` and `cri-drive` do.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Nothing that these programs do takes this long, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// How many lines of standard error are kept for the message of a failure.
const KEPT: usize = 40;

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct LinePeer {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl LinePeer {
    /// Starts it.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start<A: AsRef<std::ffi::OsStr>>(
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&errors);
        // Ends with the program.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() == KEPT {
                    kept.remove(0);
                }
                kept.push(line);
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            output,
            seen: Vec::new(),
            errors,
        }
    }

    /// Its pid, while it has not been waited for.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a command.
    ///
    /// # Panics
    /// When it does not take commands any more.
    pub async fn send(&mut self, command: &Value) {
        let input = self.input.as_mut().expect("it takes commands");
        let sent = input.write_all(format!("{command}\n").as_bytes()).await;
        if let Err(error) = sent {
            panic!("{command} cannot be sent: {error}; {}", self.story());
        }
    }

    /// Reads on to the next line that `wanted` likes.
    ///
    /// # Panics
    /// When there is none.
    pub async fn until(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = match timeout(PATIENCE, self.output.next_line()).await {
                Ok(Ok(Some(line))) => line,
                Ok(end) => panic!("no {what}, but {end:?}; {}", self.story()),
                Err(_) => panic!("no {what} within {PATIENCE:?}; {}", self.story()),
            };
            let Ok(value) = serde_json::from_str::<Value>(&line) else {
                panic!("a line that is no JSON: {line}; {}", self.story());
            };
            self.seen.push(value.clone());
            if wanted(&value) {
                return value;
            }
        }
    }

    /// Reads on to the next line whose `event` or `op` is `name`.
    ///
    /// # Panics
    /// When there is none.
    pub async fn event(&mut self, name: &str) -> Value {
        self.until(name, |line| line["event"] == name || line["op"] == name)
            .await
    }

    /// Sends a command and gives its answer.
    ///
    /// # Panics
    /// When there is none.
    pub async fn ask(&mut self, command: &Value) -> Value {
        self.send(command).await;
        let name = command["op"].as_str().expect("a command has an op");
        self.event(name).await
    }

    /// As [`Self::ask`]; the answer says that it went well.
    ///
    /// # Panics
    /// When it did not.
    pub async fn done(&mut self, command: &Value) -> Value {
        let answer = self.ask(command).await;
        assert_eq!(answer["error"], "", "{command}: {}", self.story());
        answer
    }

    /// All lines that were read so far.
    #[must_use]
    pub fn seen(&self) -> &[Value] {
        &self.seen
    }

    /// Ends its input, reads what it still says, and waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn end(&mut self) -> ExitStatus {
        drop(self.input.take());
        self.wait().await
    }

    /// Reads what it still says, and waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn wait(&mut self) -> ExitStatus {
        let rest = async {
            while let Ok(Some(line)) = self.output.next_line().await {
                self.seen.extend(serde_json::from_str::<Value>(&line).ok());
            }
        };
        let rest = timeout(PATIENCE, rest).await;
        assert!(rest.is_ok(), "it goes on talking; {}", self.story());
        let status = timeout(PATIENCE, self.child.wait()).await;
        status.expect("it ends").expect("it can be waited for")
    }

    /// Kills it.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn kill(&mut self) {
        self.child.kill().await.expect("it can be killed");
    }

    /// What it said, for the message of a failure.
    #[must_use]
    pub fn story(&self) -> String {
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let said: Vec<_> = self.seen.iter().rev().take(KEPT).rev().collect();
        format!("it said {said:#?} and {:#?}", *errors)
    }
}
