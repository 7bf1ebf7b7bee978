//! The socket that external plugins connect to: bound with its final mode, taken over from a dead
//! runtime, never from a live one, and open to the peers that are allowed alone.
//!
//! ```text
//!  at the path:  nothing                     -> bind
//!                a socket that nobody serves -> unlink, bind
//!                a socket that is served     -> refused: another runtime
//!                a link, file, directory, .. -> refused, and left alone
//!
//!  accept -> who is it (SO_PEERCRED, executable)? -> allowed: to the caller
//!                                                 -> else closed, counted, logged
//! ```

mod bind;
mod error;
mod listener;
mod options;
mod peer;

pub use error::SocketError;
pub use listener::Listener;
pub use options::{Owner, PeerAllow, SocketOptions};
pub use peer::{Peer, Refusal};

/// Of what may come a thousand times a second, the first few are logged one by one, later ones at every power of two.
pub(crate) const fn is_worth_a_line(count: u64) -> bool {
    count <= 16 || count.is_power_of_two()
}
