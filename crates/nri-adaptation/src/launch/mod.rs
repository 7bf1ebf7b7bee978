//! Plugins that the runtime starts itself: found in a directory, judged, started with a socket as
//! descriptor 3, watched, ended and started again.
//!
//! ```text
//!  plugin directory --discover--> Program --spawn--> Child --ended--> Supervision --Spawn after--> spawn
//!  drop-in files    ---'   '--> Skipped (named, why)   '-- terminate: TERM, grace, KILL, reap
//! ```
//!
//! - Nothing is started, and no drop-in is read, unless the file and every directory on the way to it,
//!   links included, can be changed by root and the runtime's own user alone.
//! - A child that was started is reaped, whatever becomes of its handle, and the processes of its group
//!   go with it.

mod child;
mod discover;
mod error;
mod options;
mod restart;
mod stderr;
pub(crate) mod sys;
mod trust;

pub use child::{Child, Exit, spawn};
pub use discover::{Discovered, Program, Skipped, discover};
pub use error::LaunchError;
pub use options::LaunchOptions;
pub use restart::{Action, Event, Supervision, SupervisionState};
pub use trust::{Changer, Distrust};
