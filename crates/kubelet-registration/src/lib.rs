//! Internal to Longshore: CSI plugins of a node registered with its kubelet, in place of the sidecars that do so there.
//!
//! ```text
//!   Wanted ──► Registrar ──► one actor a plugin ──► <dir>/<driver>-reg.sock ◄── kubelet calls
//!                 │                │  ▲                       GetInfo, NotifyRegistrationStatus
//!    inotify ─────┘                │  └── machine (pure): what to do next
//!                                  └──► status (watch)
//! ```
//!
//! Kubelet watches a directory. A socket that comes there is called and asked who it is; what became of the
//! registration is told to it; once it is gone, the plugin is not registered any more.
//!
//! # Invariants
//!
//! - A socket is there while the plugin's endpoint answers, and only then: its coming follows a probe, its going the
//!   endpoint's withdrawal. A daemon that ends leaves it, since the plugin lives on; the next daemon makes it anew.
//! - A socket that somebody else listens on is never removed, nor is anything else that has its name: links are not
//!   followed, files not replaced. A socket that nobody listens on is.
//! - Which sockets there are is on record before they are, so that one whose plugin is not wanted any more by the next
//!   daemon is taken away.
//! - Only a directory that nobody but root and the own user can write is used.
//! - What is removed at the end is the file that was made, by device and inode.
//! - Nothing waits without a deadline, and nothing is tried again without a backoff.

mod actor;
mod authority;
mod inotify;
mod ledger;
mod machine;
mod registrar;
mod serve;
mod socket;
mod status;
mod target;

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod r#gen;

pub use r#gen::pluginregistration as api;
pub use registrar::{Registrar, Wanted};
pub use status::{RegistrarStatus, Registration, RegistrationState};
pub use target::{Answering, Offer, check_dir};
