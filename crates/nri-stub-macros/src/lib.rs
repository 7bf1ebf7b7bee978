#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - The block itself is left as it is: its functions can be called and tested as they stand.
//! - Every function of the block is a handler. A name that is none is an error with the list of
//!   those that are, never a plugin that is silently not called.
//! - All faults of a block are reported at once, each where it is.

use proc_macro::TokenStream;

mod expand;
mod handlers;

/// Makes a plugin of an `impl` block.
///
/// Each function is an `async fn` with `&self` and the name and arguments of a method of
/// `longshore_nri_stub::Plugin`; it returns whatever `longshore_nri_stub::IntoAnswer` makes that
/// method's answer of: nothing, the answer, or a `Result` of it with any error. Other functions
/// belong into another block.
///
/// `#[plugin(crate = some::path)]` says where the stub is when it is not `::longshore_nri_stub`.
#[proc_macro_attribute]
pub fn plugin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::plugin(arguments.into(), item.into()).into()
}
