#![doc = include_str!("../README.md")]
//!
//! # Invariants
//! - A record is replaced as a whole: temporary file in the same directory, write, rename. Whoever reads
//!   it, at any moment and after any crash, finds the old record or the new one; with [`Durability::Power`]
//!   (file synchronised before the rename, the directory after it, created directories parents first)
//!   that holds when the power fails, too.
//! - A write that failed leaves the old record, no temporary file, and is never retried on the same
//!   file: after a failed fsync the kernel may have dropped the data and called it clean.
//! - Reading never panics, never allocates more than the record kind's limit, never follows a symbolic
//!   link in the last place of a path, and never hands out a record whose checksum, kind or version does
//!   not fit. What is damaged is told apart ([`Damage`]) and set aside ([`quarantine`]), never deleted.
//! - Names that somebody planted are never followed: temporaries are created exclusively in a directory
//!   handle, and a rename replaces a planted link instead of following it.
//! - One writer a root: whoever writes holds its [`RootLock`].
//! - Every effect of a [`Writer`] on the file system goes through [`FileSystem`], so that tests can crash at each one.
//!
//! The bytes on disk are described in [`envelope`]; they do not change without a new format version.

#[cfg(feature = "bincode")]
mod codec;
pub mod envelope;
mod error;
mod fs;
mod lock;
pub mod mesos;
mod record;
mod reserved;
mod temp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod writer;

#[cfg(feature = "bincode")]
pub use codec::{bincode_decode, bincode_encode};
pub use error::{CheckpointError, CodecError};
pub use fs::{Contents, FileSystem, OsFileSystem};
pub use lock::RootLock;
pub use record::{AnyRecord, Corruption, Damage, Loaded, Record, Recovered};
pub use reserved::Reserved;
pub use writer::{
    Durability, Judgement, Writer, create_dir_all, judge, quarantine, read, recover, remove,
    set_aside_in, sweep_temps,
};
