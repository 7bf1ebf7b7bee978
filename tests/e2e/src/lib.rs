//! Workspace-level tests of Longshore; the tests are in `tests/`.
