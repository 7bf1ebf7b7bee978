//! The checks, a file each.

mod cgroups;
mod cleaners;
mod clock;
mod directories;
mod engine;
mod records;
mod selinux;
mod sockets;
mod space;

use crate::{Finding, View};

/// In the order in which they are told.
pub(crate) const ALL: &[fn(&View) -> Vec<Finding>] = &[
    directories::check,
    sockets::check,
    records::check,
    space::check,
    cleaners::check,
    cgroups::check,
    engine::check,
    clock::check,
    selinux::check,
];
