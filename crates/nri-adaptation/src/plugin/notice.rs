//! The nine events that only tell something, encoded once for all plugins.

use bytes::{BufMut, Bytes, BytesMut};
use longshore_nri_api::{Container, Event, PodSandbox, StateChangeEvent};
use prost::Message;
use prost::encoding::message;

/// One event. All nine requests have the same form: the pod is field 1, the container 2. In
/// `StateChangeEvent` they are fields 2 and 3, after the event.
#[derive(Debug, Clone)]
pub(crate) struct Notice {
    pub(crate) event: Event,
    body: Bytes,
    /// Length of the pod within the body, its key included.
    pod: usize,
}

/// Keys of fields 1 to 3 that hold a message.
const POD: u8 = 0x0a;
const CONTAINER: u8 = 0x12;
const LEGACY: [u8; 2] = [0x12, 0x1a];

impl Notice {
    pub(crate) fn new(event: Event, pod: &PodSandbox, container: Option<&Container>) -> Self {
        let container_len = container.map_or(0, |it| message::encoded_len(2, it));
        let pod_len = message::encoded_len(1, pod);
        let mut body = BytesMut::with_capacity(pod_len + container_len);
        message::encode(1, pod, &mut body);
        if let Some(container) = container {
            message::encode(2, container, &mut body);
        }
        debug_assert!(body[0] == POD && body.get(pod_len).is_none_or(|key| *key == CONTAINER));
        Self {
            event,
            body: body.freeze(),
            pod: pod_len,
        }
    }

    /// The request of the event's own method.
    pub(crate) fn dedicated(&self) -> Bytes {
        self.body.clone()
    }

    /// The request of StateChange.
    pub(crate) fn legacy(&self) -> Bytes {
        let mut body = BytesMut::with_capacity(self.body.len() + 2);
        // Field 1, a number; no event has a number above 127.
        body.put_slice(&[
            0x08,
            u8::try_from(self.event as i32).unwrap_or_default(),
            LEGACY[0],
        ]);
        let (pod, container) = self.body.split_at(self.pod);
        body.put_slice(&pod[1..]);
        if let Some((_, container)) = container.split_first() {
            body.put_u8(LEGACY[1]);
            body.put_slice(container);
        }
        body.freeze()
    }

    /// The event as a message, for a plugin in this process.
    pub(crate) fn to_message(&self) -> StateChangeEvent {
        // What was encoded here can be decoded.
        StateChangeEvent::decode(self.legacy()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_nri_api::{PostStartContainerRequest, RunPodSandboxRequest};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_forms_are_those_of_the_messages(
            id in ".{0,300}",
            args in proptest::collection::vec(".{0,40}", 0..5),
            number in 1..15_i32,
        ) {
            let pod = PodSandbox { id: id.clone(), ..Default::default() };
            let container = Container { id, args, ..Default::default() };
            let event = Event::try_from(number).unwrap();
            let with = Notice::new(event, &pod, Some(&container));
            let request = PostStartContainerRequest {
                pod: Some(pod.clone()),
                container: Some(container.clone()),
            };
            prop_assert_eq!(with.dedicated(), request.encode_to_vec());
            let legacy = StateChangeEvent {
                event: number,
                pod: Some(pod.clone()),
                container: Some(container),
            };
            prop_assert_eq!(with.legacy(), legacy.encode_to_vec());
            prop_assert_eq!(with.to_message(), legacy);

            let without = Notice::new(event, &pod, None);
            let request = RunPodSandboxRequest { pod: Some(pod.clone()) };
            prop_assert_eq!(without.dedicated(), request.encode_to_vec());
            let legacy = StateChangeEvent { event: number, pod: Some(pod), container: None };
            prop_assert_eq!(without.legacy(), legacy.encode_to_vec());
        }
    }
}
