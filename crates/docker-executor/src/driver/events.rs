//! The engine's events: one stream for all tasks.

use std::sync::Weak;
use std::time::Duration;

use longshore_engine::{EngineTime, Event as EngineEvent, EventFilter, EventItem};

use crate::executor::Core;
use crate::{Event, Seen, labels};

/// How soon a stream that could not be opened is opened again.
const AGAIN: Duration = Duration::from_secs(1);

/// Reads them as long as there is an executor.
pub(crate) async fn read(core: Weak<Core>) {
    let began = EngineTime::now();
    loop {
        let Some(held) = core.upgrade() else {
            return;
        };
        let labels = labels::filter(&held.options.owner, &held.root);
        let filter = EventFilter {
            // What happened while it could not be opened is told then.
            since: Some(began),
            ..EventFilter::containers_labelled(labels)
        };
        let opened = held.engine.events(&filter).await;
        let mut stream = match opened {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "the engine's events");
                drop(held);
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        held.set_hearing(true);
        drop(held);
        loop {
            let item = stream.next().await;
            let Some(core) = core.upgrade() else {
                return;
            };
            match item {
                EventItem::Event(event) => {
                    if let Some(seen) = seen(&event)
                        && let Some(key) = event.attributes.get(labels::KEY)
                    {
                        core.post(Some(key), &Event::Seen(seen));
                    }
                }
                EventItem::Lost(error) => {
                    tracing::info!(%error, "the engine's events broke off");
                    core.set_hearing(false);
                }
                EventItem::Resumed => core.set_hearing(true),
                _ => {}
            }
        }
    }
}

/// What an event means for a task, if anything.
fn seen(event: &EngineEvent) -> Option<Seen> {
    Some(match event.action.as_str() {
        "start" => Seen::Start,
        "kill" => {
            let signal = event.attributes.get("signal")?;
            Seen::Signal(crate::processes::number_of(signal)?)
        }
        "stop" => Seen::Stop,
        // Podman's name is the second.
        "die" | "died" => Seen::Die(event.exit_code()),
        "oom" => Seen::OutOfMemory,
        "pause" => Seen::Pause,
        "unpause" => Seen::Unpause,
        "destroy" | "remove" => Seen::Destroy,
        _ => return None,
    })
}
