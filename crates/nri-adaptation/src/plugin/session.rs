//! What one connection may do at which point of its life. Pure: the driver performs it.
//!
//! ```text
//!              RegisterPlugin          answer to Configure      subscribed             synchronized
//!   Connected ───────────────▶ Registered ─────────▶ Configured ───────▶ Synchronizing ─────▶ Active
//!     │ name, index, no room,     │ RegisterPlugin      │ failed               │ failed          │
//!     │ registration timeout      │ again, failed       │                      │                 │
//!     └───────────────────────────┴────────▶ Closed ◀───┴──────────────────────┴─────────────────┘
//! ```
//!
//! | called | Connected | later | Closed |
//! |---|---|---|---|
//! | RegisterPlugin | checked | refused, closed | refused |
//! | UpdateContainers | refused | taken | refused |

use longshore_nri_api::{EventMask, InvalidName, PluginId};
use longshore_ttrpc::{Code, Status};

use crate::merge::Compat;
use crate::status::CloseCause;

/// Where a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Connected,
    Registered,
    Configured,
    Synchronizing,
    Active,
    Closed,
}

#[derive(Debug)]
pub(crate) struct Session {
    phase: Phase,
    /// Who the peer is when the adaptation started it: what it says of itself does not count.
    fixed: Option<PluginId>,
}

/// A request of the peer that is answered with a failure.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// Why the connection ends, if it does.
    pub(crate) close: Option<CloseCause>,
}

/// What a plugin gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subscription {
    pub(crate) events: EventMask,
    /// Bits that stand for no event this side knows.
    pub(crate) unknown: EventMask,
}

impl Session {
    pub(crate) fn new(fixed: Option<PluginId>) -> Self {
        Self {
            phase: Phase::Connected,
            fixed,
        }
    }

    #[cfg(test)]
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// RegisterPlugin. `room` tells, once the name is good, whether another plugin is accepted;
    /// otherwise how many there are.
    pub(crate) fn register(
        &mut self,
        index: &str,
        name: &str,
        room: impl FnOnce() -> Result<(), usize>,
    ) -> Result<PluginId, Refusal> {
        match self.phase {
            Phase::Connected => {}
            Phase::Closed => return Err(Refusal::late("RegisterPlugin")),
            Phase::Registered | Phase::Configured | Phase::Synchronizing | Phase::Active => {
                self.phase = Phase::Closed;
                return Err(Refusal::out_of_order(
                    Code::AlreadyExists,
                    "RegisterPlugin",
                    "a second time",
                ));
            }
        }
        let id = match &self.fixed {
            Some(fixed) => Ok(fixed.clone()),
            None => PluginId::new(index, name),
        };
        let id = id.map_err(|error| {
            self.phase = Phase::Closed;
            Refusal::name(error)
        })?;
        // What the adaptation launches itself has its place already.
        let room = if self.fixed.is_some() { Ok(()) } else { room() };
        if let Err(registered) = room {
            self.phase = Phase::Closed;
            let close = CloseCause::TooMany { registered };
            return Err(Refusal {
                status: Status::new(Code::ResourceExhausted, close.to_string()),
                close: Some(close),
            });
        }
        self.phase = Phase::Registered;
        Ok(id)
    }

    /// UpdateContainers.
    pub(crate) fn update(&self) -> Result<(), Refusal> {
        match self.phase {
            Phase::Connected => {
                let text = "UpdateContainers before RegisterPlugin: register first";
                Err(Refusal {
                    status: Status::new(Code::FailedPrecondition, text),
                    close: None,
                })
            }
            Phase::Closed => Err(Refusal::late("UpdateContainers")),
            Phase::Registered | Phase::Configured | Phase::Synchronizing | Phase::Active => Ok(()),
        }
    }

    /// The answer to Configure: 0 is every event; what is not known is left out, or refused as
    /// Go's adaptation does.
    pub(crate) fn configured(
        &mut self,
        bits: i32,
        allowed: EventMask,
        known: EventMask,
        compat: Compat,
    ) -> Result<Subscription, CloseCause> {
        let asked = match EventMask::from_bits(bits) {
            EventMask::NONE => known,
            mask => mask,
        };
        let foreign = EventMask::from_bits(asked.bits() & !known.bits());
        if known != EventMask::ALL && !foreign.is_empty() {
            self.phase = Phase::Closed;
            return Err(CloseCause::Events(foreign));
        }
        let unknown = asked.unknown();
        if compat == Compat::GoAdaptation && !unknown.is_empty() {
            self.phase = Phase::Closed;
            return Err(CloseCause::Events(unknown));
        }
        self.advance(Phase::Configured);
        let events = asked.known() & allowed;
        Ok(Subscription { events, unknown })
    }

    pub(crate) fn synchronizing(&mut self) {
        self.advance(Phase::Synchronizing);
    }

    pub(crate) fn active(&mut self) {
        self.advance(Phase::Active);
    }

    /// What is closed stays closed.
    fn advance(&mut self, to: Phase) {
        if self.phase != Phase::Closed {
            self.phase = to;
        }
    }

    pub(crate) fn close(&mut self) {
        self.phase = Phase::Closed;
    }
}

impl Refusal {
    fn late(method: &str) -> Self {
        let text = format!("{method} on a connection that is being closed");
        Self {
            status: Status::new(Code::FailedPrecondition, text),
            close: None,
        }
    }

    fn out_of_order(code: Code, method: &str, when: &'static str) -> Self {
        let method = method.to_owned();
        let close = CloseCause::OutOfOrder { method, when };
        Self {
            status: Status::new(code, close.to_string()),
            close: Some(close),
        }
    }

    /// As Go's adaptation answers; the connection ends, which Go forgets.
    fn name(error: InvalidName) -> Self {
        let what = match error {
            InvalidName::Index { .. } => "index",
            _ => "name",
        };
        Self {
            status: Status::new(Code::Unknown, format!("invalid plugin {what}: {error}")),
            close: Some(CloseCause::Name(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_nri_api::Event;

    fn registered() -> Session {
        let mut session = Session::new(None);
        session.register("10", "a", || Ok(())).unwrap();
        session
    }

    #[test]
    fn names_are_checked_before_room_and_the_name_before_the_index() {
        for (index, name, text) in [
            ("10", "foo,bar", "invalid plugin name: "),
            ("1", "foo,bar", "invalid plugin name: "),
            ("1", "foo", "invalid plugin index: "),
            ("10", "", "invalid plugin name: "),
        ] {
            let mut session = Session::new(None);
            let refusal = session.register(index, name, || Err(0)).unwrap_err();
            assert_eq!(refusal.status.code, Code::Unknown, "as Go answers");
            assert!(
                refusal.status.message.starts_with(text),
                "{}",
                refusal.status
            );
            assert!(matches!(refusal.close, Some(CloseCause::Name(_))));
            assert_eq!(session.phase(), Phase::Closed);
            assert!(
                session.register("10", "a", || Ok(())).is_err(),
                "one chance"
            );
        }
    }

    #[test]
    fn a_launched_plugin_is_who_its_file_says() {
        let mut session = Session::new(Some("20-file".parse().unwrap()));
        let id = session.register("xx", "no, name", || Err(256)).unwrap();
        assert_eq!(id.to_string(), "20-file");
    }

    #[test]
    fn without_room_the_connection_ends() {
        let refusal = Session::new(None)
            .register("10", "a", || Err(256))
            .unwrap_err();
        assert_eq!(refusal.status.code, Code::ResourceExhausted);
        assert!(matches!(
            refusal.close,
            Some(CloseCause::TooMany { registered: 256 })
        ));
    }

    #[test]
    fn a_second_registration_is_refused_and_ends_the_connection_in_every_phase() {
        let steps: [fn(&mut Session); 4] = [
            |_| {},
            |session| drop(session.configured(0, EventMask::ALL, EventMask::ALL, Compat::Correct)),
            Session::synchronizing,
            Session::active,
        ];
        for step in steps {
            let mut session = registered();
            step(&mut session);
            assert!(session.update().is_ok());
            let refusal = session.register("10", "a", || Ok(())).unwrap_err();
            assert_eq!(refusal.status.code, Code::AlreadyExists);
            assert!(matches!(refusal.close, Some(CloseCause::OutOfOrder { .. })));
            session.synchronizing();
            session.active();
            assert!(session.update().is_err(), "it is closed and stays so");
        }
    }

    #[test]
    fn row_276_updates_before_registration_are_refused_and_the_peer_may_still_register() {
        let mut session = Session::new(None);
        let refusal = session.update().unwrap_err();
        assert_eq!(refusal.status.code, Code::FailedPrecondition);
        assert!(refusal.close.is_none());
        assert!(session.register("10", "a", || Ok(())).is_ok());
    }

    #[test]
    fn rows_274_275_zero_is_everything_and_unknown_bits_are_dropped_or_as_go_refused() {
        let of =
            |bits, allowed, compat| registered().configured(bits, allowed, EventMask::ALL, compat);
        let (all, none) = (EventMask::ALL, EventMask::NONE);
        let ok = |events, unknown| Some(Subscription { events, unknown });
        let unknown = EventMask::from_bits(0x4000);
        let run = EventMask::of(Event::RunPodSandbox);
        for (bits, allowed, compat, expected) in [
            (0, all, Compat::Correct, ok(all, none)),
            (0, run, Compat::Correct, ok(run, none)),
            (0x4000, all, Compat::Correct, ok(none, unknown)),
            (0x4001, all, Compat::Correct, ok(run, unknown)),
            (0x4001, none, Compat::Correct, ok(none, unknown)),
            (0x4001, all, Compat::GoAdaptation, None),
            (0x3fff, all, Compat::GoAdaptation, ok(all, none)),
            (
                i32::MIN,
                all,
                Compat::Correct,
                ok(none, EventMask::from_bits(i32::MIN)),
            ),
        ] {
            assert_eq!(
                of(bits, allowed, compat).ok(),
                expected,
                "{bits:#x} {compat:?}"
            );
        }
    }
}
