//! The connection to one plugin that plays a part in a record.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use longshore_nri_adaptation::launch::{Child, Program, spawn};
use longshore_nri_api::service;
use longshore_nri_trace::{Message, Role, Side, decode, encode};
use longshore_ttrpc::{
    CallError, CallOptions, Client, Layout, Options, Request, Service, Status, start,
};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::compare::Answer;
use crate::Command;

/// How long a plugin has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// How many updates that a plugin asks for by itself are kept until the record has come to them.
const UPDATES_MAX: usize = 1024;

/// A plugin that is there.
pub(super) struct Link {
    client: Client,
    trunk: JoinHandle<()>,
    child: Option<Child>,
    said: Arc<Said>,
}

/// What the plugin has asked for.
#[derive(Debug, Default)]
struct Said {
    /// Index and base name, once it has registered.
    name: watch::Sender<Option<(String, String)>>,
    updates: Mutex<VecDeque<Message>>,
    /// Rises with each update.
    count: watch::Sender<u64>,
}

/// Answers a plugin: every registration is good, and updates are applied.
struct Runtime(Arc<Said>);

impl Service for Runtime {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        let Request {
            service: named,
            method,
            payload,
            ..
        } = request;
        if named != service::RUNTIME {
            return Err(Status::unimplemented(&named, &method));
        }
        let message = decode(Side::Plugin, Role::Request, &method, &payload);
        match method.as_str() {
            "RegisterPlugin" => {
                let member = |name: &str| {
                    let text = message.json.as_ref()?.get(name)?.as_str()?;
                    Some(text.to_owned())
                };
                let name = member("plugin_name").unwrap_or_default();
                let index = member("plugin_idx").unwrap_or_default();
                self.0.name.send_replace(Some((index, name)));
            }
            "UpdateContainers" => {
                let mut updates = self
                    .0
                    .updates
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                if updates.len() == UPDATES_MAX {
                    updates.pop_front();
                }
                updates.push_back(message);
                drop(updates);
                self.0.count.send_modify(|count| *count += 1);
            }
            _ => return Err(Status::unimplemented(&named, &method)),
        }
        // Both answers are empty: nothing failed.
        Ok(Bytes::new())
    }
}

impl Link {
    /// Starts a plugin.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(super) async fn launch(command: &Command) -> Result<Self, String> {
        let program =
            Program::untrusted(command.id.clone(), &command.program, command.args.clone());
        let mut child = spawn(&program).await.map_err(|error| {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            source.map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
        })?;
        let stream = child.take_stream().ok_or("its socket is gone")?;
        let mut link = Self::new(stream);
        link.child = Some(child);
        Ok(link)
    }

    /// Over the stream of a plugin that came by itself.
    pub(super) fn new(stream: UnixStream) -> Self {
        let said = Arc::new(Said::default());
        let layout = Layout::Mux {
            client: service::PLUGIN_CONNECTION,
            server: service::RUNTIME_CONNECTION,
        };
        let runtime = Runtime(Arc::clone(&said));
        let (client, driver) = start(stream, layout, runtime, Options::default());
        let trunk = tokio::spawn(async move {
            driver.await;
        });
        Self {
            client,
            trunk,
            child: None,
            said,
        }
    }

    /// Waits until it has registered: its index and name as it says them.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) async fn registered(
        &mut self,
        within: Duration,
    ) -> Result<(String, String), String> {
        let mut name = self.said.name.subscribe();
        let said = async {
            let said = name.wait_for(Option::is_some).await;
            said.ok().and_then(|name| name.clone())
        };
        let named = async {
            tokio::select! {
                biased;
                Some(name) = said => Ok(name),
                reason = self.client.closed() => Err(reason.to_string()),
            }
        };
        match timeout(within, named).await {
            Ok(Ok(name)) => Ok(name),
            Ok(Err(reason)) => Err(format!("{reason}{}", self.last_words().await)),
            Err(_) => Err(format!("not within {within:?}{}", self.last_words().await)),
        }
    }

    /// Asks the plugin. The request is on its way when this returns; its answer is that of the task.
    ///
    /// # Errors
    /// The message cannot be encoded.
    pub(super) async fn ask(
        &self,
        method: &str,
        message: Value,
        options: CallOptions,
    ) -> Result<JoinHandle<Answer>, String> {
        let payload = encode(Side::Runtime, Role::Request, method, message)?;
        let (client, method) = (self.client.clone(), method.to_owned());
        let mut call = Box::pin(async move {
            let answer = client
                .call_raw(service::PLUGIN, &method, &payload, &options)
                .await;
            judged(&method, answer)
        });
        // Polled once here: requests are written in the order in which they are made.
        let first = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::future::Future::poll(call.as_mut(), cx))
        });
        Ok(match first.await {
            std::task::Poll::Ready(answer) => tokio::spawn(std::future::ready(answer)),
            std::task::Poll::Pending => tokio::spawn(call),
        })
    }

    /// The next of the updates that it asked for by itself.
    pub(super) async fn update(&self, within: Duration) -> Option<Message> {
        let mut count = self.said.count.subscribe();
        let next = async {
            loop {
                count.borrow_and_update();
                if let Some(update) = self.take_update() {
                    return Some(update);
                }
                tokio::select! {
                    changed = count.changed() => changed.ok()?,
                    _ = self.client.closed() => return self.take_update(),
                }
            }
        };
        timeout(within, next).await.ok().flatten()
    }

    /// One of the updates that nobody has waited for.
    pub(super) fn take_update(&self) -> Option<Message> {
        let mut updates = self
            .said
            .updates
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        updates.pop_front()
    }

    pub(super) fn pid(&self) -> Option<u32> {
        u32::try_from(self.child.as_ref()?.pid()).ok()
    }

    /// What its process said last, once it has ended; or nothing.
    pub(super) async fn last_words(&mut self) -> String {
        let Some(child) = &mut self.child else {
            return String::new();
        };
        // What closed its connection most likely ended.
        let exit = timeout(Duration::from_millis(500), child.wait()).await;
        let exit = exit.map_or_else(|_| String::new(), |exit| format!("; its process {exit}"));
        match child.last_words() {
            words if words.is_empty() => exit,
            words => format!("{exit}; it said: {words}"),
        }
    }

    /// Ends it: the connection is closed, a process that was started is ended.
    pub(super) async fn end(mut self) {
        self.client.close("the record has come to its end");
        if let Some(child) = &mut self.child {
            child.terminate(GRACE).await;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.trunk.abort();
    }
}

fn judged(method: &str, answer: Result<Bytes, CallError>) -> Answer {
    match answer {
        Ok(payload) => Answer::of(decode(Side::Runtime, Role::Response, method, &payload)),
        Err(error) => Answer::failed(&error),
    }
}
