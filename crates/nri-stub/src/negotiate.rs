//! Which events a runtime can be asked for.

use longshore_nri_api::{EventMask, closest_version};

use crate::error::StubError;

/// Levels of NRI, ascending, each with the events it and its followers know. Older runtimes end
/// the connection of a plugin that asks for an event they do not know.
const KNOWN: [(&str, EventMask); 3] = [
    ("v0.2.0", EventMask::from_bits(0x07ff)),
    ("v0.9.1-0.20250219030224", EventMask::from_bits(0x1fff)),
    ("v0.10.0", EventMask::ALL),
];

/// The events that a runtime of this level of NRI knows; all where the level is unknown.
pub(crate) fn known_by(nri_version: &str) -> EventMask {
    let level = closest_version(nri_version, KNOWN.map(|(level, _)| level));
    KNOWN
        .iter()
        .find(|(known, _)| Some(*known) == level)
        .map_or(EventMask::ALL, |(_, events)| *events)
}

/// The mask a plugin subscribes with: what it wants, all of which must have handlers, less what
/// the runtime does not know.
pub(crate) fn subscription(
    wanted: EventMask,
    handlers: EventMask,
    nri_version: &str,
) -> Result<EventMask, StubError> {
    check(wanted, handlers)?;
    let known = known_by(nri_version);
    let dropped = without(wanted, known);
    if !dropped.is_empty() {
        tracing::warn!(events = %dropped, nri_version, "the runtime is too old for these events");
    }
    if (wanted & known).is_empty() {
        // On the wire an empty mask would mean all events.
        return Err(StubError::RuntimeTooOld {
            events: wanted,
            nri_version: nri_version.to_owned(),
        });
    }
    Ok(wanted & known)
}

/// What the plugin wants is something, and has handlers.
pub(crate) fn check(wanted: EventMask, handlers: EventMask) -> Result<(), StubError> {
    if handlers.is_empty() || wanted.is_empty() {
        return Err(StubError::NoHandlers);
    }
    let events = without(wanted, handlers);
    if events.is_empty() {
        Ok(())
    } else {
        Err(StubError::MissingHandlers { events })
    }
}

fn without(mask: EventMask, other: EventMask) -> EventMask {
    EventMask::from_bits(mask.bits() & !other.bits())
}

#[cfg(test)]
mod tests {
    use longshore_nri_api::Event;

    use super::*;

    #[test]
    fn a_runtime_is_asked_for_the_events_it_knows() {
        for (version, bits) in [
            ("v0.3.0", 0x07ff),
            ("v0.8.0", 0x07ff),
            ("v0.9.0", 0x07ff),
            ("v0.9.1-0.20250219030224-e597e7849f24", 0x1fff),
            ("v0.10.0", 0x3fff),
            ("v0.12.0", 0x3fff),
            ("v9.8.7", 0x3fff),
            ("unknown", 0x3fff),
            ("", 0x3fff),
        ] {
            assert_eq!(known_by(version).bits(), bits, "{version}");
        }
        let wanted = EventMask::of(Event::CreateContainer)
            | EventMask::of(Event::ValidateContainerAdjustment);
        let mask = subscription(wanted, EventMask::ALL, "v0.8.0").unwrap();
        assert_eq!(mask, EventMask::of(Event::CreateContainer));
        let validator = EventMask::of(Event::ValidateContainerAdjustment);
        let refused = subscription(validator, EventMask::ALL, "v0.8.0");
        assert!(
            matches!(refused, Err(StubError::RuntimeTooOld { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn events_without_handlers_are_named() {
        let handlers = EventMask::of(Event::CreateContainer);
        let refused = check(EventMask::POD | handlers, handlers).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("RunPodSandbox,StopPodSandbox"), "{text}");
        assert!(!text.contains("CreateContainer"), "{text}");
        let newer = check(EventMask::from_bits(0x4008), handlers).unwrap_err();
        assert!(newer.to_string().contains("unknown(0x4000)"), "{newer}");
        for (wanted, handlers) in [
            (EventMask::NONE, EventMask::NONE),
            (EventMask::NONE, handlers),
            (handlers, EventMask::NONE),
        ] {
            assert!(matches!(
                check(wanted, handlers),
                Err(StubError::NoHandlers)
            ));
        }
    }
}
