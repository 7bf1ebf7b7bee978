//! Output: from the engine's log into the sandbox, until the container has ended and all is read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_engine::{Engine, EngineError, LogOptions};
use longshore_sandbox::Rotation;
use longshore_task_spec::logs::{Gap, LogCapture};
use tokio::sync::{mpsc, watch};

use super::Driver;
use crate::Event;
use crate::task::Shared;

/// How soon a stream that broke off is opened again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long a stream that should have ended with its container is waited for.
const END: Duration = Duration::from_secs(5);
/// An engine that gives no more of what it has for so long is asked again.
const IDLE: Duration = Duration::from_secs(60);
/// Engines drop output for a follower that is more than a file of their log behind, and do not say so. One whose messages are
/// so old, after so many bytes, is behind: what there is is read without following, which loses nothing that is kept.
const BEHIND: Duration = Duration::from_millis(250);
const MUCH: u64 = 2 << 20;
/// After so many bytes it is looked whether it is.
const LOOK: u64 = 256 << 10;
/// How often the rest is asked for, once the container has ended: an engine that is away may come back with it. The last
/// status does not wait for that, the removal of the container does.
const TRIES: u32 = 240;

impl Driver {
    pub(super) fn start_logs(&mut self) {
        let Some((sandbox, _)) = &self.record.sandbox else {
            return;
        };
        let (sender, drain) = watch::channel(false);
        let reader = Reader {
            engine: Arc::clone(&self.core.engine),
            container: self
                .state
                .container()
                .unwrap_or(&self.record.name)
                .to_owned(),
            sandbox: PathBuf::from(sandbox),
            owner: self.record.log_owner,
            rotation: self.core.options.rotation,
            terminal: self.prepared.spec.tty,
            shared: Arc::clone(&self.shared),
            drain,
        };
        let answers = self.answers();
        self.drain = Some(sender);
        self.calls.spawn(reader.run(answers));
    }

    pub(super) fn drain_logs(&self) {
        if let Some(drain) = &self.drain {
            drain.send_replace(true);
        }
    }
}

struct Reader {
    engine: Arc<dyn Engine>,
    container: String,
    sandbox: PathBuf,
    owner: Option<(u32, u32)>,
    rotation: Rotation,
    terminal: bool,
    shared: Arc<Shared>,
    drain: watch::Receiver<bool>,
}

/// How a stream came to its end.
enum End {
    Ended,
    /// The container prints faster than the engine gives it.
    Behind,
    /// It was opened after the container's end, and has ended: that was all.
    All,
    Broken,
    /// There is nothing to read, and never will be.
    Never,
}

impl Reader {
    async fn run(mut self, answers: mpsc::Sender<Event>) {
        // Opening the files takes back what was written after the last position on record, to be read once more: so only
        // when it can be.
        if self.is_there().await {
            self.capture_all().await;
        } else {
            let _never = self.drain.wait_for(|drain| *drain).await.is_ok();
        }
        // Before the end is told, so that a removal that waits for it finds it.
        drop(self);
        let _ended = answers.send(Event::LogsDrained).await;
    }

    /// Whether the engine has output of the container; waits for an engine that is away, but not when the container has
    /// ended and it still is.
    async fn is_there(&self) -> bool {
        let options = LogOptions {
            tail: Some(0),
            ..LogOptions::default()
        };
        let mut tries = 0;
        loop {
            match self.engine.logs(&self.container, &options).await {
                Ok(_) => return true,
                Err(error) if self.is_never(&error) => return false,
                Err(_) => {}
            }
            if *self.drain.borrow() {
                tries += 1;
                if tries > TRIES {
                    return false;
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn capture_all(&mut self) {
        match self.capture() {
            Ok(mut capture) => {
                // Where the files begin is on disk before anything is in them: otherwise, after a death of ours, all of
                // it would come once more.
                let position = capture.position();
                let outbox = &self.shared.outbox;
                let change = outbox.numbered_change(false, |record| record.logs = position);
                outbox.written(change).await;
                self.read(&mut capture).await;
            }
            Err(error) => {
                let sandbox = self.sandbox.display();
                tracing::warn!(%sandbox, %error, "the output files of a task cannot be opened");
                let _never = self.drain.wait_for(|drain| *drain).await.is_ok();
            }
        }
    }

    /// Whether there is nothing to read and never will be: no container, or a log driver that cannot be read.
    fn is_never(&self, error: &EngineError) -> bool {
        if error.is_no_such_container() {
            return true;
        }
        let unreadable = error
            .status()
            .is_some_and(|status| status < 500 || status == 501);
        if unreadable {
            let container = &self.container;
            tracing::warn!(container, %error, "the output of a task cannot be read");
        }
        unreadable
    }

    fn capture(&self) -> std::io::Result<LogCapture> {
        // An agent may name the sandbox by a link of its own.
        let real = std::fs::canonicalize(&self.sandbox)?;
        let dir = longshore_sandbox::dirs::open(&real)?;
        let position = self.shared.outbox.record().logs;
        let capture = LogCapture::open(&dir, self.owner, self.rotation, &position)?;
        Ok(if self.terminal {
            capture.of_terminal()
        } else {
            capture
        })
    }

    async fn read(&mut self, capture: &mut LogCapture) {
        loop {
            let mut end = self.follow(capture).await;
            if matches!(end, End::Behind) {
                end = self.catch_up(capture).await;
            }
            match end {
                End::Never => {
                    let _never = self.drain.wait_for(|drain| *drain).await.is_ok();
                    return;
                }
                // It has caught up: what comes is followed again.
                End::Behind => continue,
                End::All => {
                    self.gap(capture.ended());
                    self.record(capture);
                    return;
                }
                End::Ended | End::Broken => {}
            }
            if *self.drain.borrow() {
                break;
            }
            // It ends with its container, whose end is told in a moment; or it broke off.
            let told = self.drain.wait_for(|drain| *drain);
            let told = matches!(tokio::time::timeout(AGAIN, told).await, Ok(Ok(_)));
            if told {
                break;
            }
        }
        // Followers miss the last messages on some engines, so that the rest is read without following.
        for _ in 0..TRIES {
            let options = LogOptions {
                follow: false,
                ..capture.options()
            };
            match self.stream(capture, &options).await {
                End::Ended => {
                    self.gap(capture.ended());
                    break;
                }
                End::Never => break,
                End::Broken | End::Behind | End::All => tokio::time::sleep(AGAIN).await,
            }
        }
        self.record(capture);
    }

    /// Reads what there is, again and again, until that is little. [`End::Behind`] when it has.
    ///
    /// To find where to go on the engine reads its log from the beginning each time: so a second's output is left to gather
    /// first, of which the log keeps many.
    async fn catch_up(&self, capture: &mut LogCapture) -> End {
        let mut drain = self.drain.clone();
        loop {
            let told = drain.wait_for(|drain| *drain);
            let _gathered = tokio::time::timeout(AGAIN, told).await.is_ok();
            let options = capture.catch_up_options();
            let (before, over) = (capture.taken(), *self.drain.borrow());
            match self.stream(capture, &options).await {
                End::Ended if over => return End::All,
                End::Ended if capture.taken() - before < MUCH => return End::Behind,
                End::Ended => {}
                end => return end,
            }
        }
    }

    /// Until it ends or, once the container has ended, for a while.
    async fn follow(&self, capture: &mut LogCapture) -> End {
        let options = capture.options();
        let mut drain = self.drain.clone();
        let late = async {
            if drain.wait_for(|drain| *drain).await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(END).await;
        };
        tokio::select! {
            end = self.stream(capture, &options) => end,
            () = late => End::Broken,
        }
    }

    async fn stream(&self, capture: &mut LogCapture, options: &LogOptions) -> End {
        let mut stream = match self.engine.logs(&self.container, options).await {
            Ok(stream) => stream,
            Err(error) if self.is_never(&error) => return End::Never,
            Err(_) => return End::Broken,
        };
        if let Err(error) = capture.reopened() {
            let sandbox = self.sandbox.display();
            tracing::warn!(%sandbox, %error, "the output files of a task cannot be cut back");
            return End::Never;
        }
        let (begun, mut looked) = (capture.taken(), capture.taken());
        loop {
            let next = tokio::select! {
                biased;
                next = stream.next() => next,
                // Nothing is there at the moment: what came is seen.
                () = std::future::ready(()), if capture.has_gathered() => {
                    capture.flush();
                    continue;
                }
                () = tokio::time::sleep(IDLE), if !options.follow => return End::Broken,
            };
            match next {
                Some(Ok(frame)) => {
                    self.gap(capture.gather(&frame));
                    if capture.is_due() {
                        self.record(capture);
                    }
                    if options.follow && capture.taken() - looked >= LOOK {
                        looked = capture.taken();
                        if looked - begun >= MUCH && capture.lag() >= BEHIND {
                            capture.flush();
                            return End::Behind;
                        }
                    }
                }
                Some(Err(_)) => {
                    capture.flush();
                    return End::Broken;
                }
                None => {
                    capture.flush();
                    return End::Ended;
                }
            }
        }
    }

    fn record(&self, capture: &mut LogCapture) {
        let position = capture.position();
        self.shared
            .outbox
            .change(false, |record| record.logs = position);
    }

    fn gap(&self, gap: Option<Gap>) {
        if let Some(gap) = gap {
            let container = &self.container;
            tracing::warn!(container, ?gap, "output was thrown away before it was read");
            self.shared.outbox.show(|view| view.log_gaps += 1);
        }
    }
}
