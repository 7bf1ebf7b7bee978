//! The real binary, from the outside. Every process, socket and file of a test lies in its own
//! temporary directory, and ends with it.
#![expect(clippy::unwrap_used, reason = "in a test a failure is a panic")]

mod agents;
mod bounds;
mod chromium;
mod config;
mod container;
mod daemon;
mod declared;
mod demo;
mod disk;
mod docker;
mod doctor;
mod image;
mod import_mesos;
mod mesos_executor;
mod nri_daemon;
mod nri_replay;
mod nri_serve;
mod nri_simulate;
mod nri_trace;
mod permissions;
mod probe;
mod records;
mod reload;
mod run;
mod runtime;
mod sockets;
mod status_page;
mod support;
mod task;
mod unit;
mod volume;
