//! Events and the mask by which a plugin subscribes to them.
//!
//! The numbering is by age, not by life cycle: bit `e - 1` of the mask stands for event `e`.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign};
use std::str::FromStr;

use crate::Event;

/// A set of events; on the wire an `int32` (`ConfigureResponse.events`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EventMask(i32);

/// The events in ascending number, each with the name that is parsed and printed.
const EVENTS: [(Event, &str); 14] = [
    (Event::RunPodSandbox, "RunPodSandbox"),
    (Event::StopPodSandbox, "StopPodSandbox"),
    (Event::RemovePodSandbox, "RemovePodSandbox"),
    (Event::CreateContainer, "CreateContainer"),
    (Event::PostCreateContainer, "PostCreateContainer"),
    (Event::StartContainer, "StartContainer"),
    (Event::PostStartContainer, "PostStartContainer"),
    (Event::UpdateContainer, "UpdateContainer"),
    (Event::PostUpdateContainer, "PostUpdateContainer"),
    (Event::StopContainer, "StopContainer"),
    (Event::RemoveContainer, "RemoveContainer"),
    (Event::UpdatePodSandbox, "UpdatePodSandbox"),
    (Event::PostUpdatePodSandbox, "PostUpdatePodSandbox"),
    (
        Event::ValidateContainerAdjustment,
        "ValidateContainerAdjustment",
    ),
];

/// The name of an event, such as `RunPodSandbox`; `unknown` for the two values that are none.
#[must_use]
pub fn event_name(event: Event) -> &'static str {
    EVENTS
        .iter()
        .find(|(known, _)| *known == event)
        .map_or("unknown", |(_, name)| name)
}

impl EventMask {
    /// No event. On the wire 0 means *all* events: a plugin cannot subscribe to nothing.
    pub const NONE: Self = Self(0);
    /// Every event this crate knows.
    pub const ALL: Self = Self(0x3fff);
    /// The five events of pods.
    pub const POD: Self = Self(0x1807);
    /// The nine events of containers, validation included.
    pub const CONTAINER: Self = Self(0x27f8);

    /// The mask with exactly these bits, unknown ones included.
    #[must_use]
    pub const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    /// The bits as they go over the wire.
    #[must_use]
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// The mask of one event; empty for the two values that are no event.
    #[must_use]
    pub const fn of(event: Event) -> Self {
        match event as i32 {
            number @ 1..=14 => Self(1 << (number - 1)),
            _ => Self::NONE,
        }
    }

    /// Whether the event is in the mask.
    #[must_use]
    pub const fn contains(self, event: Event) -> bool {
        self.0 & Self::of(event).0 != 0
    }

    /// Whether no bit is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The part of the mask that this crate knows.
    #[must_use]
    pub const fn known(self) -> Self {
        Self(self.0 & Self::ALL.0)
    }

    /// The part of the mask that this crate does not know: a plugin made for a newer protocol.
    #[must_use]
    pub const fn unknown(self) -> Self {
        Self(self.0 & !Self::ALL.0)
    }

    /// The known events of the mask, in ascending number.
    pub fn iter(self) -> impl Iterator<Item = Event> {
        EVENTS
            .into_iter()
            .map(|(event, _)| event)
            .filter(move |event| self.contains(*event))
    }

    /// Parses any number of lists: items separated by commas, each the name of an event, or
    /// `all`, `pod` (also `podsandbox`) or `container`; case and surrounding space do not matter.
    ///
    /// No list at all is the empty mask; an empty item is an error.
    ///
    /// # Errors
    /// Names the first item that is no event.
    pub fn parse<I: IntoIterator<Item = S>, S: AsRef<str>>(
        lists: I,
    ) -> Result<Self, EventParseError> {
        let mut mask = Self::NONE;
        for list in lists {
            for item in list.as_ref().split(',') {
                mask |= parse_item(item)?;
            }
        }
        Ok(mask)
    }
}

fn parse_item(item: &str) -> Result<EventMask, EventParseError> {
    let name = item.trim();
    match name.to_ascii_lowercase().as_str() {
        "all" => return Ok(EventMask::ALL),
        "pod" | "podsandbox" => return Ok(EventMask::POD),
        "container" => return Ok(EventMask::CONTAINER),
        _ => {}
    }
    EVENTS
        .iter()
        .find(|(_, known)| known.eq_ignore_ascii_case(name))
        .map(|(event, _)| EventMask::of(*event))
        .ok_or_else(|| EventParseError {
            item: item.chars().take(64).collect(),
        })
}

/// An item of an event list that is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown event {item:?}, expected all, pod, container or the name of an event")]
pub struct EventParseError {
    /// The item, cut to 64 characters.
    pub item: String,
}

impl FromStr for EventMask {
    type Err = EventParseError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        Self::parse([list])
    }
}

impl BitOr for EventMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for EventMask {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for EventMask {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl FromIterator<Event> for EventMask {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        events
            .into_iter()
            .fold(Self::NONE, |mask, event| mask | Self::of(event))
    }
}

impl fmt::Display for EventMask {
    /// Names in ascending number joined by commas; unknown bits as `unknown(0x..)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for event in self.iter() {
            write!(f, "{separator}{}", event_name(event))?;
            separator = ",";
        }
        if self.unknown().is_empty() {
            return Ok(());
        }
        write!(f, "{separator}unknown({:#x})", self.unknown().bits())
    }
}

impl fmt::Debug for EventMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventMask({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_the_bits_of_the_protocol() {
        let pods = EventMask::parse([
            "RunPodSandbox,UpdatePodSandbox,PostUpdatePodSandbox,StopPodSandbox",
            "RemovePodSandbox",
        ]);
        assert_eq!(pods, Ok(EventMask::POD));
        assert_eq!(EventMask::POD | EventMask::CONTAINER, EventMask::ALL);
        assert_eq!((EventMask::POD & EventMask::CONTAINER), EventMask::NONE);
        assert_eq!(
            EventMask::of(Event::ValidateContainerAdjustment).bits(),
            0x2000
        );
        assert_eq!(EventMask::of(Event::Last), EventMask::NONE);
        assert_eq!(EventMask::of(Event::Unknown), EventMask::NONE);
    }

    #[test]
    fn parses_lists_of_names_and_keywords() {
        let table: [(&[&str], Option<i32>); 9] = [
            (&[], Some(0)),
            (&["all"], Some(0x3fff)),
            (&[" All , runpodsandbox"], Some(0x3fff)),
            (&["pod"], Some(0x1807)),
            (&["PodSandbox"], Some(0x1807)),
            (&["container", "RUNPODSANDBOX"], Some(0x27f9)),
            (&[""], None),
            (&["StartContainer,"], None),
            (&["StartContainers"], None),
        ];
        for (lists, bits) in table {
            assert_eq!(
                EventMask::parse(lists).ok().map(EventMask::bits),
                bits,
                "{lists:?}"
            );
        }
    }

    #[test]
    fn prints_names_in_order_and_unknown_bits_once() {
        assert_eq!(EventMask::NONE.to_string(), "");
        let mask = EventMask::of(Event::StopContainer) | EventMask::of(Event::RunPodSandbox);
        assert_eq!(mask.to_string(), "RunPodSandbox,StopContainer");
        let newer = mask | EventMask::from_bits(0xc000);
        assert_eq!(
            newer.to_string(),
            "RunPodSandbox,StopContainer,unknown(0xc000)"
        );
        assert_eq!(newer.known(), mask);
    }

    proptest::proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(bits in 1..0x4000_i32) {
            let mask = EventMask::from_bits(bits);
            proptest::prop_assert_eq!(mask.to_string().parse(), Ok(mask));
        }

        #[test]
        fn no_text_makes_parsing_panic(text in ".*") {
            drop(text.parse::<EventMask>());
        }

        #[test]
        fn a_list_of_words_like_events_parses_to_what_it_prints_or_is_refused(
            text in "(( |,|[A-Z][a-z]{2,6}|all|pod|container|RunPodSandbox|stop_pod_sandbox|CreateContainer|é)[, ]{0,2}){0,8}",
        ) {
            if let Ok(mask) = text.parse::<EventMask>() {
                proptest::prop_assert_eq!(mask.to_string().parse(), Ok(mask), "{}", text);
            }
        }
    }
}
