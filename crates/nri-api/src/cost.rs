//! What a message will cost decoded, before it is decoded.
//!
//! A few bytes on the wire can become a lot of memory: an empty message in a list takes two bytes
//! there and some hundred in a `Vec`, so that a legal reply of 4 MiB decodes to a gigabyte.
//! [`measure`] reads the wire format once, allocates nothing, and adds up what prost will: the
//! structs in lists, the strings, the nodes of maps. The sum is an upper bound of the memory that
//! the decoded message holds, and for ordinary messages at most about twice that. (While a list
//! grows, an allocator that cannot grow a block where it is holds half as much again.)
//!
//! Each byte is looked at once, and nothing is copied, checked for UTF-8 or allocated, so a pass
//! takes less time than a decode of the same bytes.
//!
//! ```
//! use longshore_nri_api::cost::{self, CostError, Limits};
//! use longshore_nri_api::{ContainerUpdate, UpdateContainersResponse};
//!
//! // 2 MiB of updates, each of them empty.
//! let bytes = [0x0a, 0x00].repeat(1 << 20);
//! let refused = cost::decode::<UpdateContainersResponse>(&bytes, &Limits::default());
//! assert!(matches!(refused, Err(CostError::TooCostly { .. })));
//!
//! let fine = cost::decode::<UpdateContainersResponse>(&bytes[..4], &Limits::default())?;
//! assert_eq!(fine.failed, [ContainerUpdate::default(), ContainerUpdate::default()]);
//! # Ok::<(), CostError>(())
//! ```

use crate::r#gen::cost::{FIELDS, ROWS};

/// What one decoded message may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of memory.
    pub max_cost: usize,
    /// Deepest nesting of messages; the message itself is 1, the entry of a map counts.
    pub max_depth: usize,
}

impl Default for Limits {
    /// 64 MiB, 32 levels.
    fn default() -> Self {
        Self {
            max_cost: 64 << 20,
            max_depth: 32,
        }
    }
}

/// Why bytes were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// It would take more memory than [`Limits::max_cost`].
    #[error("{message} of {bytes} bytes would take more than {limit} bytes decoded")]
    TooCostly {
        /// Full name of the message.
        message: &'static str,
        /// Length of the input.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Messages lie deeper in each other than [`Limits::max_depth`].
    #[error("{message} is nested deeper than {limit}")]
    TooDeep {
        /// Full name of the message.
        message: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Not the protobuf form of any message.
    #[error("{message} is not valid protobuf")]
    Malformed {
        /// Full name of the message.
        message: &'static str,
    },
    /// Not the protobuf form of this message.
    #[error("{message} cannot be decoded")]
    Decode {
        /// Full name of the message.
        message: &'static str,
        /// What the decoder says.
        #[source]
        source: prost::DecodeError,
    },
}

/// A message of this crate. Implemented for all of them, and for no other.
pub trait Message: prost::Message + Default + sealed::Sealed {
    /// Full name, such as `nri.pkg.api.v1alpha1.Container`.
    const NAME: &'static str;
    /// Its row in the generated table.
    #[doc(hidden)]
    const ROW: usize;
}

pub(crate) mod sealed {
    /// Only messages that are in the table.
    pub trait Sealed {}
}

/// Decodes a message that costs no more than `limits` allow.
///
/// # Errors
/// [`CostError`]; nothing was allocated unless it is [`CostError::Decode`].
pub fn decode<M: Message>(bytes: &[u8], limits: &Limits) -> Result<M, CostError> {
    measure::<M>(bytes, limits)?;
    M::decode(bytes).map_err(|source| CostError::Decode {
        message: M::NAME,
        source,
    })
}

/// How many bytes of memory the message takes decoded, itself included: an upper bound.
///
/// # Errors
/// [`CostError`] when that is over a limit, or when the bytes are no message.
pub fn measure<M: Message>(bytes: &[u8], limits: &Limits) -> Result<usize, CostError> {
    let message = M::NAME;
    measure_row(M::ROW, size_of::<M>(), bytes, limits).map_err(|stop| match stop {
        Stop::TooCostly => CostError::TooCostly {
            message,
            bytes: bytes.len(),
            limit: limits.max_cost,
        },
        Stop::TooDeep => CostError::TooDeep {
            message,
            limit: limits.max_depth,
        },
        Stop::Malformed => CostError::Malformed { message },
    })
}

fn measure_row(row: usize, own: usize, bytes: &[u8], limits: &Limits) -> Result<usize, Stop> {
    let mut pass = Pass {
        cost: 0,
        limit: limits.max_cost,
    };
    pass.charge(own, 1)?;
    pass.message(row, bytes, limits.max_depth, 1)?;
    Ok(pass.cost)
}

/// The fields of a message by number.
pub(crate) struct Row(pub(crate) &'static [Cell]);

/// What a field allocates outside the struct it is in.
#[derive(Clone, Copy)]
pub(crate) enum Cell {
    /// Nothing: a number, or no such field.
    Free,
    /// A string.
    Text,
    /// A list of numbers of some size, packed or not.
    Numbers(usize),
    /// A list of strings.
    Texts(usize),
    /// A message, in place.
    Message(usize),
    /// A list of messages: row, size.
    Messages(usize, usize),
    /// A map: row of its entries, size of a leaf of the tree.
    Map(usize, usize),
}

impl Cell {
    pub(crate) const fn numbers<T>() -> Self {
        Self::Numbers(size_of::<T>())
    }

    pub(crate) const fn texts<T>() -> Self {
        Self::Texts(size_of::<T>())
    }

    pub(crate) const fn messages<T>(row: usize) -> Self {
        Self::Messages(row, size_of::<T>())
    }

    pub(crate) const fn map<K, V>(row: usize) -> Self {
        Self::Map(row, leaf::<K, V>())
    }
}

/// Keys and values that a node of the standard library's B-tree has room for.
const NODE: usize = 11;
/// The children of an inner node, on top of what a leaf has.
const EDGES: usize = (NODE + 1) * size_of::<usize>();

/// The size of a leaf: keys, values, a parent, two lengths, padding.
const fn leaf<K, V>() -> usize {
    NODE * (size_of::<K>() + size_of::<V>()) + 3 * size_of::<usize>()
}

enum Stop {
    TooCostly,
    TooDeep,
    Malformed,
}

/// A later occurrence of a message that is not repeated is merged into the first, whose lists and
/// maps then grow by more than it would take alone. No encoder writes that; it costs this much more.
const MERGED: usize = 4;

struct Pass {
    cost: usize,
    limit: usize,
}

impl Pass {
    fn charge(&mut self, bytes: usize, weight: usize) -> Result<(), Stop> {
        self.cost = self.cost.saturating_add(bytes.saturating_mul(weight));
        if self.cost > self.limit {
            return Err(Stop::TooCostly);
        }
        Ok(())
    }

    fn message(
        &mut self,
        row: usize,
        mut bytes: &[u8],
        depth: usize,
        weight: usize,
    ) -> Result<(), Stop> {
        let depth = depth.checked_sub(1).ok_or(Stop::TooDeep)?;
        let cells = ROWS.get(row).map_or(&[][..], |row| row.0);
        let mut seen = [0_u32; FIELDS];
        while !bytes.is_empty() {
            let tag = varint(&mut bytes)?;
            let number = usize::try_from(tag >> 3).map_err(|_| Stop::Malformed)?;
            let cell = cells.get(number).copied().unwrap_or(Cell::Free);
            let seen = seen.get_mut(number);
            match tag & 7 {
                0 => {
                    varint(&mut bytes)?;
                    self.number(cell, seen, weight)?;
                }
                1 => {
                    skip(&mut bytes, 8)?;
                    self.number(cell, seen, weight)?;
                }
                5 => {
                    skip(&mut bytes, 4)?;
                    self.number(cell, seen, weight)?;
                }
                2 => {
                    let length = varint(&mut bytes)?;
                    let length = usize::try_from(length).map_err(|_| Stop::Malformed)?;
                    let (inner, rest) = bytes.split_at_checked(length).ok_or(Stop::Malformed)?;
                    bytes = rest;
                    if let Some(seen) = seen {
                        self.delimited(cell, seen, inner, depth, weight)?;
                    }
                }
                // Groups: no message has them, and nothing writes them.
                _ => return Err(Stop::Malformed),
            }
        }
        Ok(())
    }

    fn number(&mut self, cell: Cell, seen: Option<&mut u32>, weight: usize) -> Result<(), Stop> {
        match (cell, seen) {
            (Cell::Numbers(size), Some(seen)) => self.element(size, seen, weight),
            _ => Ok(()),
        }
    }

    fn delimited(
        &mut self,
        cell: Cell,
        seen: &mut u32,
        inner: &[u8],
        depth: usize,
        weight: usize,
    ) -> Result<(), Stop> {
        match cell {
            Cell::Free => Ok(()),
            Cell::Text => self.text(inner, weight),
            Cell::Numbers(size) => {
                // A number of a packed list is at most the bytes without the high bit, or 4 or
                // 8 bytes of a fixed size, which have as many bytes as they may.
                for _ in inner.iter().filter(|byte| **byte & 0x80 == 0) {
                    self.element(size, seen, weight)?;
                }
                Ok(())
            }
            Cell::Texts(size) => {
                self.element(size, seen, weight)?;
                self.text(inner, weight)
            }
            Cell::Message(row) => {
                let weight = if *seen == 0 {
                    weight
                } else {
                    weight.saturating_mul(MERGED)
                };
                *seen = 1;
                self.message(row, inner, depth, weight)
            }
            Cell::Messages(row, size) => {
                self.element(size, seen, weight)?;
                self.message(row, inner, depth, weight)
            }
            Cell::Map(row, leaf) => {
                self.entry(leaf, seen, weight)?;
                self.message(row, inner, depth, weight)
            }
        }
    }

    /// A string has room for 8 bytes, or for what it holds.
    fn text(&mut self, text: &[u8], weight: usize) -> Result<(), Stop> {
        match text.len() {
            0 => Ok(()),
            length => self.charge(length.max(8), weight),
        }
    }

    /// A `Vec` starts with room for four, or for one of more than 1 KiB, and doubles, so it has
    /// room for less than twice what it holds.
    fn element(&mut self, size: usize, seen: &mut u32, weight: usize) -> Result<(), Stop> {
        let elements = match *seen {
            0 if size > 1024 => 1,
            0 => 4,
            1 if size <= 1024 => 0,
            _ => 2,
        };
        *seen = seen.saturating_add(1).min(2);
        self.charge(size.saturating_mul(elements), weight)
    }

    /// A tree of up to eleven entries is one leaf. A larger one has at least five in each node:
    /// a leaf for each six entries, a fifth of an inner node for each leaf, and a root.
    fn entry(&mut self, leaf: usize, seen: &mut u32, weight: usize) -> Result<(), Stop> {
        *seen = seen.saturating_add(1);
        let inner = leaf + EDGES;
        let cost = match *seen {
            1 => leaf,
            12 => leaf + 2 * inner,
            n if n > 12 && n % 6 == 5 => leaf + inner / 5,
            _ => 0,
        };
        self.charge(cost, weight)
    }
}

fn skip(bytes: &mut &[u8], n: usize) -> Result<(), Stop> {
    *bytes = bytes.get(n..).ok_or(Stop::Malformed)?;
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Stop> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(Stop::Malformed)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::{Heap, Probe, probe};
