//! Workspace-level tests of Longshore; the tests are in `tests/`.

/// The programs of the page for embedders, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/quickstart-embedder.md")]
struct Embedder;
