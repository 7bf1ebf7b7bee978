//! The requests that plugins answer, and how one is made.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use longshore_nri_api::{
    ConfigureRequest, ConfigureResponse, CreateContainerRequest, CreateContainerResponse, Empty,
    Event, StopContainerRequest, StopContainerResponse, UpdateContainerRequest,
    UpdateContainerResponse, UpdatePodSandboxRequest, UpdatePodSandboxResponse,
    ValidateContainerAdjustmentRequest, ValidateContainerAdjustmentResponse, cost, event_name,
    service,
};
use longshore_ttrpc::{CallError, CallOptions, Client, Code, KeyValue, Status};
use tokio::time::Instant;

use super::{Link, Notice, Payload, Plugin};
use crate::builtin::Builtin;
use crate::error::CallFailure;
use crate::runtime::BoxFuture;

/// How long an answer is looked for before the thread sleeps: most plugins answer within it.
const EAGER: Duration = Duration::from_micros(50);

/// A request that each plugin answers for itself.
pub(crate) trait Rpc: cost::Message + Clone + 'static {
    type Reply: cost::Message + 'static;
    const EVENT: Event;

    fn builtin(self, plugin: Arc<dyn Builtin>) -> BoxFuture<'static, Result<Self::Reply, Status>>;
}

macro_rules! rpc {
    ($($event:ident: $request:ty => $reply:ty, |$plugin:ident, $it:ident| $call:expr;)*) => {$(
        impl Rpc for $request {
            type Reply = $reply;
            const EVENT: Event = Event::$event;

            fn builtin(
                self,
                $plugin: Arc<dyn Builtin>,
            ) -> BoxFuture<'static, Result<$reply, Status>> {
                let $it = self;
                Box::pin(async move { $call })
            }
        }
    )*};
}

rpc! {
    CreateContainer: CreateContainerRequest => CreateContainerResponse,
        |plugin, request| plugin.create_container(request).await;
    UpdateContainer: UpdateContainerRequest => UpdateContainerResponse,
        |plugin, request| plugin.update_container(request).await;
    StopContainer: StopContainerRequest => StopContainerResponse,
        |plugin, request| plugin.stop_container(request).await;
    UpdatePodSandbox: UpdatePodSandboxRequest => UpdatePodSandboxResponse,
        |plugin, request| plugin
            .update_pod_sandbox(request)
            .await
            .map(|()| UpdatePodSandboxResponse::default());
    ValidateContainerAdjustment:
        ValidateContainerAdjustmentRequest => ValidateContainerAdjustmentResponse,
        |plugin, request| Ok(match plugin.validate(request).await {
            Ok(()) => ValidateContainerAdjustmentResponse::default(),
            Err(reason) => ValidateContainerAdjustmentResponse { reject: true, reason },
        });
}

/// What a call may take, and what goes along.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) timeout: Duration,
    pub(crate) metadata: Vec<KeyValue>,
}

impl Terms {
    fn options(&self) -> CallOptions {
        CallOptions {
            metadata: self.metadata.clone(),
            eager: EAGER,
            ..CallOptions::timeout(self.timeout)
        }
    }
}

impl Plugin {
    /// Makes the call: `body` is the encoded request, `request` makes it for a plugin in this
    /// process.
    pub(crate) fn call<Q: Rpc>(
        &self,
        body: impl FnOnce() -> Bytes,
        request: impl FnOnce() -> Q,
        terms: Terms,
    ) -> BoxFuture<'static, Result<Q::Reply, CallFailure>> {
        match &self.link {
            Link::Remote(client) => {
                let (client, body) = (client.clone(), body());
                let method = event_name(Q::EVENT);
                Box::pin(async move { remote(&client, method, body, &terms.options()).await })
            }
            Link::Builtin(plugin) => {
                let call = request().builtin(Arc::clone(plugin));
                Box::pin(within(terms.timeout, call))
            }
        }
    }

    /// Tells an event by its own method, or once that is known not to exist, by StateChange.
    pub(crate) fn tell(
        self: &Arc<Self>,
        notice: Notice,
        terms: Terms,
    ) -> BoxFuture<'static, Result<(), CallFailure>> {
        match &self.link {
            Link::Remote(client) => {
                let (plugin, client) = (Arc::clone(self), client.clone());
                Box::pin(async move { plugin.tell_remote(&client, &notice, terms).await })
            }
            Link::Builtin(plugin) => {
                let (plugin, event) = (Arc::clone(plugin), notice.to_message());
                let call = Box::pin(async move { plugin.state_change(event).await });
                Box::pin(within(terms.timeout, call))
            }
        }
    }

    async fn tell_remote(
        &self,
        client: &Client,
        notice: &Notice,
        terms: Terms,
    ) -> Result<(), CallFailure> {
        let ends = Instant::now() + terms.timeout;
        let mut options = terms.options();
        if !self.state_change_only.load(Ordering::Acquire) {
            let method = event_name(notice.event);
            // The nine answers are empty; a newer plugin's may not be.
            let answer = remote::<Empty>(client, method, notice.dedicated(), &options).await;
            match answer {
                Err(CallFailure::Status(status)) if status.code == Code::Unimplemented => {
                    self.state_change_only.store(true, Ordering::Release);
                }
                answer => return answer.map(|Empty {}| ()),
            }
        }
        if self.warns(notice.event) {
            tracing::warn!(
                plugin = %self.name,
                event = event_name(notice.event),
                "plugin has no method for the event and gets StateChange, which is deprecated"
            );
        }
        options.timeout = Some(ends.saturating_duration_since(Instant::now()));
        let answer = remote::<Empty>(client, "StateChange", notice.legacy(), &options).await;
        answer.map(|Empty {}| ()).map_err(|failure| match failure {
            CallFailure::Timeout(_) => CallFailure::Timeout(terms.timeout),
            other => other,
        })
    }

    /// Configure, which every plugin is asked first.
    pub(crate) async fn configure(
        &self,
        request: ConfigureRequest,
        timeout: Duration,
    ) -> Result<i32, CallFailure> {
        match &self.link {
            Link::Remote(client) => {
                let body = Payload::of(&request).0;
                let options = CallOptions::timeout(timeout);
                let reply: ConfigureResponse = remote(client, "Configure", body, &options).await?;
                Ok(reply.events)
            }
            Link::Builtin(plugin) => {
                let plugin = Arc::clone(plugin);
                let call = Box::pin(async move { plugin.configure(request).await });
                within(timeout, call).await.map(|events| events.bits())
            }
        }
    }

    /// Shutdown: a plugin that does not have it, or does not answer, is closed all the same.
    pub(crate) async fn shut_down(&self, timeout: Duration) {
        if let Link::Remote(client) = &self.link {
            let options = CallOptions::timeout(timeout);
            let answer = remote::<Empty>(client, "Shutdown", Bytes::new(), &options).await;
            if let Err(failure) = answer {
                tracing::debug!(plugin = %self.name, %failure, "plugin did not answer Shutdown");
            }
        }
    }
}

/// Calls a method of the plugin's service. The answer is measured before it is decoded.
pub(crate) async fn remote<R: cost::Message>(
    client: &Client,
    method: &str,
    body: Bytes,
    options: &CallOptions,
) -> Result<R, CallFailure> {
    let answer = client
        .call_raw(service::PLUGIN, method, &Payload(body), options)
        .await?;
    cost::decode(&answer, &cost::Limits::default()).map_err(CallFailure::Reply)
}

/// Calls a plugin in this process, in a task of its own: a panic is a failure like another.
pub(crate) async fn within<R: Send + 'static>(
    timeout: Duration,
    call: BoxFuture<'static, Result<R, Status>>,
) -> Result<R, CallFailure> {
    let mut task = AbortOnDrop(tokio::spawn(call));
    match tokio::time::timeout(timeout, &mut task.0).await {
        Ok(Ok(answer)) => answer.map_err(CallFailure::Status),
        Ok(Err(_)) => {
            let status = Status::new(Code::Internal, "the plugin panicked");
            Err(CallFailure::Status(status))
        }
        Err(_) => Err(CallFailure::Timeout(timeout)),
    }
}

/// Most bytes that are kept of what a plugin says of its failure: it goes into logs and answers.
const MAX_SAID: usize = 4096;

fn cut(text: &mut String) {
    let length = text.len();
    if length > MAX_SAID {
        let end = (0..=MAX_SAID).rev().find(|end| text.is_char_boundary(*end));
        let kept = text.get(..end.unwrap_or(0)).unwrap_or_default();
        *text = format!("{kept} .. (of {length} bytes)");
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl From<CallError> for CallFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Remote(mut status) => {
                cut(&mut status.message);
                Self::Status(status)
            }
            CallError::Timeout(timeout) => Self::Timeout(timeout),
            CallError::Oversized { .. } => Self::Oversized(error),
            other => Self::Connection(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_says_of_its_failure_is_kept_up_to_a_length() {
        for (said, kept) in [
            ("short".to_owned(), "short".to_owned()),
            ("x".repeat(MAX_SAID), "x".repeat(MAX_SAID)),
            (
                "ä".repeat(1 << 20),
                format!("{} .. (of 2097152 bytes)", "ä".repeat(MAX_SAID / 2)),
            ),
        ] {
            let status = Status::new(Code::Internal, said);
            let CallFailure::Status(status) = CallError::Remote(status).into() else {
                panic!("another failure");
            };
            assert!(status.message == kept, "{} bytes", status.message.len());
        }
    }
}
