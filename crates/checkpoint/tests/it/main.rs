//! Records on the real file system.
