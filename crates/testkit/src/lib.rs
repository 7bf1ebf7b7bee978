//! Wire-level fakes and helper programs for the tests of Longshore
