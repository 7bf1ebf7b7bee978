//! Messages that are encoded already, or encoded from what is only borrowed.

use bytes::{Buf, BufMut, Bytes};
use longshore_nri_api::{Container, PodSandbox};
use prost::encoding::{DecodeContext, WireType, bool, message, skip_field};
use prost::{DecodeError, Message};

/// A message that was encoded once, for any number of plugins.
#[derive(Debug, Clone)]
pub(crate) struct Payload(pub(crate) Bytes);

impl Payload {
    pub(crate) fn of(message: &impl Message) -> Self {
        Self(message.encode_to_vec().into())
    }
}

/// One part of a `SynchronizeRequest`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) pods: &'a [PodSandbox],
    pub(crate) containers: &'a [Container],
    pub(crate) more: bool,
}

/// Neither is ever decoded; unknown fields are what all fields are to them.
macro_rules! encode_only {
    () => {
        fn merge_field(
            &mut self,
            tag: u32,
            wire_type: WireType,
            buf: &mut impl Buf,
            ctx: DecodeContext,
        ) -> Result<(), DecodeError> {
            skip_field(wire_type, tag, buf, ctx)
        }
    };
}

impl Message for Payload {
    encode_only!();

    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl Message for Part<'_> {
    encode_only!();

    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.pods
            .iter()
            .for_each(|pod| message::encode(1, pod, buf));
        self.containers
            .iter()
            .for_each(|container| message::encode(2, container, buf));
        if self.more {
            bool::encode(3, &true, buf);
        }
    }

    fn encoded_len(&self) -> usize {
        message::encoded_len_repeated(1, self.pods)
            + message::encoded_len_repeated(2, self.containers)
            + if self.more {
                bool::encoded_len(3, &true)
            } else {
                0
            }
    }

    fn clear(&mut self) {
        (self.pods, self.containers, self.more) = (&[], &[], false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_nri_api::SynchronizeRequest;

    #[test]
    fn a_part_is_encoded_as_the_message_would_be() {
        let pods = vec![
            PodSandbox {
                id: "p".into(),
                ..Default::default()
            };
            3
        ];
        let containers = vec![
            Container {
                id: "c".into(),
                ..Default::default()
            };
            2
        ];
        for more in [false, true] {
            let part = Part {
                pods: &pods,
                containers: &containers,
                more,
            };
            let message = SynchronizeRequest {
                pods: pods.clone(),
                containers: containers.clone(),
                more,
            };
            assert_eq!(part.encode_to_vec(), message.encode_to_vec());
            assert_eq!(
                Payload::of(&message).encode_to_vec(),
                message.encode_to_vec()
            );
        }
    }
}
