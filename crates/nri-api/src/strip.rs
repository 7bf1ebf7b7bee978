//! Turns what is empty into what is absent, so that two messages that mean the same compare equal.
//!
//! A message, list or map without content is absent after stripping; so is a message with only
//! such members. An optional wrapper that is present is content, also around a zero.

use crate::{
    ContainerAdjustment, ContainerUpdate, LinuxContainerAdjustment, LinuxContainerUpdate,
    LinuxResources,
};

/// Removes empty parts.
pub trait Strip: Sized {
    /// The message without empty parts; `None` when nothing is left.
    #[must_use]
    fn strip(self) -> Option<Self>;
}

/// A member after its own members were stripped: absent when it equals the empty message.
fn content<T: Default + PartialEq>(message: Option<T>) -> Option<T> {
    message.filter(|message| *message != T::default())
}

impl Strip for LinuxResources {
    fn strip(mut self) -> Option<Self> {
        self.memory = content(self.memory);
        self.cpu = content(self.cpu);
        content(Some(self))
    }
}

impl Strip for LinuxContainerAdjustment {
    fn strip(mut self) -> Option<Self> {
        self.resources = self.resources.and_then(Strip::strip);
        self.io_priority = content(self.io_priority);
        self.seccomp_policy = content(self.seccomp_policy);
        self.scheduler = content(self.scheduler);
        self.rdt = content(self.rdt);
        self.memory_policy = content(self.memory_policy);
        content(Some(self))
    }
}

impl Strip for ContainerAdjustment {
    fn strip(mut self) -> Option<Self> {
        self.hooks = content(self.hooks);
        self.linux = self.linux.and_then(Strip::strip);
        content(Some(self))
    }
}

impl Strip for ContainerUpdate {
    fn strip(mut self) -> Option<Self> {
        let resources = self
            .linux
            .and_then(|linux| linux.resources)
            .and_then(Strip::strip);
        self.linux = resources.map(|resources| LinuxContainerUpdate {
            resources: Some(resources),
        });
        content(Some(self))
    }
}

#[cfg(test)]
mod tests;
